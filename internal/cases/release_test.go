package cases_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
)

// The accident: one order is released by the sweeper and by its buyer, by two
// sweepers, or once more by each repeat of a cancel that failed half-way.
// The right outcome: its units and its place in the limit come back once.
func TestC20ReleasedOnceByWhomever(t *testing.T) {
	t.Parallel()
	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		const n = 40
		s.open(3*n, 3, func(d *sale.Sale) { d.EndsAt = d.EndsAt.Add(1000 * time.Hour) })
		sweepers := make([]*settle.Sweeper, 4)
		for i := range sweepers {
			sweepers[i] = settle.New(ledger.New(s.store), settle.Options{})
		}
		for i := range n {
			o := s.take(name("u", i), 3)
			s.clock.set(o.ExpiresAt)
			crowd(31, func(who int) struct{} {
				switch {
				case who < 4:
					sweepers[who].Sweep(t.Context(), s.clock.now())
				case who < 24:
					_, _ = s.Cancel(t.Context(), o.ID, o.User)
				case who < 29:
					failed := notice(o, name("p", 5*i+who))
					failed.Status = sale.PaymentFailed
					_ = s.tryPay(failed)
				default: // a list read a minute ago
					_, _ = s.book.Expire(t.Context(), []sale.OrderID{o.ID})
				}
				return struct{}{}
			})
			require.Equal(t, int64(3*n), s.left(), "three units back, once")
			_, err := s.book.Expire(t.Context(), []sale.OrderID{o.ID})
			require.NoError(t, err)
			require.Equal(t, int64(2), s.order(o.ID).Version, "reserved and one end")
		}
		figures := s.settled()
		require.Equal(t, int64(3*n), figures.Cancelled+figures.Expired)
	})
	t.Run("half-done", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(3, 3)
		o := s.take("u", 3)
		failing := func(statement string) error {
			if statement == "commit" {
				return errors.New("the machine stumbled")
			}
			return nil
		}
		s.before.Store(&failing)
		for range 5 {
			_, err := s.Cancel(t.Context(), o.ID, "u")
			require.ErrorIs(t, err, sale.Unavailable(nil))
			require.Zero(t, s.left())
			require.Equal(t, sale.Reserved, s.order(o.ID).State)
		}
		s.before.Store(nil)
		for range 3 {
			require.Equal(t, sale.Cancelled, s.cancel(o).State)
			require.Equal(t, int64(3), s.left())
		}
		s.settled()
	})
}

// The accident: cancelled and expired orders give their units back, but some
// other way to fail was forgotten and keeps them.
// The right outcome: whatever state an order can be in, its units have an owner:
// it is live, or they are free again.
func TestC22EveryEndReleases(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(10, 1)
	failed := func(o sale.Order, payment string) sale.Payment {
		p := notice(o, payment)
		p.Status = sale.PaymentFailed
		return p
	}
	s.pay(failed(s.take("declined", 1), "p1"))
	s.pay(failed(s.take("declined-later", 1), "p2"))
	wrong := notice(s.take("underpaid", 1), "p3")
	wrong.Amount--
	s.pay(wrong)
	s.take("abandoned", 1)
	_, err := s.Cancel(t.Context(), s.take("by-shop", 1).ID, "")
	require.NoError(t, err)
	s.cancel(s.take("by-buyer", 1))
	refunded := s.take("refunded", 1)
	s.pay(notice(refunded, "p4"))
	_, err = s.Refund(t.Context(), refunded.ID, true)
	require.NoError(t, err)
	kept := s.take("kept", 1)
	s.pay(notice(kept, "p5"))

	require.Equal(t, int64(5), s.left(), "what was declined, underpaid or abandoned is held to its end and no longer")
	require.Equal(t, 4, s.pass(time.Minute))
	require.Equal(t, int64(9), s.left())
	orders, err := s.book.ListOrders(t.Context(), ledger.OrderFilter{})
	require.NoError(t, err)
	states := make(map[sale.OrderState]int)
	for i := range orders {
		states[orders[i].State]++
	}
	for _, state := range sale.OrderStates() {
		switch state {
		case sale.Paid:
			require.Equal(t, 1, states[state])
		case sale.Cancelled, sale.Expired, sale.Refunded:
			require.Positive(t, states[state], "%s was tried", state)
		case sale.Queued, sale.Rejected, sale.Reserved: // the first two have no place on the direct path
			require.Zero(t, states[state])
		}
	}
	s.settled()
}

// The accident: an order that had ended is opened again without a unit, or its
// end is repeated and changes the count.
// The right outcome: nothing opens an order again; a new one goes through the
// door like any other, and a hold under review is kept all the time.
func TestC23EndedOrdersStayEnded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(1, 1)
	first := s.buy("u", "key", 1).Order
	s.cancel(first)
	taken := s.take("v", 1)
	require.Equal(t, sale.Replayed, s.buy("u", "key", 1).Verdict)
	require.Equal(t, sale.Cancelled, s.buy("u", "key", 1).Order.State, "the same click shows what became of it")
	require.Equal(t, sale.SoldOut, s.buy("u", "new", 1).Verdict, "a new click finds nothing")
	require.Equal(t, sale.OutcomeRefundRequired, s.pay(notice(first, "p")).Outcome)

	review := notice(taken, "q")
	review.Status = sale.PaymentFailed
	require.Equal(t, sale.Reserved, s.pay(review).Order.State)
	require.Equal(t, sale.SoldOut, s.buy("u", "newer", 1).Verdict, "the hold under review is kept")
	require.Equal(t, sale.OutcomePaid, s.pay(notice(taken, "q")).Outcome, "a charge may fail first and succeed later")

	for range 3 { // repeated ends change nothing
		require.Equal(t, sale.Cancelled, s.cancel(first).State)
		require.Zero(t, s.left())
	}
	_, err := s.Refund(t.Context(), first.ID, true)
	require.ErrorIs(t, err, &sale.Error{Code: sale.CodeIllegalState})
	require.Equal(t, int64(1), s.settled().Paid)
}

// The accident: the sweeper takes "not paid" for its filter and ends orders that
// were refunded, underpaid or under review, giving their units back again.
// The right outcome: it ends what is reserved and overdue, and nothing else.
func TestC25SweeperTakesTheRightOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(20, 1)
	want := make(map[sale.OrderID]sale.OrderState)
	plain := s.take("plain", 1)
	want[plain.ID] = sale.Expired
	paid := s.take("paid", 1)
	s.pay(notice(paid, "p1"))
	want[paid.ID] = sale.Paid
	refunded := s.take("refunded", 1)
	s.pay(notice(refunded, "p2"))
	_, err := s.Refund(t.Context(), refunded.ID, true)
	require.NoError(t, err)
	want[refunded.ID] = sale.Refunded
	writtenOff := s.take("written-off", 1)
	s.pay(notice(writtenOff, "p3"))
	_, err = s.Refund(t.Context(), writtenOff.ID, false)
	require.NoError(t, err)
	want[writtenOff.ID] = sale.Refunded
	cancelled := s.take("cancelled", 1)
	s.cancel(cancelled)
	want[cancelled.ID] = sale.Cancelled
	partly := s.take("partly", 1)
	half := notice(partly, "p4")
	half.Amount /= 2
	s.pay(half)
	want[partly.ID] = sale.Expired // the half is to go back, the hold had its time
	review := s.take("review", 1)
	failed := notice(review, "p5")
	failed.Status = sale.PaymentFailed
	s.pay(failed)
	s.pay(notice(review, "p5"))
	want[review.ID] = sale.Paid
	replaced := s.take("replaced", 1)
	s.cancel(replaced)
	heir := s.pay(notice(replaced, "p6")).Order
	want[replaced.ID], want[heir.ID] = sale.Cancelled, sale.Paid
	s.clock.pass(time.Minute - time.Millisecond)
	young := s.take("young", 1)
	want[young.ID] = sale.Reserved

	require.Zero(t, s.sweep(), "a millisecond too early")
	require.Equal(t, 2, s.pass(time.Millisecond))
	require.Zero(t, s.sweep())
	ended, err := s.book.Expire(t.Context(), slices.Collect(maps.Keys(want)))
	require.NoError(t, err)
	require.Zero(t, ended, "also where a list names them all")
	for id, state := range want {
		require.Equal(t, state, s.order(id).State, "the order of %s", s.order(id).User)
	}
	figures := s.settled()
	require.Equal(t, int64(3), figures.Paid)
	require.Equal(t, int64(1), figures.Reserved)
	require.Equal(t, int64(19), figures.Stock)
}
