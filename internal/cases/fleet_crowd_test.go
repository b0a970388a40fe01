package cases_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// shopper is one buyer of a crowd, who clicks once, at any gate, and again at
// another where he hears nothing; and what he was told.
type shopper struct {
	user    string
	receipt string           // of his order, while it is queued
	order   client.Order     // as he was last told
	refused client.CodeError // why he has none
	states  []string         // what he was told of his order, in turn
	want    string           // what was acknowledged to him: paid, cancelled, or a refund
	trouble error            // what must not happen
}

func (s *shopper) wrong(format string, args ...any) {
	if s.trouble == nil {
		s.trouble = fmt.Errorf(s.user+": "+format, args...)
	}
}

// told notes what a gate says of his order.
func (s *shopper) told(o client.Order) {
	if s.order.ID != "" && s.order.ID != o.ID {
		s.wrong("one click, and two orders: %s and %s", s.order.ID, o.ID)
	}
	if o.State == "rejected" && slices.Contains(s.states, "reserved") {
		s.wrong("order %s was reserved and is rejected", o.ID)
	}
	s.order = o
	s.states = append(s.states, o.State)
}

// hear is how long a shopper lets a gate wait for the judge.
const hear = 2 * time.Second

// click buys one unit: until there is an order that is judged, or a refusal. To
// click again is the same click, and shows the same order.
func (s *shopper) click(ctx context.Context, f *fleet, slug string) {
	token := f.token(s.user)
	bought, err := persist(ctx, f, token, func(c *client.Client) (client.Bought, error) {
		o := client.BuyOptions{Key: "the-click", Wait: hear, Receipt: s.receipt}
		return c.BuyWith(ctx, slug, o, client.Attempt{Quantity: 1})
	})
	s.receipt = bought.Receipt
	for err == nil {
		s.told(bought.Order)
		if s.order.State != "queued" {
			return
		}
		bought.Order, err = persist(ctx, f, token, func(c *client.Client) (client.Order, error) {
			return c.OrderWith(ctx, s.order.ID, client.OrderOptions{Wait: hear, Receipt: s.receipt})
		})
	}
	if o, judged := client.Rejection(err); judged {
		s.told(o)
		return
	}
	s.refused = client.CodeOf(err)
	if len(s.states) > 0 || s.refused != client.ErrSoldOut {
		s.wrong("after %v: %w", s.states, err)
	}
}

// reserved reports whether he was told so.
func (s *shopper) reserved() bool { return s.trouble == nil && s.order.State == "reserved" }

// pay has the charge for his order reported, until that is acknowledged.
func (s *shopper) pay(ctx context.Context, f *fleet) {
	o := s.order
	got, err := persist(ctx, f, f.key, func(c *client.Client) (client.PaymentResult, error) {
		return c.Pay(ctx, o.ID, charge(o, "charge-"+o.ID))
	})
	switch {
	case err != nil:
		s.wrong("pay: %w", err)
	case got.Outcome == "paid" || got.Outcome == "already_paid":
		s.want = "paid"
		s.order = got.Order // a late payment may have borne another
	case got.Outcome == "refund_required":
		s.want = "refund"
	default:
		s.wrong("the charge is %s", got.Outcome)
	}
}

// cancel ends his order, until that is acknowledged or the hold is over.
func (s *shopper) cancel(ctx context.Context, f *fleet) {
	_, err := persist(ctx, f, f.token(s.user), func(c *client.Client) (client.Order, error) { return c.Cancel(ctx, s.order.ID) })
	switch {
	case err == nil:
		s.want = "cancelled"
	case client.CodeOf(err) != client.ErrIllegalState: // expired
		s.wrong("cancel: %w", err)
	}
}

// throng is a crowd that goes on until it is sent home.
type throng struct {
	f        *fleet
	slug     string
	answered atomic.Int64 // clicks with an outcome
	taken    atomic.Int64 // among them those with an order
	closing  atomic.Bool
	hands    sync.WaitGroup
	stop     context.CancelFunc

	mu  sync.Mutex
	all []*shopper
}

// goHome bounds what shoppers do after the end of a crowd, and before.
const goHome = 2 * time.Minute

// throng lets hands of shoppers loose on a sale, one shopper after the other each.
// One of ten pays, some cancel or click again, the others let their holds expire,
// so that the crowd lasts.
func (f *fleet) throng(slug string, hands int) *throng {
	th := &throng{f: f, slug: slug}
	ctx, stop := context.WithTimeout(f.t.Context(), goHome)
	th.stop = stop
	f.t.Cleanup(func() { // where a test has failed before the end
		stop()
		th.hands.Wait()
	})
	for h := range hands {
		random := rand.New(rand.NewPCG(uint64(h), uint64(len(slug))))
		th.hands.Go(func() {
			for i := 0; !th.closing.Load() && ctx.Err() == nil; i++ {
				s := &shopper{user: fmt.Sprintf("%s-%d-%d", slug, h, i)}
				th.mu.Lock()
				th.all = append(th.all, s)
				th.mu.Unlock()
				th.live(ctx, s, random)
			}
		})
	}
	return th
}

func (th *throng) live(ctx context.Context, s *shopper, random *rand.Rand) {
	s.click(ctx, th.f, th.slug)
	if s.reserved() {
		th.taken.Add(1)
		switch random.IntN(10) {
		case 0:
			s.pay(ctx, th.f)
		case 1, 2, 3:
			s.cancel(ctx, th.f)
		case 4:
			s.click(ctx, th.f, th.slug)
		}
	}
	th.answered.Add(1)
}

// served waits until so many more clicks have an outcome.
func (th *throng) served(more int64) {
	th.f.t.Helper()
	want := th.answered.Load() + more
	until(th.f.t, "the crowd is served", func() bool { return th.answered.Load() >= want })
}

// took waits until so many more shoppers have an order.
func (th *throng) took(more int64) {
	th.f.t.Helper()
	want := th.taken.Load() + more
	until(th.f.t, "the crowd has orders", func() bool { return th.taken.Load() >= want })
}

// prove sends the crowd home and requires that what everybody was told is so, that
// what is left can be bought at every gate, that in the end exactly the stock is
// paid, and that every promise is kept by an audit.
func (th *throng) prove() {
	th.f.t.Helper()
	th.closing.Store(true)
	th.hands.Wait()
	th.stop()
	th.f.prove(th.slug, th.all)
}

func (f *fleet) prove(slug string, all []*shopper) {
	f.t.Helper()
	until(f.t, "every hold without a payment is over", func() bool {
		waiting, err := persist(f.t.Context(), f, f.key, func(c *client.Client) (client.Page[client.Order], error) {
			return c.AdminOrders(f.t.Context(), client.OrderQuery{Sale: slug, State: "reserved", Limit: 1})
		})
		require.NoError(f.t, err)
		return len(waiting.Data) == 0
	})
	orders := f.orders(slug)
	with, rejected := 0, 0
	for _, s := range all {
		require.NoError(f.t, s.trouble)
		if len(s.states) == 0 {
			continue
		}
		with++
		o, there := orders[s.order.ID]
		require.True(f.t, there, "%s was told %v of order %s", s.user, s.states, s.order.ID)
		require.Equal(f.t, s.user, o.User)
		if o.State == "rejected" {
			rejected++
		}
		switch s.want {
		case "paid", "cancelled":
			require.Equal(f.t, s.want, o.State, "what was acknowledged stays so")
		case "refund":
			require.Equal(f.t, "expired", o.State, "else the charge is booked")
		}
	}
	f.t.Logf("%d shoppers, %d with an order (%d rejected), %d orders", len(all), with, rejected, len(orders))
	require.Len(f.t, f.letters(slug), f.parked, "what the house itself has written can be judged")
	f.sellOut(slug)
	f.audit(slug)
	f.empty(slug)
}

// sellOut has fresh buyers buy and pay what is left, and requires that exactly the
// stock is paid in the end, and that every gate knows it.
func (f *fleet) sellOut(slug string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*patience)
	defer cancel()
	for round := 0; ; round++ {
		left := f.sale(slug).Items[0].Left
		if left == 0 {
			break
		}
		for _, s := range crowd(int(left), func(i int) *shopper { return f.restOf(ctx, slug, name(name("rest-", round)+"-", i)) }) {
			require.NoError(f.t, s.trouble)
			// Where the hold was over before the charge was captured, the unit goes to
			// somebody else in the next round.
			require.NotEmpty(f.t, s.states, "%s was told %s", s.user, s.refused)
		}
	}
	for i, g := range f.gates {
		o := client.BuyOptions{Key: "k", Wait: patience}
		// A late payment may have taken a unit that the lane does not know of yet; then
		// the judge says what the gate could not.
		api := g.as(f.token(name("too-late", i)))
		var got client.Bought
		var err error
		until(f.t, "the gate answers", func() bool { // the sale may be on its way to the fast path
			got, err = api.BuyWith(f.t.Context(), slug, o, client.Attempt{Quantity: 1})
			return !excused(err)
		})
		if err == nil {
			got.Order, err = api.Follow(f.t.Context(), got)
		}
		require.ErrorIs(f.t, err, client.ErrSoldOut, "gate %d: %v", i, got.Order)
	}
	found, paid := f.sale(slug), int64(0)
	for _, o := range f.orders(slug) {
		if o.State == "paid" {
			paid += o.Quantity
		}
	}
	require.Equal(f.t, found.Items[0].Stock, paid, "the whole stock is paid, and nothing more")
}

// restOf has a buyer who insists buy and pay one unit.
func (f *fleet) restOf(ctx context.Context, slug, user string) *shopper {
	s := &shopper{user: user}
	for s.click(ctx, f, slug); s.refused == client.ErrSoldOut && ctx.Err() == nil; s.click(ctx, f, slug) {
		s.refused = "" // an instance may not have heard yet that units came back
	}
	if s.reserved() {
		s.pay(ctx, f)
	}
	return s
}

// empty waits until nothing of a sold-out sale is left in its lane.
func (f *fleet) empty(slug string) {
	f.t.Helper()
	s := f.fast(slug)
	until(f.t, "the lanes are empty", func() bool {
		return f.all(s, "meta", "0", "HGET", "l0") && f.all(s, "tray", "0", "XLEN")
	})
}
