package ledgertest

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// refusalCases: what is refused, with which verdict, at no cost.
func refusalCases() []testCase {
	return []testCase{
		{name: "Refuse/quantities", run: refuseQuantity},
		{name: "Refuse/costs neither stock nor limit", run: refuseFree},
		{name: "Refuse/limit before stock", run: refuseOrder},
		{name: "Refuse/a refusal is not remembered", run: refuseForgets},
		{name: "Refuse/unknown sale", run: refuseUnknown},
		{name: "Refuse/wrong epoch decides nothing", run: refuseEpoch},
	}
}

func refuseQuantity(t *testing.T, w *world) {
	s := w.open(t, nil)
	for _, n := range []int64{0, -1, -5, 3, math.MaxInt32, math.MaxInt32 + 1, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		w.refuse(t, s, click(s, "ann", strconv.FormatInt(n, 10), n), sale.BadQuantity)
	}
	require.Equal(t, int64(10), w.left(t, s))
}

func refuseFree(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.PerUserLimit = 1 })
	w.take(t, s, "ann", "k", 1)
	for i := range 9 {
		clicks := make([]ledger.Attempt, 0, 7)
		for j := range 6 {
			clicks = append(clicks, click(s, "ann", fmt.Sprint("again-", i, "-", j), 1))
		}
		clicks = append(clicks, click(s, fmt.Sprint("user-", i), "k", 1))
		verdicts := w.verdicts(t, s, clicks...)
		for _, v := range verdicts[:6] {
			require.Equal(t, sale.LimitReached, v)
		}
		require.Equal(t, sale.Taken, verdicts[6])
	}
	require.Zero(t, w.left(t, s))
}

func refuseOrder(t *testing.T, w *world) {
	s := w.open(t, stock(2))
	w.take(t, s, "ann", "k", 2)
	w.refuse(t, s, click(s, "ann", "more", 1), sale.LimitReached)
	w.refuse(t, s, click(s, "bob", "k", 1), sale.SoldOut)
	w.refuse(t, s, click(s, "bob", "k", 3), sale.BadQuantity)
	none := w.open(t, stock(0))
	w.refuse(t, none, click(none, "bob", "k", 1), sale.SoldOut)
}

func refuseForgets(t *testing.T, w *world) {
	s := w.open(t, stock(1))
	o := w.take(t, s, "ann", "k", 1)
	w.refuse(t, s, click(s, "bob", "k", 1), sale.SoldOut)
	w.cancel(t, o)
	w.refuse(t, s, click(s, "bob", "k", 2), sale.Insufficient)
	require.Equal(t, sale.Taken, w.try(t, s, click(s, "bob", "k", 1)).Verdict, "the same key may succeed later")
}

func refuseUnknown(t *testing.T, w *world) {
	for _, n := range []sale.Number{0, 7, math.MaxUint32} {
		_, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: n, Epoch: 1, Attempts: []ledger.Attempt{{User: "ann", Quantity: 1}}})
		requireCode(t, sale.CodeSaleNotFound, err)
	}
	d := w.draft(t, nil)
	w.refuse(t, d, click(d, "ann", "k", 1), sale.NoSuchSale)
}

func refuseEpoch(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	before := w.rowsOf(t, s)
	for _, epoch := range []int64{0, 2, -1} {
		out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: epoch, Attempts: []ledger.Attempt{
			click(s, "bob", "k", 1), click(s, "ann", "k", 1),
		}})
		require.ErrorIs(t, err, ledger.ErrWrongEpoch)
		require.Empty(t, out.Results)
	}
	require.Equal(t, before, w.rowsOf(t, s))
	require.Equal(t, o, w.order(t, o.ID))

	follow := func(path sale.Path) {
		t.Helper()
		next := w.read(t, s)
		next.Path = path
		require.NoError(t, w.write(t.Context(), s.Number, func(c *ledger.Changes) { c.Revised = &next }))
	}
	follow(sale.PathFast)
	_, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: []ledger.Attempt{click(s, "ann", "k", 1)}})
	require.ErrorIs(t, err, ledger.ErrWrongEpoch, "the sale is on another path")
	follow(sale.PathDirect)
	w.take(t, s, "bob", "k", 1)
}

// windowCases: half-open instants, to the millisecond.
func windowCases() []testCase {
	return []testCase{
		{name: "Window/start is in, end is out", run: windowEdges},
		{name: "Window/pause and resume", run: windowPause},
		{name: "Window/moved while it runs", run: windowMoved},
		{name: "Window/kept in milliseconds UTC", run: windowKept},
	}
}

func windowEdges(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) {
		s.StartsAt = s.StartsAt.Add(1500 * time.Millisecond)
		s.EndsAt = s.StartsAt.Add(250 * time.Millisecond)
	})
	w.refuse(t, s, click(s, "ann", "1", 1), sale.NotStarted)
	w.Advance(1499 * time.Millisecond)
	w.refuse(t, s, click(s, "ann", "1", 1), sale.NotStarted)
	w.Advance(time.Millisecond)
	w.take(t, s, "ann", "1", 1)
	w.Advance(249 * time.Millisecond)
	w.take(t, s, "ann", "2", 1)
	w.Advance(time.Millisecond)
	w.refuse(t, s, click(s, "bob", "1", 1), sale.Ended)
	w.Advance(time.Hour)
	w.refuse(t, s, click(s, "bob", "1", 1), sale.Ended)
}

func windowPause(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	held := w.take(t, s, "bob", "k", 1)
	w.act(t, s, sale.ActionPause)
	w.refuse(t, s, click(s, "cid", "k", 1), sale.PausedNow)
	require.Equal(t, sale.Paid, w.pay(t, o, "p").State, "a live hold may be paid while the sale is paused")
	w.cancel(t, held)
	w.act(t, s, sale.ActionResume)
	w.take(t, s, "cid", "k", 1)
}

func windowMoved(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	now := w.now(t)
	w.patch(t, s, sale.Patch{EndsAt: new(now.Add(time.Millisecond))})
	w.take(t, s, "bob", "k", 1)
	w.Advance(time.Millisecond)
	w.refuse(t, s, click(s, "cid", "k", 1), sale.Ended)
	require.Equal(t, sale.Paid, w.pay(t, o, "p").State, "a live hold may be paid after the end")
	w.patch(t, s, sale.Patch{EndsAt: new(now.Add(time.Hour))})
	w.take(t, s, "cid", "k", 1)
}

func windowKept(t *testing.T, w *world) {
	kolkata := time.FixedZone("", 5*3600+1800)
	start := time.Date(2031, 3, 1, 10, 0, 0, 123_999_999, kolkata)
	s := w.draft(t, func(s *sale.Sale) {
		s.StartsAt, s.EndsAt = start, start.Add(time.Hour)
		s.Hold, s.CoolDown = 90*time.Second+700*time.Microsecond, time.Second+time.Nanosecond
	})
	want := time.Date(2031, 3, 1, 4, 30, 0, 123_000_000, time.UTC)
	for range 3 { // saving what was read changes nothing
		require.Equal(t, want, s.StartsAt)
		require.Equal(t, want.Add(time.Hour), s.EndsAt)
		require.Equal(t, 90*time.Second, s.Hold)
		require.Equal(t, time.Second, s.CoolDown)
		require.Equal(t, s, w.read(t, s))
		s = w.patch(t, s, sale.Patch{StartsAt: &s.StartsAt, EndsAt: &s.EndsAt, Hold: &s.Hold})
	}
	require.Equal(t, int64(1), s.Terms)
	s = w.patch(t, s, sale.Patch{Hold: new(90*time.Second + 999*time.Microsecond)})
	require.Equal(t, int64(1), s.Terms, "a part of a millisecond is no new term")
	_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{
		StartsAt: new(want.Add(100 * time.Microsecond)), EndsAt: new(want.Add(900 * time.Microsecond)),
	}})
	requireCode(t, sale.CodeInvalid, err)
}
