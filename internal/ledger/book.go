package ledger

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Book is the Ledger: the rules of the house over any Store.
type Book struct {
	store    Store
	watchers watchers
}

var _ Ledger = (*Book)(nil)

// New returns the ledger over a store and takes the store over: Close closes it.
func New(store Store) *Book {
	return &Book{store: store, watchers: watchers{fns: make(map[int]func([]Entry)), gate: make(map[int]func(int64))}}
}

// Close implements Ledger.
func (b *Book) Close() error {
	b.watchers.deafen()
	return b.store.Close()
}

// Now implements Clock.
func (b *Book) Now(ctx context.Context) (time.Time, error) { return b.store.Now(ctx) }

// onSale runs work at the desk of one sale and writes what it decided, all in
// one transaction, then tells the watchers.
func (b *Book) onSale(ctx context.Context, lock func(Tx) (Record, error), work func(Tx, *desk) error) error {
	var rows []Entry
	err := b.store.Update(ctx, func(tx Tx) error {
		rows = nil
		rec, err := lock(tx)
		if err != nil {
			return err
		}
		d := newDesk(rec, tx.Now())
		if err = work(tx, d); err != nil {
			return err
		}
		c, err := d.changes()
		if err != nil || c == nil {
			return err
		}
		rows = c.Entries
		return tx.Write(ctx, c)
	})
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		b.watchers.tell(rows)
	}
	return nil
}

func byNumber(ctx context.Context, n sale.Number) func(Tx) (Record, error) {
	return func(tx Tx) (Record, error) { return tx.LockSale(ctx, n) }
}

// load puts the orders and the holders of these users on the desk.
func (d *desk) load(ctx context.Context, r Reader, ids []sale.OrderID) error {
	found, err := r.OrdersByID(ctx, ids)
	if err != nil {
		return err
	}
	users := make([]string, 0, len(found))
	for id, o := range found {
		d.orders[id] = o
		users = append(users, o.User)
	}
	return d.loadHolders(ctx, r, users)
}

func (d *desk) loadHolders(ctx context.Context, r Reader, users []string) error {
	if len(users) == 0 {
		return nil
	}
	holders, err := r.Holders(ctx, d.rec.Number, users)
	if err != nil {
		return err
	}
	maps.Copy(d.holders, holders)
	return nil
}

// Reserve implements Attempts.
func (b *Book) Reserve(ctx context.Context, batch Batch) (Batched, error) {
	out := Batched{Results: make([]Result, len(batch.Attempts))}
	err := b.reserve(ctx, batch, &out, out.Results)
	if errors.Is(err, ErrConstraint) && len(batch.Attempts) > 0 {
		Bisect(len(batch.Attempts), func(from, to int) error {
			part := batch
			part.Attempts = batch.Attempts[from:to]
			return b.reserve(ctx, part, &out, out.Results[from:to])
		}, func(i int, err error) {
			out.Results[i] = Result{Err: err}
		})
		err = nil
	}
	if err != nil {
		return Batched{}, err
	}
	return out, nil
}

// errForeignID refuses an attempt whose id does not begin with the number of the
// batch's sale: its order could never be found again.
var errForeignID = errors.New("ledger: the order's id names another sale")

func (b *Book) reserve(ctx context.Context, batch Batch, out *Batched, results []Result) error {
	return b.onSale(ctx, byNumber(ctx, batch.Sale), func(tx Tx, d *desk) error {
		if batch.direct() && (d.rec.Path != sale.PathDirect || d.rec.Epoch != batch.Epoch) {
			return ErrWrongEpoch
		}
		ids := make([]sale.OrderID, len(batch.Attempts))
		users := make([]string, len(batch.Attempts))
		for i := range batch.Attempts {
			ids[i], users[i] = batch.Attempts[i].ID, batch.Attempts[i].User
		}
		found, err := tx.OrdersByID(ctx, ids)
		if err != nil {
			return err
		}
		d.orders, d.size = found, len(ids)
		if err := d.loadHolders(ctx, tx, users); err != nil {
			return err
		}
		if err := d.loadTerms(ctx, tx, batch.Attempts); err != nil {
			return err
		}
		for i := range batch.Attempts {
			if ids[i].Sale() != d.rec.Number {
				results[i] = Result{Err: errForeignID}
				continue
			}
			results[i] = d.attempt(&batch.Attempts[i])
		}
		out.At, out.Version, out.Seq = d.now, d.rec.Version, d.out.Seq
		return nil
	})
}

// direct reports whether a batch believes in the direct path: it holds an attempt
// without a slip, or nothing.
func (b *Batch) direct() bool {
	for i := range b.Attempts {
		if b.Attempts[i].Slip == nil {
			return true
		}
	}
	return len(b.Attempts) == 0
}

// Bisect runs do over the parts of 0…n−1 in halves after the whole has failed
// with ErrConstraint, until each culprit is alone, and calls bad for it. Any
// other error makes every member of its part bad, without further tries.
func Bisect(n int, do func(from, to int) error, bad func(i int, err error)) {
	var run func(from, to int)
	try := func(from, to int) {
		switch err := do(from, to); {
		case err == nil:
		case errors.Is(err, ErrConstraint) && to-from > 1:
			run(from, to)
		default:
			for i := from; i < to; i++ {
				bad(i, err)
			}
		}
	}
	run = func(from, to int) {
		if to-from == 1 {
			try(from, to)
			return
		}
		mid := from + (to-from)/2
		try(from, mid)
		try(mid, to)
	}
	if n > 0 {
		run(0, n)
	}
}

// Cancel implements Orders.
func (b *Book) Cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	return b.onOrder(ctx, id, func(d *desk, o sale.Order) error {
		if user != "" && o.User != user {
			return sale.OrderNotFound()
		}
		return d.cancel(o)
	})
}

func withArticle(s sale.OrderState) string {
	if s == sale.Expired {
		return "an " + string(s)
	}
	return "a " + string(s)
}

// Refund implements Orders.
func (b *Book) Refund(ctx context.Context, id sale.OrderID, r Refunding) (sale.Order, error) {
	return b.onOrder(ctx, id, func(d *desk, o sale.Order) error {
		switch o.State {
		case sale.Refunded:
			return nil
		case sale.Paid:
			if r.Path != "" && r.Path != d.rec.Path {
				return ErrWrongEpoch
			}
			if err := d.refund(o); err != nil || r.Restock {
				return err
			}
			return d.writeOff(o)
		case sale.Queued, sale.Reserved, sale.Cancelled, sale.Expired, sale.Rejected:
		}
		return sale.IllegalState(withArticle(o.State)+" order cannot be refunded", "only a paid order can")
	})
}

// onOrder runs work on one order and returns it as it is afterwards.
func (b *Book) onOrder(ctx context.Context, id sale.OrderID, work func(*desk, sale.Order) error) (sale.Order, error) {
	var after sale.Order
	err := b.onSale(ctx, byNumber(ctx, id.Sale()), func(tx Tx, d *desk) error {
		if err := d.load(ctx, tx, []sale.OrderID{id}); err != nil {
			return err
		}
		o, found := d.orders[id]
		if !found {
			return sale.OrderNotFound()
		}
		if err := work(d, o); err != nil {
			return err
		}
		after = d.orders[id]
		return nil
	})
	if err != nil {
		return sale.Order{}, orderError(err)
	}
	return after, nil
}

// orderError hides the sale behind an unknown order id.
func orderError(err error) error {
	if err != nil && sale.CodeOf(err) == sale.CodeSaleNotFound {
		return sale.OrderNotFound()
	}
	return err
}

// Expire implements Orders.
func (b *Book) Expire(ctx context.Context, ids []sale.OrderID) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	ended := 0
	err := b.onSale(ctx, byNumber(ctx, ids[0].Sale()), func(tx Tx, d *desk) error {
		ended = 0
		if err := d.load(ctx, tx, ids); err != nil {
			return err
		}
		for _, id := range ids {
			o, found := d.orders[id]
			if !found || id.Sale() != d.rec.Number || o.State != sale.Reserved || d.now.Before(o.ExpiresAt) {
				continue
			}
			if err := d.release(o, sale.Expired); err != nil {
				return errors.Join(ErrConstraint, err)
			}
			ended++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return ended, nil
}

// Pay implements Payments.
func (b *Book) Pay(ctx context.Context, p sale.Payment) (Paid, error) {
	if err := checkPayment(p); err != nil {
		return Paid{}, err
	}
	var paid Paid
	err := b.onSale(ctx, byNumber(ctx, p.Order.Sale()), func(tx Tx, d *desk) error {
		if err := d.load(ctx, tx, []sale.OrderID{p.Order}); err != nil {
			return err
		}
		order, found := d.orders[p.Order]
		if !found {
			return sale.OrderNotFound()
		}
		replacement := sale.ReplacementID(d.rec.Key, order.User, order.ID)
		if err := d.load(ctx, tx, []sale.OrderID{replacement}); err != nil {
			return err
		}
		row, known, err := tx.Payment(ctx, p.ID)
		if err != nil {
			return err
		}
		first := d.now
		if known {
			first = row.At
			if contradicts(&row, &p) {
				return &sale.Error{
					Code: sale.CodePaymentMismatch, Field: "payment_id", Message: "this payment is known with another order, amount or currency",
					Hint: "use the provider's own id of the charge, and repeat a notice unchanged",
				}
			}
			if row.Status == sale.PaymentSucceeded || p.Status == sale.PaymentFailed {
				paid = Paid{Outcome: replayed(&row), Order: order}
				if !row.PaidOrder.IsZero() && row.PaidOrder != order.ID {
					paid.Order = d.orders[row.PaidOrder]
				}
				return nil
			}
		}
		paid = d.book(p, order, first)
		return nil
	})
	if err != nil {
		return Paid{}, orderError(err)
	}
	return paid, nil
}

// contradicts reports whether a notice cannot be about the charge that is stored.
// What a failed try would have cost binds nobody: only two captures must agree.
func contradicts(row *PaymentRow, p *sale.Payment) bool {
	if row.Order != p.Order {
		return true
	}
	captured := row.Status == sale.PaymentSucceeded && p.Status == sale.PaymentSucceeded
	return captured && (row.Amount != p.Amount || row.Currency != p.Currency)
}

func checkPayment(p sale.Payment) error {
	if err := sale.CheckPaymentID(p.ID); err != nil {
		return err
	}
	if p.Status != sale.PaymentSucceeded && p.Status != sale.PaymentFailed {
		return sale.Invalid("status", "the status is unknown", "use succeeded or failed")
	}
	if p.Amount < 0 || p.Amount > sale.MaxInteger {
		return sale.Invalid("amount", "the amount is out of range", "send minor units from 0 to 9007199254740991")
	}
	return sale.CheckCurrency(p.Currency)
}

// RefundDone implements Payments.
func (b *Book) RefundDone(ctx context.Context, id sale.RefundID) (sale.Refund, error) {
	before, err := b.store.Read().Refund(ctx, id)
	if err != nil {
		return sale.Refund{}, err
	}
	var after sale.Refund
	err = b.onSale(ctx, byNumber(ctx, before.Order.Sale()), func(tx Tx, d *desk) error {
		r, loadErr := tx.Refund(ctx, id)
		if loadErr != nil {
			return loadErr
		}
		if r.State == sale.RefundRequired {
			r.State, r.DoneAt = sale.RefundDone, d.now
			d.out.Refunds = append(d.out.Refunds, r)
			d.record(KindRefundDone, r.Order, refundBody(&r))
		}
		after = r
		return nil
	})
	if err != nil {
		return sale.Refund{}, err
	}
	return after, nil
}
