package settle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
)

// house is a ledger with sales whose holds last ten seconds.
type house struct {
	ledger.Ledger
	world ledgertest.World
}

func newHouse(t *testing.T) *house {
	t.Helper()
	w := ledgertest.MemWorld(t)
	h := &house{Ledger: ledger.New(w.Store), world: w}
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func (h *house) sale(t *testing.T, slug string, stock int64) sale.Sale {
	t.Helper()
	now, err := h.Now(t.Context())
	require.NoError(t, err)
	_, err = h.CreateSale(t.Context(), sale.Sale{
		Slug: slug,
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 5, LimitRule: sale.LimitLive,
			Hold: 10 * time.Second, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe", Stock: stock, Price: 100}},
	})
	require.NoError(t, err)
	s, err := h.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	return s
}

func (h *house) reserve(t *testing.T, s *sale.Sale, users ...string) []sale.Order {
	t.Helper()
	b := ledger.Batch{Sale: s.Number, Epoch: s.Epoch}
	for _, u := range users {
		b.Attempts = append(b.Attempts, ledger.Attempt{ID: s.OrderID(u, "k"), User: u, Quantity: 1})
	}
	out, err := h.Reserve(t.Context(), b)
	require.NoError(t, err)
	orders := make([]sale.Order, len(out.Results))
	for i, r := range out.Results {
		require.NoError(t, r.Err)
		require.Equal(t, sale.Taken, r.Verdict)
		orders[i] = r.Order
	}
	return orders
}

func (h *house) left(t *testing.T, slug string) int64 {
	t.Helper()
	s, err := h.Sale(t.Context(), slug)
	require.NoError(t, err)
	return s.Items[0].Left()
}

func users(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("u%d", i)
	}
	return out
}

// journalist notes what a sweeper reports.
type journalist struct {
	mu      sync.Mutex
	refused map[sale.OrderID]int
	aside   int
	overdue time.Duration
}

func (j *journalist) Behind(overdue time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.overdue = max(j.overdue, overdue)
}

func (j *journalist) Swept(_, aside int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.aside = aside
}

func (j *journalist) Refused(id sale.OrderID, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refused == nil {
		j.refused = make(map[sale.OrderID]int)
	}
	j.refused[id]++
}

func TestHoldsEndWhenTheyAreOverAndNotBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.sale(t, "drop", 3)
	orders := h.reserve(t, &s, "a", "b", "c")
	_, err := h.Pay(t.Context(), sale.Payment{ID: "p", Order: orders[0].ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
	require.NoError(t, err)
	_, err = h.Cancel(t.Context(), orders[1].ID, "")
	require.NoError(t, err)
	sweeper := settle.New(h, settle.Options{})

	h.world.Advance(9999 * time.Millisecond)
	require.Zero(t, sweeper.Sweep(t.Context(), time.Now()))
	h.world.Advance(time.Millisecond)
	require.Equal(t, 1, sweeper.Sweep(t.Context(), time.Now()))
	require.Zero(t, sweeper.Sweep(t.Context(), time.Now()))

	for i, want := range []sale.OrderState{sale.Paid, sale.Cancelled, sale.Expired} {
		o, err := h.Order(t.Context(), orders[i].ID)
		require.NoError(t, err)
		require.Equal(t, want, o.State)
	}
	require.Equal(t, int64(2), h.left(t, "drop"))
}

// pages notes where the pages of a sweep begin.
type pages struct {
	ledger.Orders
	from []time.Time
}

func (p *pages) Due(ctx context.Context, from time.Time, limit int) (ledger.DueOrders, error) {
	p.from = append(p.from, from)
	return p.Orders.Due(ctx, from, limit)
}

func TestTenThousandDueHoldsEndInOneSweep(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.sale(t, "drop", 10_000)
	for part := range 10 {
		h.world.Advance(time.Millisecond)
		names := users(1000)
		for i := range names {
			names[i] = fmt.Sprintf("%d-%s", part, names[i])
		}
		h.reserve(t, &s, names...)
	}
	h.world.Advance(10 * time.Second)
	turned := &pages{Orders: h}
	require.Equal(t, 10_000, settle.New(turned, settle.Options{Batch: 999}).Sweep(t.Context(), time.Now()))
	require.Len(t, turned.from, 11)
	require.True(t, turned.from[0].IsZero())
	require.True(t, slices.IsSortedFunc(turned.from, time.Time.Compare))
	require.Equal(t, 9*time.Millisecond, turned.from[10].Sub(turned.from[1]), "no page begins where others are done")
	require.Equal(t, int64(10_000), h.left(t, "drop"))
}

func TestManySweepersReleaseEachHoldOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.sale(t, "drop", 200)
	h.reserve(t, &s, users(200)...)
	h.world.Advance(10 * time.Second)
	var wg sync.WaitGroup
	ended := make([]int, 4)
	for i := range ended {
		wg.Go(func() { ended[i] = settle.New(h, settle.Options{Batch: 7}).Sweep(t.Context(), time.Now()) })
	}
	wg.Wait()
	require.Equal(t, 200, ended[0]+ended[1]+ended[2]+ended[3])
	require.Equal(t, int64(200), h.left(t, "drop"))
}

func TestOneBadOrderNeverStopsTheOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.sale(t, "drop", 100)
	orders := h.reserve(t, &s, users(100)...)
	h.world.Faults.Refuse(t, "u37")
	bad := orders[37].ID
	h.world.Advance(11 * time.Second)
	seen := &journalist{}
	sweeper := settle.New(h, settle.Options{Observer: seen})
	start := time.Now()

	require.Equal(t, 99, sweeper.Sweep(t.Context(), start))
	require.Equal(t, int64(99), h.left(t, "drop"))
	require.Equal(t, map[sale.OrderID]int{bad: 1}, seen.refused)
	require.Equal(t, 1, seen.aside)

	require.Zero(t, sweeper.Sweep(t.Context(), start.Add(time.Second)))
	require.Equal(t, 1, seen.refused[bad], "set aside for a while")
	require.Zero(t, sweeper.Sweep(t.Context(), start.Add(3*time.Second)))
	require.Equal(t, 2, seen.refused[bad], "tried again after the pause")
	require.Positive(t, seen.overdue)
}

// broken fails for one sale as a corrupt row of it would.
type broken struct {
	ledger.Orders
	sale sale.Number
}

func (b *broken) Expire(ctx context.Context, ids []sale.OrderID) (int, error) {
	if ids[0].Sale() == b.sale {
		return 0, errors.New("cannot read the sale")
	}
	return b.Orders.Expire(ctx, ids)
}

func TestOneBadSaleNeverStopsTheOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	x, y := h.sale(t, "x", 50), h.sale(t, "y", 50)
	h.reserve(t, &x, users(50)...)
	h.reserve(t, &y, users(50)...)
	h.world.Advance(10 * time.Second)
	sweeper := settle.New(&broken{Orders: h, sale: x.Number}, settle.Options{Batch: 10})
	now := time.Now()
	// The bad sale's orders are the oldest and fill the first pages.
	for range 10 {
		sweeper.Sweep(t.Context(), now)
	}
	require.Equal(t, int64(50), h.left(t, "y"))
	require.Zero(t, h.left(t, "x"))
}

// outage fails every call while it lasts, as a full disk does.
type outage struct {
	ledger.Orders
	over bool
}

func (o *outage) Expire(ctx context.Context, ids []sale.OrderID) (int, error) {
	if !o.over {
		return 0, errors.New("the disk is full")
	}
	return o.Orders.Expire(ctx, ids)
}

// locked is a ledger in which somebody keeps the row of one sale.
type locked struct {
	ledger.Orders
	sale sale.Number
}

func (l *locked) Expire(ctx context.Context, ids []sale.OrderID) (int, error) {
	if ids[0].Sale() == l.sale {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return l.Orders.Expire(ctx, ids)
}

// A sale that cannot be worked on costs the others one call a sweep, however many of its
// holds are over.
func TestLockedSaleDoesNotKeepTheHoldsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		x, y := h.sale(t, "x", 5000), h.sale(t, "y", 50)
		for part := range 5 {
			names := users(1000)
			for i := range names {
				names[i] = fmt.Sprintf("%d-%s", part, names[i])
			}
			h.reserve(t, &x, names...)
		}
		h.world.Advance(time.Second)
		h.reserve(t, &y, users(50)...)
		h.world.Advance(10 * time.Second)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- settle.New(&locked{Orders: h, sale: x.Number}, settle.Options{}).Run(ctx) }()
		<-time.After(6 * time.Second) //nolint:forbidigo // the bubble's fake clock: one call's deadline and a little
		left := h.left(t, "y")
		for i := range 3 { // from then on the promise holds for the others
			names := users(50)
			for j := range names {
				names[j] = fmt.Sprintf("again-%d-%s", i, names[j])
			}
			h.reserve(t, &y, names...)
			h.world.Advance(10 * time.Second)
			<-time.After(2 * time.Second) //nolint:forbidigo // as above
			left = min(left, h.left(t, "y"))
		}
		stop()
		require.NoError(t, <-done)
		require.Equal(t, int64(50), left)
	})
}

func TestHoldsEndAtOnceAfterALongOutage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.sale(t, "drop", 3)
	h.reserve(t, &s, "a", "b", "c")
	h.world.Advance(10 * time.Second)
	trouble := &outage{Orders: h}
	sweeper := settle.New(trouble, settle.Options{Interval: 500 * time.Millisecond})
	now := time.Now()
	for range 1200 { // ten minutes
		require.Zero(t, sweeper.Sweep(t.Context(), now))
		now = now.Add(500 * time.Millisecond)
	}
	trouble.over = true
	require.Equal(t, 3, sweeper.Sweep(t.Context(), now), "the first sweep after the trouble ends them")
}

func TestRunSweepsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := ledgertest.MemWorld(t)
		h := &house{Ledger: ledger.New(w.Store), world: w}
		s := h.sale(t, "drop", 1)
		h.reserve(t, &s, "a")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- settle.New(h, settle.Options{}).Run(ctx) }()
		h.world.Advance(10 * time.Second)
		<-time.After(2 * time.Second) //nolint:forbidigo // the bubble's fake clock
		require.Equal(t, int64(1), h.left(t, "drop"), "sells again within two seconds")
		stop()
		require.NoError(t, <-done)
		require.NoError(t, h.Close())
	})
}
