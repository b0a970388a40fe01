package bench_test

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const buyers = 256

// BenchmarkGroupCommit: 256 concurrent buyers through the engine, against the
// same ledger called with one buyer per transaction by as many callers. Goal: 6.
func BenchmarkGroupCommit(b *testing.B) {
	for b.Loop() {
		grouped, alone := newTill(b), newTill(b)
		e := engine.New(grouped.book, nil, engine.Options{Alone: true, Clock: time.Now})
		fast, slow, factor := sideBySide(
			crowdOf(b, func(user string) error {
				d, err := e.Buy(b.Context(), engine.Request{Sale: "drop", User: user, Key: "k", Quantity: 1})
				if err == nil && d.Verdict != sale.Taken {
					b.Errorf("verdict %s", d.Verdict)
				}
				return err
			}),
			crowdOf(b, func(user string) error {
				s := &alone.sale
				_, err := alone.book.Reserve(b.Context(), ledger.Batch{
					Sale: s.Number, Epoch: s.Epoch,
					Attempts: []ledger.Attempt{{ID: s.OrderID(user, "k"), User: user, Quantity: 1}},
				})
				return err
			}),
		)
		require.NoError(b, e.Close(b.Context()))
		note("orders/s: grouped %.0f, one buyer per transaction %.0f", fast, slow)
		ratio(b, "group_commit", factor, 6)
	}
}

// till is a SQLite ledger with a sale that never sells out.
type till struct {
	book *ledger.Book
	sale sale.Sale
}

func newTill(b *testing.B) *till {
	b.Helper()
	store, err := sqliteledger.Open(b.Context(), sqliteledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), Migrate: true})
	require.NoError(b, err)
	book := ledger.New(store)
	b.Cleanup(func() { require.NoError(b, book.Close()) })
	now := time.Now()
	_, err = book.CreateSale(b.Context(), sale.Sale{
		Slug: "drop", Items: []sale.Item{{SKU: "shoe", Stock: sale.MaxInteger, Price: 4900}},
		Rules: sale.Rules{
			StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1,
			LimitRule: sale.LimitLive, Hold: time.Hour, Currency: "EUR",
		},
	})
	require.NoError(b, err)
	s, err := book.ChangeSale(b.Context(), "drop", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(b, err)
	return &till{book: book, sale: s}
}

// crowdOf returns a run of 256 callers, each call with a new user.
func crowdOf(b *testing.B, call func(user string) error) func(time.Duration) float64 {
	b.Helper()
	var last atomic.Int64
	return func(d time.Duration) float64 {
		var done atomic.Int64
		start := time.Now()
		var wg sync.WaitGroup
		for range buyers {
			wg.Go(func() {
				for time.Since(start) < d {
					if err := call("buyer-" + strconv.FormatInt(last.Add(1), 10)); err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(done.Load()) / time.Since(start).Seconds()
	}
}
