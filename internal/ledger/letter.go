package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// errNoSale says that a letter is about a sale that there never was.
var errNoSale = errors.New("ledger: a dead letter needs a sale")

// ending is what is done about the order of an authentic letter that has none.
type ending func(*desk, *Attempt)

// rejected gives the buyer an order that says why.
func rejected(d *desk, a *Attempt) {
	d.reject(sale.Order{
		ID: a.ID, Slug: d.rec.Slug, User: a.User, SKU: a.SKU, Quantity: a.Quantity, Terms: a.Slip.Terms,
		Currency: d.rec.Currency, Epoch: a.Slip.Epoch, ReservedAt: d.now,
	}, sale.RejectedSlip, sale.NoSuchItem)
}

// Park implements Letters. What the database refuses is tried with less: without
// the order, then without asking for it. A letter alone is always taken.
func (b *Book) Park(ctx context.Context, n sale.Number, letters []Letter) error {
	if n == 0 {
		return errNoSale
	}
	park := func(part []Letter, end ending) error {
		return b.onSale(ctx, byNumber(ctx, n), func(tx Tx, d *desk) error { return d.park(ctx, tx, part, end) })
	}
	err := park(letters, rejected)
	if !errors.Is(err, ErrConstraint) {
		return err
	}
	var failed error
	Bisect(len(letters), func(from, to int) error {
		return park(letters[from:to], rejected)
	}, func(i int, cause error) {
		for _, end := range []ending{(*desk).giveBack, nil} {
			if !errors.Is(cause, ErrConstraint) {
				break
			}
			cause = park(letters[i:i+1], end)
		}
		failed = errors.Join(failed, cause)
	})
	return failed
}

// park stores the letters that are not there yet. end, if not nil, ends the order
// of each that is authentic and has none; one that has an order is judged by it.
func (d *desk) park(ctx context.Context, tx Tx, letters []Letter, end ending) error {
	if end != nil {
		if err := d.loadLetters(ctx, tx, letters); err != nil {
			return err
		}
	}
	parked := make(map[LetterID]bool, len(letters))
	for i := range letters {
		l := letters[i]
		known, err := isParked(ctx, tx, l.ID)
		if err != nil {
			return err
		}
		if known || parked[l.ID] {
			continue
		}
		parked[l.ID] = true
		l.Sale, l.State, l.ParkedAt, l.ClosedAt = d.rec.Number, LetterOpen, d.now, time.Time{}
		l.Raw = l.Raw[:min(len(l.Raw), MaxRaw)]
		l.Attempt = d.authentic(l.Attempt)
		d.out.Letters = append(d.out.Letters, l)
		if l.Attempt == nil || end == nil {
			continue
		}
		old, found := d.orders[l.Attempt.ID]
		if !found {
			end(d, l.Attempt)
			continue
		}
		item, itemErr := d.rec.Item(l.Attempt.SKU)
		d.slipAgain(l.Attempt, old, item, itemErr) // what the lane took for an order that has ended goes back
	}
	return nil
}

// loadLetters puts the orders that authentic letters are about on the desk.
func (d *desk) loadLetters(ctx context.Context, r Reader, letters []Letter) error {
	var ids []sale.OrderID
	for i := range letters {
		if a := d.authentic(letters[i].Attempt); a != nil {
			ids = append(ids, a.ID)
		}
	}
	found, err := r.OrdersByID(ctx, ids)
	if err == nil {
		d.orders = found
	}
	return err
}

// authentic returns the attempt of a letter as it is kept, or nil if it cannot be
// one of this sale.
func (d *desk) authentic(a *Attempt) *Attempt {
	if a == nil || a.Slip == nil || a.ID.Sale() != d.rec.Number {
		return nil
	}
	kept, slip := *a, *a.Slip
	slip.Presented = true
	kept.Slip, kept.Expected = &slip, nil
	return &kept
}

func isParked(ctx context.Context, r Reader, id LetterID) (bool, error) {
	_, err := r.Letter(ctx, id)
	if err != nil && sale.CodeOf(err) == sale.CodeLetterNotFound {
		return false, nil
	}
	return err == nil, err
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
	if s != LetterReplayed && s != LetterDropped {
		return Letter{}, sale.Invalid("state", "a dead letter is closed as replayed or dropped", "")
	}
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
	if err != nil {
		return Letter{}, err
	}
	return after, nil
}
