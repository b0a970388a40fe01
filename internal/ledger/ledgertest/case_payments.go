package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// paymentCases: notices about charges on orders that are alive.
func paymentCases() []testCase {
	return []testCase{
		{name: "Pay/paid, and already paid on repeat", run: payPaid},
		{name: "Pay/amount and currency are compared", run: payExact},
		{name: "Pay/failed, then succeeded", run: payFailedFirst},
		{name: "Pay/any order of notices", run: payPermuted},
		{name: "Pay/a second charge goes back", run: paySecond},
		{name: "Pay/the id is known with other facts", run: payMismatch},
		{name: "Pay/a failed try binds no amount", run: payAfterFailedTry},
		{name: "Pay/malformed notices", run: payMalformed},
		{name: "Pay/after end, close and pause", run: payAfterEnd},
	}
}

func payPaid(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 2)
	w.Advance(5 * time.Second)
	before := len(w.rowsOf(t, s))
	paid := w.notify(t, charge(o, "p"))
	want := o
	want.State, want.Version, want.PaymentID, want.EndedAt = sale.Paid, 2, "p", w.now(t)
	require.Equal(t, ledger.Paid{Outcome: sale.OutcomePaid, Order: want}, paid)
	require.Equal(t, want, w.order(t, o.ID))
	for range 3 {
		w.Advance(time.Second)
		require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: want}, w.notify(t, charge(o, "p")))
	}
	require.Equal(t, []ledger.Kind{"order.paid"}, w.kinds(t, s, before))
	require.Equal(t, int64(8), w.left(t, s))
	require.Empty(t, w.refunds(t, ""))
}

func payExact(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Price = 1000 })
	o := w.take(t, s, "ann", "k", 1)
	wrong := []sale.Payment{
		{ID: "one", Amount: 1, Currency: "EUR"},
		{ID: "under", Amount: 999, Currency: "EUR"},
		{ID: "over", Amount: 1001, Currency: "EUR"},
		{ID: "dollars", Amount: 1000, Currency: "USD"},
		{ID: "half-1", Amount: 500, Currency: "EUR"},
		{ID: "half-2", Amount: 500, Currency: "EUR"},
	}
	for i, p := range wrong {
		p.Order, p.Status = o.ID, sale.PaymentSucceeded
		for range 2 {
			require.Equal(t, ledger.Paid{Outcome: sale.OutcomeRefundRequired, Order: o}, w.notify(t, p), p.ID)
		}
		back := w.refunds(t, sale.RefundRequired)
		require.Len(t, back, i+1)
		require.Equal(t, sale.Refund{
			ID: sale.DeriveRefundID(p.ID), PaymentID: p.ID, Order: o.ID, Amount: p.Amount, Currency: p.Currency,
			Reason: sale.ReasonAmount, State: sale.RefundRequired, CreatedAt: w.now(t),
		}, back[i])
	}
	nothing := sale.Payment{ID: "nothing", Order: o.ID, Status: sale.PaymentSucceeded, Currency: "EUR"}
	require.Equal(t, sale.OutcomeRecorded, w.notify(t, nothing).Outcome, "nothing was captured, nothing goes back")
	require.Equal(t, o, w.order(t, o.ID), "the hold goes on as if nothing had come")
	w.pay(t, o, "right")
	require.Len(t, w.refunds(t, ""), len(wrong))
}

func payFailedFirst(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	failed := charge(o, "p")
	failed.Status = sale.PaymentFailed
	before := w.rowsOf(t, s)
	first := w.now(t)
	for range 2 {
		require.Equal(t, ledger.Paid{Outcome: sale.OutcomeRecorded, Order: o}, w.notify(t, failed))
	}
	require.Equal(t, before, w.rowsOf(t, s), "a failed charge moves nothing")
	w.Advance(time.Second)
	paid := w.pay(t, o, "p")
	require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: paid}, w.notify(t, failed), "late news of the failure")
	require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: paid}, w.notify(t, charge(o, "p")))
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		row, known, err := r.Payment(t.Context(), "p")
		require.True(t, known)
		require.Equal(t, ledger.PaymentRow{Payment: charge(o, "p"), Outcome: sale.OutcomePaid, PaidOrder: o.ID, At: first}, row)
		return err
	}))
}

// payPermuted sends {failed 1, succeeded 2, failed 3} in every order, each also
// twice: the order is paid once, whatever came last.
func payPermuted(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 20 })
	for i, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, times := range []int{1, 2} {
			name := fmt.Sprint(i, "-", times)
			o := w.take(t, s, "user-"+name, "k", 1)
			for _, n := range order {
				p := charge(o, fmt.Sprint(name, "-", n))
				if n != 1 {
					p.Status = sale.PaymentFailed
				}
				for range times {
					w.notify(t, p)
				}
			}
			require.Equal(t, sale.Paid, w.order(t, o.ID).State, "%v", order)
		}
	}
	require.Equal(t, int64(8), w.left(t, s))
	require.Empty(t, w.refunds(t, ""))
}

func paySecond(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	paid := w.pay(t, o, "p1")
	for range 3 {
		require.Equal(t, ledger.Paid{Outcome: sale.OutcomeRefundRequired, Order: paid}, w.notify(t, charge(o, "p2")))
	}
	require.Equal(t, ledger.Paid{Outcome: sale.OutcomeAlreadyPaid, Order: paid}, w.notify(t, charge(o, "p1")))
	back := w.refunds(t, "")
	require.Len(t, back, 1)
	require.Equal(t, "p2", back[0].PaymentID)
	require.Equal(t, sale.ReasonDuplicate, back[0].Reason)

	w.refund(t, paid, true)
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(o, "p3")).Outcome, "money for a refunded order")
	require.Equal(t, sale.OutcomeAlreadyPaid, w.notify(t, charge(o, "p1")).Outcome, "its charge has one record: the refund's")
	require.Len(t, w.refunds(t, ""), 3)
}

func payMismatch(t *testing.T, w *world) {
	s := w.open(t, nil)
	other := w.open(t, nil)
	o, p, q := w.take(t, s, "ann", "k", 1), w.take(t, s, "bob", "k", 1), w.take(t, other, "ann", "k", 1)
	w.pay(t, o, "p")
	before := w.dump(t)
	for _, change := range []func(*sale.Payment){
		func(n *sale.Payment) { n.Order = p.ID },
		func(n *sale.Payment) { n.Order = q.ID },
		func(n *sale.Payment) { n.Amount++ },
		func(n *sale.Payment) { n.Currency = "USD" },
	} {
		n := charge(o, "p")
		change(&n)
		_, err := w.ledger.Pay(t.Context(), n)
		requireCode(t, sale.CodePaymentMismatch, err)
		require.Equal(t, before, w.dump(t), "%+v", n)
	}
}

func payAfterFailedTry(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	try := charge(o, "p")
	try.Status, try.Amount, try.Currency = sale.PaymentFailed, try.Amount-1, "USD"
	require.Equal(t, sale.OutcomeRecorded, w.notify(t, try).Outcome)
	require.Equal(t, sale.OutcomePaid, w.notify(t, charge(o, "p")).Outcome, "the money that came is booked")
	require.Equal(t, sale.OutcomeAlreadyPaid, w.notify(t, try).Outcome, "and the old notice changes nothing")

	wrong := charge(w.take(t, s, "bob", "k", 1), "q")
	wrong.Status = sale.PaymentFailed
	require.Equal(t, sale.OutcomeRecorded, w.notify(t, wrong).Outcome)
	wrong.Status, wrong.Amount = sale.PaymentSucceeded, wrong.Amount+1
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, wrong).Outcome)
	back := w.refunds(t, "")
	require.Len(t, back, 1)
	require.Equal(t, wrong.Amount, back[0].Amount, "what was captured goes back")
}

func payMalformed(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	before := w.dump(t)
	for _, change := range []func(*sale.Payment){
		func(p *sale.Payment) { p.ID = "" },
		func(p *sale.Payment) { p.ID = "with space" },
		func(p *sale.Payment) { p.Status = "pending" },
		func(p *sale.Payment) { p.Status = "" },
		func(p *sale.Payment) { p.Amount = -1 },
		func(p *sale.Payment) { p.Amount = sale.MaxInteger + 1 },
		func(p *sale.Payment) { p.Currency = "eur" },
		func(p *sale.Payment) { p.Currency = "" },
	} {
		p := charge(o, "p")
		change(&p)
		_, err := w.ledger.Pay(t.Context(), p)
		requireCode(t, sale.CodeInvalid, err)
		require.Equal(t, before, w.dump(t), "%+v", p)
	}
}

func payAfterEnd(t *testing.T, w *world) {
	for _, shut := range []func(sale.Sale){
		func(s sale.Sale) { w.patch(t, s, sale.Patch{EndsAt: new(w.now(t))}) },
		func(s sale.Sale) { w.act(t, s, sale.ActionClose) },
		func(s sale.Sale) { w.act(t, s, sale.ActionPause) },
	} {
		s := w.open(t, nil)
		o, held := w.take(t, s, "ann", "k", 1), w.take(t, s, "bob", "k", 1)
		w.Advance(time.Second)
		shut(s)
		w.pay(t, o, "p-"+s.Slug)
		w.lapse(t, held)
		require.Equal(t, int64(9), w.left(t, s))
		require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, charge(held, "late-"+s.Slug)).Outcome)
	}
}
