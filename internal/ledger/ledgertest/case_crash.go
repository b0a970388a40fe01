package ledgertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// crashCases: a transaction that dies between any two statements leaves nothing,
// and one whose reply is lost is found again by the same call.
func crashCases() []testCase {
	return []testCase{
		{name: "Crash/between any two statements", run: crashAborted, needs: func(f Faults) bool { return f.AbortAt != nil }},
		{name: "Crash/the reply is lost", run: crashUnheard, needs: func(f Faults) bool { return f.LoseReply != nil }},
		{name: "Crash/the caller is gone", run: crashCancelled},
	}
}

// act is one write on a prepared world. do must be safe to repeat.
type act struct {
	name string
	do   func(ctx context.Context, l ledger.Ledger) error
	// fails is the code of the answer to a repeat after the act has happened;
	// empty where a repeat succeeds.
	fails sale.Code
	// again says that a repeat may tell the lane once more; all else stays.
	again bool
	// anew says that a repeat after the act has happened does it once more.
	anew bool
}

// acts prepares a sale and returns every kind of write on it.
func (w *world) acts(t *testing.T) []act {
	t.Helper()
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock, s.MaxUnpaidHolds = 20, 5 })
	idle := w.draft(t, nil)
	fresh := w.basic(t)
	takes := make(map[string]sale.Order)
	for _, user := range []string{"late", "due", "drop", "pay", "twice", "back", "gone"} {
		takes[user] = w.take(t, s, user, "k", 2)
	}
	w.lapse(t, takes["late"])
	soon := w.take(t, s, "soon", "k", 1)
	w.pay(t, takes["twice"], "p-twice-1")
	w.pay(t, takes["back"], "p-back")
	w.refund(t, w.pay(t, takes["gone"], "p-gone"), true)
	record := sale.DeriveRefundID("p-gone")
	key := ledger.APIKey{ID: "key-1", Label: "till", Scopes: []string{"shop"}, CreatedAt: w.now(t)}

	pay := func(o sale.Order, id string) func(context.Context, ledger.Ledger) error {
		return func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Pay(ctx, charge(o, id))
			return err
		}
	}
	return append(append(w.fastActs(t), w.gateActs(t)...), []act{
		{name: "create", fails: sale.CodeSaleExists, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.CreateSale(ctx, fresh)
			return err
		}},
		{name: "publish", fails: sale.CodeVersionMismatch, do: changing(idle, sale.Change{Action: sale.ActionPublish})},
		{name: "new terms", fails: sale.CodeVersionMismatch, do: changing(s, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Currency: new("EUR"), Hold: new(time.Hour)}})},
		{name: "reserve", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Reserve(ctx, ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: []ledger.Attempt{
				click(s, "x", "1", 1), click(s, "y", "1", 2), click(s, "x", "2", 1), click(s, "z", "1", 3),
			}})
			return err
		}},
		{name: "cancel", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Cancel(ctx, soon.ID, "soon")
			return err
		}},
		{name: "expire", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Expire(ctx, []sale.OrderID{takes["due"].ID, takes["drop"].ID})
			return err
		}},
		{name: "pay", do: pay(takes["pay"], "p-pay")},
		{name: "pay twice", do: pay(takes["twice"], "p-twice-2")},
		{name: "pay late", do: pay(takes["late"], "p-late")},
		{name: "refund without restock", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Refund(ctx, takes["back"].ID, ledger.Refunding{})
			return err
		}},
		{name: "refund done", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.RefundDone(ctx, record)
			return err
		}},
		{name: "put key", do: func(ctx context.Context, l ledger.Ledger) error { return l.PutAPIKey(ctx, key) }},
		{name: "revoke key", do: func(ctx context.Context, l ledger.Ledger) error { return l.RevokeAPIKey(ctx, key.ID) }},
	}...)
}

// changing changes a sale from the version that s has.
func changing(s sale.Sale, c sale.Change) func(context.Context, ledger.Ledger) error {
	return func(ctx context.Context, l ledger.Ledger) error {
		_, err := l.ChangeSale(ctx, s.Slug, s.Version, c)
		return err
	}
}

func crashAborted(t *testing.T, w *world) {
	for _, a := range w.acts(t) {
		before := w.dump(t)
		k := 1
		for ; ; k++ {
			fired := w.Faults.AbortAt(k)
			told := w.ledger.Watch(func(rows []ledger.Entry) {
				if fired() {
					t.Errorf("%s, aborted at statement %d: %d rows were told", a.name, k, len(rows))
				}
			})
			err := a.do(t.Context(), w.ledger)
			told()
			if !fired() {
				require.NoError(t, err, a.name)
				break
			}
			require.Error(t, err, "%s, statement %d", a.name, k)
			require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "infrastructure trouble is no business answer: %v", err)
			require.Equal(t, before, w.dump(t), "%s, aborted at statement %d, left something", a.name, k)
		}
		require.Greater(t, k, 2, "%s: a transaction has statements", a.name)
		require.NotEqual(t, before, w.dump(t), a.name)
		w.recount(t)
		after := w.dump(t)
		w.reopen(t)
		require.Equal(t, after, w.dump(t), "%s is durable", a.name)
	}
}

func crashUnheard(t *testing.T, w *world) {
	for _, a := range w.acts(t) {
		before := w.dump(t)
		w.Faults.LoseReply()
		err := a.do(t.Context(), w.ledger)
		require.Error(t, err, a.name)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		w.reopen(t)
		after := w.dump(t)
		require.NotEqual(t, before, after, a.name)
		if err := a.do(t.Context(), w.ledger); a.fails != "" {
			requireCode(t, a.fails, err)
		} else {
			require.NoError(t, err, a.name)
		}
		now := w.dump(t)
		if a.anew {
			require.NotEqual(t, after, now, a.name)
			continue
		}
		if a.again {
			require.Equal(t, after.untold(), now.untold(), "%s happened once", a.name)
			continue
		}
		require.Equal(t, after, now, "%s happened once", a.name)
	}
}

func crashCancelled(t *testing.T, w *world) {
	for _, a := range w.acts(t) {
		before := w.dump(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, a.do(ctx, w.ledger), context.Canceled, a.name)
		require.Equal(t, before, w.dump(t), a.name)
		require.NoError(t, a.do(t.Context(), w.ledger), a.name)
	}
}

// contents is everything that a store holds.
type contents struct {
	sales    []ledger.Record
	terms    []ledger.Terms
	orders   []sale.Order
	holders  []ledger.Holder
	payments []ledger.PaymentRow
	refunds  []sale.Refund
	rows     []ledger.Entry
	letters  []ledger.Letter
	keys     []ledger.APIKey
	gate     gateContents
}

// untold returns the contents without what the lanes are told.
func (c *contents) untold() contents {
	out := *c
	out.rows = slices.DeleteFunc(slices.Clone(c.rows), func(e ledger.Entry) bool { return e.Kind == ledger.KindLaneReturn })
	out.sales = slices.Clone(c.sales)
	for i := range out.sales {
		out.sales[i].Seq, out.sales[i].Head = 0, [32]byte{}
	}
	return out
}

// dump reads everything, in one instant.
func (w *world) dump(t *testing.T) contents {
	t.Helper()
	var c contents
	ctx := t.Context()
	require.NoError(t, w.Store.Snapshot(ctx, func(r ledger.Reader) error {
		c = contents{}
		numbers, err := r.SaleNumbers(ctx)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			if err = c.add(ctx, r, n); err != nil {
				return err
			}
		}
		if c.letters, err = r.ListLetters(ctx, ledger.LetterFilter{Limit: 1000}); err != nil {
			return err
		}
		if c.keys, err = r.ListAPIKeys(ctx); err != nil {
			return err
		}
		return c.gate.read(ctx, r)
	}))
	return c
}

func (c *contents) add(ctx context.Context, r ledger.Reader, n sale.Number) error {
	b := &books{replay: newReplay(), stored: make(map[sale.OrderID]sale.Order), holders: make(map[string]ledger.Holder)}
	if err := b.read(ctx, r, n); err != nil {
		return err
	}
	c.sales, c.terms, c.rows = append(c.sales, b.rec), append(c.terms, b.terms...), append(c.rows, b.entries...)
	c.payments, c.refunds = append(c.payments, b.payments...), append(c.refunds, b.refunds...)
	if err := r.EachOrder(ctx, n, func(o sale.Order) error {
		c.orders = append(c.orders, o)
		return nil
	}); err != nil {
		return err
	}
	return r.EachHolder(ctx, n, func(h ledger.Holder) error {
		c.holders = append(c.holders, h)
		return nil
	})
}
