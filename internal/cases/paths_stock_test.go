package cases_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// C07 once more, over HTTP: no view of any instance is below zero, what returns can be
// bought, and a request that fits succeeds whatever stands beside it.
func TestC07CounterNeverBelowZeroOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("crowd then cancel", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			for round := range 2 {
				drop := s.named(name("round-", round))
				s.open(drop, 10, 1)
				crowdThenCancel(t, s, drop)
			}
		})
	})
	t.Run("big beside small", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			drop := s.named(drop)
			s.open(drop, 3, 5)
			for round := range 20 {
				s.landed(drop) // what the round before has cancelled
				big, small := name("big", round), name("small", round)
				orders := crowd(2, func(i int) client.Order {
					if i == 0 {
						_, err := s.buy(big, drop, 5)
						require.ErrorIs(t, err, client.ErrInsufficient, "5 of 3 is refused")
						return client.Order{}
					}
					return s.take(small, drop, 2)
				})
				require.Equal(t, int64(1), s.left(drop))
				_, err := s.admin().AdminCancel(t.Context(), orders[1].ID)
				require.NoError(t, err)
			}
			s.settled(drop)
		})
	})
}

func crowdThenCancel(t *testing.T, s *site, drop string) {
	t.Helper()
	var lowest atomic.Int64
	done, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			v, err := s.api("").Sale(t.Context(), drop, "")
			if err == nil && v.Sale.Items[0].Left < lowest.Load() {
				lowest.Store(v.Sale.Items[0].Left)
			}
			select {
			case <-done:
				watched <- err
				return
			default:
			}
		}
	}()
	orders := make([]client.Order, 300)
	got := codes(crowd(len(orders), func(i int) (err error) {
		orders[i], err = s.buy(name("u", i), drop, 1)
		return err
	}))
	close(done)
	require.NoError(t, <-watched)
	require.Equal(t, map[client.CodeError]int{"": 10, client.ErrSoldOut: 290}, got)
	require.Zero(t, lowest.Load(), "no view is ever below zero")
	for _, o := range orders {
		if o.State == client.StateReserved {
			_, err := s.admin().AdminCancel(t.Context(), o.ID)
			require.NoError(t, err)
			break
		}
	}
	require.Equal(t, int64(1), s.left(drop))
	s.take("next", drop, 1)
	_, err := s.buy("after-next", drop, 1)
	require.ErrorIs(t, err, client.ErrSoldOut)
	s.settled(drop)
}

// C08 once more, over HTTP: every instance remembers that all is sold, and every one
// sells again within two seconds exactly what came back.
func TestC08SoldOutMemoryEndsAtEveryInstance(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		s.open(drop, 3, 1)
		soldOutEverywhere := func(who string) {
			t.Helper()
			for i, g := range s.gates {
				for n := range 3 { // from the counter, then from memory
					_, err := g.as(s.token(name(name(who, i)+"-", n))).Buy(t.Context(), drop, "late", client.Attempt{Quantity: 1})
					require.ErrorIs(t, err, client.ErrSoldOut)
				}
			}
		}
		// sellsAgain lets buyers ask each instance in turn until the units are sold.
		sellsAgain := func(who string, units int, back time.Time) (got []client.Order) {
			t.Helper()
			until(t, "what came back is sold", func() bool {
				asked := time.Now()
				o, err := s.buy(name(who, len(got)), drop, 1)
				if err == nil {
					got = append(got, o)
					return len(got) == units
				}
				require.ErrorIs(t, err, client.ErrSoldOut)
				require.Less(t, asked.Sub(back), 2*time.Second, "the promise on units that come back")
				return false
			})
			_, err := s.buy(who+"-too-late", drop, 1)
			require.ErrorIs(t, err, client.ErrSoldOut, "exactly what came back")
			return got
		}
		first := sellsAgain("first", 3, time.Now())
		soldOutEverywhere("a")
		_, err := s.admin().AdminCancel(t.Context(), first[0].ID)
		require.NoError(t, err)
		after := sellsAgain("after-cancel", 1, time.Now())

		soldOutEverywhere("b")
		_, err = s.as(name("after-cancel", 0)).Cancel(t.Context(), after[0].ID)
		require.NoError(t, err)
		sellsAgain("after-own-cancel", 1, time.Now())

		soldOutEverywhere("c")
		require.Equal(t, "paid", s.pay(first[1]).Outcome)
		_, err = s.admin().Refund(t.Context(), first[1].ID, refundToStock())
		require.NoError(t, err)
		sellsAgain("after-refund", 1, time.Now())

		soldOutEverywhere("d")
		_, err = s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: new(int64(5))})
		require.NoError(t, err)
		sellsAgain("after-restock", 5, time.Now())
		s.settled(drop)

		short := s.named("short")
		s.open(short, int64(len(s.gates)), 1, hold(1))
		var over time.Time
		for i := range s.gates {
			over = *s.take(name("walks-away", i), short, 1).ExpiresAt
		}
		until(t, "all holds are over and sold again", func() bool {
			asked := time.Now()
			_, err := s.buy("after-expiry", short, 1)
			if err != nil {
				require.ErrorIs(t, err, client.ErrSoldOut)
				require.Less(t, asked.Sub(over), 2*time.Second, "the promise on units that come back")
			}
			return err == nil
		})
	})
}

// C21 once more, over HTTP: each end gives back what the order held, to the stock and
// to the limit, in ledger and counter.
func TestC21ReleaseGivesBackWhatWasHeldOverHTTP(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop := s.named(drop)
		s.open(drop, 9, 9, hold(2))
		three, five := s.take("three", drop, 3), s.take("five", drop, 5)
		require.Equal(t, "paid", s.pay(five).Outcome)
		_, err := s.as("three").Cancel(t.Context(), three.ID)
		require.NoError(t, err)
		one := s.take("one", drop, 1)
		s.over(one)
		require.Equal(t, int64(4), s.left(drop))
		s.settled(drop)
		_, err = s.admin().Refund(t.Context(), five.ID, refundToStock())
		require.NoError(t, err)
		require.Equal(t, int64(9), s.left(drop))
		s.settled(drop)
		for _, user := range []string{"one", "three", "five"} {
			_, err = s.as(user).Cancel(t.Context(), s.take(user, drop, 9).ID) // the whole limit is free again
			require.NoError(t, err)
		}
		// Written off, the units leave stock and sale together.
		gone := s.take("gone", drop, 5)
		require.Equal(t, "paid", s.pay(gone).Outcome)
		_, err = s.admin().Refund(t.Context(), gone.ID, client.RefundRequest{Restock: false})
		require.NoError(t, err)
		require.Equal(t, int64(4), s.left(drop))
		require.Equal(t, int64(4), s.settled(drop).Stock)
	})
}

// C44 once more, over HTTP: the last unit, and a restock in the middle of a crowd.
func TestC44CheckAndClaimAreOneStepOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("last unit", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			drop := s.named(drop)
			s.open(drop, 1, 1)
			for round := range 15 {
				first := s.take(name("first", round), drop, 1) // every instance may know of the unit by now
				_, err := s.admin().AdminCancel(t.Context(), first.ID)
				require.NoError(t, err)
				var orders [50]client.Order
				got := codes(crowd(len(orders), func(i int) (err error) {
					orders[i], err = s.buy(name(name("u", round)+"-", i), drop, 1)
					return err
				}))
				require.LessOrEqual(t, got[""], 1)
				require.Equal(t, len(orders), got[""]+got[client.ErrSoldOut])
				require.LessOrEqual(t, s.audited(drop).Reserved, int64(1))
				for _, o := range orders {
					if o.State == client.StateReserved {
						_, err := s.admin().AdminCancel(t.Context(), o.ID)
						require.NoError(t, err)
					}
				}
			}
			s.settled(drop)
		})
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		onBoth(t, func(s *site) {
			t := s.t
			const stock, extra, buyers = 100, 7, 800
			drop := s.named(drop)
			s.open(drop, stock, 1)
			got := codes(crowd(buyers, func(i int) error {
				if i == 300 { // a restock in the middle
					_, err := s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: new(int64(extra))})
					return err
				}
				_, err := s.buy(name("u", i), drop, 1)
				return err
			}))
			require.LessOrEqual(t, got[""], stock+extra+1)
			require.Equal(t, buyers, got[""]+got[client.ErrSoldOut])
			for i := range s.left(drop) {
				s.take(name("late", int(i)), drop, 1)
			}
			require.Equal(t, int64(stock+extra), s.settled(drop).Reserved)
		})
	})
}

// C44 where nothing stands in front of the ledger that instances share: it refuses the
// one unit too many itself, and so do the guards of its tables.
func TestC44FleetsLedgerAlone(t *testing.T) {
	t.Parallel()
	s := common.site(t)
	const stock = 100
	drop := s.named(drop)
	published := s.open(drop, stock, 1)
	number := sale.Number(published.Number)
	store, err := pgledger.Open(t.Context(), pgledger.Options{URL: s.fleet.Postgres.URL})
	require.NoError(t, err)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	found, err := book.SaleByNumber(t.Context(), number)
	require.NoError(t, err)
	now, err := book.Now(t.Context())
	require.NoError(t, err)
	batch := ledger.Batch{Sale: number, Epoch: found.Epoch}
	for i := range stock + 1 {
		user := name("u", i)
		batch.Attempts = append(batch.Attempts, ledger.Attempt{
			ID: found.OrderID(user, "k"), User: user, Quantity: 1,
			Slip: &ledger.Slip{Epoch: found.Epoch, Terms: found.Terms, TakenAt: now, Presented: true},
		})
	}
	out, err := book.Reserve(t.Context(), batch)
	require.NoError(t, err)
	for i, r := range out.Results {
		if i < stock {
			require.Equal(t, sale.Taken, r.Verdict)
		} else {
			require.Equal(t, sale.SoldOut, r.Verdict)
			require.Equal(t, sale.Rejected, r.Order.State)
		}
	}
	_, err = s.sql().ExecContext(t.Context(), "UPDATE items SET sold = sold + 1 WHERE sale = $1", number)
	require.ErrorContains(t, err, "check constraint")
	require.Equal(t, int64(stock), s.settled(drop).Reserved, "the counter has heard of them all")
	_, err = s.buy("too-late", drop, 1)
	require.ErrorIs(t, err, client.ErrSoldOut)
}
