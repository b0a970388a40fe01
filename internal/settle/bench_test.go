package settle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// shop is a sale on the fast path over any ledger and counter, with real time.
type shop struct {
	ledger  ledger.Ledger
	counter stock.Counter
	sale    sale.Sale
	buyers  int
}

func newShop(tb testing.TB, l ledger.Ledger, c stock.Counter, units int64) *shop {
	tb.Helper()
	now, err := l.Now(tb.Context())
	require.NoError(tb, err)
	_, err = l.CreateSale(tb.Context(), sale.Sale{
		Slug: "drop",
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 2, LimitRule: sale.LimitLive, Hold: 10 * time.Minute,
			Currency: "EUR", Preferred: sale.PathFast,
		},
		Items: []sale.Item{{SKU: "shoe", Stock: units, Price: 100}},
	})
	require.NoError(tb, err)
	s, err := l.ChangeSale(tb.Context(), "drop", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(tb, err)
	return &shop{ledger: l, counter: c, sale: build(tb, l, c, s, 1)}
}

// memShop is one in memory. Its ledger copies everything for each transaction.
func memShop(tb testing.TB, units int64) *shop {
	tb.Helper()
	l := ledger.New(ledgertest.NewMemStore())
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return newShop(tb, l, stocktest.NewMem(func() time.Time {
		now, err := l.Now(context.WithoutCancel(tb.Context()))
		if err != nil {
			panic(err)
		}
		return now
	}), units)
}

// realShop is one over Redis and PostgreSQL, which syncs every commit.
func realShop(tb testing.TB, units int64, settings ...string) *shop {
	tb.Helper()
	return newShop(tb, openPostgres(tb, testenv.OwnPostgres(tb, settings...).URL), redisCounter(tb), units)
}

func openPostgres(tb testing.TB, url string) ledger.Ledger {
	tb.Helper()
	store, err := pgledger.Open(tb.Context(), pgledger.Options{URL: url, Migrate: true})
	require.NoError(tb, err)
	l := ledger.New(store)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func redisCounter(tb testing.TB) stock.Counter {
	tb.Helper()
	client, err := redisconn.Open(tb.Context(), redisconn.Options{URL: testenv.Redis(tb, "appendonly no").URL})
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	c, err := redisstock.New(client, redisstock.Options{CallTimeout: 5 * time.Second})
	require.NoError(tb, err)
	return c
}

func (s *shop) lane() stock.Lane { return stock.LanesOf(&s.sale)[0] }

// take lets n new buyers take one unit each in one call.
func (s *shop) take(tb testing.TB, n int) []sale.OrderID {
	tb.Helper()
	ids, err := s.try(tb.Context(), n)
	require.NoError(tb, err)
	return ids
}

var errNotTaken = errors.New("not every unit was taken")

func (s *shop) try(ctx context.Context, n int) ([]sale.OrderID, error) {
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	signer := stock.NewSigner(s.sale.Key, s.sale.Number)
	call := stock.Call{Lane: s.lane(), Epoch: s.sale.Epoch, Terms: s.sale.Terms, AskedAt: now, Attempts: make([]stock.Attempt, n)}
	ids := make([]sale.OrderID, n)
	for i := range call.Attempts {
		s.buyers++
		user := fmt.Sprintf("buyer-%d", s.buyers)
		a := stock.Attempt{ID: s.sale.OrderID(user, "k"), User: user, Quantity: 1}
		a.MAC = signer.Sign(&stock.Slip{ID: a.ID, User: user, Quantity: 1, Epoch: call.Epoch, Terms: call.Terms, AskedAt: now})
		call.Attempts[i], ids[i] = a, a.ID
	}
	reply, err := s.counter.Take(ctx, call)
	if err != nil {
		return nil, err
	}
	for _, r := range reply.Results {
		if r.Verdict != sale.Taken {
			return nil, errNotTaken
		}
	}
	if reply.State != stock.Open {
		return nil, errNotTaken
	}
	return ids, nil
}

// clerk counts orders and the time they took, and says when enough are there.
type clerk struct {
	witness
	want   int
	delays []time.Duration
	enough chan struct{}
}

func (c *clerk) Settled(_ stock.Lane, _ *sale.Order, after time.Duration) {
	c.note(func() {
		c.delays = append(c.delays, after)
		if len(c.delays) == c.want {
			close(c.enough)
		}
	})
}

// settleAll runs a judge until n slips are settled.
func (s *shop) settleAll(b *testing.B, n int, o settle.LaneOptions) *clerk {
	b.Helper()
	c := &clerk{want: n, enough: make(chan struct{})}
	o.Consumer, o.Clock, o.Observer = "bench", time.Now, c
	ctx, stop := context.WithCancel(b.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = settle.NewJudge(s.ledger, s.counter, o).Run(ctx, s.lane(), &s.sale) })
	<-c.enough
	stop()
	b.StopTimer()
	work.Wait()
	return c
}

func (s *shop) fill(b *testing.B, entry int) {
	b.Helper()
	for left := b.N; left > 0; left -= entry {
		s.take(b, min(left, entry))
	}
}

// yesLedger accepts every slip at once, so that what remains is the judge's own
// work: claiming, reading, checking MACs, keeping books.
type yesLedger struct{ ledger.Ledger }

func (*yesLedger) Reserve(_ context.Context, batch ledger.Batch) (ledger.Batched, error) {
	out := ledger.Batched{Results: make([]ledger.Result, len(batch.Attempts)), At: batch.Attempts[0].Slip.TakenAt}
	for i := range out.Results {
		out.Results[i].Verdict = sale.Taken
	}
	return out, nil
}

func yesShop(tb testing.TB, units int64) *shop {
	tb.Helper()
	s := memShop(tb, units)
	s.ledger = &yesLedger{s.ledger}
	return s
}

// BenchmarkSettle settles a full tray: slips, not batches, are the operations.
func BenchmarkSettle(b *testing.B) {
	for _, bc := range []struct {
		name  string
		shop  func(testing.TB, int64) *shop
		entry int
		batch int
	}{
		{"the judge alone/64 an entry", yesShop, 64, 0},
		{"memory/64 an entry", memShop, 64, 0},
		{"redis and postgres/64 an entry/batch 250", slowShop, 64, 250},
		{"redis and postgres/64 an entry/batch 1000", slowShop, 64, 1000},
		{"redis and postgres/64 an entry/batch 4000", slowShop, 64, 4000},
		{"redis and postgres/1 an entry/batch 1000", slowShop, 1, 1000},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := bc.shop(b, int64(b.N))
			s.fill(b, bc.entry)
			b.ReportAllocs()
			b.ResetTimer()
			c := s.settleAll(b, b.N, settle.LaneOptions{Batch: bc.batch})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "slips/s")
			b.ReportMetric(float64(b.N)/float64(len(c.batches)), "slips/batch")
		})
	}
}

func slowShop(tb testing.TB, units int64) *shop {
	tb.Helper()
	return realShop(tb, units, "fsync=on", "full_page_writes=on", "shared_buffers=256MB")
}

// BenchmarkSettleStepByStep is the same without claiming the next batch while one
// is with the ledger.
func BenchmarkSettleStepByStep(b *testing.B) {
	s := slowShop(b, int64(b.N))
	s.fill(b, 64)
	c := &clerk{want: b.N, enough: make(chan struct{})}
	w := settle.NewJudge(s.ledger, s.counter, settle.LaneOptions{Consumer: "bench", Clock: time.Now, Observer: c}).Worker(s.lane(), &s.sale)
	b.ReportAllocs()
	b.ResetTimer()
	for done := false; !done; {
		require.NoError(b, w.Step(b.Context()))
		select {
		case <-c.enough:
			done = true
		default:
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "slips/s")
}

// BenchmarkDelay measures the time from taken to judged while 20,000 units a
// second are taken, by the ledger's clock.
func BenchmarkDelay(b *testing.B) {
	const tick, each = 2 * time.Millisecond, 40
	s := slowShop(b, int64(b.N*each))
	b.ResetTimer()
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for range b.N {
			<-clock.C
			if _, err := s.try(b.Context(), each); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	c := s.settleAll(b, b.N*each, settle.LaneOptions{})
	slices.Sort(c.delays)
	b.ReportMetric(float64(len(c.delays))/b.Elapsed().Seconds(), "slips/s")
	b.ReportMetric(float64(c.delays[len(c.delays)/2].Milliseconds()), "median-ms")
	b.ReportMetric(float64(c.delays[len(c.delays)*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(float64(len(c.delays))/float64(len(c.batches)), "slips/batch")
}
