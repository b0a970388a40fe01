package cases_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// paid is what came of a payment notice.
type paid struct {
	ledger.Paid
	err error
}

func (s *shop) tryPay(p sale.Payment) paid {
	out, err := s.Pay(s.t.Context(), p)
	return paid{out, err}
}

// The accident: a hold ends while the buyer is on the payment page, the unit is
// sold to somebody else, and then the first payment is accepted.
// The right outcome: who has the unit keeps it; the late charge leaves one refund
// record, or, where a unit is free, pays for a new order under the same rules.
func TestC03LatePaymentNeverTakesAResoldUnit(t *testing.T) {
	t.Parallel()
	t.Run("resold", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(1, 1)
		a := s.take("a", 1)
		require.Equal(t, 1, s.pass(time.Minute))
		b := s.take("b", 1)
		require.Equal(t, sale.OutcomePaid, s.pay(notice(b, "pb")).Outcome)
		for range 3 {
			late := s.pay(notice(a, "pa"))
			require.Equal(t, sale.OutcomeRefundRequired, late.Outcome)
			require.Equal(t, sale.Expired, late.Order.State)
		}
		require.Len(t, s.refunds(), 1)
		require.Equal(t, sale.ReasonLate, s.refunds()[0].Reason)
		require.Equal(t, int64(1), s.settled().Paid)
	})
	t.Run("free", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(1, 1)
		a := s.take("a", 1)
		s.pass(time.Minute)
		first := s.pay(notice(a, "pa"))
		require.Equal(t, sale.OutcomePaid, first.Outcome)
		require.Equal(t, a.ID, first.Order.Replaces)
		for range 2 {
			again := s.pay(notice(a, "pa"))
			require.Equal(t, sale.OutcomeAlreadyPaid, again.Outcome)
			require.Equal(t, first.Order.ID, again.Order.ID)
		}
		require.Equal(t, sale.Expired, s.order(a.ID).State, "what has ended stays so")
		require.Empty(t, s.refunds())
		require.Equal(t, int64(1), s.settled().Paid)
	})
	t.Run("at the instant", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(1, 1, func(d *sale.Sale) { d.EndsAt = d.EndsAt.Add(1000 * time.Hour) })
		for round := range 60 {
			a := s.take(name("a", round), 1)
			s.clock.set(a.ExpiresAt)
			var b reply
			outcomes := crowd(3, func(i int) paid {
				switch i {
				case 0:
					s.sweep()
				case 1:
					b = s.try(name("b", round), "k", 1)
				case 2:
					return s.tryPay(notice(a, name("pa", round)))
				}
				return paid{}
			})
			require.NoError(t, outcomes[2].err)
			require.NoError(t, b.err)
			switch late := outcomes[2]; late.Outcome {
			case sale.OutcomePaid:
				require.Equal(t, sale.SoldOut, b.Verdict)
				_, err := s.Refund(t.Context(), late.Order.ID, true)
				require.NoError(t, err)
			case sale.OutcomeRefundRequired:
				require.Equal(t, sale.Taken, b.Verdict)
				s.cancel(b.Order)
			case sale.OutcomeAlreadyPaid, sale.OutcomeRecorded:
				t.Fatalf("the charge is %s", late.Outcome)
			}
			require.Equal(t, int64(1), s.left())
		}
		require.Len(t, s.refunds(), 60, "each charge went back, by refund or as late")
		s.settled()
	})
}

// The accident: any "succeeded" pays the order, whatever was paid, in whatever
// currency, for whatever order.
// The right outcome: only the exact charge pays; any other is to go back, and the
// hold goes on to its end.
func TestC15AmountAndCurrencyAreCompared(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(20, 1)
	other := s.take("other", 1)
	s.pay(notice(other, "of-another-order"))
	wrong := map[string][]sale.Payment{
		"one":      {{Amount: 1, Currency: "EUR"}},
		"less":     {{Amount: price - 1, Currency: "EUR"}},
		"more":     {{Amount: price + 1, Currency: "EUR"}},
		"currency": {{Amount: price, Currency: "USD"}},
		"halves":   {{Amount: price / 2, Currency: "EUR"}, {Amount: price / 2, Currency: "EUR"}},
	}
	charges := 0
	for user, payments := range wrong {
		o := s.take(user, 1)
		for i, p := range payments {
			p.ID, p.Order, p.Status = name(user, i), o.ID, sale.PaymentSucceeded
			got := s.pay(p)
			require.Equal(t, sale.OutcomeRefundRequired, got.Outcome, user)
			require.Equal(t, sale.Reserved, got.Order.State, user)
			require.Equal(t, o.ExpiresAt, got.Order.ExpiresAt, user)
			charges++
		}
	}
	o := s.take("stolen", 1)
	got := s.tryPay(notice(o, "of-another-order"))
	require.ErrorIs(t, got.err, &sale.Error{Code: sale.CodePaymentMismatch})
	require.Equal(t, sale.Reserved, s.order(o.ID).State)

	refunds := s.refunds()
	require.Len(t, refunds, charges)
	for _, r := range refunds {
		require.Equal(t, sale.ReasonAmount, r.Reason)
	}
	require.Equal(t, len(wrong)+1, s.pass(time.Minute), "the holds end as if nothing had been paid")
	figures := s.settled()
	require.Equal(t, int64(1), figures.Paid)
	require.Zero(t, figures.Reserved)
}

// The accident: the buyer opens the payment twice, both charges are kept, or the
// order counts as paid twice.
// The right outcome: one charge pays, the other is to go back, exactly once.
func TestC17TwoChargesForOneOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const n = 100
	s.open(n, 1)
	orders := make([]sale.Order, n)
	for i, r := range crowd(n, func(i int) reply { return s.try(name("u", i), "k", 1) }) {
		require.NoError(t, r.err)
		orders[i] = r.Order
	}
	twice := func() []paid {
		return crowd(2*n, func(i int) paid { return s.tryPay(notice(orders[i/2], name("p", i))) })
	}
	count := func(got []paid) map[sale.Outcome]int {
		out := make(map[sale.Outcome]int)
		for i, p := range got {
			require.NoError(t, p.err)
			require.Equal(t, orders[i/2].ID, p.Order.ID)
			require.Equal(t, sale.Paid, p.Order.State)
			out[p.Outcome]++
		}
		return out
	}
	require.Equal(t, map[sale.Outcome]int{sale.OutcomePaid: n, sale.OutcomeRefundRequired: n}, count(twice()))
	require.Equal(t, map[sale.Outcome]int{sale.OutcomeAlreadyPaid: n, sale.OutcomeRefundRequired: n}, count(twice()), "delivered again")
	require.Len(t, s.refunds(), n)
	require.Equal(t, int64(n), s.settled().Paid)
}

// The accident: an order was cancelled here, charged there, and the buyer sees a
// thank-you page for nothing.
// The right outcome: the cancelled order stays cancelled and says so; the charge
// pays for a new order if there is a unit, else it leaves one refund record.
func TestC18PaymentOfACancelledOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(1, 1)
	mine := s.take("mine", 1)
	s.cancel(mine)
	s.take("quick", 1)
	for range 3 {
		require.Equal(t, sale.OutcomeRefundRequired, s.pay(notice(mine, "p")).Outcome)
	}
	seen, err := s.Order(t.Context(), mine.ID, "mine")
	require.NoError(t, err)
	require.Equal(t, sale.Cancelled, seen.State)
	require.True(t, seen.ReplacedBy.IsZero())
	require.Len(t, s.refunds(), 1)
	s.settled()

	// The notice is lost, the sweeper ends the hold, the notice comes after all.
	require.Equal(t, 1, s.pass(time.Minute))
	lost := s.take("lost", 1)
	require.Equal(t, 1, s.pass(time.Minute))
	got := s.pay(notice(lost, "q"))
	require.Equal(t, sale.OutcomePaid, got.Outcome)
	seen, err = s.Order(t.Context(), lost.ID, "lost")
	require.NoError(t, err)
	require.Equal(t, sale.Expired, seen.State)
	require.Equal(t, got.Order.ID, seen.ReplacedBy, "the old order points to the one that was paid")
	require.Len(t, s.refunds(), 1)
	require.Equal(t, int64(1), s.settled().Paid)
}

// The accident: cancel, payment and sweeper meet, and two of them report success:
// paid and released, or cancelled and charged.
// The right outcome: exactly one ends the order; the others are told the truth.
func TestC19CancelAndPayAtTheSameInstant(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const n = 100
	s.open(2*n, 2, func(d *sale.Sale) { d.EndsAt = d.EndsAt.Add(1000 * time.Hour) })
	type ending struct {
		paid
		cancelErr error
	}
	for i := range n {
		o := s.take(name("u", i), 2)
		s.clock.set(o.ExpiresAt.Add(time.Duration(i%2-1) * time.Millisecond)) // also before the sweeper may
		ends := crowd(4, func(who int) ending {
			switch who {
			case 0:
				_, err := s.Cancel(t.Context(), o.ID, o.User)
				return ending{cancelErr: err}
			case 1:
				s.sweep()
				return ending{}
			}
			return ending{paid: s.tryPay(notice(o, name("p", i)))} // twice the same notice
		})
		require.NoError(t, ends[2].err)
		require.NoError(t, ends[3].err)
		after := s.order(o.ID)
		outcomes := []sale.Outcome{ends[2].Outcome, ends[3].Outcome}
		slices.Sort(outcomes)
		require.Equal(t, []sale.Outcome{sale.OutcomeAlreadyPaid, sale.OutcomePaid}, outcomes, "one notice, one effect")
		switch after.State {
		case sale.Paid:
			require.ErrorIs(t, ends[0].cancelErr, &sale.Error{Code: sale.CodeIllegalState})
			require.Equal(t, o.ID, ends[2].Order.ID)
		case sale.Cancelled:
			require.NoError(t, ends[0].cancelErr)
			require.Equal(t, o.ID, s.order(after.ReplacedBy).Replaces, "the charge found a unit of its own")
		case sale.Expired:
			require.ErrorIs(t, ends[0].cancelErr, &sale.Error{Code: sale.CodeIllegalState})
			require.Equal(t, o.ID, s.order(after.ReplacedBy).Replaces)
		case sale.Queued, sale.Reserved, sale.Rejected, sale.Refunded:
			t.Fatalf("the order is %s", after.State)
		}
	}
	figures := s.settled()
	require.Equal(t, int64(2*n), figures.Paid, "each charge has its units, once")
	require.Zero(t, s.left())
	ended := make(map[sale.OrderID]int)
	for _, e := range s.rows(s.sale().Number) {
		if e.Kind.OfOrder() && e.Kind != ledger.OrderKind(sale.Reserved) {
			ended[e.Order]++
		}
	}
	for id, times := range ended {
		require.Equal(t, 1, times, "%s ended once", id)
	}
}

// The accident: an order without a price waits for a payment that never comes,
// expires, and its unit is sold again while the buyer holds a confirmation.
// The right outcome: it is paid in the step that accepts it, never expires, and
// counts against the limit; a payment of nothing changes nothing.
func TestC70PriceZeroIsPaidAtOnce(t *testing.T) {
	t.Parallel()
	free := func(d *sale.Sale) { d.Items[0].Price, d.Hold = 0, time.Second }
	t.Run("life", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		published := s.open(3, 1, free)
		before := len(s.rows(published.Number))
		o := s.take("u", 1)
		require.Equal(t, sale.Paid, o.State)
		require.True(t, o.ExpiresAt.IsZero())
		require.Len(t, s.rows(published.Number), before+1, "one transition, one event")
		require.Zero(t, s.pass(5*time.Second), "it never expires")
		require.Equal(t, sale.Paid, s.order(o.ID).State)
		require.Equal(t, int64(2), s.left())
		require.Equal(t, sale.LimitReached, s.buy("u", "again", 1).Verdict)
		for range 2 {
			got := s.pay(notice(o, "nothing"))
			require.Equal(t, sale.OutcomeAlreadyPaid, got.Outcome)
			require.Equal(t, o.ID, got.Order.ID)
		}
		require.Len(t, s.rows(published.Number), before+1)
		_, err := s.Cancel(t.Context(), o.ID, "u")
		require.ErrorIs(t, err, &sale.Error{Code: sale.CodeIllegalState})
		_, err = s.Refund(t.Context(), o.ID, true)
		require.NoError(t, err)
		require.Empty(t, s.refunds(), "nothing was charged, nothing goes back")
		s.settled()
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(100, 1, free)
		got := verdicts(t, crowd(1000, func(i int) reply { return s.try(name("u", i), "k", 1) }))
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 100, sale.SoldOut: 900}, got)
		require.Equal(t, int64(100), s.settled().Paid)
	})
}
