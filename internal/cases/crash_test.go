package cases_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// click is one click of a buyer in a crowd: a key, and what was answered to it.
type click struct {
	user, key string
	order     client.Order // of the first good answer
	answers   int          // good answers; all must name the same order
	mixed     bool         // they did not
	paid      bool         // a payment was acknowledged
}

// press sends the click once and returns the code of the answer, empty for a
// good one.
func (c *click) press(ctx context.Context, s *site, slug string) client.CodeError {
	bought, err := s.attempt(ctx, c.user, slug, c.key, client.Attempt{Quantity: 1})
	if err != nil {
		return client.CodeOf(err)
	}
	c.mixed = c.mixed || c.answers > 0 && c.order.ID != bought.Order.ID
	c.order = bought.Order
	c.answers++
	return ""
}

// persist presses until the outcome is known, over crashes of the server.
func (c *click) persist(ctx context.Context, s *site, slug string) client.CodeError {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		code := c.press(ctx, s, slug)
		if !code.Unsure() && code != client.ErrUnreachable && code != client.ErrBusy || ctx.Err() != nil {
			return code
		}
		<-again.C
	}
}

// The accident: the process dies between taking a unit and making the order
// durable; units leave the counter and nothing ever gives them back.
// The right outcome: after kills in a crowd every acknowledged order is there, every
// other unit is free again, and in the end exactly the stock is paid.
func TestC02KilledInACrowd(t *testing.T) {
	t.Parallel()
	onBothAlone(t, killedInACrowd)
}

func killedInACrowd(s *site) {
	t := s.t
	const stock, buyers = 150, 24
	kills := s.few(12)
	drop := s.named(drop)
	s.open(drop, stock, 1, hold(2))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var good atomic.Int64 // answers since the last start
	clicks := make([][]*click, buyers)
	var wg sync.WaitGroup
	for b := range buyers {
		random := rand.New(rand.NewPCG(2, uint64(b)))
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c := &click{user: name(name("b", b), -i), key: "k"}
				clicks[b] = append(clicks[b], c)
				if c.persist(ctx, s, drop) != "" {
					good.Add(1)
					continue
				}
				good.Add(1)
				if random.IntN(10) == 0 { // most let the hold expire, so that the crowd lasts
					paid, err := s.admin().Pay(ctx, c.order.ID, charge(c.order, "p-"+c.order.ID))
					c.paid = err == nil && paid.Order.ID == c.order.ID && paid.Order.State == "paid" // not after its hold
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for kill := range kills {
		want := 20 + random.Int64N(200)
		until(t, "the crowd is served", func() bool { return good.Load() >= want })
		good.Store(0)
		s.crash()
		report, err := insist(ctx, func() (client.AuditReport, error) { return s.admin().Audit(ctx, drop) })
		require.NoError(t, err)
		require.False(t, report.Broken(), "after kill %d: %+v", kill+1, report)
	}
	leave()
	wg.Wait()

	acknowledged := 0
	for _, mine := range clicks {
		for _, c := range mine {
			require.False(t, c.mixed, "one click, one order")
			if c.answers == 0 {
				continue
			}
			acknowledged++
			found, err := s.admin().AdminOrder(t.Context(), c.order.ID)
			require.NoError(t, err, "an acknowledged order is there")
			require.Equal(t, c.user, found.User)
			if c.paid {
				require.Equal(t, "paid", found.State)
			}
		}
	}
	require.Greater(t, acknowledged, kills)
	until(t, "every hold without a payment is over", func() bool {
		waiting, err := s.admin().AdminOrders(t.Context(), client.OrderQuery{Sale: drop, State: "reserved", Limit: 1})
		require.NoError(t, err)
		return len(waiting.Data) == 0
	})
	for i := range s.left(drop) {
		require.Equal(t, "paid", s.pay(s.take(name("rest", int(i)), drop, 1)).Outcome)
	}
	_, err := s.buy("one-too-many", drop, 1)
	require.ErrorIs(t, err, client.ErrSoldOut)
	require.Equal(t, int64(stock), s.settled(drop).Paid)
}

// The accident: a mark "in progress" outlives the crash, so that the click is
// refused for ever, or a clean-up approves what should have expired.
// The right outcome: wherever a step dies, the next caller with the same key gets
// the final answer at once, and what comes of it is what the facts demand.
func TestC13NothingStaysInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(1000, 1)
	errCrash := errors.New("the process is gone")
	acts := []struct {
		name    string
		prepare func(user string) sale.Order
		act     func(o sale.Order, user string) error
		after   sale.OrderState
	}{
		{"buy", func(string) sale.Order { return sale.Order{} }, func(_ sale.Order, user string) error {
			return s.try(user, "k", 1).err
		}, sale.Reserved},
		{"pay", func(user string) sale.Order { return s.buy(user, "k", 1).Order }, func(o sale.Order, user string) error {
			return s.tryPay(notice(o, "p-"+user)).err
		}, sale.Paid},
		{"cancel", func(user string) sale.Order { return s.buy(user, "k", 1).Order }, func(o sale.Order, user string) error {
			_, err := s.Cancel(t.Context(), o.ID, user)
			return err
		}, sale.Cancelled},
		{"expire", func(user string) sale.Order { return s.buy(user, "k", 1).Order }, func(o sale.Order, _ string) error {
			s.clock.set(o.ExpiresAt)
			_, err := s.book.Expire(t.Context(), []sale.OrderID{o.ID})
			return err
		}, sale.Expired},
	}
	for _, a := range acts {
		died := 0
		for at := 1; ; at++ { // dies at each statement in turn, after the commit too
			user := name(a.name, at)
			o := a.prepare(user)
			statements, crashed := 0, false
			die := func(string) error {
				if statements++; statements >= at {
					crashed = true
					return errCrash
				}
				return nil
			}
			s.before.Store(&die)
			err := a.act(o, user)
			s.before.Store(nil)
			s.restart()
			if !crashed {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, "%s that dies at statement %d", a.name, at)
			died++
			require.NoError(t, a.act(o, user), "%s again after statement %d", a.name, at)
			require.Equal(t, a.after, s.buy(user, "k", 1).Order.State, "%s after statement %d", a.name, at)
			s.sweep()
			s.settled()
		}
		require.Greater(t, died, 3, "%s has several steps", a.name)
	}
	orders, err := s.book.ListOrders(t.Context(), ledger.OrderFilter{Limit: 1000})
	require.NoError(t, err)
	users := make(map[string]bool)
	for i := range orders {
		require.False(t, users[orders[i].User], "no second order")
		users[orders[i].User] = true
	}
	s.pass(time.Minute)
	require.Zero(t, s.settled().Reserved, "nothing without an end is left")
}

// The accident: the provider repeats a notice while the first one is still being
// handled, and both apply.
// The right outcome: one transition and one event, whatever is delivered at once,
// repeated, or repeated after a crash; every delivery is answered with success.
func TestC14NoticesInParallelAndOverACrash(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 30
	published := s.open(drop, n, 1)
	orders := s.takeAll(drop, n)
	var answered atomic.Int64
	deliver := func(i int) client.PaymentResult {
		o := orders[i/6]
		for {
			got, err := s.admin().Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID))
			if err == nil {
				answered.Add(1)
				return got
			}
			if code := client.CodeOf(err); !code.Unsure() && code != client.ErrUnreachable && code != client.ErrBusy {
				return client.PaymentResult{Outcome: err.Error()}
			}
		}
	}
	var first []client.PaymentResult
	var wg sync.WaitGroup
	wg.Go(func() { first = crowd(6*n, deliver) })
	until(t, "some notices are answered", func() bool { return answered.Load() >= n })
	s.crash()
	wg.Wait()
	for _, got := range append(first, crowd(6*n, deliver)...) {
		require.Contains(t, []string{"paid", "already_paid"}, got.Outcome)
		require.Equal(t, "paid", got.Order.State)
	}
	require.Equal(t, int64(n), s.settled(drop).Paid)
	events, err := s.look().Rows(t.Context(), sale.Number(published.Number), 0, 1000)
	require.NoError(t, err)
	paid := 0
	for _, e := range events {
		if e.Kind == ledger.OrderKind(sale.Paid) {
			paid++
		}
	}
	require.Equal(t, n, paid, "one event an order")
	refunds, err := s.admin().Refunds(t.Context(), client.RefundQuery{})
	require.NoError(t, err)
	require.Empty(t, refunds.Data)
}

// The accident: a notice about an older attempt arrives last and wins, so a paid
// order becomes failed and its unit is sold again.
// The right outcome: in whatever order they come, and come again, the order is
// paid in the end; each notice is answered with success.
func TestC11OldNoticeNeverDowngradesAPaidOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	orders := permutations([]string{"attempt-1 failed", "attempt-2 succeeded", "session-1 failed", "attempt-2 failed"})
	s.open(drop, int64(len(orders)), 1)
	for i, notices := range orders {
		o := s.take(name("u", i), drop, 1)
		pending := s.call(s.AdminKey(), http.MethodPost, "/v1/orders/"+o.ID+"/payments", `{"payment_id":"x","status":"pending","amount":1000,"currency":"EUR"}`)
		require.Equal(t, http.StatusUnprocessableEntity, pending.status, "what says nothing is not stored")
		for _, one := range notices {
			for range 2 {
				p := charge(o, name(one[:9], i))
				p.Status = one[10:]
				got, err := s.admin().Pay(t.Context(), o.ID, p)
				require.NoError(t, err, "%v", notices)
				require.Contains(t, []string{"paid", "already_paid", "recorded"}, got.Outcome)
			}
		}
		require.Equal(t, "paid", s.state(o), "%v", notices)
	}
	figures := s.settled(drop)
	require.Equal(t, int64(len(orders)), figures.Paid)
	require.Zero(t, s.left(drop))
}

// permutations returns every order of the words.
func permutations(words []string) [][]string {
	if len(words) == 1 {
		return [][]string{words}
	}
	var out [][]string
	for i := range words {
		rest := append(append([]string{}, words[:i]...), words[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{words[i]}, p...))
		}
	}
	return out
}
