package ledgertest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// holdCases: the life of a hold and what letting it go costs.
func holdCases() []testCase {
	return []testCase{
		{name: "Hold/ends at its instant", run: holdEnds},
		{name: "Hold/never moves", run: holdStays},
		{name: "Hold/due, longest overdue first", run: holdDue},
		{name: "Hold/a sweep ends each order once", run: holdSweep},
		{name: "Hold/a row the database refuses", run: holdPoison, needs: func(f Faults) bool { return f.Refuse != nil }},
		{name: "Hold/too many let go cool down", run: holdCoolDown},
		{name: "Hold/paying clears the count", run: holdForgiven},
	}
}

func holdEnds(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 2)
	w.Advance(time.Minute - time.Millisecond)
	n, err := w.ledger.Expire(t.Context(), []sale.OrderID{o.ID})
	require.NoError(t, err)
	require.Zero(t, n, "not a millisecond early")
	w.Advance(time.Millisecond)
	n, err = w.ledger.Expire(t.Context(), []sale.OrderID{o.ID})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	after := w.order(t, o.ID)
	require.Equal(t, sale.Expired, after.State)
	require.Equal(t, w.now(t), after.EndedAt)
	require.Equal(t, o.ExpiresAt, after.ExpiresAt)
	require.Equal(t, int64(10), w.left(t, s))
	w.take(t, s, "ann", "again", 2)
}

func holdStays(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	w.Advance(30 * time.Second)
	require.Equal(t, o.ExpiresAt, w.try(t, s, click(s, "ann", "k", 1)).Order.ExpiresAt)
	failed := charge(o, "p")
	failed.Status = sale.PaymentFailed
	require.Equal(t, o, w.notify(t, failed).Order)
	w.patch(t, s, sale.Patch{Hold: new(time.Hour)})
	require.Equal(t, o, w.order(t, o.ID))
	w.Advance(30 * time.Second)
	require.Equal(t, sale.Paid, w.pay(t, o, "p2").State, "until it is swept the unit is still held for its buyer")
}

func holdDue(t *testing.T, w *world) {
	due, err := w.ledger.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Zero(t, due)
	a, b := w.open(t, nil), w.open(t, func(s *sale.Sale) { s.Hold = 30 * time.Second })
	first := w.take(t, a, "ann", "k", 1)
	w.Advance(10 * time.Second)
	second := w.take(t, b, "ann", "k", 1)
	paid, gone := w.take(t, b, "bob", "k", 1), w.take(t, b, "cid", "k", 1)
	w.pay(t, paid, "p")
	w.cancel(t, gone)
	w.Advance(30*time.Second - time.Millisecond)
	due, err = w.ledger.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Empty(t, due.IDs)
	w.Advance(time.Millisecond)
	due, err = w.ledger.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Equal(t, ledger.DueOrders{IDs: []sale.OrderID{second.ID}, Upto: second.ExpiresAt}, due)
	w.Advance(25 * time.Second)
	due, err = w.ledger.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Equal(t, ledger.DueOrders{IDs: []sale.OrderID{second.ID, first.ID}, Overdue: 25 * time.Second, Upto: first.ExpiresAt}, due)
	due, err = w.ledger.Due(t.Context(), time.Time{}, 1)
	require.NoError(t, err)
	require.Equal(t, []sale.OrderID{second.ID}, due.IDs)
	due, err = w.ledger.Due(t.Context(), due.Upto, 10)
	require.NoError(t, err)
	require.Equal(t, []sale.OrderID{second.ID, first.ID}, due.IDs, "others may have ended in the same instant")
	due, err = w.ledger.Due(t.Context(), second.ExpiresAt.Add(time.Millisecond), 10)
	require.NoError(t, err)
	require.Equal(t, ledger.DueOrders{IDs: []sale.OrderID{first.ID}, Overdue: 5 * time.Second, Upto: first.ExpiresAt}, due)
	due, err = w.ledger.Due(t.Context(), first.ExpiresAt.Add(time.Millisecond), 10)
	require.NoError(t, err)
	require.Zero(t, due)
}

func holdSweep(t *testing.T, w *world) {
	s := w.open(t, nil)
	held, paid, gone := w.take(t, s, "ann", "k", 1), w.take(t, s, "bob", "k", 1), w.take(t, s, "cid", "k", 1)
	back := w.take(t, s, "dan", "k", 1)
	w.pay(t, paid, "p1")
	w.cancel(t, gone)
	w.refund(t, w.pay(t, back, "p2"), true)
	w.Advance(time.Hour)
	fresh := w.take(t, s, "eve", "k", 1)
	ids := []sale.OrderID{held.ID, paid.ID, held.ID, gone.ID, back.ID, fresh.ID, s.OrderID("nobody", "k"), held.ID}
	for _, want := range []int{1, 0, 0} {
		n, err := w.ledger.Expire(t.Context(), ids)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, int64(8), w.left(t, s))
	n, err := w.ledger.Expire(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

func holdPoison(t *testing.T, w *world) {
	s := w.open(t, nil)
	ids := make([]sale.OrderID, 0, 5)
	for i := range 5 {
		ids = append(ids, w.take(t, s, fmt.Sprint("user-", i), "k", 1).ID)
	}
	w.Faults.Refuse(t, "user-3")
	w.Advance(time.Hour)
	before := w.rowsOf(t, s)
	n, err := w.ledger.Expire(t.Context(), ids)
	require.ErrorIs(t, err, ledger.ErrConstraint)
	require.Zero(t, n)
	require.Equal(t, before, w.rowsOf(t, s), "nothing was done")
	ended, bad := 0, []int(nil)
	ledger.Bisect(len(ids), func(from, to int) error {
		n, err := w.ledger.Expire(t.Context(), ids[from:to])
		ended += n
		return err
	}, func(i int, err error) {
		require.ErrorIs(t, err, ledger.ErrConstraint)
		bad = append(bad, i)
	})
	require.Equal(t, 4, ended)
	require.Equal(t, []int{3}, bad)
	require.Equal(t, int64(9), w.left(t, s))
}

func holdCoolDown(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.MaxUnpaidHolds, s.CoolDown = 2, 10*time.Minute })
	w.cancel(t, w.take(t, s, "ann", "1", 1))
	w.lapse(t, w.take(t, s, "ann", "2", 1))
	until := w.now(t).Add(10 * time.Minute)
	r := w.try(t, s, click(s, "ann", "3", 1))
	require.Equal(t, sale.CoolDown, r.Verdict)
	require.Equal(t, until, r.RetryAt)
	w.take(t, s, "bob", "1", 1)
	w.Advance(10*time.Minute - time.Millisecond)
	w.refuse(t, s, click(s, "ann", "3", 1), sale.CoolDown)
	w.reopen(t)
	w.refuse(t, s, click(s, "ann", "3", 1), sale.CoolDown)
	w.Advance(time.Millisecond)
	w.cancel(t, w.take(t, s, "ann", "3", 1))
	w.take(t, s, "ann", "4", 1) // the count began anew
}

func holdForgiven(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.MaxUnpaidHolds, s.PerUserLimit, s.Items[0].Stock = 2, 9, 99 })
	for i := range 5 {
		w.cancel(t, w.take(t, s, "ann", fmt.Sprint("let-go-", i), 1))
		w.pay(t, w.take(t, s, "ann", fmt.Sprint("kept-", i), 1), fmt.Sprint("p-", i))
	}
	w.patch(t, s, sale.Patch{MaxUnpaidHolds: new(int64(0))})
	for i := range 5 {
		w.cancel(t, w.take(t, s, "bob", strconv.Itoa(i), 1))
	}
	w.take(t, s, "bob", "k", 1) // zero is no cap
}

// limitCases: quantity per user, under both rules.
func limitCases() []testCase {
	return []testCase{
		{name: "Limit/counts what is held", run: limitHeld},
		{name: "Limit/live frees what comes back", run: limitLive},
		{name: "Limit/ever_paid never forgets", run: limitEverPaid},
		{name: "Limit/lowered and raised", run: limitMoved},
		{name: "Limit/the rule changes", run: limitRule},
	}
}

func limitHeld(t *testing.T, w *world) {
	s := w.open(t, nil)
	w.pay(t, w.take(t, s, "ann", "1", 1), "p1")
	w.take(t, s, "ann", "2", 1)
	w.refuse(t, s, click(s, "ann", "3", 1), sale.LimitReached)
	w.take(t, s, "bob", "1", 1)
	w.refuse(t, s, click(s, "bob", "2", 2), sale.LimitReached)
	w.take(t, s, "bob", "3", 1)
}

func limitLive(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.PerUserLimit = 1 })
	for i := range 4 {
		key := strconv.Itoa(i)
		w.cancel(t, w.take(t, s, "ann", "c"+key, 1))
		w.lapse(t, w.take(t, s, "ann", "e"+key, 1))
		w.refund(t, w.pay(t, w.take(t, s, "ann", "r"+key, 1), "p"+key), true)
	}
	w.take(t, s, "ann", "last", 1)
	w.refuse(t, s, click(s, "ann", "more", 1), sale.LimitReached)
	require.Equal(t, int64(9), w.left(t, s))
}

func limitEverPaid(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.LimitRule = sale.LimitEverPaid })
	w.cancel(t, w.take(t, s, "ann", "1", 2))
	w.lapse(t, w.take(t, s, "ann", "2", 2))
	w.refund(t, w.pay(t, w.take(t, s, "ann", "3", 1), "p3"), true)
	w.refuse(t, s, click(s, "ann", "4", 2), sale.LimitReached)
	w.refund(t, w.pay(t, w.take(t, s, "ann", "5", 1), "p5"), true)
	w.refuse(t, s, click(s, "ann", "6", 1), sale.LimitReached)
	w.take(t, s, "bob", "1", 2)
}

func limitMoved(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.PerUserLimit = 3 })
	o := w.take(t, s, "ann", "1", 3)
	w.patch(t, s, sale.Patch{PerUserLimit: new(int64(1))})
	w.refuse(t, s, click(s, "ann", "2", 1), sale.LimitReached)
	o = w.pay(t, o, "p") // what was taken stays
	w.refund(t, o, true)
	w.take(t, s, "ann", "3", 1)
	w.patch(t, s, sale.Patch{PerUserLimit: new(int64(2))})
	w.take(t, s, "ann", "4", 1)
	w.refuse(t, s, click(s, "ann", "5", 1), sale.LimitReached)
}

func limitRule(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.PerUserLimit = 1 })
	w.refund(t, w.pay(t, w.take(t, s, "ann", "1", 1), "p"), true)
	w.patch(t, s, sale.Patch{LimitRule: new(sale.LimitEverPaid)})
	w.refuse(t, s, click(s, "ann", "2", 1), sale.LimitReached)
	w.patch(t, s, sale.Patch{LimitRule: new(sale.LimitLive)})
	w.take(t, s, "ann", "2", 1)
}
