package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// laneCases: what a lane is told, so that its units are those of the ledger.
func laneCases() []testCase {
	return []testCase{
		{name: "Lane/a slip meets an order that has ended", run: laneReturn},
		{name: "Lane/a slip meets another order", run: laneOther},
		{name: "Lane/adopts what it did not take", run: laneAdopt},
		{name: "Lane/adopts a late payment's order", run: laneLatePayment},
		{name: "Lane/rows", run: laneRows},
		{name: "Lane/rows page by page", run: lanePages},
		{name: "Lane/rows beside writers", run: laneRace},
		{name: "Queued/cancelled, then the slip", run: queuedCancelled},
		{name: "Queued/cancelled too late", run: queuedTooLate},
		{name: "Queued/cancelled again and again", run: queuedCooling},
		{name: "Queued/cancelled and judged at once", run: queuedRace},
	}
}

func laneReturn(t *testing.T, w *world) {
	for name, end := range map[string]func(sale.Sale, sale.Order){
		"cancelled": func(_ sale.Sale, o sale.Order) { w.cancel(t, o) },
		"expired":   func(_ sale.Sale, o sale.Order) { w.lapse(t, o) },
		"refunded":  func(_ sale.Sale, o sale.Order) { w.refund(t, w.pay(t, o, "p-"+o.ID.String()), true) },
	} {
		s := w.openFast(t, nil)
		a := w.slip(t, s, click(s, "ann", "k", 2))
		end(s, w.judged(t, s, a))
		over, left := w.order(t, a.ID), w.left(t, s)
		for range 2 { // every time it comes: nobody knows what the lane has forgotten
			w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn}, func() {
				require.Equal(t, ledger.Result{Verdict: sale.Replayed, Order: over, Left: left}, w.try(t, s, a), name)
			})
		}
		rows := w.rowsOf(t, s)
		last := rows[len(rows)-1]
		require.Equal(t, a.ID, last.Order)
		require.JSONEq(t, fmt.Sprintf(`{"user":"ann","item":"shoe-42","quantity":2,"taken_at":%d}`, a.Slip.TakenAt.UnixMilli()), string(last.Body))
		require.Equal(t, over, w.order(t, a.ID), name)
		require.Equal(t, left, w.left(t, s), name)
	}
}

// laneOther: the lane had forgotten a key and took something else under it.
func laneOther(t *testing.T, w *world) {
	gone := w.openFast(t, nil)
	a, b := w.slip(t, gone, click(gone, "ann", "k", 1)), w.slip(t, gone, click(gone, "bob", "k", 1))
	d := w.direct(t, gone)
	w.take(t, d, "ann", "k", 2)
	w.cancel(t, w.take(t, d, "bob", "k", 1))
	w.writes(t, d, nil, func() { // the lane that took them is none any more
		require.Equal(t, sale.KeyMismatch, w.try(t, d, a).Verdict)
		require.Equal(t, sale.Replayed, w.try(t, d, b).Verdict)
	})

	s := w.openFast(t, nil)
	o := w.judged(t, s, w.slip(t, s, click(s, "ann", "k", 1)))
	other := w.slip(t, s, click(s, "ann", "k", 2))
	w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn, ledger.KindLaneAdopt}, func() {
		r := w.try(t, s, other)
		require.Equal(t, sale.KeyMismatch, r.Verdict)
		require.Equal(t, o, r.Order, "the key stands for this one")
	})
	rows := w.rowsOf(t, s)
	require.Contains(t, string(rows[len(rows)-2].Body), `"quantity":2`, "what the lane took goes back")
	require.Contains(t, string(rows[len(rows)-1].Body), `"quantity":1`, "what there is it learns")
	foreign := other
	foreign.User = "eve"
	r := w.try(t, s, foreign)
	require.Equal(t, sale.KeyMismatch, r.Verdict)
	require.Zero(t, r.Order, "nobody is shown another's order")
	w.cancel(t, o)
	w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn}, func() { require.Equal(t, sale.KeyMismatch, w.try(t, s, other).Verdict) })
	require.Equal(t, int64(10), w.left(t, s))
}

func laneAdopt(t *testing.T, w *world) {
	first := w.openFast(t, nil)
	old := []ledger.Attempt{w.queued(t, first, "ann"), w.queued(t, first, "bob"), w.queued(t, first, "cid")}
	d := w.direct(t, first)
	w.writes(t, d, []ledger.Kind{"order.reserved"}, func() { w.judged(t, d, presented(w.slip(t, first, click(first, "dan", "k", 1)))) })
	w.Advance(ledger.BuildLease)
	s := w.fast(t, d)
	s = w.patch(t, s, sale.Patch{Title: new("again")})
	old[0].Slip.TakenAt, old[1].Slip.TakenAt, old[2].Slip.TakenAt = w.now(t), w.now(t), w.now(t)
	w.writes(t, s, []ledger.Kind{"order.reserved", ledger.KindLaneAdopt}, func() { // an older epoch's
		o := w.judged(t, s, old[0])
		require.Equal(t, first.Epoch, o.Epoch)
		rows := w.rowsOf(t, s)
		last := rows[len(rows)-1]
		require.Equal(t, o.ID, last.Order)
		require.JSONEq(t, fmt.Sprintf(`{"user":"ann","item":"shoe-42","quantity":1,"taken_at":%d}`, old[0].Slip.TakenAt.UnixMilli()), string(last.Body))
	})
	w.writes(t, s, []ledger.Kind{"order.reserved"}, func() { w.judged(t, s, w.slip(t, s, click(s, "eve", "k", 1))) })
	w.writes(t, s, []ledger.Kind{"order.reserved", ledger.KindLaneAdopt}, func() { // the lane may not know of it
		w.judged(t, s, presented(w.slip(t, s, click(s, "fay", "k", 1))))
	})
	w.writes(t, s, []ledger.Kind{"order.reserved", ledger.KindLaneAdopt, "order.rejected", "order.reserved", ledger.KindLaneAdopt}, func() {
		w.reserve(t, s, old[1], w.slip(t, s, click(s, "gus", "k", 3)), old[2])
	})
	w.writes(t, s, []ledger.Kind{"order.rejected"}, func() { w.rejected(t, s, presented(w.slip(t, s, click(s, "hal", "k", 3))), sale.RejectedLimit) })
}

func laneLatePayment(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	o := w.lapse(t, w.judged(t, s, w.slip(t, s, click(s, "ann", "k", 2))))
	w.writes(t, s, []ledger.Kind{"order.paid", ledger.KindLaneAdopt}, func() {
		heir := w.pay(t, o, "p")
		require.Equal(t, s.Epoch, heir.Epoch)
		rows := w.rowsOf(t, s)
		last := rows[len(rows)-1]
		require.Equal(t, heir.ID, last.Order)
		require.JSONEq(t, fmt.Sprintf(`{"user":"ann","item":"shoe-42","quantity":2,"taken_at":%d}`, w.now(t).UnixMilli()), string(last.Body))
	})
	o = w.lapse(t, w.judged(t, s, w.slip(t, s, click(s, "bob", "k", 1))))
	s = w.direct(t, s)
	w.writes(t, s, []ledger.Kind{"order.paid"}, func() { w.pay(t, o, "q") })
}

func laneRows(t *testing.T, w *world) {
	d := w.open(t, nil)
	o := w.take(t, d, "ann", "k", 1)
	s := w.fast(t, d)
	from := w.end(t, s)
	require.Equal(t, []ledger.Kind{"sale.created", "sale.published", "sale.rerouted"}, w.tail(t, s, 0))
	rows, err := w.ledger.LaneRows(t.Context(), s.Number, from, 10)
	require.NoError(t, err)
	require.Equal(t, ledger.LaneRows{Upto: from}, rows)

	w.refund(t, w.pay(t, o, "p"), false)
	w.judged(t, s, w.slip(t, s, click(s, "bob", "k", 1)))
	w.rejected(t, s, w.slip(t, s, click(s, "bob", "l", 2)), sale.RejectedLimit)
	_, err = w.ledger.CancelQueued(t.Context(), w.slip(t, s, click(s, "cid", "k", 1)))
	require.NoError(t, err)
	w.lapse(t, w.judged(t, s, w.slip(t, s, click(s, "dan", "k", 1))))
	w.act(t, s, sale.ActionPause)
	w.judged(t, s, w.slip(t, s, click(s, "eve", "k", 1))) // none for the lane at the end
	rows, err = w.ledger.LaneRows(t.Context(), s.Number, from, 10)
	require.NoError(t, err)
	require.Equal(t, w.end(t, s), rows.Upto, "rows that are none of its own are behind it too")
	all := w.rowsOf(t, s)
	for i := range rows.Rows {
		require.Equal(t, all[rows.Rows[i].Seq-1], rows.Rows[i])
	}
	require.Equal(t, []ledger.Kind{
		"order.refunded", "sale.restocked", "order.rejected", "order.cancelled", "order.expired", "sale.paused",
	}, w.tail(t, s, from))
	for _, after := range []uint64{rows.Upto, rows.Upto + 7, 1 << 62} {
		none, readErr := w.ledger.LaneRows(t.Context(), s.Number, after, 10)
		require.NoError(t, readErr)
		require.Equal(t, ledger.LaneRows{Upto: after}, none)
	}
	_, err = w.ledger.LaneRows(t.Context(), 4711, 0, 10)
	requireCode(t, sale.CodeSaleNotFound, err)
}

func lanePages(t *testing.T, w *world) {
	s := w.openFast(t, func(s *sale.Sale) { s.PerUserLimit = 100 })
	var want []ledger.Kind
	for i := range 7 {
		o := w.judged(t, s, w.slip(t, s, click(s, "ann", strconv.Itoa(i), 1)))
		if i%2 == 0 {
			w.cancel(t, o)
		}
	}
	want = w.tail(t, s, 0)
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []ledger.Kind
		after := uint64(0)
		for range 50 {
			page, err := w.ledger.LaneRows(t.Context(), s.Number, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Rows), limit)
			require.GreaterOrEqual(t, page.Upto, after)
			for i := range page.Rows {
				got = append(got, page.Rows[i].Kind)
			}
			if len(page.Rows) < limit {
				require.Equal(t, w.end(t, s), page.Upto)
				break
			}
			require.Equal(t, page.Rows[limit-1].Seq, page.Upto)
			after = page.Upto
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

// laneRace: whoever follows the numbers sees every row, however many write.
func laneRace(t *testing.T, w *world) {
	s := w.openFast(t, stock(1000))
	from := w.end(t, s)
	const writers, each = 6, 12
	now := w.slip(t, s, ledger.Attempt{})
	var over atomic.Int32
	var seen []uint64
	together(t, writers+1, func(ctx context.Context, i int) error {
		if i < writers {
			defer over.Add(1)
			for k := range each {
				a := click(s, fmt.Sprint("user-", i), strconv.Itoa(k), 1)
				a.Slip = now.Slip
				if _, err := w.tryOne(ctx, &s, a); err != nil {
					return err
				}
				if _, err := w.ledger.Cancel(ctx, a.ID, ""); err != nil {
					return err
				}
			}
			return nil
		}
		for after := from; ; {
			last := over.Load() == writers
			page, err := w.ledger.LaneRows(ctx, s.Number, after, 5)
			if err != nil {
				return err
			}
			for i := range page.Rows {
				seen = append(seen, page.Rows[i].Seq)
			}
			if after = page.Upto; last && len(page.Rows) < 5 {
				return nil
			}
		}
	})
	var want []uint64
	for _, e := range w.rowsOf(t, s)[from:] {
		if e.Kind.ForLane() {
			want = append(want, e.Seq)
		}
	}
	require.True(t, slices.IsSorted(seen))
	require.Equal(t, want, seen)
}

func queuedCancelled(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.queued(t, s, "ann")
	w.patch(t, s, sale.Patch{Items: []sale.ItemPatch{{Price: new(int64(1))}}})
	w.Advance(time.Second)
	var o sale.Order
	w.writes(t, s, []ledger.Kind{"order.cancelled"}, func() {
		for range 2 {
			after, err := w.ledger.CancelQueued(t.Context(), a)
			require.NoError(t, err)
			require.Equal(t, sale.Order{
				ID: a.ID, Slug: s.Slug, User: "ann", SKU: "shoe-42", Quantity: 1, Terms: 1, Amount: 1250, Currency: "EUR",
				State: sale.Cancelled, Epoch: s.Epoch, Version: 1, ReservedAt: w.now(t), EndedAt: w.now(t),
			}, after)
			require.Equal(t, after, w.order(t, a.ID))
			o = after
		}
	})
	w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn}, func() {
		require.Equal(t, ledger.Result{Verdict: sale.Replayed, Order: o, Left: 10}, w.try(t, s, a), "the slip meets a final order")
	})
	require.Equal(t, sale.OutcomePaid, w.notify(t, charge(o, "p")).Outcome, "money for it is like any late payment")
	d := w.direct(t, s)
	require.Equal(t, sale.Replayed, w.try(t, d, click(d, "ann", "k", 1)).Verdict)
	foreign := a
	foreign.User = "eve"
	_, err := w.ledger.CancelQueued(t.Context(), foreign)
	requireCode(t, sale.CodeOrderNotFound, err)
	unknown := w.slip(t, s, click(s, "bob", "k", 1))
	unknown.Slip.Terms = 9
	_, err = w.ledger.CancelQueued(t.Context(), unknown)
	requireCode(t, sale.CodeOrderNotFound, err)
	unknown = w.slip(t, s, click(s, "bob", "k", 1))
	unknown.SKU = "boot"
	_, err = w.ledger.CancelQueued(t.Context(), unknown)
	requireCode(t, sale.CodeOrderNotFound, err)
	unknown = click(s, "bob", "k", 1)
	unknown.ID[0]++
	_, err = w.ledger.CancelQueued(t.Context(), unknown)
	requireCode(t, sale.CodeOrderNotFound, err)
}

func queuedTooLate(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a, b, c := w.queued(t, s, "ann"), w.queued(t, s, "bob"), w.slip(t, s, click(s, "cid", "k", 3))
	a.Slip.TakenAt, b.Slip.TakenAt = c.Slip.TakenAt, c.Slip.TakenAt
	w.judged(t, s, a)
	w.writes(t, s, []ledger.Kind{"order.cancelled"}, func() {
		o, err := w.ledger.CancelQueued(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, int64(2), o.Version, "the ledger had it already: an ordinary cancel")
	})
	require.Equal(t, int64(10), w.left(t, s))
	w.pay(t, w.judged(t, s, b), "p")
	_, err := w.ledger.CancelQueued(t.Context(), b)
	requireCode(t, sale.CodeIllegalState, err)
	w.rejected(t, s, c, sale.RejectedLimit)
	_, err = w.ledger.CancelQueued(t.Context(), c)
	requireCode(t, sale.CodeIllegalState, err)
}

func queuedCooling(t *testing.T, w *world) {
	s := w.openFast(t, func(s *sale.Sale) { s.MaxUnpaidHolds = 2 })
	for i := range 2 {
		_, err := w.ledger.CancelQueued(t.Context(), w.slip(t, s, click(s, "ann", strconv.Itoa(i), 1)))
		require.NoError(t, err)
	}
	rows := w.rowsOf(t, s)
	require.Contains(t, string(rows[len(rows)-1].Body), fmt.Sprintf(`"cool_until":%d`, w.now(t).Add(10*time.Minute).UnixMilli()), "the lane learns of it")
	w.rejected(t, s, w.slip(t, s, click(s, "ann", "k", 1)), sale.RejectedCoolDown)
}

// queuedRace: whoever comes first decides, and the lane's units come back once.
func queuedRace(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	for round := range 10 {
		a := w.slip(t, s, click(s, fmt.Sprint("user-", round), "k", 1))
		together(t, 4, func(ctx context.Context, i int) error {
			if i%2 == 0 {
				_, err := w.tryOne(ctx, &s, a)
				return err
			}
			_, err := w.ledger.CancelQueued(ctx, a)
			return err
		})
		require.Equal(t, sale.Cancelled, w.order(t, a.ID).State)
		require.Equal(t, int64(10), w.left(t, s))
	}
}
