package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// slipCases: what becomes of attempts that a lane has taken.
func slipCases() []testCase {
	return []testCase{
		{name: "Slip/becomes an order", run: slipOrder},
		{name: "Slip/is judged by when it was taken", run: slipHonoured},
		{name: "Slip/waits ten minutes", run: slipLate},
		{name: "Slip/a cool-down takes nothing back", run: slipCooling},
		{name: "Slip/keeps its terms", run: slipTerms},
		{name: "Slip/that cannot be judged", run: slipUnreadable},
		{name: "Slip/twice changes nothing", run: slipTwice},
		{name: "Slip/beyond the stock", run: slipScarce},
		{name: "Slip/beyond the limit", run: slipLimit},
		{name: "Slip/of a deleted sale", run: slipDeleted},
		{name: "Slip/a rejected order is an order", run: slipListed},
		{name: "Slip/a row the database refuses", run: slipPoison, needs: func(f Faults) bool { return f.Refuse != nil }},
		{name: "Slip/beside direct attempts", run: slipMixed},
		{name: "Epoch/direct attempts on the fast path", run: epochFast},
	}
}

func slipOrder(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	taken := w.now(t)
	a := w.slip(t, s, click(s, "ann", "k", 2))
	w.Advance(1500 * time.Millisecond)
	w.writes(t, s, []ledger.Kind{"order.reserved"}, func() {
		out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Attempts: []ledger.Attempt{a}})
		require.NoError(t, err)
		require.Equal(t, w.now(t), out.At)
		require.Equal(t, s.Version, out.Version)
		want := sale.Order{
			ID: a.ID, Slug: s.Slug, User: "ann", SKU: "shoe-42", Quantity: 2, Terms: 1, Amount: 2500, Currency: "EUR",
			State: sale.Reserved, Epoch: s.Epoch, Version: 1, ReservedAt: out.At, ExpiresAt: out.At.Add(time.Minute),
		}
		require.Equal(t, []ledger.Result{{Verdict: sale.Taken, Order: want, Left: 8}}, out.Results)
		require.Equal(t, want, w.order(t, a.ID))
		require.True(t, taken.Before(want.ReservedAt), "the hold begins with the judgement")
	})
	w.pay(t, w.order(t, a.ID), "p")

	free := w.openFast(t, func(s *sale.Sale) { s.Items[0].Price = 0 })
	w.writes(t, free, []ledger.Kind{"order.paid"}, func() {
		o := w.judged(t, free, w.slip(t, free, click(free, "ann", "k", 1)))
		require.Equal(t, sale.Paid, o.State)
		require.Zero(t, o.ExpiresAt)
	})
}

func slipHonoured(t *testing.T, w *world) {
	for name, change := range map[string]func(s sale.Sale){
		"paused": func(s sale.Sale) { w.act(t, s, sale.ActionPause) },
		"closed": func(s sale.Sale) { w.act(t, s, sale.ActionClose) },
		"ended":  func(s sale.Sale) { w.patch(t, s, sale.Patch{EndsAt: new(w.now(t))}) },
		"later":  func(s sale.Sale) { w.patch(t, s, sale.Patch{StartsAt: new(w.now(t).Add(time.Hour))}) },
	} {
		s := w.openFast(t, nil)
		a := w.slip(t, s, click(s, "ann", "k", 1))
		w.Advance(time.Second)
		change(s)
		require.Equal(t, sale.Reserved, w.judged(t, s, a).State, name)
		w.direct(t, s)
		require.Equal(t, sale.Reserved, w.judged(t, s, w.late(a, s, "bob")).State, "%s, and drained on the direct path", name)
	}
}

// late is the slip of another buyer, taken when a was.
func (w *world) late(a ledger.Attempt, s sale.Sale, user string) ledger.Attempt {
	b := click(s, user, "k", a.Quantity)
	b.Slip = a.Slip
	return b
}

func slipLate(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 1))
	w.Advance(ledger.MaxQueued)
	w.judged(t, s, a)
	b := w.late(a, s, "bob")
	w.Advance(time.Millisecond)
	w.writes(t, s, []ledger.Kind{"order.rejected"}, func() { w.rejected(t, s, b, sale.RejectedLate) })
	require.Equal(t, sale.Replayed, w.try(t, s, a).Verdict, "what was judged in time stays")
	early := w.slip(t, s, click(s, "cid", "k", 1))
	early.Slip.TakenAt = early.Slip.TakenAt.Add(time.Minute)
	w.judged(t, s, early)
}

func slipCooling(t *testing.T, w *world) {
	s := w.openFast(t, func(s *sale.Sale) { s.MaxUnpaidHolds, s.PerUserLimit = 1, 5 })
	before := w.slip(t, s, click(s, "ann", "before", 1))
	w.Advance(time.Second)
	w.cancel(t, w.judged(t, s, w.slip(t, s, click(s, "ann", "cooling", 1))))
	during := w.slip(t, s, click(s, "ann", "during", 1))
	w.Advance(10*time.Minute - 2*time.Second)
	last := w.slip(t, s, click(s, "ann", "last", 1))
	w.judged(t, s, before)
	r := w.rejected(t, s, during, sale.RejectedCoolDown)
	require.Equal(t, sale.CoolDown, r.Verdict)
	w.rejected(t, s, last, sale.RejectedCoolDown)
	w.Advance(2 * time.Second)
	w.judged(t, s, w.slip(t, s, click(s, "ann", "after", 1)))
	w.rejected(t, s, w.slipOf(last, s, "last-2"), sale.RejectedCoolDown)
}

// slipOf is the slip of another key of the same buyer, taken when a was.
func (w *world) slipOf(a ledger.Attempt, s sale.Sale, key string) ledger.Attempt {
	a.ID = s.OrderID(a.User, key)
	return a
}

func slipTerms(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 2))
	w.patch(t, s, sale.Patch{Currency: new("USD"), Hold: new(time.Hour), Items: []sale.ItemPatch{{Price: new(int64(1))}}})
	now := w.patch(t, s, sale.Patch{Items: []sale.ItemPatch{{Price: new(int64(0))}}})
	require.Equal(t, int64(3), now.Terms)
	results := w.reserve(t, s, a, w.slip(t, now, click(s, "bob", "k", 1)))
	o := results[0].Order
	require.Equal(t, []any{int64(1), int64(2500), "EUR", w.now(t).Add(time.Minute)}, []any{o.Terms, o.Amount, o.Currency, o.ExpiresAt})
	o = results[1].Order
	require.Equal(t, []any{int64(3), int64(0), "USD", sale.Paid}, []any{o.Terms, o.Amount, o.Currency, o.State})
}

func slipUnreadable(t *testing.T, w *world) {
	s := w.openFast(t, func(s *sale.Sale) {
		s.Items = append(s.Items, sale.Item{SKU: "dear", Stock: 9, Price: sale.MaxInteger / 2})
	})
	item, terms, much := w.slip(t, s, click(s, "ann", "1", 1)), w.slip(t, s, click(s, "ann", "2", 1)), w.slip(t, s, click(s, "ann", "3", 3))
	item.SKU, terms.SKU, much.SKU, terms.Slip.Terms = "boot", "shoe-42", "dear", 9
	none := w.slip(t, s, click(s, "ann", "4", 1)) // names no item of two
	for _, a := range []ledger.Attempt{item, terms, much, none} {
		w.writes(t, s, []ledger.Kind{"order.rejected"}, func() {
			r := w.rejected(t, s, a, sale.RejectedSlip)
			require.Equal(t, sale.NoSuchItem, r.Verdict)
			require.Zero(t, r.Order.Amount)
			require.Equal(t, a.Slip.Terms, r.Order.Terms)
		})
		w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn}, func() {
			require.Equal(t, sale.Rejected, w.try(t, s, a).Order.State, "judged again it stays what it is")
		})
	}
	require.Equal(t, int64(10), w.left(t, s))
}

func slipTwice(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 1))
	results := w.reserve(t, s, a, a)
	require.Equal(t, []sale.Verdict{sale.Taken, sale.Replayed}, []sale.Verdict{results[0].Verdict, results[1].Verdict})
	require.Equal(t, results[0].Order, results[1].Order)
	w.Advance(time.Second)
	w.writes(t, s, nil, func() {
		for _, again := range []ledger.Attempt{a, presented(a)} {
			require.Equal(t, ledger.Result{Verdict: sale.Replayed, Order: results[0].Order, Left: 9}, w.try(t, s, again))
		}
	})
	paid := w.pay(t, results[0].Order, "p")
	w.writes(t, s, nil, func() { require.Equal(t, paid, w.try(t, s, a).Order) })
	w.reopen(t)
	w.writes(t, s, nil, func() { require.Equal(t, paid, w.try(t, s, a).Order) })
}

func slipScarce(t *testing.T, w *world) {
	s := w.openFast(t, stock(3))
	two, one, last := w.slip(t, s, click(s, "ann", "k", 2)), w.slip(t, s, click(s, "bob", "k", 2)), w.slip(t, s, click(s, "cid", "k", 1))
	w.Advance(time.Second)
	results := w.reserve(t, s, two, one, last, w.slip(t, s, click(s, "dan", "k", 1)))
	for i, want := range []struct {
		verdict sale.Verdict
		reason  sale.RejectReason
		left    int64
	}{{sale.Taken, "", 1}, {sale.Insufficient, sale.RejectedSoldOut, 1}, {sale.Taken, "", 0}, {sale.SoldOut, sale.RejectedSoldOut, 0}} {
		require.Equal(t, want.verdict, results[i].Verdict, "slip %d", i)
		require.Equal(t, want.reason, results[i].Order.Reason, "slip %d", i)
		require.Equal(t, want.left, results[i].Left, "slip %d", i)
	}
	queued := w.slip(t, s, click(s, "eve", "k", 1))
	w.restock(t, s, 5)
	w.Advance(time.Second)
	w.restock(t, s, -5) // a cut below what is queued
	w.rejected(t, s, queued, sale.RejectedStock)
	w.Advance(time.Second)
	w.rejected(t, s, w.slip(t, s, click(s, "gus", "k", 1)), sale.RejectedSoldOut)
}

func slipLimit(t *testing.T, w *world) {
	s := w.openFast(t, func(s *sale.Sale) { s.PerUserLimit = 3 })
	results := w.reserve(
		t, s,
		w.slip(t, s, click(s, "ann", "1", 2)), w.slip(t, s, click(s, "ann", "2", 2)), w.slip(t, s, click(s, "ann", "3", 1)),
		w.slip(t, s, click(s, "ann", "4", 1)), w.slip(t, s, click(s, "bob", "1", 4)),
	)
	reasons := make([]sale.RejectReason, len(results))
	for i := range results {
		reasons[i] = results[i].Order.Reason
	}
	require.Equal(t, []sale.RejectReason{"", sale.RejectedLimit, "", sale.RejectedLimit, sale.RejectedLimit}, reasons)
	require.Equal(t, sale.LimitReached, results[1].Verdict)
	require.Equal(t, int64(7), w.left(t, s))
	cut := w.slip(t, s, click(s, "cid", "1", 3))
	w.patch(t, s, sale.Patch{PerUserLimit: new(int64(2))})
	w.rejected(t, s, cut, sale.RejectedLimit)
}

func slipDeleted(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a, b := w.slip(t, s, click(s, "ann", "k", 1)), w.slip(t, s, click(s, "bob", "k", 1))
	w.act(t, w.direct(t, w.act(t, s, sale.ActionClose)), sale.ActionDelete)
	r := w.rejected(t, s, a, sale.RejectedSale)
	require.Equal(t, sale.NoSuchSale, r.Verdict)
	gone, err := w.ledger.CancelQueued(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, sale.Cancelled, gone.State)
}

func slipListed(t *testing.T, w *world) {
	s := w.openFast(t, stock(0))
	before := w.read(t, s)
	a := w.slip(t, s, click(s, "ann", "k", 2))
	o := w.rejected(t, s, a, sale.RejectedSoldOut).Order
	require.Equal(t, sale.Order{
		ID: a.ID, Slug: s.Slug, User: "ann", SKU: "shoe-42", Quantity: 2, Terms: 1, Amount: 2500, Currency: "EUR", State: sale.Rejected,
		Epoch: s.Epoch, Version: 1, ReservedAt: w.now(t), EndedAt: w.now(t), Reason: sale.RejectedSoldOut,
	}, o)
	require.Equal(t, before, w.read(t, s), "it holds nothing")
	for _, f := range []ledger.OrderFilter{{User: "ann"}, {Sale: s.Number}, {State: sale.Rejected}, {User: "ann", Sale: s.Number, State: sale.Rejected}} {
		list, err := w.ledger.ListOrders(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, []sale.Order{o}, list, "%+v", f)
	}
	w.restock(t, s, 9)
	d := w.direct(t, s)
	w.writes(t, s, nil, func() {
		for range 2 {
			r := w.try(t, d, click(s, "ann", "k", 2))
			require.Equal(t, sale.Replayed, r.Verdict, "its key replays it, also when there are units again")
			require.Equal(t, o, r.Order)
			w.Advance(time.Second)
		}
		_, err := w.ledger.Cancel(t.Context(), o.ID, "ann")
		requireCode(t, sale.CodeIllegalState, err)
		_, err = w.ledger.Refund(t.Context(), o.ID, ledger.Refunding{Restock: true})
		requireCode(t, sale.CodeIllegalState, err)
		n, err := w.ledger.Expire(t.Context(), []sale.OrderID{o.ID})
		require.NoError(t, err)
		require.Zero(t, n)
	})
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(o, "p")).Outcome, "money for it goes back")
	require.Equal(t, o, w.order(t, o.ID))
	w.take(t, d, "ann", "k2", 2)
}

func slipPoison(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	w.Faults.Refuse(t, "bad")
	batch := []ledger.Attempt{
		w.slip(t, s, click(s, "ann", "k", 1)), w.slip(t, s, click(s, "bad", "k", 1)),
		w.slip(t, s, click(s, "bob", "k", 1)), w.slip(t, s, click(s, "cid", "k", 0)), w.slip(t, s, click(s, "dan", "k", 1)),
	}
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Attempts: batch})
	require.NoError(t, err)
	for i, r := range out.Results {
		if i == 1 || i == 3 {
			require.ErrorIs(t, r.Err, ledger.ErrConstraint)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, sale.Taken, r.Verdict)
	}
	require.Equal(t, int64(7), w.left(t, s))
}

func slipMixed(t *testing.T, w *world) {
	fast := w.openFast(t, stock(4))
	old := w.slip(t, fast, click(fast, "ann", "k", 1))
	s := w.direct(t, fast)
	foreign := w.slip(t, fast, click(fast, "eve", "k", 1))
	foreign.ID[0]++
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: s.Epoch, Attempts: []ledger.Attempt{
		click(s, "ann", "k", 1), old, w.slip(t, fast, click(s, "bob", "k", 2)), foreign, click(s, "bob", "k", 2), click(s, "cid", "k", 2), click(s, "cid", "l", 1),
	}})
	require.NoError(t, err)
	want := []sale.Verdict{sale.Taken, sale.Replayed, sale.Taken, "", sale.Replayed, sale.Insufficient, sale.Taken}
	for i, r := range out.Results {
		require.Equal(t, want[i], r.Verdict, "attempt %d", i)
		require.Equal(t, i == 3, r.Err != nil, "attempt %d: %v", i, r.Err)
	}
	require.Equal(t, s.Epoch, out.Results[1].Order.Epoch)
	require.Equal(t, fast.Epoch, out.Results[2].Order.Epoch)
	require.Zero(t, w.left(t, s))
}

func epochFast(t *testing.T, w *world) {
	d := w.open(t, nil)
	o := w.take(t, d, "ann", "k", 1)
	s := w.fast(t, d)
	require.Greater(t, s.Epoch, d.Epoch)
	w.writes(t, s, nil, func() {
		for _, epoch := range []int64{d.Epoch, s.Epoch, 0} {
			for _, attempts := range [][]ledger.Attempt{
				nil, {click(s, "bob", "k", 1)}, {click(s, "ann", "k", 1)}, {w.slip(t, s, click(s, "cid", "k", 1)), click(s, "bob", "k", 1)},
			} {
				_, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: epoch, Attempts: attempts})
				require.ErrorIs(t, err, ledger.ErrWrongEpoch)
			}
		}
	})
	require.Equal(t, o, w.order(t, o.ID))
	_, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 77, Attempts: []ledger.Attempt{w.slip(t, s, click(s, "cid", "k", 1))}})
	require.NoError(t, err, "a slip is judged whatever its epoch")
	back := w.direct(t, s)
	_, err = w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: d.Epoch, Attempts: []ledger.Attempt{click(s, "bob", "k", 1)}})
	require.ErrorIs(t, err, ledger.ErrWrongEpoch, "direct, but another epoch")
	w.take(t, back, "bob", "k", 1)
}
