package cases_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// losing loses the reply to the next request with the bytes of match, on whichever
// line it comes, and returns how to wait for that.
func losing(t *testing.T, on []*testenv.Proxy, match string) (wait func()) {
	t.Helper()
	seen := make([]<-chan struct{}, len(on))
	for i, line := range on {
		seen[i] = line.Lose(testenv.Replies, 1, match)
	}
	return func() {
		t.Helper()
		until(t, "the reply to "+match+" is lost", func() bool {
			return slices.ContainsFunc(seen, func(one <-chan struct{}) bool {
				select {
				case <-one:
					return true
				default:
					return false
				}
			})
		})
		for _, line := range on {
			line.Pass()
		}
	}
}

// The accident: Redis has carried a step out, its reply is late or lost, the driver
// sends the step again by itself, and one purchase, or one return, moves the counter
// twice.
// The right outcome: whatever is lost, one click takes once and one end gives back
// once; the same key finds what became of it.
func TestC01FleetStepsAreNotSentTwice(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	drop, short := s.named(drop), s.named("short")
	const stock = 10
	number := s.open(drop, stock, 5)
	figure := func(which string) string { return s.fleet.Redis.Must("HGET", s.fleet.lane(number, "meta"), which) }
	left := func() string { return figure("l0") }
	near := func(user string) *client.Client { return s.gates[0].as(s.token(user)) }
	warm, err := near("warm").Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1})
	require.NoError(t, err) // the server of the counter has the script
	_, err = s.as("warm").Cancel(t.Context(), warm.Order.ID)
	require.NoError(t, err)
	s.settled(drop)
	ways := map[string]func() (undo func()){
		"reset": func() func() { return losing(t, lines.redis, script(t, "take")) },
		"late": func() func() {
			lines.redis[0].HoldBehind(script(t, "take"))
			return lines.redis[0].Pass
		},
	}
	for _, way := range []string{"reset", "late"} {
		trouble := ways[way]
		user := "buyer-" + way
		taken := figure("taken")
		undo := trouble()
		_, err = near(user).Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1})
		if err != nil { // it is told that nobody knows, and may find it out with the same key
			var e *client.Error
			require.True(t, asError(err, &e))
			require.Equal(t, http.StatusServiceUnavailable, e.Status, "%s: %v", way, err)
		}
		require.NotEqual(t, taken, figure("taken"), "%s: Redis has carried it out", way)
		undo()
		orders := make([]client.Order, 2*len(s.gates))
		for i := range orders {
			var bought client.Bought
			bought, err = insist(t.Context(), func() (client.Bought, error) {
				return s.attempt(t.Context(), user, drop, "the-click", client.Attempt{Quantity: 1})
			})
			require.NoError(t, err)
			orders[i] = bought.Order
		}
		for _, o := range orders {
			require.Equal(t, orders[0].ID, o.ID, "one click, one order")
		}
		require.Equal(t, int64(stock-1), s.left(drop))
		s.settled(drop)
		require.Equal(t, name("", stock-1), left(), "one unit is taken")
		require.Len(t, s.liveOf(user, drop), 1, "and one of the buyer's limit")

		wait := losing(t, lines.redis, script(t, "acts"))
		_, err = s.as(user).Cancel(t.Context(), orders[0].ID)
		require.NoError(t, err)
		wait()
		s.settled(drop)
		require.Equal(t, name("", stock), left(), "and comes back once")
		s.take(user, drop, 5)
		mine := s.liveOf(user, drop)
		_, err = s.as(user).Cancel(t.Context(), mine[len(mine)-1].ID)
		require.NoError(t, err)
		s.settled(drop)
	}

	s.open(short, 2, 1, hold(1))
	expires := s.take("expires", short, 1)
	wait := losing(t, lines.redis, script(t, "acts")) // the return
	s.over(expires)
	wait()
	s.settled(short)
	wait = losing(t, lines.redis, script(t, "acts")) // the adopt
	require.Equal(t, "paid", s.pay(expires).Outcome)
	wait()
	require.Equal(t, int64(1), s.settled(short).Paid)
	s.take("last", short, 1)
	_, err = s.buy("too-late", short, 1)
	require.ErrorIs(t, err, client.ErrSoldOut)
}

// liveOf returns a buyer's live orders in a sale, the newest last.
func (s *site) liveOf(user, slug string) (live []client.Order) {
	s.t.Helper()
	mine, err := s.as(user).Orders(s.t.Context(), client.OrderQuery{Sale: slug})
	require.NoError(s.t, err)
	for _, o := range mine.Data {
		if o.State == client.StateReserved || o.State == client.StatePaid {
			live = append(live, o)
		}
	}
	return live
}

// C13 where an instance dies in the middle of a step, with locks of the ledger in its
// hands, slips claimed, or units taken that nobody has heard of.
func TestC13FleetInstanceDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	drop := s.named(drop)
	published := s.open(drop, 5000, 1)
	g, redis, book := s.gates[0], lines.redis[0], lines.book[0]
	// dies lets the instance begin a step, and kills it when it hears nothing any more.
	dies := func(begin func(*client.Client), held func() bool) {
		t.Helper()
		var step sync.WaitGroup
		step.Go(func() { begin(g.as(s.AdminKey())) })
		until(t, "the step is in the middle", held)
		g.Kill()
		redis.Pass()
		book.Pass()
		step.Wait()
	}
	closed := func(seen <-chan struct{}) func() bool {
		return func() bool {
			select {
			case <-seen:
				return true
			default:
				return false
			}
		}
	}
	again := func(user string) client.Order {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), takenOver)
		defer cancel()
		bought, err := insist(ctx, func() (client.Bought, error) {
			return s.attempt(ctx, user, drop, "the-click", client.Attempt{Quantity: 1})
		})
		require.NoError(t, err)
		return bought.Order
	}

	meta := s.fleet.lane(published, "meta")
	_, err := g.as(s.AdminKey()).Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1, OnBehalfOf: "first"})
	require.NoError(t, err) // the line to the counter is there
	taken := s.fleet.Redis.Must("HGET", meta, "taken")
	redis.HoldBehind(script(t, "take"))
	dies(func(c *client.Client) {
		_, _ = c.Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1, OnBehalfOf: "taken"})
	}, func() bool { return s.fleet.Redis.Must("HGET", meta, "taken") != taken })
	require.Equal(t, client.StateReserved, again("taken").State)
	g.revive(t)

	warm := 0
	until(t, "the worker judges again", func() bool {
		s.queue(name("warm", warm), drop)
		warm++
		return s.fleet.judges(published, g.Server)
	})
	book.Hold(testenv.Requests) // it claims what others take, and cannot judge it
	queued := 0
	dies(func(*client.Client) {}, func() bool {
		_, err := s.gates[1].as(s.token(name("queued", queued))).Buy(t.Context(), drop, "the-click", client.Attempt{Quantity: 1})
		require.NoError(t, err)
		queued++
		return s.fleet.claimed(published, g.Server) > 0
	})
	for i := range queued {
		require.Equal(t, client.StateReserved, again(name("queued", i)).State, "slips of a dead worker are judged by another")
	}
	g.revive(t)

	for _, d := range []testenv.Direction{testenv.Requests, testenv.Replies} {
		pays, cancels := again(name("pays", int(d))), again(name("cancels", int(d)))
		dies(func(c *client.Client) { _, _ = c.Pay(t.Context(), pays.ID, charge(pays, "charge-"+pays.ID)) }, closed(book.Hold(d)))
		require.Contains(t, []string{"paid", "already_paid"}, insisted(s, func(ctx context.Context, c *client.Client) (client.PaymentResult, error) {
			return c.Pay(ctx, pays.ID, charge(pays, "charge-"+pays.ID))
		}).Outcome)
		g.revive(t)
		dies(func(c *client.Client) { _, _ = c.AdminCancel(t.Context(), cancels.ID) }, closed(book.Hold(d)))
		require.Equal(t, client.StateCancelled, insisted(s, func(ctx context.Context, c *client.Client) (client.Order, error) {
			return c.AdminCancel(ctx, cancels.ID)
		}).State)
		g.revive(t)
		require.Empty(t, s.refunds(pays, cancels))
	}
	figures := s.settled(drop)
	require.Equal(t, int64(2+warm+queued+4), figures.Orders, "no second order")
	require.Equal(t, int64(2), figures.Paid)

	short := s.named("short")
	s.open(short, 20, 1, hold(1))
	due := s.takeAll(short, 20)
	dies(func(*client.Client) {}, closed(book.Hold(testenv.Replies)))
	g.revive(t)
	s.over(due...)
	require.Equal(t, int64(20), s.settled(short).Expired, "nothing without an end is left")
}

// takenOver is how long it may take until others have done what an instance has left
// in the middle.
const takenOver = 20 * time.Second

// insisted repeats an operator's call until its outcome is known, which must be good
// and known in time.
func insisted[T any](s *site, call func(context.Context, *client.Client) (T, error)) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), takenOver)
	defer cancel()
	v, err := insist(ctx, func() (T, error) { return call(ctx, s.admin()) })
	require.NoError(s.t, err)
	return v
}

// C68 where the ledger has judged or booked, and the instances do not hear so.
func TestC68FleetLostBehindTheLedger(t *testing.T) {
	t.Parallel()
	s := lines.site(t)
	drop := s.named(drop)
	s.open(drop, 20, 1)
	for i := range 5 {
		user := name("u", i)
		wait := losing(t, lines.book, string(ledger.OrderKind(sale.Reserved)))
		o, err := s.buy(user, drop, 1)
		wait()
		require.NoError(t, err, "a lost answer of the ledger is no refusal")
		require.Equal(t, client.StateReserved, o.State)
		require.Equal(t, []client.Order{o}, s.liveOf(user, drop), "the first order is there at once")
		_, err = s.buy(user, drop, 1)
		var refused *client.Error
		require.True(t, asError(err, &refused))
		require.Equal(t, "limit_reached", refused.Code)
		require.Equal(t, o.ID, refused.Orders[0].ID, "the refusal points to the first order")

		wait = losing(t, lines.book, string(ledger.OrderKind(sale.Paid)))
		_, err = s.admin().Pay(t.Context(), o.ID, charge(o, "charge-"+o.ID))
		wait()
		if err != nil {
			require.ErrorIs(t, err, client.ErrUnavailable)
		}
		require.Contains(t, []string{"paid", "already_paid"}, s.pay(o).Outcome)
		require.Empty(t, s.refunds(o))
	}
	require.Equal(t, int64(5), s.settled(drop).Paid)
}
