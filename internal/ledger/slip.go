package ledger

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// MaxQueued is how long a slip may wait for the judge; an older one is rejected.
// It bounds how long an order can be queued while the ledger is reachable.
const MaxQueued = 10 * time.Minute

// slip judges an attempt that the fast counter has taken. It becomes an order
// whatever happens: what does not fit is rejected, and the counter, which took the
// units, gets them back by the journal.
func (d *desk) slip(a *Attempt) Result {
	item, itemErr := d.rec.Item(a.SKU)
	if old, found := d.orders[a.ID]; found {
		return d.slipAgain(a, old, item, itemErr)
	}
	o := sale.Order{
		ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: a.SKU, Quantity: a.Quantity,
		Terms: a.Slip.Terms, Currency: d.rec.Currency, Epoch: a.Slip.Epoch, ReservedAt: d.now,
	}
	terms, known := d.termsOf(a.Slip.Terms)
	if itemErr != nil || !known || !terms.price(&o, item) {
		return d.reject(o, sale.RejectedSlip, sale.NoSuchItem)
	}
	o.SKU = d.rec.Items[item].SKU
	if reason, verdict := d.rejection(a, item); reason != "" {
		r := d.reject(o, reason, verdict)
		r.Left = d.rec.Items[item].Left()
		return r
	}
	o.State, o.ExpiresAt = sale.Reserved, d.now.Add(terms.Hold)
	if o.Amount == 0 {
		o.State, o.ExpiresAt = sale.Paid, time.Time{}
	}
	d.bear(o, item)
	if a.Slip.Presented || a.Slip.Epoch != d.rec.Epoch {
		d.adopt(&o, a.Slip.TakenAt)
	}
	return Result{Verdict: sale.Taken, Order: d.orders[a.ID], Left: d.rec.Items[item].Left()}
}

// price sets currency and amount of an order of an item under these terms, and
// reports whether they have a price for it.
func (t *Terms) price(o *sale.Order, item int) bool {
	if item >= len(t.Prices) || o.Quantity < 1 || t.Prices[item] > sale.MaxInteger/o.Quantity {
		return false
	}
	o.Currency, o.Amount = t.Currency, t.Prices[item]*o.Quantity
	return true
}

// slipAgain judges a slip whose order is there already: judged before, or accepted
// by another way. If that order has ended, or is not what the lane took, the lane
// has units taken for nothing.
func (d *desk) slipAgain(a *Attempt, old sale.Order, item int, itemErr error) Result {
	r := d.replay(a, old, item, itemErr)
	if old.User == a.User { // nobody is shown another's order
		r.Order = old
	}
	if old.State.Live() && r.Verdict == sale.Replayed {
		return r
	}
	d.giveBack(a)
	if old.State.Live() {
		d.adopt(&old, old.ReservedAt)
	}
	return r
}

// giveBack has the lane give back what it took for an attempt.
func (d *desk) giveBack(a *Attempt) {
	o := sale.Order{ID: a.ID, User: a.User, SKU: a.SKU, Quantity: a.Quantity}
	if item, err := d.rec.Item(a.SKU); err == nil {
		o.SKU = d.rec.Items[item].SKU
	}
	d.forLane(KindLaneReturn, &o, a.Slip.TakenAt)
}

// adopt tells the lane of an order that it did not take.
func (d *desk) adopt(o *sale.Order, takenAt time.Time) { d.forLane(KindLaneAdopt, o, takenAt) }

// forLane tells the lane how an order stands there. On the direct path there is no
// lane, and whoever loads one reads the orders themselves.
func (d *desk) forLane(kind Kind, o *sale.Order, takenAt time.Time) {
	if d.rec.Path != sale.PathFast {
		return
	}
	d.record(kind, o.ID, LaneBody{User: o.User, SKU: o.SKU, Quantity: o.Quantity, TakenAt: Millis(takenAt)})
}

// rejection returns why a fresh slip cannot become a reserved order. The window
// and the state of the sale are the counter's business: what was taken under the
// rules of its time is honoured, also where the sale has been paused or closed
// since.
func (d *desk) rejection(a *Attempt, item int) (sale.RejectReason, sale.Verdict) {
	it := &d.rec.Items[item]
	h := d.holder(a.User)
	switch {
	case d.rec.State == sale.Draft || d.rec.State == sale.Deleted:
		return sale.RejectedSale, sale.NoSuchSale
	case d.now.Sub(a.Slip.TakenAt) > MaxQueued:
		return sale.RejectedLate, sale.SoldOut
	case h.Counted(d.rec.LimitRule)+a.Quantity > d.rec.PerUserLimit:
		return sale.RejectedLimit, sale.LimitReached
	case d.cooling(h, a.Slip.TakenAt):
		return sale.RejectedCoolDown, sale.CoolDown
	}
	v := scarce(it, a.Quantity)
	switch {
	case v == "":
		return "", ""
	case d.rec.UpdatedAt.After(a.Slip.TakenAt):
		return sale.RejectedStock, v
	}
	return sale.RejectedSoldOut, v
}

// cooling reports whether a cool-down was in force when an attempt was taken: one
// that began later takes nothing back.
func (d *desk) cooling(h Holder, takenAt time.Time) bool {
	return takenAt.Before(h.CoolUntil) && !takenAt.Before(h.CoolUntil.Add(-d.rec.CoolDown))
}

func (d *desk) reject(o sale.Order, reason sale.RejectReason, v sale.Verdict) Result {
	o.State, o.Reason, o.ExpiresAt = sale.Rejected, reason, time.Time{}
	d.move(sale.Queued, o)
	return Result{Verdict: v, Order: d.orders[o.ID]}
}

// termsOf returns terms by number, from the sale or from those loaded.
func (d *desk) termsOf(number int64) (Terms, bool) {
	if number == d.rec.Terms {
		return termsOf(&d.rec.Sale), true
	}
	for i := range d.terms {
		if d.terms[i].Number == number {
			return d.terms[i], true
		}
	}
	return Terms{}, false
}

// loadTerms loads old terms if an attempt was taken under any.
func (d *desk) loadTerms(ctx context.Context, r Reader, attempts []Attempt) (err error) {
	for i := range attempts {
		if s := attempts[i].Slip; s != nil && s.Terms != d.rec.Terms {
			d.terms, err = r.TermsOf(ctx, d.rec.Number)
			return err
		}
	}
	return nil
}

// CancelQueued implements Orders.
func (b *Book) CancelQueued(ctx context.Context, a Attempt) (sale.Order, error) {
	var after sale.Order
	err := b.onSale(ctx, byNumber(ctx, a.ID.Sale()), func(tx Tx, d *desk) error {
		if err := d.load(ctx, tx, []sale.OrderID{a.ID}); err != nil {
			return err
		}
		o, found := d.orders[a.ID]
		switch {
		case found && o.User != a.User:
			return sale.OrderNotFound()
		case found:
			after = o
			if err := d.cancel(o); err != nil {
				return err
			}
		default:
			if err := d.loadHolders(ctx, tx, []string{a.User}); err != nil {
				return err
			}
			if err := d.loadTerms(ctx, tx, []Attempt{a}); err != nil {
				return err
			}
			if err := d.cancelQueued(&a); err != nil {
				return err
			}
		}
		after = d.orders[a.ID]
		return nil
	})
	if err != nil {
		return sale.Order{}, orderError(err)
	}
	return after, nil
}

// cancelQueued enters an order that ends before it began. It counts as a hold let
// go, so that taking and cancelling cannot block the stock for ever.
func (d *desk) cancelQueued(a *Attempt) error {
	item, err := d.rec.Item(a.SKU)
	if err != nil {
		return sale.OrderNotFound() // no counter of ours took that
	}
	o := sale.Order{
		ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: d.rec.Items[item].SKU, Quantity: a.Quantity, Terms: d.rec.Terms,
		Currency: d.rec.Currency, Epoch: d.rec.Epoch, ReservedAt: d.now, State: sale.Cancelled,
	}
	if a.Slip != nil {
		o.Terms, o.Epoch = a.Slip.Terms, a.Slip.Epoch
	}
	if t, known := d.termsOf(o.Terms); !known || !t.price(&o, item) {
		return sale.OrderNotFound() // nor that
	}
	d.moveCooling(sale.Queued, o, d.letGo(a.User))
	return nil
}
