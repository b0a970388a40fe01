package cases_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// report reports a charge and must be answered.
func (s *site) report(o client.Order, p client.Payment) client.PaymentResult {
	s.t.Helper()
	got, err := s.admin().Pay(s.t.Context(), o.ID, p)
	require.NoError(s.t, err)
	return got
}

// over waits until a hold is over and the order says so.
func (s *site) over(orders ...client.Order) {
	s.t.Helper()
	for _, o := range orders {
		until(s.t, "the hold is over", func() bool { return s.state(o) == client.StateExpired })
	}
}

// C03 once more, over HTTP: a unit that was sold to somebody else is not the late
// payer's any more, wherever the two are asked for it.
func TestC03LatePaymentOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		resold, free, rush, each := s.named("resold"), s.named("free"), s.named("rush"), s.named("each")
		s.open(resold, 1, 1, hold(1))
		a := s.take("a", resold, 1)
		s.over(a)
		b := s.take("b", resold, 1)
		require.Equal(t, "paid", s.pay(b).Outcome)
		for range 3 {
			late := s.pay(a)
			require.Equal(t, "refund_required", late.Outcome)
			require.Equal(t, client.StateExpired, late.Order.State)
		}
		records := s.refunds(a, b)
		require.Len(t, records, 1)
		require.Equal(t, "late", records[0].Reason)
		require.Equal(t, int64(1), s.settled(resold).Paid)

		s.open(free, 1, 1, hold(1))
		a = s.take("a", free, 1)
		s.over(a)
		first := s.pay(a)
		require.Equal(t, "paid", first.Outcome)
		require.Equal(t, a.ID, first.Order.Replaces)
		again := s.pay(a)
		require.Equal(t, "already_paid", again.Outcome)
		require.Equal(t, first.Order.ID, again.Order.ID)
		require.Equal(t, client.StateExpired, s.state(a), "what has ended stays so")
		require.Empty(t, s.refunds(a))
		require.Equal(t, int64(1), s.settled(free).Paid, "the counter has heard of the unit, too")
		_, err := s.buy("b", free, 1)
		require.ErrorIs(t, err, client.ErrSoldOut)

		lateForUnits(t, s, rush, func(_ client.Order, last time.Time) time.Time { return last })
		lateForUnits(t, s, each, func(o client.Order, _ time.Time) time.Time { return *o.ExpiresAt })
	})
}

// lateForUnits lets payments and new buyers go for the same units at an instant: that at
// which all the holds are over, or each its own.
func lateForUnits(t *testing.T, s *site, slug string, at func(o client.Order, last time.Time) time.Time) {
	t.Helper()
	const n = 30
	s.open(slug, n, 1, hold(1))
	orders := s.takeAll(slug, n)
	last := *orders[0].ExpiresAt
	for _, o := range orders {
		if o.ExpiresAt.After(last) {
			last = *o.ExpiresAt
		}
	}
	// What is bought from now on is held for longer than all this takes.
	found, err := s.admin().AdminSale(t.Context(), slug)
	require.NoError(t, err)
	_, err = s.admin().PatchSale(t.Context(), slug, found.Version, client.SalePatch{HoldSeconds: new(int64(600))})
	require.NoError(t, err)
	type end struct {
		late client.PaymentResult
		err  error
	}
	ends := crowd(2*n, func(i int) end {
		o := orders[i/2]
		instant := time.NewTimer(time.Until(at(o, last)))
		defer instant.Stop()
		<-instant.C
		if i%2 == 0 {
			got, err := s.admin().Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID))
			return end{got, err}
		}
		_, err := s.buy(name("new", i), slug, 1)
		return end{err: err}
	})
	paid, sold, back := 0, 0, 0
	for i, e := range ends {
		switch {
		case i%2 == 1 && e.err == nil:
			sold++
		case i%2 == 1:
			require.ErrorIs(t, e.err, client.ErrSoldOut)
		default:
			require.NoError(t, e.err)
			require.Contains(t, []string{"paid", "refund_required"}, e.late.Outcome)
			if e.late.Outcome == "paid" {
				paid++
			} else {
				back++
			}
		}
	}
	require.LessOrEqual(t, paid+sold, n)
	require.Len(t, s.refunds(orders...), back, "each charge has its unit or its refund")
	figures := s.settled(slug)
	require.Equal(t, int64(paid), figures.Paid)
	require.Equal(t, int64(sold), figures.Reserved)
}

// C17 once more, over HTTP: both charges of an order arrive at once, at different
// instances, and are delivered again.
func TestC17TwoChargesOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		const n = 40
		drop := s.named(drop)
		s.open(drop, n, 1)
		orders := s.takeAll(drop, n)
		twice := func() map[string]int {
			type told struct {
				client.PaymentResult
				err error
			}
			out := make(map[string]int)
			for i, got := range crowd(2*n, func(i int) told {
				o := orders[i/2]
				r, err := s.admin().Pay(t.Context(), o.ID, charge(o, name("charge-", i%2)+o.ID))
				return told{r, err}
			}) {
				require.NoError(t, got.err)
				require.Equal(t, orders[i/2].ID, got.Order.ID)
				require.Equal(t, client.StatePaid, got.Order.State)
				out[got.Outcome]++
			}
			return out
		}
		require.Equal(t, map[string]int{"paid": n, "refund_required": n}, twice())
		require.Equal(t, map[string]int{"already_paid": n, "refund_required": n}, twice(), "delivered again")
		require.Len(t, s.refunds(orders...), n)
		require.Equal(t, int64(n), s.settled(drop).Paid)
	})
}

// C18 once more, over HTTP: the unit of a cancelled order is somebody else's at every
// instance, and the charge goes back.
func TestC18PaymentOfACancelledOrderOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop, lost := s.named(drop), s.named("lost")
		s.open(drop, 1, 1)
		mine := s.take("mine", drop, 1)
		_, err := s.as("mine").Cancel(t.Context(), mine.ID)
		require.NoError(t, err)
		s.take("quick", drop, 1)
		for range 3 {
			require.Equal(t, "refund_required", s.pay(mine).Outcome)
		}
		seen, err := s.as("mine").Order(t.Context(), mine.ID)
		require.NoError(t, err)
		require.Equal(t, client.StateCancelled, seen.State)
		require.Empty(t, seen.ReplacedBy)
		require.Len(t, s.refunds(mine), 1)
		s.settled(drop)

		// The notice is lost, the sweeper ends the hold, the notice comes after all.
		s.open(lost, 1, 1, hold(1))
		late := s.take("late", lost, 1)
		s.over(late)
		got := s.pay(late)
		require.Equal(t, "paid", got.Outcome)
		seen, err = s.as("late").Order(t.Context(), late.ID)
		require.NoError(t, err)
		require.Equal(t, client.StateExpired, seen.State)
		require.Equal(t, got.Order.ID, seen.ReplacedBy, "the old order points to the one that was paid")
		require.Empty(t, s.refunds(late))
		require.Equal(t, int64(1), s.settled(lost).Paid)
	})
}

// C19 once more, over HTTP: cancel, two notices of one charge, and the sweepers of
// every instance meet.
func TestC19CancelPayAndSweepersOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		const n = 60
		drop := s.named(drop)
		number := s.open(drop, 2*n, 2, hold(1)).Number
		type ending struct {
			paid client.PaymentResult
			err  error
		}
		all := crowd(n, func(i int) error {
			user := name("u", i)
			o, err := s.buy(user, drop, 2)
			if err != nil {
				return err
			}
			if i%2 == 0 { // the others before the sweeper may
				instant := time.NewTimer(time.Until(*o.ExpiresAt))
				defer instant.Stop()
				<-instant.C
			}
			ends := crowd(3, func(who int) ending {
				if who == 0 {
					_, err := s.as(user).Cancel(t.Context(), o.ID)
					return ending{err: err}
				}
				got, err := s.admin().Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID)) // twice the same notice
				return ending{got, err}
			})
			return oneEnd(t, s, o, [2]client.PaymentResult{ends[1].paid, ends[2].paid}, [3]error{ends[0].err, ends[1].err, ends[2].err})
		})
		for _, err := range all {
			require.NoError(t, err)
		}
		figures := s.settled(drop)
		require.Equal(t, int64(2*n), figures.Paid, "each charge has its units, once")
		ended := make(map[sale.OrderID]int)
		rows, err := s.look().Rows(t.Context(), sale.Number(number), 0, 10_000)
		require.NoError(t, err)
		for _, e := range rows {
			if e.Kind.OfOrder() && e.Kind != ledger.OrderKind(sale.Reserved) {
				ended[e.Order]++
			}
		}
		for id, times := range ended {
			require.Equal(t, 1, times, "%s ended once", id)
		}
	})
}

// oneEnd returns what is wrong with what a cancel and two notices were told of an
// order.
func oneEnd(t *testing.T, s *site, o client.Order, paid [2]client.PaymentResult, errs [3]error) error {
	t.Helper()
	for _, err := range errs[1:] {
		if err != nil {
			return err
		}
	}
	outcomes := []string{paid[0].Outcome, paid[1].Outcome}
	slices.Sort(outcomes)
	if !slices.Equal(outcomes, []string{"already_paid", "paid"}) {
		return wrong("one notice had the effects %v", outcomes)
	}
	after, err := s.admin().AdminOrder(t.Context(), o.ID)
	if err != nil {
		return err
	}
	illegal := client.CodeOf(errs[0]) == client.ErrIllegalState
	switch {
	case after.State == client.StatePaid && illegal && paid[0].Order.ID == o.ID:
	case after.State == client.StateCancelled && errs[0] == nil && after.ReplacedBy == paid[0].Order.ID:
	case after.State == client.StateExpired && illegal && after.ReplacedBy == paid[0].Order.ID:
	default:
		return wrong("the order is %s, the cancel was told %v, the charge paid %s", after.State, errs[0], paid[0].Order.ID)
	}
	return nil
}
