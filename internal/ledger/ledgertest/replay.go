package ledgertest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// replay lives a sale again from its journal alone and complains after each row.
type replay struct {
	problems []string
	seq      uint64
	head     [32]byte
	at       time.Time
	sale     ledger.SaleBody
	terms    map[int64]ledger.Terms
	orders   map[sale.OrderID]sale.Order
	live     map[string]int64 // by SKU
	holders  map[string]*tally
	refunds  map[string]sale.RefundState
	adopting sale.OrderID // the next row must tell the lane of this order
}

// tally is what a user counts for.
type tally struct {
	live, refunded, unpaid int64
	cap                    int64 // the limit when units were last given
	cool                   time.Time
}

func newReplay() *replay {
	return &replay{
		terms: make(map[int64]ledger.Terms), orders: make(map[sale.OrderID]sale.Order), live: make(map[string]int64),
		holders: make(map[string]*tally), refunds: make(map[string]sale.RefundState),
	}
}

func (p *replay) wrong(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// row applies one row.
func (p *replay) row(e *ledger.Entry) {
	if e.Seq != p.seq+1 || e.Hash != e.ChainHash(p.head) {
		p.wrong("journal: row %d does not follow row %d", e.Seq, p.seq)
	}
	if e.At.Before(p.at) {
		p.wrong("journal: row %d is of %v, the row before of %v", e.Seq, e.At, p.at)
	}
	p.seq, p.head, p.at = e.Seq, e.Hash, e.At
	p.adopted(e)
	switch {
	case e.Kind.OfSale():
		p.saleRow(e)
	case e.Kind.OfOrder():
		p.orderRow(e)
	case e.Kind == ledger.KindRefundRequired || e.Kind == ledger.KindRefundDone:
		p.refundRow(e)
	case e.Kind == ledger.KindLaneReturn || e.Kind == ledger.KindLaneAdopt:
		p.laneRow(e)
	default:
		p.wrong("journal: row %d has the unknown kind %q", e.Seq, e.Kind)
	}
	for _, it := range p.sale.Items {
		if p.live[it.SKU] > it.Stock || p.live[it.SKU] < 0 {
			p.wrong("P1 after row %d item %s has %d live of %d", e.Seq, it.SKU, p.live[it.SKU], it.Stock)
		}
	}
}

func (p *replay) decode(e *ledger.Entry, body any) bool {
	if err := json.Unmarshal(e.Body, body); err != nil {
		p.wrong("journal: row %d cannot be read: %v", e.Seq, err)
		return false
	}
	return true
}

func (p *replay) saleRow(e *ledger.Entry) {
	var next ledger.SaleBody
	if !p.decode(e, &next) {
		return
	}
	p.steps(e, &next)
	t := ledger.Terms{Number: next.Terms, Currency: next.Currency, Hold: time.Duration(next.HoldMS) * time.Millisecond}
	for _, it := range next.Items {
		t.Prices = append(t.Prices, it.Price)
	}
	if old, known := p.terms[t.Number]; known && !reflect.DeepEqual(old, t) {
		p.wrong("terms: row %d gives %d another meaning", e.Seq, t.Number)
	}
	p.terms[t.Number], p.sale = t, next
}

func (p *replay) orderRow(e *ledger.Entry) {
	var b ledger.OrderBody
	if !p.decode(e, &b) {
		return
	}
	old, known := p.orders[e.Order]
	from := sale.Queued
	if known {
		from = old.State
	}
	o := sale.Order{
		ID: e.Order, Slug: p.sale.Slug, User: b.User, SKU: b.SKU, Quantity: b.Quantity, Terms: b.Terms, Amount: b.Amount,
		Currency: b.Currency, State: b.State, Epoch: b.Epoch, Version: b.Version, ReservedAt: e.At,
		ExpiresAt: ledger.FromMillis(b.ExpiresAt), PaymentID: b.PaymentID, Replaces: b.Replaces,
		Reason: b.Reason,
	}
	if known {
		o.ReservedAt = old.ReservedAt
	}
	if b.State.Final() {
		o.EndedAt = e.At
	}
	switch {
	case b.From != from || !from.CanBecome(b.State) || e.Kind != ledger.OrderKind(b.State):
		p.wrong("P6 row %d moves order %v, which is %s, from %s to %s (%s)", e.Seq, e.Order, from, b.From, b.State, e.Kind)
	case b.Version != old.Version+1:
		p.wrong("P6 row %d takes order %v from version %d to %d", e.Seq, e.Order, old.Version, b.Version)
	case known && !sameBirth(old, o):
		p.wrong("P6 row %d changes more than the state: %+v to %+v", e.Seq, old, o)
	case b.State == sale.Expired && e.At.Before(old.ExpiresAt):
		p.wrong("row %d ends the hold of order %v early", e.Seq, e.Order)
	case !known:
		p.birth(e, &o)
	}
	p.orders[o.ID] = o
	p.count(from, &o)
}

// sameBirth compares what an order keeps for life.
func sameBirth(old, o sale.Order) bool {
	o.State, o.Version, o.EndedAt, o.PaymentID = old.State, old.Version, old.EndedAt, old.PaymentID
	return o == old
}

// birth checks that the rules in force let the order come to be.
func (p *replay) birth(e *ledger.Entry, o *sale.Order) {
	if !o.State.Live() {
		p.stillborn(e, o)
		return
	}
	h := p.holder(o.User)
	counted := h.live
	if p.sale.LimitRule == sale.LimitEverPaid {
		counted += h.refunded
	}
	if o.Quantity < 1 || counted+o.Quantity > p.sale.PerUserLimit {
		p.wrong("P3 row %d gives %d to %q, who counts for %d of %d", e.Seq, o.Quantity, o.User, counted, p.sale.PerUserLimit)
	}
	t, known := p.priced(e, o)
	if !known {
		return
	}
	if o.Replaces.IsZero() {
		p.bought(e, o, &t)
		return
	}
	p.inWindow(e)
	if p.sale.Path == sale.PathFast {
		p.adopting = o.ID
	}
	old := p.orders[o.Replaces]
	if old.State != sale.Cancelled && old.State != sale.Expired || old.User != o.User || old.SKU != o.SKU ||
		old.Quantity != o.Quantity || old.Terms != o.Terms || o.State != sale.Paid {
		p.wrong("row %d: %+v cannot take the place of %+v", e.Seq, *o, old)
	}
	for _, other := range p.orders {
		if other.Replaces == o.Replaces {
			p.wrong("P4 row %d takes the place of order %v once more", e.Seq, o.Replaces)
		}
	}
}

// bought checks the birth of an order from a click. What a lane took is honoured
// under the rules of its time, so only a direct one is held to those of the row.
func (p *replay) bought(e *ledger.Entry, o *sale.Order, t *ledger.Terms) {
	if p.bySlip(o) {
		if p.sale.Path == sale.PathFast && o.Epoch != p.sale.Epoch {
			p.adopting = o.ID
		}
	} else {
		p.inWindow(e)
		if o.Terms != p.sale.Terms {
			p.wrong("terms: row %d sells under %d while %d are in force", e.Seq, o.Terms, p.sale.Terms)
		}
		if e.At.Before(p.holder(o.User).cool) {
			p.wrong("row %d sells to %q during a cool-down", e.Seq, o.User)
		}
	}
	state, expires := sale.Reserved, e.At.Add(t.Hold)
	if o.Amount == 0 {
		state, expires = sale.Paid, time.Time{}
	}
	if o.State != state || !o.ExpiresAt.Equal(expires) {
		p.wrong("row %d bears a %s order that waits until %v", e.Seq, o.State, o.ExpiresAt)
	}
}

func (p *replay) holder(user string) *tally {
	if p.holders[user] == nil {
		p.holders[user] = &tally{}
	}
	return p.holders[user]
}

// count books units, limit and let-go holds of a transition.
func (p *replay) count(from sale.OrderState, o *sale.Order) {
	if o.State == sale.Rejected {
		return
	}
	h := p.holder(o.User)
	if o.State.Live() && !from.Live() {
		p.live[o.SKU] += o.Quantity
		h.live += o.Quantity
		h.cap = p.sale.PerUserLimit
	}
	if from.Live() && !o.State.Live() {
		p.live[o.SKU] -= o.Quantity
		h.live -= o.Quantity
	}
	switch o.State {
	case sale.Paid:
		h.unpaid = 0
	case sale.Refunded:
		h.refunded += o.Quantity
	case sale.Cancelled, sale.Expired:
		if h.unpaid++; p.sale.MaxUnpaidHolds > 0 && h.unpaid >= p.sale.MaxUnpaidHolds {
			h.unpaid, h.cool = 0, o.EndedAt.Add(time.Duration(p.sale.CoolDownMS)*time.Millisecond)
		}
	case sale.Queued, sale.Reserved, sale.Rejected:
	}
}

func (p *replay) refundRow(e *ledger.Entry) {
	var b ledger.RefundBody
	if !p.decode(e, &b) {
		return
	}
	old := p.refunds[b.ID]
	required := e.Kind == ledger.KindRefundRequired && b.State == sale.RefundRequired && old == ""
	done := e.Kind == ledger.KindRefundDone && b.State == sale.RefundDone && old == sale.RefundRequired
	if !required && !done {
		p.wrong("P7 row %d moves refund %s from %q to %s", e.Seq, b.ID, old, b.State)
	}
	p.refunds[b.ID] = b.State
}
