package pgledger

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// crowd is a sale on a server that syncs every commit, and its clicks.
type crowd struct {
	store *Store
	book  *ledger.Book
	sale  sale.Sale
	user  int
	batch []ledger.Attempt
}

func newCrowd(b *testing.B, size int, stock int64) *crowd {
	b.Helper()
	server := testenv.OwnPostgres(b, "fsync=on", "full_page_writes=on", "shared_buffers=256MB")
	store, err := Open(b.Context(), Options{URL: server.URL, Migrate: true})
	require.NoError(b, err)
	book := ledger.New(store)
	b.Cleanup(func() { require.NoError(b, book.Close()) })
	now, err := book.Now(b.Context())
	require.NoError(b, err)
	s, err := book.CreateSale(b.Context(), sale.Sale{
		Slug: "drop",
		Rules: sale.Rules{
			Title: "Drop", StartsAt: now, EndsAt: now.Add(24 * time.Hour), PerUserLimit: 2, LimitRule: sale.LimitLive,
			Hold: time.Hour, MaxUnpaidHolds: 2, CoolDown: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe-42", Title: "Shoe", Stock: stock, Price: 4990}},
	})
	require.NoError(b, err)
	s, err = book.ChangeSale(b.Context(), s.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(b, err)
	return &crowd{store: store, book: book, sale: s, batch: make([]ledger.Attempt, size)}
}

// next makes every attempt of the batch one of a new buyer.
func (c *crowd) next() {
	for i := range c.batch {
		c.user++
		user := "buyer-" + strconv.Itoa(c.user)
		c.batch[i] = ledger.Attempt{ID: c.sale.OrderID(user, "k"), User: user, Quantity: 1}
	}
}

func (c *crowd) reserve(b *testing.B, want sale.Verdict) {
	b.Helper()
	out, err := c.book.Reserve(b.Context(), ledger.Batch{Sale: c.sale.Number, Epoch: c.sale.Epoch, Attempts: c.batch})
	if err != nil {
		b.Fatal(err)
	}
	for i := range out.Results {
		if out.Results[i].Verdict != want {
			b.Fatalf("attempt %d: %s instead of %s", i, out.Results[i].Verdict, want)
		}
	}
}

// orders runs one batch for every size operations, so that an operation is one
// order and figures of different batches compare.
func orders(b *testing.B, size int, batch func()) {
	b.Helper()
	b.ReportAllocs()
	done := 0
	for b.Loop() {
		if done%size == 0 {
			batch()
		}
		done++
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "orders/s")
}

// BenchmarkReserve sells to new buyers in batches.
func BenchmarkReserve(b *testing.B) {
	for _, size := range []int{1, 256, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, sale.MaxInteger)
			orders(b, size, func() {
				c.next()
				c.reserve(b, sale.Taken)
			})
		})
	}
}

// BenchmarkRefuse turns new buyers away from a sale that is sold out.
func BenchmarkRefuse(b *testing.B) {
	for _, size := range []int{1, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, 0)
			orders(b, size, func() {
				c.next()
				c.reserve(b, sale.SoldOut)
			})
		})
	}
}

// BenchmarkBare writes the rows of BenchmarkReserve into the same tables by the
// same arrays, but without lock, look-up, judging, counters or hashes: what the
// database can take.
func BenchmarkBare(b *testing.B) {
	for _, size := range []int{1, 256, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, sale.MaxInteger)
			c.next()
			c.reserve(b, sale.Taken)
			like := c.rows(b)
			seq := like.Seq
			orders(b, size, func() {
				c.next()
				for i := range c.batch {
					a := &c.batch[i]
					like.Orders[i].After.ID, like.Orders[i].After.User = a.ID, a.User
					like.Holders[i].User = a.User
					seq++
					like.Entries[i].Seq, like.Entries[i].Order = seq, a.ID
				}
				c.bare(b, like)
			})
		})
	}
}

// rows returns what the first batch has written.
func (c *crowd) rows(b *testing.B) *ledger.Changes {
	b.Helper()
	r := c.store.Read()
	like := &ledger.Changes{Sale: c.sale.Number}
	require.NoError(b, r.EachOrder(b.Context(), c.sale.Number, func(o sale.Order) error {
		like.Orders = append(like.Orders, ledger.OrderChange{From: sale.Queued, After: o})
		return nil
	}))
	require.NoError(b, r.EachHolder(b.Context(), c.sale.Number, func(h ledger.Holder) error {
		like.Holders = append(like.Holders, h)
		return nil
	}))
	var err error
	like.Entries, err = r.Rows(b.Context(), c.sale.Number, 2, len(c.batch))
	require.NoError(b, err)
	like.Seq = like.Entries[len(like.Entries)-1].Seq
	return like
}

// bare writes one batch.
func (c *crowd) bare(b *testing.B, like *ledger.Changes) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	conn, err := c.store.pool.Acquire(ctx)
	require.NoError(b, err)
	defer conn.Release()
	at := &session{conn: conn.Conn(), statements: c.store.statements}
	defer at.end(ctx)
	journal := step{name: "journal_append", want: int64(len(like.Entries)), args: []any{
		int64(like.Sale),
		column(like.Entries, func(e *ledger.Entry) int64 { return int64(e.Seq) }), //nolint:gosec // a benchmark is not that long
		column(like.Entries, func(e *ledger.Entry) int64 { return ledger.Millis(e.At) }),
		column(like.Entries, func(e *ledger.Entry) string { return string(e.Kind) }),
		column(like.Entries, func(e *ledger.Entry) [16]byte { return e.Order }),
		column(like.Entries, func(e *ledger.Entry) []byte { return e.Body }),
		column(like.Entries, func(e *ledger.Entry) []byte { return e.Hash[:] }),
	}}
	born := make([]*ledger.OrderChange, len(like.Orders))
	for i := range born {
		born[i] = &like.Orders[i]
	}
	steps := append([]step{{name: "begin", want: anyRows}, journal, insertOrders(like.Sale, born)}, new(tx).writeHolders(like)...)
	require.NoError(b, at.run(ctx, steps...))
	require.NoError(b, at.commit(ctx))
}
