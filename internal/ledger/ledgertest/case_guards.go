package ledgertest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// guardCases: the store itself refuses what must never be written, whoever asks.
func guardCases() []testCase {
	return []testCase{
		{name: "Guard/each one refuses the whole write", run: guardEach},
		{name: "Guard/an update that fails leaves nothing", run: guardRollback},
		{name: "Guard/a sale is locked before it is read", run: guardLocked},
	}
}

// guarded is a sale with one reserved order of 2 of 10 units, as a store sees it.
type guarded struct {
	rec    ledger.Record
	order  sale.Order
	holder ledger.Holder
}

func (w *world) guarded(t *testing.T) guarded {
	t.Helper()
	var g guarded
	s := w.open(t, nil)
	g.order = w.take(t, s, "ann", "k", 2)
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		var err error
		if g.rec, err = r.SaleByNumber(t.Context(), s.Number); err != nil {
			return err
		}
		found, err := r.Holders(t.Context(), s.Number, []string{"ann", "nobody"})
		require.Len(t, found, 1)
		g.holder = found["ann"]
		return err
	}))
	require.Equal(t, ledger.Holder{User: "ann", Live: 2, Cap: 2}, g.holder)
	return g
}

// write runs one write on the locked sale.
func (w *world) write(ctx context.Context, n sale.Number, edit func(*ledger.Changes)) error {
	return w.Store.Update(ctx, func(tx ledger.Tx) error {
		rec, err := tx.LockSale(ctx, n)
		if err != nil {
			return err
		}
		c := &ledger.Changes{Sale: n, Sold: make([]int64, len(rec.Items)), FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head}
		edit(c)
		return tx.Write(ctx, c)
	})
}

func guardEach(t *testing.T, w *world) {
	g := w.guarded(t)
	fresh := g.order
	fresh.ID = g.rec.OrderID("bob", "k")
	fresh.User = "bob"
	revised := func(edit func(*sale.Sale)) func(*ledger.Changes) {
		return func(c *ledger.Changes) {
			next := g.rec.Clone()
			edit(&next)
			c.Revised = &next
		}
	}
	holder := func(edit func(*ledger.Holder)) func(*ledger.Changes) {
		return func(c *ledger.Changes) {
			h := g.holder
			edit(&h)
			c.Holders = []ledger.Holder{h}
		}
	}
	moved := func(from sale.OrderState, o sale.Order) func(*ledger.Changes) {
		return func(c *ledger.Changes) { c.Orders = []ledger.OrderChange{{From: from, After: o}} }
	}
	born := func(edit func(*sale.Order)) func(*ledger.Changes) {
		o := fresh
		edit(&o)
		return moved(sale.Queued, o)
	}
	for name, edit := range map[string]func(*ledger.Changes){
		"rejected for no reason": born(func(o *sale.Order) { o.State = sale.Rejected }),
		"reserved for a reason":  born(func(o *sale.Order) { o.Reason = sale.RejectedLimit }),
		"an order of nothing":    born(func(o *sale.Order) { o.Quantity = 0 }),
		"another sale's letter": func(c *ledger.Changes) {
			c.Letters = []ledger.Letter{{ID: ledger.LetterID{1}, Sale: 77, State: ledger.LetterOpen}}
		},
		"sold above stock":          func(c *ledger.Changes) { c.Sold[0] = 9 },
		"sold below zero":           func(c *ledger.Changes) { c.Sold[0] = -3 },
		"stock below sold":          revised(func(s *sale.Sale) { s.Items[0].Stock = 1 }),
		"order born twice":          moved(sale.Queued, g.order),
		"order moved from paid":     moved(sale.Paid, g.order),
		"order moved that is not":   moved(sale.Reserved, fresh),
		"live above the cap":        holder(func(h *ledger.Holder) { h.Live = 3 }),
		"live below zero":           holder(func(h *ledger.Holder) { h.Live = -1 }),
		"refunded below zero":       holder(func(h *ledger.Holder) { h.Refunded = -1 }),
		"unpaid below zero":         holder(func(h *ledger.Holder) { h.Unpaid = -1 }),
		"new holder above the cap":  holder(func(h *ledger.Holder) { h.User, h.Live = "bob", 3 }),
		"journal from an old row":   func(c *ledger.Changes) { c.FromSeq-- },
		"journal from a future row": func(c *ledger.Changes) { c.FromSeq++ },
	} {
		before := w.dump(t)
		err := w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) {
			edit(c)
			c.Payments = []ledger.PaymentRow{{Payment: charge(g.order, "p"), Outcome: sale.OutcomeRecorded}}
		})
		require.ErrorIs(t, err, ledger.ErrConstraint, name)
		require.Equal(t, before, w.dump(t), name)
	}
	// At the very edge each guard lets the write through.
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) { c.Sold[0] = 8 }))
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) { c.Sold[0] = -10 }))
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) { c.Sold[0] = 2 }))
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) {
		c.Sold[0] = -1
		revised(func(s *sale.Sale) { s.Items[0].Stock, s.Items[0].Sold = 1, 77 })(c)
	}), "units come back before the stock is cut")
	require.Equal(t, int64(1), w.read(t, g.rec.Sale).Items[0].Sold, "sold is counted, never set")
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) { // and back to where it was
		revised(func(*sale.Sale) {})(c)
	}))
	require.NoError(t, w.write(t.Context(), g.rec.Number, func(c *ledger.Changes) { c.Sold[0] = 1 }))
}

func guardRollback(t *testing.T, w *world) {
	g := w.guarded(t)
	before := w.dump(t)
	sentinel := errors.New("changed my mind")
	ctx := t.Context()
	require.ErrorIs(t, w.Store.Update(ctx, func(tx ledger.Tx) error {
		if _, err := tx.LockSale(ctx, g.rec.Number); err != nil {
			return err
		}
		next := g.rec.Clone()
		next.Slug = "somewhere-else"
		if _, err := tx.InsertSale(ctx, ledger.Record{Sale: next}); err != nil {
			return err
		}
		if err := tx.PutAPIKey(ctx, ledger.APIKey{ID: "k", CreatedAt: tx.Now()}); err != nil {
			return err
		}
		moved := g.order
		moved.State = sale.Cancelled
		if err := tx.Write(ctx, &ledger.Changes{
			Sale: g.rec.Number, Sold: []int64{-2}, FromSeq: g.rec.Seq, Seq: g.rec.Seq, Head: g.rec.Head,
			Orders: []ledger.OrderChange{{From: sale.Reserved, After: moved}}, Holders: []ledger.Holder{{User: "ann"}},
		}); err != nil {
			return err
		}
		found, err := tx.OrdersByID(ctx, []sale.OrderID{g.order.ID})
		require.Equal(t, sale.Cancelled, found[g.order.ID].State, "a transaction reads its own writes")
		require.NoError(t, err)
		return sentinel
	}), sentinel)
	require.Equal(t, before, w.dump(t))
}

// guardLocked counts a sale's version up from what each transaction read: with
// the lock no step is lost.
func guardLocked(t *testing.T, w *world) {
	g := w.guarded(t)
	set := func(ctx context.Context, next func(int64) int64) error {
		return w.Store.Update(ctx, func(tx ledger.Tx) error {
			rec, err := tx.LockSale(ctx, g.rec.Number)
			if err != nil {
				return err
			}
			revised := rec.Clone()
			revised.Version = next(rec.Version)
			return tx.Write(ctx, &ledger.Changes{
				Sale: rec.Number, Sold: []int64{0}, FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head, Revised: &revised,
			})
		})
	}
	together(t, 8, func(ctx context.Context, _ int) error {
		for range 4 {
			if err := set(ctx, func(v int64) int64 { return v + 1 }); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, g.rec.Version+32, w.read(t, g.rec.Sale).Version)
	require.NoError(t, set(t.Context(), func(int64) int64 { return g.rec.Version }))
}
