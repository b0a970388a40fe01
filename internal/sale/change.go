package sale

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action names what an operator does to a sale; it is also the kind of the
// journal row that records it, after "sale.".
type Action string

// The actions of an operator.
const (
	ActionCreate  Action = "created"
	ActionUpdate  Action = "updated"
	ActionPublish Action = "published"
	ActionPause   Action = "paused"
	ActionResume  Action = "resumed"
	ActionClose   Action = "closed"
	ActionRestock Action = "restocked"
	ActionDelete  Action = "deleted"
	// ActionReroute is not an operator's alone: the sale moved to another path, or
	// to the same one under a new epoch. The version stays.
	ActionReroute Action = "rerouted"
)

// Change is one act on a sale. Patch goes with ActionUpdate, Restock with
// ActionRestock; the others need nothing.
type Change struct {
	Action  Action
	Patch   Patch
	Restock Restock
	// Path, if set, is the one that the sale must be on when the change is made, or
	// the ledger refuses it.
	Path Path
}

// Patch names the rules that change; nil leaves a rule as it is. Stock is not
// among them: a form read minutes ago must not put back the stock it saw.
type Patch struct {
	Title          *string
	StartsAt       *time.Time
	EndsAt         *time.Time
	PerUserLimit   *int64
	LimitRule      *LimitRule
	Hold           *time.Duration
	MaxUnpaidHolds *int64
	CoolDown       *time.Duration
	Currency       *string
	Preferred      *Path
	Items          []ItemPatch
}

// ItemPatch changes title or price of one item.
type ItemPatch struct {
	SKU   string
	Title *string
	Price *int64
}

// Restock changes the stock of one item: by Add if Total is nil, else to Total.
// An empty SKU stands for the only item.
type Restock struct {
	SKU   string
	Add   int64
	Total *int64
}

// Apply returns the sale after the change, with version and, where prices,
// currency or hold changed, terms raised. It refuses what the state or the
// numbers forbid. The receiver stays as it is.
func (s *Sale) Apply(c Change, now time.Time) (Sale, error) {
	next := s.Clone()
	if s.State == Deleted {
		return next, SaleNotFound()
	}
	if err := next.act(c); err != nil {
		return next, err
	}
	if next.termsDiffer(s) {
		next.Terms++
	}
	next.Version++
	next.UpdatedAt = now
	if c.Action == ActionDelete {
		return next, nil
	}
	return next, next.Check()
}

func (s *Sale) act(c Change) error {
	switch c.Action {
	case ActionUpdate:
		return s.patch(c.Patch)
	case ActionRestock:
		return s.restock(c.Restock)
	case ActionPublish:
		return s.move(Published, Draft)
	case ActionPause:
		return s.move(Paused, Published)
	case ActionResume:
		return s.move(Published, Paused)
	case ActionClose:
		return s.move(Closed, Published, Paused)
	case ActionDelete:
		return s.move(Deleted, Draft, Closed)
	case ActionCreate, ActionReroute:
	}
	return Invalid("action", "the action is unknown", "")
}

func (s *Sale) move(to State, from ...State) error {
	if slices.Contains(from, s.State) {
		s.State = to
		return nil
	}
	possible := make([]string, len(from))
	for i, f := range from {
		possible[i] = string(f)
	}
	return IllegalState(fmt.Sprintf("a %s sale cannot become %s", s.State, to), "only a "+strings.Join(possible, " or ")+" sale can")
}

func (s *Sale) patch(p Patch) error {
	if s.State == Closed {
		return IllegalState("a closed sale does not change any more", "create a new sale")
	}
	set(&s.Title, p.Title)
	set(&s.StartsAt, p.StartsAt)
	set(&s.EndsAt, p.EndsAt)
	set(&s.PerUserLimit, p.PerUserLimit)
	set(&s.LimitRule, p.LimitRule)
	set(&s.Hold, p.Hold)
	set(&s.MaxUnpaidHolds, p.MaxUnpaidHolds)
	set(&s.CoolDown, p.CoolDown)
	set(&s.Currency, p.Currency)
	set(&s.Preferred, p.Preferred)
	for _, ip := range p.Items {
		i, err := s.Item(ip.SKU)
		if err != nil {
			return err
		}
		set(&s.Items[i].Title, ip.Title)
		set(&s.Items[i].Price, ip.Price)
	}
	return nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Sale) restock(r Restock) error {
	if s.State == Closed {
		return IllegalState("a closed sale takes no stock", "create a new sale")
	}
	i, err := s.Item(r.SKU)
	if err != nil {
		return err
	}
	item := &s.Items[i]
	total := item.Stock
	switch {
	case r.Total != nil:
		total = *r.Total
	case r.Add < -MaxInteger || r.Add > MaxInteger:
		return Invalid("add", "the number is out of range", "send a whole number within ±9007199254740991")
	default:
		total += r.Add
	}
	if total < 0 || total > MaxInteger {
		return Invalid("stock", "the stock is out of range", "the total must be from 0 to 9007199254740991")
	}
	if total < item.Sold {
		return &Error{
			Code: CodeStockBelowSold, Field: "stock",
			Message: fmt.Sprintf("%d units of %s are already held or sold", item.Sold, item.SKU),
			Hint:    "cancel or refund orders first; the total cannot go below them",
		}
	}
	item.Stock = total
	return nil
}

func (s *Sale) termsDiffer(old *Sale) bool {
	if s.Currency != old.Currency || s.Hold != old.Hold {
		return true
	}
	for i := range s.Items {
		if s.Items[i].Price != old.Items[i].Price {
			return true
		}
	}
	return false
}
