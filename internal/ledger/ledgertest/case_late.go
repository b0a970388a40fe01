package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// lateCases: charges for orders that have ended, and refunds.
func lateCases() []testCase {
	return []testCase{
		{name: "Late/bears a new order while there is one", run: lateBorn},
		{name: "Late/three times", run: lateThrice},
		{name: "Late/goes back when it cannot be had", run: lateBack},
		{name: "Late/comes again when it can be had again", run: lateAgain},
		{name: "Late/never passes the limit", run: lateLimit},
		{name: "Late/keeps its terms", run: lateTerms},
	}
}

func lateBorn(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.MaxUnpaidHolds = 1 })
	for _, end := range []func(sale.Order) sale.Order{
		func(o sale.Order) sale.Order { return w.lapse(t, o) },
		func(o sale.Order) sale.Order { return w.cancel(t, o) },
	} {
		user := string(end(w.take(t, s, "probe", w.now(t).String(), 1)).State)
		w.Advance(time.Hour) // the probe's cool-down
		old := end(w.take(t, s, user, "k", 2))
		w.Advance(time.Second)
		before := len(w.rowsOf(t, s))
		paid := w.notify(t, charge(old, "p-"+user))
		want := old
		want.ID, want.Replaces = sale.ReplacementID(s.Key, user, old.ID), old.ID
		want.State, want.PaymentID, want.Version = sale.Paid, "p-"+user, 1
		want.ReservedAt, want.ExpiresAt, want.EndedAt = w.now(t), time.Time{}, w.now(t)
		require.Equal(t, ledger.Paid{Outcome: sale.OutcomePaid, Order: want}, paid)
		require.Equal(t, want, w.order(t, want.ID))
		require.Equal(t, []ledger.Kind{"order.paid"}, w.kinds(t, s, before))

		after := w.order(t, old.ID)
		require.Equal(t, want.ID, after.ReplacedBy)
		after.ReplacedBy = sale.OrderID{}
		require.Equal(t, old, after, "the old order stays as it ended")
		require.Equal(t, sale.Replayed, w.try(t, s, click(s, user, "k", 2)).Verdict)
		_, err := w.ledger.Cancel(t.Context(), want.ID, user)
		requireCode(t, sale.CodeIllegalState, err)
	}
	require.Equal(t, int64(6), w.left(t, s))
	require.Empty(t, w.refunds(t, ""))
}

func lateThrice(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.PerUserLimit = 9 })
	old := w.lapse(t, w.take(t, s, "ann", "k", 1))
	first := w.notify(t, charge(old, "p"))
	require.Equal(t, sale.OutcomePaid, first.Outcome)
	for range 3 {
		require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: first.Order}, w.notify(t, charge(old, "p")))
	}
	for range 2 {
		require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(old, "p2")).Outcome, "an order is replaced once")
	}
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(first.Order, "p3")).Outcome, "the new one is paid")
	back := w.refunds(t, "")
	require.Len(t, back, 2)
	require.Equal(t, []sale.RefundReason{sale.ReasonDuplicate, sale.ReasonDuplicate}, []sale.RefundReason{back[0].Reason, back[1].Reason})
	gone := w.refund(t, first.Order, true)
	require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: gone}, w.notify(t, charge(old, "p")))
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(old, "p4")).Outcome, "not even after a refund")
	require.Equal(t, int64(10), w.left(t, s))
}

func lateBack(t *testing.T, w *world) {
	for _, c := range []struct {
		name    string
		prevent func(s sale.Sale)
	}{
		{"sold to another", func(s sale.Sale) { w.pay(t, w.take(t, s, "bob", "k", 1), "bob-"+s.Slug) }},
		{"held by another", func(s sale.Sale) { w.take(t, s, "bob", "k", 1) }},
		{"limit used up", func(s sale.Sale) { w.take(t, w.restock(t, s, 5), "ann", "again", 2) }},
		{"cut away", func(s sale.Sale) { w.restock(t, s, -1) }},
		{"ended", func(s sale.Sale) { w.patch(t, s, sale.Patch{EndsAt: new(w.now(t))}) }},
		{"paused", func(s sale.Sale) { w.act(t, s, sale.ActionPause) }},
		{"closed", func(s sale.Sale) { w.act(t, s, sale.ActionClose) }},
		{"deleted", func(s sale.Sale) { w.act(t, w.act(t, s, sale.ActionClose), sale.ActionDelete) }},
	} {
		s := w.open(t, stock(1))
		old := w.lapse(t, w.take(t, s, "ann", "k", 1))
		c.prevent(s)
		left, before := w.left(t, s), len(w.rowsOf(t, s))
		for range 3 {
			require.Equal(t, ledger.Paid{Outcome: sale.OutcomeRefundRequired, Order: old}, w.notify(t, charge(old, "p-"+s.Slug)), c.name)
		}
		require.Equal(t, left, w.left(t, s), c.name)
		require.Equal(t, []ledger.Kind{ledger.KindRefundRequired}, w.kinds(t, s, before), c.name)
		back := w.refunds(t, "")
		require.Equal(t, sale.ReasonLate, back[len(back)-1].Reason, c.name)
		require.Equal(t, old, w.order(t, old.ID), c.name)
	}
}

func lateAgain(t *testing.T, w *world) {
	s := w.open(t, stock(1))
	old := w.lapse(t, w.take(t, s, "ann", "k", 1))
	other := w.take(t, s, "bob", "k", 1)
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(old, "p1")).Outcome)
	w.cancel(t, other)
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(old, "p1")).Outcome, "its money goes back already")
	require.Equal(t, sale.OutcomePaid, w.notify(t, charge(old, "p2")).Outcome, "another charge finds the unit free")
	require.Zero(t, w.left(t, s))
}

func lateLimit(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.LimitRule, s.PerUserLimit = sale.LimitEverPaid, 3 })
	old := w.lapse(t, w.take(t, s, "ann", "1", 2))
	w.refund(t, w.pay(t, w.take(t, s, "ann", "2", 2), "p2"), true)
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(old, "p1")).Outcome, "what was paid once counts for ever")
	w.patch(t, s, sale.Patch{LimitRule: new(sale.LimitLive)})
	require.Equal(t, sale.OutcomePaid, w.notify(t, charge(old, "p3")).Outcome)
	w.refuse(t, s, click(s, "ann", "3", 2), sale.LimitReached)
}

func lateTerms(t *testing.T, w *world) {
	s := w.open(t, nil)
	old := w.lapse(t, w.take(t, s, "ann", "k", 2))
	w.patch(t, s, sale.Patch{Currency: new("USD"), Items: []sale.ItemPatch{{Price: new(int64(9999))}}})
	paid := w.notify(t, charge(old, "p"))
	require.Equal(t, sale.OutcomePaid, paid.Outcome)
	require.Equal(t, int64(1), paid.Order.Terms)
	require.Equal(t, int64(2500), paid.Order.Amount)
	require.Equal(t, "EUR", paid.Order.Currency)
}

// refundCases: what a refund puts back, once.
func refundCases() []testCase {
	return []testCase{
		{name: "Refund/with restock", run: refundRestock},
		{name: "Refund/without restock", run: refundGone},
		{name: "Refund/done", run: refundDone},
		{name: "Refund/of a deleted sale", run: refundDeleted},
	}
}

func refundRestock(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.pay(t, w.take(t, s, "ann", "k", 2), "p")
	w.Advance(time.Second)
	before := len(w.rowsOf(t, s))
	after := w.refund(t, o, true)
	want := o
	want.State, want.Version, want.EndedAt = sale.Refunded, 3, w.now(t)
	require.Equal(t, want, after)
	require.Equal(t, []sale.Refund{{
		ID: sale.DeriveRefundID("p"), PaymentID: "p", Order: o.ID, Amount: 2500, Currency: "EUR",
		Reason: sale.ReasonRefunded, State: sale.RefundRequired, CreatedAt: w.now(t),
	}}, w.refunds(t, sale.RefundRequired))
	for _, restock := range []bool{true, false} {
		w.Advance(time.Second)
		require.Equal(t, after, w.refund(t, o, restock))
	}
	require.Equal(t, []ledger.Kind{"order.refunded", ledger.KindRefundRequired}, w.kinds(t, s, before))
	require.Equal(t, int64(10), w.left(t, s))
	require.Equal(t, int64(10), w.read(t, s).Items[0].Stock)
}

func refundGone(t *testing.T, w *world) {
	s := w.open(t, stock(2))
	o := w.pay(t, w.take(t, s, "ann", "k", 2), "p")
	before := len(w.rowsOf(t, s))
	w.refund(t, o, false)
	w.refund(t, o, false)
	require.Equal(t, []ledger.Kind{"order.refunded", ledger.KindRefundRequired, "sale.restocked"}, w.kinds(t, s, before))
	now := w.read(t, s)
	require.Zero(t, now.Items[0].Stock)
	require.Zero(t, now.Items[0].Sold)
	require.Equal(t, s.Version+1, now.Version)
	w.refuse(t, s, click(s, "bob", "k", 1), sale.SoldOut)
}

func refundDone(t *testing.T, w *world) {
	s := w.open(t, nil)
	w.refund(t, w.pay(t, w.take(t, s, "ann", "k", 1), "p"), true)
	id := sale.DeriveRefundID("p")
	w.Advance(time.Second)
	done, err := w.ledger.RefundDone(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sale.RefundDone, done.State)
	require.Equal(t, w.now(t), done.DoneAt)
	rows := w.rowsOf(t, s)
	require.Equal(t, ledger.KindRefundDone, rows[len(rows)-1].Kind)
	w.Advance(time.Second)
	again, err := w.ledger.RefundDone(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, done, again)
	require.Equal(t, rows, w.rowsOf(t, s))
	require.Empty(t, w.refunds(t, sale.RefundRequired))
	require.Equal(t, []sale.Refund{done}, w.refunds(t, sale.RefundDone))
	_, err = w.ledger.RefundDone(t.Context(), sale.DeriveRefundID("nobody's"))
	requireCode(t, sale.CodeRefundNotFound, err)
}

// refundDeleted refunds an order of a sale whose slug has gone to a successor.
func refundDeleted(t *testing.T, w *world) {
	old := w.open(t, nil)
	o, p := w.pay(t, w.take(t, old, "ann", "k", 1), "p1"), w.pay(t, w.take(t, old, "bob", "k", 1), "p2")
	w.act(t, w.act(t, old, sale.ActionClose), sale.ActionDelete)
	next := w.open(t, func(s *sale.Sale) { s.Slug = old.Slug })
	before, rows := w.read(t, next), w.rowsOf(t, next)
	w.refund(t, o, false)
	w.refund(t, p, true)
	_, err := w.ledger.RefundDone(t.Context(), sale.DeriveRefundID("p1"))
	require.NoError(t, err)
	require.Equal(t, before, w.read(t, next))
	require.Equal(t, rows, w.rowsOf(t, next))
	found, err := w.ledger.Sale(t.Context(), old.Slug)
	require.NoError(t, err)
	require.Equal(t, next.Number, found.Number)
}
