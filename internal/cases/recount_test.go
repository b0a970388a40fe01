package cases_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// trader buys, pays, cancels and refunds at random, over crashes of the server,
// and keeps a model: what each order must be by all that it was told.
type trader struct {
	s      *site
	drop   string
	short  string
	id     int
	random *rand.Rand
	steps  *atomic.Int64
	model  map[string]string // state by order
	held   []client.Order
	paid   []client.Order
}

// insist repeats a call until its outcome is known.
func insist[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if code := client.CodeOf(err); !code.Unsure() && code != client.ErrUnreachable && code != client.ErrBusy || ctx.Err() != nil {
			return v, err
		}
	}
}

// trade does n random things and returns the first thing that was not as the
// model has it.
func (w *trader) trade(ctx context.Context, n int) error {
	for i := range n {
		var err error
		switch what := w.random.IntN(10); {
		case what < 2 && len(w.held) > 0:
			o := pick(w.random, &w.held)
			_, err = insist(ctx, func() (client.PaymentResult, error) {
				return w.s.admin().Pay(ctx, o.ID, charge(o, "charge-"+o.ID))
			})
			w.model[o.ID] = "paid"
			w.paid = append(w.paid, o)
		case what < 4 && len(w.held) > 0:
			o := pick(w.random, &w.held)
			_, err = insist(ctx, func() (client.Order, error) { return w.s.admin().AdminCancel(ctx, o.ID) })
			w.model[o.ID] = "cancelled"
		case what < 5 && len(w.paid) > 0:
			o := pick(w.random, &w.paid)
			restock := client.RefundRequest{Restock: w.random.IntN(4) > 0}
			_, err = insist(ctx, func() (client.Order, error) { return w.s.admin().Refund(ctx, o.ID, restock) })
			w.model[o.ID] = "refunded"
		default:
			err = w.buy(ctx, i)
		}
		if err != nil {
			return err
		}
		w.steps.Add(1)
	}
	return nil
}

func (w *trader) buy(ctx context.Context, i int) error {
	user := name(name("t", w.id)+"-", w.random.IntN(20)) // some meet their limit
	slug, state := w.drop, "reserved"
	if w.random.IntN(4) == 0 { // nobody pays these
		slug, state = w.short, "expired"
	}
	attempt := client.Attempt{Quantity: 1 + w.random.Int64N(2)}
	bought, err := insist(ctx, func() (client.Bought, error) { return w.s.attempt(ctx, user, slug, name("k", i), attempt) })
	if o, judged := client.Rejection(err); judged { // stock or limit were cut while it was queued
		w.model[o.ID] = client.StateRejected
		return nil
	}
	if slices.Contains([]client.CodeError{client.ErrSoldOut, client.ErrInsufficient, client.ErrLimitReached}, client.CodeOf(err)) {
		return nil
	}
	if err != nil {
		return err
	}
	w.model[bought.Order.ID] = state
	if slug == w.drop {
		w.held = append(w.held, bought.Order)
	}
	return nil
}

// The accident: counters of their own drift away from what the orders say, a hold
// counts beside the order that it became, each in its direction.
// The right outcome: after a long random run with crashes every counter is the
// recount, in one snapshot at any time, and every order is what its owner knows.
func TestC66CountersEqualTheRecount(t *testing.T) {
	t.Parallel()
	onBothAlone(t, countersEqualTheRecount)
}

func countersEqualTheRecount(s *site) {
	t := s.t
	const seed, traders, kills = 66, 8, 3
	steps := s.few(150)
	t.Logf("seed %d", seed)
	drop, short := s.named(drop), s.named("short")
	s.open(drop, 60, 4, hold(600))
	s.open(short, 30, 4, hold(1))
	for i := range traders {
		for j := range 20 {
			s.token(name(name("t", i)+"-", j))
		}
	}
	var done atomic.Int64
	all, errs := make([]*trader, traders), make([]error, traders)
	var wg sync.WaitGroup
	for i := range traders {
		all[i] = &trader{s: s, drop: drop, short: short, id: i, random: rand.New(rand.NewPCG(seed, uint64(i))), steps: &done, model: make(map[string]string)}
		wg.Go(func() { errs[i] = all[i].trade(t.Context(), steps) })
	}
	random := rand.New(rand.NewPCG(seed, seed))
	limit := int64(4)
	for part := range int64(12) {
		until(t, "the traders trade", func() bool { return done.Load() >= (part+1)*traders*int64(steps)/14 })
		switch {
		case part%4 == 3 && part/4 < kills:
			s.crash()
		case part%2 == 0:
			add := random.Int64N(9) - 2
			_, err := s.admin().Restock(t.Context(), drop, 0, client.Restock{Add: &add})
			if err != nil {
				require.ErrorIs(t, err, client.ErrStockBelowSold)
			}
		default:
			limit = 2 + limit%4
			until(t, "the limit is changed", func() bool { // a refund that cuts the stock makes a version of its own
				found, err := s.admin().AdminSale(t.Context(), drop)
				require.NoError(t, err)
				_, err = s.admin().PatchSale(t.Context(), drop, found.Version, client.SalePatch{PerUserLimit: &limit})
				if err != nil {
					require.ErrorIs(t, err, client.ErrVersionMismatch)
				}
				return err == nil
			})
		}
		s.audited(drop) // one snapshot in the middle of everything
		s.audited(short)
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	until(t, "nobody pays the short ones", func() bool { return s.audited(short).Reserved == 0 })

	model := make(map[string]string)
	for _, w := range all {
		maps.Copy(model, w.model)
	}
	for _, slug := range []string{drop, short} {
		held, counted := int64(0), map[string]int64{}
		for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
			return s.admin().AdminOrders(t.Context(), client.OrderQuery{Sale: slug, After: after, Limit: 500})
		}) {
			require.NoError(t, err)
			require.Equal(t, model[o.ID], o.State, "the order of %s", o.User)
			delete(model, o.ID)
			if o.State == "reserved" || o.State == "paid" {
				held += o.Quantity
			}
			counted[o.State] += o.Quantity
		}
		found, err := s.admin().AdminSale(t.Context(), slug)
		require.NoError(t, err)
		require.Equal(t, held, found.Items[0].Sold)
		f := s.settled(slug)
		require.Equal(t, map[string]int64{"reserved": f.Reserved, "paid": f.Paid, "cancelled": f.Cancelled, "expired": f.Expired, "refunded": f.Refunded, "rejected": f.Rejected},
			withZeros(counted, "reserved", "paid", "cancelled", "expired", "refunded", "rejected"))
	}
	require.Empty(t, model, "every order that was answered is listed")
}

func withZeros(counts map[string]int64, keys ...string) map[string]int64 {
	for _, k := range keys {
		counts[k] += 0
	}
	return counts
}
