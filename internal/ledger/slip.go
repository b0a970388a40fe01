package ledger

import (
	"context"
	"errors"
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
	if itemErr != nil || !known || item >= len(terms.Prices) {
		return d.reject(o, sale.RejectedSlip, sale.NoSuchItem)
	}
	o.SKU, o.Currency, o.Amount = d.rec.Items[item].SKU, terms.Currency, terms.Prices[item]*a.Quantity
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

// slipAgain judges a slip whose order is there already: judged before, or accepted
// by another way. If that order has ended, or is not what the lane took, the lane
// has units taken for nothing.
func (d *desk) slipAgain(a *Attempt, old sale.Order, item int, itemErr error) Result {
	r := d.replay(a, old, item, itemErr)
	r.Order = old
	if old.State.Live() && r.Verdict == sale.Replayed {
		return r
	}
	d.forLane(KindLaneReturn, &old, a.Slip.TakenAt)
	if old.State.Live() {
		d.adopt(&old, old.ReservedAt)
	}
	return r
}

// adopt tells the lane of an order that it did not take. On the direct path there
// is none: whoever loads one reads the order.
func (d *desk) adopt(o *sale.Order, takenAt time.Time) {
	if d.rec.Path == sale.PathFast {
		d.forLane(KindLaneAdopt, o, takenAt)
	}
}

func (d *desk) forLane(kind Kind, o *sale.Order, takenAt time.Time) {
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
	case a.Quantity < 1 || h.Counted(d.rec.LimitRule)+a.Quantity > d.rec.PerUserLimit:
		return sale.RejectedLimit, sale.LimitReached
	case a.Slip.TakenAt.Before(h.CoolUntil):
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
		return err
	}
	o := sale.Order{
		ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: d.rec.Items[item].SKU, Quantity: a.Quantity, Terms: d.rec.Terms,
		Currency: d.rec.Currency, Epoch: d.rec.Epoch, ReservedAt: d.now, State: sale.Cancelled,
	}
	if a.Slip != nil {
		o.Terms, o.Epoch = a.Slip.Terms, a.Slip.Epoch
	}
	if t, known := d.termsOf(o.Terms); known && item < len(t.Prices) {
		o.Currency, o.Amount = t.Currency, t.Prices[item]*a.Quantity
	}
	d.moveCooling(sale.Queued, o, d.letGo(a.User))
	return nil
}

// errNoSale says that a letter is about a sale that there never was.
var errNoSale = errors.New("ledger: a dead letter needs a sale")

// Park implements Letters.
func (b *Book) Park(ctx context.Context, n sale.Number, letters []Letter) error {
	if n == 0 {
		return errNoSale
	}
	park := func(from, to int, reject func(*desk, *Letter)) error {
		return b.onSale(ctx, byNumber(ctx, n), func(tx Tx, d *desk) error {
			return d.park(ctx, tx, letters[from:to], reject)
		})
	}
	rejected := func(d *desk, l *Letter) {
		a := l.Attempt
		d.reject(sale.Order{
			ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: a.SKU, Quantity: a.Quantity, Terms: a.Slip.Terms,
			Currency: d.rec.Currency, Epoch: a.Slip.Epoch, ReservedAt: d.now,
		}, sale.RejectedSlip, sale.NoSuchItem)
	}
	returned := func(d *desk, l *Letter) {
		a := l.Attempt
		d.forLane(KindLaneReturn, &sale.Order{ID: a.ID, User: a.User, SKU: a.SKU, Quantity: a.Quantity}, a.Slip.TakenAt)
	}
	err := park(0, len(letters), rejected)
	if !errors.Is(err, ErrConstraint) {
		return err
	}
	var failed error
	Bisect(len(letters), func(from, to int) error {
		return park(from, to, rejected)
	}, func(i int, cause error) {
		if errors.Is(cause, ErrConstraint) {
			cause = park(i, i+1, returned)
		}
		failed = errors.Join(failed, cause)
	})
	return failed
}

// park stores the letters that are not there yet, and ends the order of each that
// is authentic and has none.
func (d *desk) park(ctx context.Context, tx Tx, letters []Letter, end func(*desk, *Letter)) error {
	var ids []sale.OrderID
	for i := range letters {
		if a := letters[i].Attempt; a != nil && a.ID.Sale() == d.rec.Number {
			ids = append(ids, a.ID)
		}
	}
	found, err := tx.OrdersByID(ctx, ids)
	if err != nil {
		return err
	}
	d.orders = found
	for i := range letters {
		l := letters[i]
		if _, err := tx.Letter(ctx, l.ID); err == nil {
			continue
		} else if sale.CodeOf(err) != sale.CodeLetterNotFound {
			return err
		}
		l.Sale, l.State, l.ParkedAt, l.ClosedAt = d.rec.Number, LetterOpen, d.now, time.Time{}
		l.Raw = l.Raw[:min(len(l.Raw), MaxRaw)]
		d.out.Letters = append(d.out.Letters, l)
		if l.Attempt == nil {
			continue
		}
		if _, known := d.orders[l.Attempt.ID]; !known {
			end(d, &l)
		}
	}
	return nil
}

// ListLetters implements Letters.
func (b *Book) ListLetters(ctx context.Context, f LetterFilter) ([]Letter, error) {
	f.Limit = page(f.Limit)
	return b.store.Read().ListLetters(ctx, f)
}

// Letter implements Letters.
func (b *Book) Letter(ctx context.Context, id LetterID) (Letter, error) {
	return b.store.Read().Letter(ctx, id)
}

// CloseLetter implements Letters.
func (b *Book) CloseLetter(ctx context.Context, id LetterID, s LetterState) (Letter, error) {
	before, err := b.store.Read().Letter(ctx, id)
	if err != nil {
		return Letter{}, err
	}
	var after Letter
	err = b.onSale(ctx, byNumber(ctx, before.Sale), func(tx Tx, d *desk) error {
		l, loadErr := tx.Letter(ctx, id)
		if loadErr != nil {
			return loadErr
		}
		if l.State == LetterOpen {
			l.State, l.ClosedAt = s, d.now
			d.out.Letters = append(d.out.Letters, l)
		}
		after = l
		return nil
	})
	return after, err
}
