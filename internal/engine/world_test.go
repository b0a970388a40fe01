package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// watched is a real ledger that counts calls and can be held or broken.
type watched struct {
	ledger.Ledger
	reserves, reads, lists, buyers, looks, singles, rows, clocks atomic.Int64

	mu      sync.Mutex
	batches []int
	before  func(ledger.Batch) error // runs before Reserve; an error fails it
	after   func()                   // runs between the ledger's answer and the caller's
	failing error                    // fails every read of sales
	looking error                    // fails every read of orders
}

func (w *watched) Now(ctx context.Context) (time.Time, error) {
	w.clocks.Add(1)
	return w.Ledger.Now(ctx)
}

func (w *watched) OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	w.looks.Add(1)
	if err := w.lookTrouble(); err != nil {
		return nil, err
	}
	return w.Ledger.OrdersByID(ctx, ids)
}

func (w *watched) Order(ctx context.Context, id sale.OrderID) (sale.Order, error) {
	w.singles.Add(1)
	if err := w.lookTrouble(); err != nil {
		return sale.Order{}, err
	}
	return w.Ledger.Order(ctx, id)
}

func (w *watched) Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	w.rows.Add(1)
	return w.Ledger.Rows(ctx, n, after, limit)
}

func (w *watched) lookTrouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looking
}

func (w *watched) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	w.reserves.Add(1)
	w.mu.Lock()
	w.batches = append(w.batches, len(b.Attempts))
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(b); err != nil {
			return ledger.Batched{}, err
		}
	}
	out, err := w.Ledger.Reserve(ctx, b)
	if after != nil {
		after()
	}
	return out, err
}

func (w *watched) Sale(ctx context.Context, slug string) (sale.Sale, error) {
	w.reads.Add(1)
	if err := w.trouble(); err != nil {
		return sale.Sale{}, err
	}
	return w.Ledger.Sale(ctx, slug)
}

func (w *watched) ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error) {
	w.lists.Add(1)
	return w.Ledger.ListSales(ctx, after, limit)
}

func (w *watched) Buyers(ctx context.Context, n sale.Number) ([]uint64, error) {
	w.buyers.Add(1)
	return w.Ledger.Buyers(ctx, n)
}

func (w *watched) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing
}

func (w *watched) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// shop is an engine over a fresh ledger in a bubble of fake time. The ledger's
// clock stands still unless pass moves both.
type shop struct {
	*engine.Engine
	ledger *watched
	world  ledgertest.World
	t      *testing.T
}

const slug = "drop"

// inBubble runs a test with an open shop in it.
func inBubble(t *testing.T, test func(t *testing.T, s *shop), tune ...func(*engine.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		world := ledgertest.MemWorld(t)
		w := &watched{Ledger: ledger.New(world.Store)}
		opts := engine.Options{Clock: time.Now, Alone: true}
		for _, f := range tune {
			f(&opts)
		}
		s := &shop{Engine: engine.New(w, nil, opts), ledger: w, world: world, t: t}
		test(t, s)
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, w.Close())
	})
}

func (s *shop) pass(d time.Duration) {
	s.world.Advance(d)
	time.Sleep(d) //nolint:forbidigo // moves the bubble's fake clock, waits for nothing
	synctest.Wait()
}

// open publishes a sale that is live now.
func (s *shop) open(stock, limit int64, change ...func(*sale.Sale)) sale.Sale {
	s.t.Helper()
	now, err := s.ledger.Now(s.t.Context())
	require.NoError(s.t, err)
	draft := sale.Sale{
		Slug: slug,
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: limit, LimitRule: sale.LimitLive,
			Hold: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe", Stock: stock, Price: 100}},
	}
	for _, f := range change {
		f(&draft)
	}
	_, err = s.CreateSale(s.t.Context(), draft)
	require.NoError(s.t, err)
	published, err := s.ChangeSale(s.t.Context(), draft.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(s.t, err)
	return published.Sale
}

func (s *shop) try(user, key string, quantity int64) (engine.Decision, error) {
	return s.Buy(s.t.Context(), engine.Request{Sale: slug, User: user, Key: key, Quantity: quantity})
}

func (s *shop) buy(user, key string, quantity int64) engine.Decision {
	s.t.Helper()
	d, err := s.try(user, key, quantity)
	require.NoError(s.t, err)
	return d
}

// sellOut sells every unit, lets the buyers load, and refreshes memory.
func (s *shop) sellOut(stock int) []engine.Decision {
	s.t.Helper()
	out := make([]engine.Decision, 0, stock)
	for i := range stock {
		out = append(out, s.buy(fmt.Sprintf("owner-%d", i), "k", 1))
	}
	require.Equal(s.t, sale.SoldOut, s.buy("late", "k", 1).Verdict)
	synctest.Wait()
	return out
}

// crowd runs n calls at once and waits for them.
func crowd(n int, call func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { call(i) })
	}
	wg.Wait()
}
