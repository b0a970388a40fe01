package sale

import (
	"fmt"
	"time"
)

// State is what an operator has decided about a sale. What the clock adds to it
// is Status.
type State string

// The states of a sale. deleted keeps the rows, for audits, and frees the slug.
const (
	Draft     State = "draft"
	Published State = "published"
	Paused    State = "paused"
	Closed    State = "closed"
	Deleted   State = "deleted"
)

// Status is a sale's state as a buyer sees it at one instant.
type Status string

// The statuses. draft and deleted sales are visible to operators only.
const (
	StatusDraft     Status = "draft"
	StatusScheduled Status = "scheduled"
	StatusLive      Status = "live"
	StatusPaused    Status = "paused"
	StatusEnded     Status = "ended"
	StatusClosed    Status = "closed"
	StatusDeleted   Status = "deleted"
)

// LimitRule says which orders count against a buyer's limit.
type LimitRule string

const (
	// LimitLive counts what the buyer holds now: a cancelled, expired or
	// refunded order frees the limit.
	LimitLive LimitRule = "live"
	// LimitEverPaid counts, besides, what the buyer paid once and got refunded.
	LimitEverPaid LimitRule = "ever_paid"
)

// Path is the way an attempt takes to the ledger.
type Path string

const (
	// PathDirect asks the ledger for every attempt.
	PathDirect Path = "direct"
	// PathFast lets the fast counter decide and the ledger judge afterwards.
	PathFast Path = "fast"
)

// Rules is everything of a sale that an operator sets.
type Rules struct {
	Title    string
	StartsAt time.Time // inclusive
	EndsAt   time.Time // exclusive
	// PerUserLimit is the most units one buyer may count for, 1 or more.
	PerUserLimit int64
	LimitRule    LimitRule
	// Hold is how long a reserved order waits for payment.
	Hold time.Duration
	// MaxUnpaidHolds is how many holds one buyer may let go unpaid (by cancel or
	// expiry) before CoolDown applies. Zero means no cap.
	MaxUnpaidHolds int64
	// CoolDown is how long such a buyer is refused new holds.
	CoolDown time.Duration
	Currency string
	// Preferred is the path that the sale takes when it can: PathFast sells
	// through the fast counter while one is loaded. Empty is PathDirect.
	Preferred Path
}

// Item is a SKU of a sale with its own stock and price. Stock counts what the
// operator put up, Sold what live orders hold; Left is what may still go.
type Item struct {
	SKU   string
	Title string
	Stock int64
	Sold  int64
	Price int64 // minor units of the sale's currency
}

// Left returns the units that nobody holds, never below zero.
func (i *Item) Left() int64 { return max(0, i.Stock-i.Sold) }

// Sale is a window in which the units of some items are sold, with a limit per
// buyer and a hold time. Values are snapshots; change happens in the ledger.
type Sale struct {
	Number Number
	Slug   string
	Key    Key
	Rules
	State State
	// Terms numbers the prices, currency and hold in force; it grows with each
	// change of them. Orders keep the number they were taken under.
	Terms int64
	// Version grows with each change that an operator makes.
	Version int64
	// Path is the way attempts take now, under Epoch, which grows with each change
	// of the way.
	Path  Path
	Epoch int64
	// BuildToken is the newest right to load the fast counter, given at BuildAt;
	// zero if none ever was. It becomes the epoch when the build is finished.
	BuildToken int64
	BuildAt    time.Time
	// Salts has one entry per lane of the fast counter, which spreads the lanes
	// over its masters; nil where the sale never was on the fast path.
	Salts     []uint32
	Items     []Item
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Status returns the sale's status at now.
func (s *Sale) Status(now time.Time) Status {
	switch s.State {
	case Draft:
		return StatusDraft
	case Deleted:
		return StatusDeleted
	case Closed:
		return StatusClosed
	case Published, Paused:
	}
	switch {
	case !now.Before(s.EndsAt):
		return StatusEnded
	case now.Before(s.StartsAt):
		return StatusScheduled
	case s.State == Paused:
		return StatusPaused
	}
	return StatusLive
}

// Visible reports whether buyers may know of the sale.
func (s *Sale) Visible() bool { return s.State != Draft && s.State != Deleted }

// Item returns the index of the item with this SKU. An empty SKU stands for the
// only item of a sale that has one.
func (s *Sale) Item(sku string) (int, error) {
	if sku == "" && len(s.Items) == 1 {
		return 0, nil
	}
	for i := range s.Items {
		if s.Items[i].SKU == sku {
			return i, nil
		}
	}
	return 0, ItemNotFound()
}

// OrderID returns the id of the order that user's key stands for in this sale.
func (s *Sale) OrderID(user, key string) OrderID {
	return DeriveOrderID(s.Key, s.Number, user, key)
}

// Clone returns a copy that shares nothing with s.
func (s *Sale) Clone() Sale {
	c := *s
	c.Items = append([]Item(nil), s.Items...)
	c.Salts = append([]uint32(nil), s.Salts...)
	return c
}

// Bounds of durations an operator may set.
const (
	MinHold     = time.Second
	MaxHold     = 30 * 24 * time.Hour
	MaxCoolDown = 30 * 24 * time.Hour

	DefaultHold           = 5 * time.Minute
	DefaultMaxUnpaidHolds = 2
	DefaultCoolDown       = 10 * time.Minute
)

// Check refuses rules and items that could not be sold under. It does not look
// at the clock: a sale may be entered after its start.
func (s *Sale) Check() error {
	if err := CheckSlug(s.Slug); err != nil {
		return err
	}
	if err := s.checkRules(); err != nil {
		return err
	}
	if len(s.Items) == 0 || len(s.Items) > MaxItems {
		return Invalid("items", fmt.Sprintf("a sale has 1 to %d items", MaxItems), "add at least one item")
	}
	seen := make(map[string]bool, len(s.Items))
	for i := range s.Items {
		if err := s.Items[i].check(s.PerUserLimit); err != nil {
			return err
		}
		if seen[s.Items[i].SKU] {
			return Invalid("items", "the SKU "+s.Items[i].SKU+" is listed twice", "list each SKU once and give it the whole stock")
		}
		seen[s.Items[i].SKU] = true
	}
	return nil
}

func (r *Rules) checkRules() error {
	switch {
	case r.StartsAt.IsZero():
		return Invalid("starts_at", "the start is missing", "send an instant with offset, such as 2026-11-27T10:00:00+01:00")
	case r.EndsAt.IsZero():
		return Invalid("ends_at", "the end is missing", "send an instant with offset, such as 2026-11-27T12:00:00+01:00")
	case !r.EndsAt.After(r.StartsAt):
		return Invalid("ends_at", "the end is not after the start", "the window is half-open: starts_at is in, ends_at is out")
	case r.PerUserLimit < 1 || r.PerUserLimit > MaxPerUserLimit:
		return Invalid("per_user_limit", "the limit per user is out of range", fmt.Sprintf("send a whole number from 1 to %d", MaxPerUserLimit))
	case r.LimitRule != LimitLive && r.LimitRule != LimitEverPaid:
		return Invalid("limit_rule", "the limit rule is unknown", "use live or ever_paid")
	case r.Hold < MinHold || r.Hold > MaxHold:
		return Invalid("hold_seconds", "the hold is out of range", "send 1 second to 30 days")
	case r.MaxUnpaidHolds < 0 || r.MaxUnpaidHolds > MaxPerUserLimit:
		return Invalid("max_unpaid_holds", "the number of unpaid holds is out of range", "send 0 for no cap, or a small number")
	case r.CoolDown < 0 || r.CoolDown > MaxCoolDown:
		return Invalid("cool_down_seconds", "the cool-down is out of range", "send 0 seconds to 30 days")
	case r.Preferred != PathDirect && r.Preferred != PathFast && r.Preferred != "":
		return Invalid("preferred_path", "the path is unknown", "use direct or fast")
	}
	if err := checkTitle("title", r.Title); err != nil {
		return err
	}
	return CheckCurrency(r.Currency)
}

func (i *Item) check(limit int64) error {
	if err := CheckSKU(i.SKU); err != nil {
		return err
	}
	if err := checkTitle("items.title", i.Title); err != nil {
		return err
	}
	switch {
	case i.Stock < 0 || i.Stock > MaxInteger:
		return Invalid("items.stock", "the stock is out of range", "send a whole number from 0 to 9007199254740991")
	case i.Price < 0 || i.Price > MaxInteger:
		return Invalid("items.price", "the price is out of range", "send minor units from 0 to 9007199254740991")
	case i.Price > MaxInteger/limit:
		return Invalid("items.price", "price times per_user_limit is too large", "the amount of one order must not exceed 9007199254740991 minor units")
	}
	return nil
}
