package cases_test

import (
	"context"
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
			for round := range s.few(18) {
				drop := s.named(name("beside-", round)) // where nothing else may be on its way
				s.open(drop, 3, 5)
				errs := crowd(2, func(i int) error {
					g := s.gates[i*round%2%len(s.gates)] // at one instance, or at two
					_, err := insist(t.Context(), func() (client.Bought, error) {
						return g.as(s.token(name("u", i))).BuyWith(t.Context(), drop, client.BuyOptions{Key: "k", Wait: hear}, client.Attempt{Quantity: int64(5 - 3*i)})
					})
					return err
				})
				require.ErrorIs(t, errs[0], client.ErrInsufficient, "5 of 3 is refused")
				require.NoError(t, errs[1], "2 of 3 succeeds")
				s.settled(drop)
				require.Equal(t, int64(1), s.left(drop))
			}
		})
	})
}

func crowdThenCancel(t *testing.T, s *site, drop string) {
	t.Helper()
	done, watched := make(chan struct{}), make(chan error, 1)
	go func() { watched <- s.neverBelowZero(drop, done) }()
	orders := make([]client.Order, 300)
	got := codes(crowd(len(orders), func(i int) (err error) {
		orders[i], err = s.buy(name("u", i), drop, 1)
		return err
	}))
	close(done)
	require.NoError(t, <-watched)
	require.Equal(t, map[client.CodeError]int{"": 10, client.ErrSoldOut: 290}, got)
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

// neverBelowZero looks at the public figure, the office's and the counter's until it is
// told to end, and returns what was below zero.
func (s *site) neverBelowZero(slug string, done <-chan struct{}) error {
	views := s.views(slug)
	if s.fleet != nil {
		meta := s.fleet.lane(s.fleet.sale(slug), "meta")
		views = append(views, view{"counter", 0, func(ctx context.Context) (int64, error) {
			return s.fleet.Redis.Do(ctx, "HGET", meta, "l0").AsInt64()
		}})
	}
	for {
		for _, v := range views {
			left, err := v.read(s.t.Context())
			if err != nil || left < 0 {
				return wrong("the view %s: %d %w", v.name, left, err)
			}
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// C08 once more, over HTTP: every instance remembers that all is sold, and every one by
// itself sells again within two seconds, together exactly what came back.
func TestC08SoldOutMemoryEndsAtEveryInstance(t *testing.T) {
	t.Parallel()
	onBoth(t, func(s *site) {
		t := s.t
		drop, short := s.named(drop), s.named("short")
		units := len(s.gates) // one for each
		s.open(drop, int64(units), 1)
		first := s.sellsEverywhere("first", drop, time.Now())
		s.soldOutEverywhere("a", drop)
		for _, o := range first {
			_, err := s.admin().AdminCancel(t.Context(), o.ID)
			require.NoError(t, err)
		}
		after := s.sellsEverywhere("after-cancel", drop, time.Now())

		s.soldOutEverywhere("b", drop)
		for i, o := range after {
			_, err := s.as(name("after-cancel", i)).Cancel(t.Context(), o.ID)
			require.NoError(t, err)
		}
		after = s.sellsEverywhere("after-own-cancel", drop, time.Now())

		s.soldOutEverywhere("c", drop)
		for _, o := range after {
			require.Equal(t, "paid", s.pay(o).Outcome)
			_, err := s.admin().Refund(t.Context(), o.ID, refundToStock())
			require.NoError(t, err)
		}
		s.sellsEverywhere("after-refund", drop, time.Now())

		s.soldOutEverywhere("d", drop)
		_, err := s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: new(int64(units))})
		require.NoError(t, err)
		s.sellsEverywhere("after-restock", drop, time.Now())
		s.settled(drop)

		s.open(short, int64(units), 1, hold(6))
		var over time.Time
		for i := range units {
			over = *s.take(name("walks-away", i), short, 1).ExpiresAt
		}
		s.soldOutEverywhere("e", short)
		end := time.NewTimer(time.Until(over))
		defer end.Stop()
		<-end.C
		s.sellsEverywhere("after-expiry", short, over)
	})
}

// soldOutEverywhere requires that every instance says so, from the counter and then
// from memory.
func (s *site) soldOutEverywhere(who, slug string) {
	s.t.Helper()
	for i, g := range s.gates {
		for n := range 3 {
			_, err := g.as(s.token(name(name(who, i)+"-", n))).Buy(s.t.Context(), slug, "late", client.Attempt{Quantity: 1})
			require.ErrorIs(s.t, err, client.ErrSoldOut)
		}
	}
}

// sellsEverywhere requires that each instance sells one unit of those that came back,
// within the bound, and that there are no more.
func (s *site) sellsEverywhere(who, slug string, free time.Time) []client.Order {
	s.t.Helper()
	got := crowd(len(s.gates), func(i int) client.Order {
		user := name(who, i)
		return s.judged(user, soon(s.t, s.gates[i].as(s.token(user)), slug, free))
	})
	_, err := s.buy(who+"-too-late", slug, 1)
	require.ErrorIs(s.t, err, client.ErrSoldOut, "exactly what came back")
	return got
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
			s.open(drop, 1, 2)
			for round := range s.few(30) {
				s.landed(drop)
				for _, g := range s.gates {
					until(t, "the instance knows of the unit", func() bool {
						_, err := g.as(s.token("scout")).Buy(t.Context(), drop, s.key(), client.Attempt{Quantity: 2})
						return client.CodeOf(err) == client.ErrInsufficient
					})
				}
				var orders [50]client.Order
				got := codes(crowd(len(orders), func(i int) (err error) {
					orders[i], err = s.buy(name(name("u", round)+"-", i), drop, 1)
					return err
				}))
				require.Equal(t, map[client.CodeError]int{"": 1, client.ErrSoldOut: len(orders) - 1}, got)
				require.Equal(t, int64(1), s.audited(drop).Reserved)
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
