package pgledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// TestGuards breaks each guard that the common suite does not break; the write as a
// whole is refused.
func TestGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	ctx := t.Context()
	s, other := w.publish(t, book, "drop", 5), w.publish(t, book, "other", 5)
	held := take(t, book, s, "ann", "bob")[0]
	for id, status := range map[string]sale.PaymentStatus{"tried": sale.PaymentFailed, "captured": sale.PaymentSucceeded} {
		_, err := book.Pay(ctx, sale.Payment{ID: id, Order: held.ID, Status: status, Amount: 1, Currency: "EUR"})
		require.NoError(t, err)
	}
	rec, err := store.Read().SaleByNumber(ctx, s.Number)
	require.NoError(t, err)
	refund, err := store.Read().Refund(ctx, sale.DeriveRefundID("captured"))
	require.NoError(t, err)
	require.NoError(t, book.Park(ctx, s.Number, []ledger.Letter{{ID: ledger.LetterID{7}, Place: "here"}}))

	write := func(edit func(*ledger.Changes)) error {
		return store.Update(ctx, func(tx ledger.Tx) error {
			if _, err := tx.LockSale(ctx, s.Number); err != nil {
				return err
			}
			c := &ledger.Changes{Sale: s.Number, Sold: []int64{0}, FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head}
			edit(c)
			return tx.Write(ctx, c)
		})
	}
	payment := func(edit func(*ledger.PaymentRow)) func(*ledger.Changes) {
		return func(c *ledger.Changes) {
			p := ledger.PaymentRow{
				Payment: sale.Payment{ID: "captured", Order: held.ID, Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"},
				Outcome: sale.OutcomeRefundRequired,
			}
			edit(&p)
			c.Payments = []ledger.PaymentRow{p}
		}
	}
	entry := func(edit func(*ledger.Entry)) func(*ledger.Changes) {
		return func(c *ledger.Changes) {
			e := ledger.Entry{Sale: s.Number, Seq: rec.Seq + 1, Kind: ledger.KindRefundDone, Body: []byte("{}")}
			e.Hash = e.ChainHash(rec.Head)
			edit(&e)
			c.Entries, c.Seq, c.Head = []ledger.Entry{e}, rec.Seq+1, e.Hash
		}
	}
	foreign := held
	foreign.ID = other.OrderID("ann", "x")
	worthless := held
	worthless.ID, worthless.Quantity = s.OrderID("zoe", "x"), 0
	reasoned := held
	reasoned.ID, reasoned.Reason = s.OrderID("zoe", "x"), sale.RejectedLate
	before := w.dump(t)
	for name, edit := range map[string]func(*ledger.Changes){
		"a charge of another order":    payment(func(p *ledger.PaymentRow) { p.Order = s.OrderID("bob", "k") }),
		"a charge of another amount":   payment(func(p *ledger.PaymentRow) { p.Amount = 2 }),
		"a charge in another currency": payment(func(p *ledger.PaymentRow) { p.Currency = "USD" }),
		"a charge of no order":         payment(func(p *ledger.PaymentRow) { p.ID, p.Order = "new", s.OrderID("nobody", "k") }),
		"a charge with an odd outcome": payment(func(p *ledger.PaymentRow) { p.Outcome = "odd" }),
		"a refund of another amount":   func(c *ledger.Changes) { r := refund; r.Amount++; c.Refunds = []sale.Refund{r} },
		"a refund for another reason":  func(c *ledger.Changes) { r := refund; r.Reason = sale.ReasonLate; c.Refunds = []sale.Refund{r} },
		"an order of another sale":     func(c *ledger.Changes) { c.Orders = []ledger.OrderChange{{From: sale.Queued, After: foreign}} },
		"an order of nothing":          func(c *ledger.Changes) { c.Orders = []ledger.OrderChange{{From: sale.Queued, After: worthless}} },
		"a reason without a rejection": func(c *ledger.Changes) { c.Orders = []ledger.OrderChange{{From: sale.Queued, After: reasoned}} },
		"an order in an odd state": func(c *ledger.Changes) {
			o := held
			o.State = "odd"
			c.Orders = []ledger.OrderChange{{From: sale.Reserved, After: o}}
		},
		"units of an item that is not": func(c *ledger.Changes) { c.Sold = []int64{0, 1} },
		"a row of another sale":        entry(func(e *ledger.Entry) { e.Sale = other.Number }),
		"a row after a hole":           entry(func(e *ledger.Entry) { e.Seq++ }),
		"a row that is not the head":   func(c *ledger.Changes) { entry(func(*ledger.Entry) {})(c); c.Head[0]++ },
		"rows short of the new end":    func(c *ledger.Changes) { entry(func(*ledger.Entry) {})(c); c.Seq++ },
		"a letter of another sale": func(c *ledger.Changes) {
			c.Letters = []ledger.Letter{{ID: ledger.LetterID{8}, Sale: other.Number, State: ledger.LetterOpen}}
		},
		"a letter in an odd state": func(c *ledger.Changes) {
			c.Letters = []ledger.Letter{{ID: ledger.LetterID{8}, Sale: s.Number, State: "odd"}}
		},
		"another item in its place":     func(c *ledger.Changes) { n := rec.Clone(); n.Items[0].SKU = "hat"; c.Revised = &n },
		"a slug that is taken":          func(c *ledger.Changes) { n := rec.Clone(); n.Slug = "other"; c.Revised = &n },
		"terms that are there":          func(c *ledger.Changes) { c.NewTerms = &ledger.Terms{Number: 1, Currency: "EUR", Prices: []int64{1}} },
		"a key of another length":       func(c *ledger.Changes) { n := rec.Clone(); n.Currency = "EURO"; c.Revised = &n },
		"a sale that is not, of course": func(c *ledger.Changes) { c.Sale = 99 },
	} {
		require.ErrorIs(t, write(edit), ledger.ErrConstraint, name)
		require.Equal(t, before, w.dump(t), name)
	}
	require.NoError(t, write(entry(func(*ledger.Entry) {})), "without a mistake it is written")
}

// TestTwiceInOneWrite: what one write does to a row twice happens in order.
func TestTwiceInOneWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	ctx := t.Context()
	s := w.publish(t, book, "drop", 5)
	held := take(t, book, s, "ann")[0]
	require.NoError(t, store.Update(ctx, func(tx ledger.Tx) error {
		rec, err := tx.LockSale(ctx, s.Number)
		if err != nil {
			return err
		}
		born, paid, back := held, held, held
		born.ID = s.OrderID("bob", "k")
		paid.ID, paid.State, paid.Version = born.ID, sale.Paid, 2
		back.ID, back.State, back.Version = born.ID, sale.Refunded, 3
		p := ledger.PaymentRow{Payment: sale.Payment{ID: "p", Order: held.ID, Status: sale.PaymentFailed, Currency: "EUR"}, Outcome: sale.OutcomeRecorded}
		captured := p
		captured.Status, captured.Amount = sale.PaymentSucceeded, 7
		return tx.Write(ctx, &ledger.Changes{
			Sale: s.Number, FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head,
			Orders: []ledger.OrderChange{
				{From: sale.Queued, After: born}, {From: sale.Reserved, After: paid}, {From: sale.Paid, After: back},
			},
			Holders:  []ledger.Holder{{User: "bob", Live: 2, Cap: 2}, {User: "bob", Refunded: 1, Cap: 2}},
			Payments: []ledger.PaymentRow{p, captured},
		})
	}))
	o, err := book.Order(ctx, s.OrderID("bob", "k"))
	require.NoError(t, err)
	require.Equal(t, sale.Refunded, o.State)
	holders, err := store.Read().Holders(ctx, s.Number, []string{"bob"})
	require.NoError(t, err)
	require.Equal(t, ledger.Holder{User: "bob", Refunded: 1, Cap: 2}, holders["bob"])
	row, _, err := store.Read().Payment(ctx, "p")
	require.NoError(t, err)
	require.Equal(t, int64(7), row.Amount)
}
