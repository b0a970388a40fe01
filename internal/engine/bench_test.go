package engine_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// boundless is a counter that takes whatever it is asked for and remembers
// nothing, so that what a benchmark sees is the engine.
type boundless struct {
	*stocktest.Mem
	seq atomic.Uint64
}

func (b *boundless) Take(_ context.Context, c stock.Call) (stock.Reply, error) {
	time.Sleep(200 * time.Microsecond) //nolint:forbidigo // the way to a server and back, in which the next batch gathers
	r := stock.Reply{State: stock.Open, Seq: b.seq.Add(1), Generation: 1, Left: []int64{1}, Results: make([]stock.Result, len(c.Attempts))}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		r.Results[i] = stock.Result{Verdict: sale.Taken, Left: 1, Record: stock.Record{ID: a.ID, Item: a.Item, Quantity: a.Quantity, TakenAt: c.AskedAt}}
	}
	return r, nil
}

// BenchmarkTake: 256 callers buy on the fast path. One operation is one attempt.
func BenchmarkTake(b *testing.B) {
	b.Run("engine alone", func(b *testing.B) {
		benchmarkTake(b, func(m *stocktest.Mem) stock.Counter { return &boundless{Mem: m} })
	})
	b.Run("counter in memory", func(b *testing.B) {
		benchmarkTake(b, func(m *stocktest.Mem) stock.Counter { return m })
	})
}

func benchmarkTake(b *testing.B, counter func(*stocktest.Mem) stock.Counter) {
	b.Helper()
	store := ledgertest.NewMemStore()
	book := ledger.New(store)
	now := func() time.Time { at, _ := store.Now(b.Context()); return at }
	mem := stocktest.NewMem(now)
	fastSale(b, book, mem)
	e := engine.New(book, counter(mem), engine.Options{Clock: time.Now})
	const callers = 256
	users := make([]string, b.N)
	for i := range users {
		users[i] = "buyer-" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				d, err := e.Buy(b.Context(), engine.Request{Sale: slug, User: users[i-1], Key: "k", Quantity: 1})
				if err != nil || d.Verdict != sale.Taken {
					b.Errorf("%s, %v", d.Verdict, err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	require.NoError(b, e.Close(b.Context()))
}

// fastSale opens a sale on the fast path that never sells out.
func fastSale(b *testing.B, book ledger.Ledger, mem *stocktest.Mem) {
	b.Helper()
	ctx := b.Context()
	now, err := book.Now(ctx)
	require.NoError(b, err)
	_, err = book.CreateSale(ctx, sale.Sale{
		Slug: slug, Items: []sale.Item{{SKU: "shoe", Stock: sale.MaxInteger, Price: 4900}},
		Rules: sale.Rules{
			StartsAt: now.Add(-time.Minute), EndsAt: now.Add(24 * time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Hour, Currency: "EUR",
		},
	})
	require.NoError(b, err)
	s, err := book.ChangeSale(ctx, slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(b, err)
	build, err := book.StartBuild(ctx, s.Number, s.Epoch)
	require.NoError(b, err)
	lane := stock.Lane{Sale: s.Number}
	_, err = mem.Freeze(ctx, lane, build.Token)
	require.NoError(b, err)
	_, err = book.FinishBuild(ctx, ledger.Finish{Build: build, Salts: []uint32{0}, Load: func(ctx context.Context, p ledger.Present) error {
		rules := stock.RulesOf(&p.Sale)
		return mem.Set(ctx, lane, build.Token, stock.Setting{Rules: rules, Left: rules.Stock, Applied: p.Seq, MaxQueued: sale.MaxInteger})
	}})
	require.NoError(b, err)
	require.NoError(b, mem.Unfreeze(ctx, lane, build.Token))
}

// BenchmarkRefuse: strangers are refused from memory after sell-out.
func BenchmarkRefuse(b *testing.B) {
	book := ledger.New(ledgertest.NewMemStore())
	now, err := book.Now(b.Context())
	require.NoError(b, err)
	_, err = book.CreateSale(b.Context(), sale.Sale{
		Slug: slug, Items: []sale.Item{{SKU: "shoe", Stock: 1, Price: 4900}},
		Rules: sale.Rules{
			StartsAt: now.Add(-time.Minute), EndsAt: now.Add(24 * time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Hour, Currency: "EUR",
		},
	})
	require.NoError(b, err)
	_, err = book.ChangeSale(b.Context(), slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(b, err)
	e := engine.New(book, nil, engine.Options{Clock: time.Now})
	buy := func(user string) sale.Verdict {
		d, err := e.Buy(b.Context(), engine.Request{Sale: slug, User: user, Key: "k", Quantity: 1})
		require.NoError(b, err)
		return d.Verdict
	}
	require.Equal(b, sale.Taken, buy("first"))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if v := buy("stranger"); v != sale.SoldOut {
				b.Errorf("verdict %s", v)
				return
			}
		}
	})
	require.NoError(b, e.Close(b.Context()))
}
