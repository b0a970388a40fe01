package cases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// failed is the report of a charge that was declined.
func failed(o client.Order, payment string) client.Payment {
	p := charge(o, payment)
	p.Status = "failed"
	return p
}

// C20 once more, over HTTP: buyers, failed charges and the sweepers of every instance
// end the same orders at the same instant.
func TestC20ReleasedOnceByWhomeverOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		const n = 12
		drop := s.named(drop)
		number := s.open(drop, 3*n, 3, hold(1)).Number
		for _, err := range crowd(n, func(i int) error {
			user := name("u", i)
			o, err := s.buy(user, drop, 3)
			if err != nil {
				return err
			}
			instant := time.NewTimer(time.Until(*o.ExpiresAt))
			defer instant.Stop()
			<-instant.C
			crowd(15, func(who int) struct{} {
				if who < 12 {
					_, _ = s.as(user).Cancel(t.Context(), o.ID)
				} else {
					_, _ = s.admin().Pay(t.Context(), o.ID, failed(o, name("declined-", who)+o.ID))
				}
				return struct{}{}
			})
			return nil
		}) {
			require.NoError(t, err)
		}
		until(t, "every order has ended", func() bool { return s.left(drop) == 3*n })
		figures := s.settled(drop) // the units are back in the counter once, too
		require.Equal(t, int64(3*n), figures.Cancelled+figures.Expired)
		rows, err := s.look().Rows(t.Context(), sale.Number(number), 0, 1000)
		require.NoError(t, err)
		of := make(map[sale.OrderID]int)
		for _, e := range rows {
			if e.Kind.OfOrder() {
				of[e.Order]++
			}
		}
		require.Len(t, of, n)
		for id, transitions := range of {
			require.Equal(t, 2, transitions, "%s was reserved and ended once", id)
		}
		for i := range n { // the limit is free again
			s.take(name("u", i), drop, 3)
		}
	})
}

// C20 where a cancel fails half-way: the ledger of an instance undoes it, or has done
// it and nobody hears so. It may be repeated until it is done, and gives back once.
func TestC20FleetCancelThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	drop := s.named(drop)
	s.open(drop, 3, 3)
	troubled := s.gates[0].as(s.AdminKey())
	for _, d := range []testenv.Direction{testenv.Requests, testenv.Replies} {
		o := s.take("u", drop, 3)
		seen := lines.book[0].Lose(d, 1, string(ledger.OrderKind(sale.Cancelled)))
		_, err := troubled.AdminCancel(t.Context(), o.ID)
		<-seen
		if err != nil { // the instance itself may have repeated what it knew to be undone
			require.ErrorIs(t, err, client.ErrUnavailable)
		}
		for range 3 {
			again, err := insist(t.Context(), func() (client.Order, error) { return s.admin().AdminCancel(t.Context(), o.ID) })
			require.NoError(t, err)
			require.Equal(t, client.StateCancelled, again.State)
			require.Equal(t, int64(3), s.left(drop))
		}
		require.Zero(t, s.settled(drop).Reserved)
	}
}

// C22 once more, over HTTP: every end that a buyer or the shop can bring about.
func TestC22EveryEndReleasesOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		s.open(drop, 9, 1, hold(3))
		declined, underpaid, abandoned := s.take("declined", drop, 1), s.take("underpaid", drop, 1), s.take("abandoned", drop, 1)
		byShop, byBuyer := s.take("by-shop", drop, 1), s.take("by-buyer", drop, 1)
		refunded, kept := s.take("refunded", drop, 1), s.take("kept", drop, 1)
		s.report(declined, failed(declined, "declined-"+declined.ID))
		less := charge(underpaid, "less-"+underpaid.ID)
		less.Amount--
		require.Equal(t, "refund_required", s.report(underpaid, less).Outcome)
		require.Equal(t, "paid", s.pay(kept).Outcome)
		require.Equal(t, "paid", s.pay(refunded).Outcome)
		_, err := s.admin().AdminCancel(t.Context(), byShop.ID)
		require.NoError(t, err)
		_, err = s.as("by-buyer").Cancel(t.Context(), byBuyer.ID)
		require.NoError(t, err)
		_, err = s.admin().Refund(t.Context(), refunded.ID, refundToStock())
		require.NoError(t, err)

		s.over(declined, underpaid, abandoned)
		require.Equal(t, int64(8), s.left(drop), "what was declined, underpaid or abandoned is held to its end and no longer")
		figures := s.settled(drop)
		ended := [4]int64{figures.Cancelled, figures.Expired, figures.Refunded, figures.Rejected}
		require.Equal(t, [4]int64{2, 3, 1, 0}, ended)
		require.Equal(t, int64(1), figures.Paid)
		for _, user := range []string{"declined", "underpaid", "abandoned", "by-shop", "by-buyer", "refunded"} {
			s.take(user, drop, 1) // his limit is free again
		}
	})
}

// C23 once more, over HTTP: the same click shows at every instance what became of its
// order, and nothing opens it again.
func TestC23EndedOrdersStayEndedOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		s.open(drop, 1, 1)
		click := func() client.Bought {
			t.Helper()
			bought, err := s.attempt(t.Context(), "u", drop, "the-click", client.Attempt{Quantity: 1})
			require.NoError(t, err)
			return bought
		}
		first := click().Order
		_, err := s.as("u").Cancel(t.Context(), first.ID)
		require.NoError(t, err)
		taken := s.take("v", drop, 1)
		for range s.gates {
			again := click()
			require.True(t, again.Replayed)
			require.Equal(t, client.StateCancelled, again.Order.State, "the same click shows what became of it")
			_, err = s.buy("u", drop, 1)
			require.ErrorIs(t, err, client.ErrSoldOut, "a new click finds nothing")
		}
		require.Equal(t, "refund_required", s.pay(first).Outcome)

		require.Equal(t, client.StateReserved, s.report(taken, failed(taken, "charge-"+taken.ID)).Order.State)
		_, err = s.buy("u", drop, 1)
		require.ErrorIs(t, err, client.ErrSoldOut, "the hold under review is kept")
		require.Equal(t, "paid", s.pay(taken).Outcome, "a charge may fail first and succeed later")
		for range s.gates { // repeated ends change nothing
			ended, cancelErr := s.as("u").Cancel(t.Context(), first.ID)
			require.NoError(t, cancelErr)
			require.Equal(t, client.StateCancelled, ended.State)
			require.Zero(t, s.left(drop))
		}
		_, err = s.admin().Refund(t.Context(), first.ID, refundToStock())
		require.ErrorIs(t, err, client.ErrIllegalState)
		require.Equal(t, int64(1), s.settled(drop).Paid)
	})
}
