package sqliteledger_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// crowd is a sale that sells until the benchmark ends, and its clicks.
type crowd struct {
	book  *ledger.Book
	sale  sale.Sale
	user  int
	batch []ledger.Attempt
}

func newCrowd(b *testing.B, size int, stock int64) *crowd {
	b.Helper()
	w := newWorld(b)
	o := w.options()
	o.BeforeStatement = nil
	book := ledger.New(w.openWith(b, o))
	b.Cleanup(func() { require.NoError(b, book.Close()) })
	s := w.publish(b, book, "drop", stock)
	return &crowd{book: book, sale: s, batch: make([]ledger.Attempt, size)}
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

// BenchmarkReserve sells to new buyers in batches; an operation is one order, so
// figures of different batches compare.
func BenchmarkReserve(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, sale.MaxInteger)
			b.ReportAllocs()
			sold := 0
			for b.Loop() {
				// b.Loop counts operations, a batch is many: run one for each.
				if sold%size == 0 {
					c.next()
					c.reserve(b, sale.Taken)
				}
				sold++
			}
			b.ReportMetric(float64(sold)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}

// BenchmarkSlips judges slips of new buyers in batches, as BenchmarkReserve sells.
func BenchmarkSlips(b *testing.B) {
	for _, size := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, sale.MaxInteger)
			build, err := c.book.StartBuild(b.Context(), c.sale.Number, c.sale.Epoch)
			require.NoError(b, err)
			c.sale, err = c.book.FinishBuild(b.Context(), ledger.Finish{Build: build, Load: func(context.Context, ledger.Present) error { return nil }})
			require.NoError(b, err)
			now, err := c.book.Now(b.Context())
			require.NoError(b, err)
			slip := &ledger.Slip{Epoch: c.sale.Epoch, Terms: c.sale.Terms, TakenAt: now}
			b.ReportAllocs()
			judged := 0
			for b.Loop() {
				if judged%size == 0 {
					c.next()
					for i := range c.batch {
						c.batch[i].Slip = slip
					}
					c.reserve(b, sale.Taken)
				}
				judged++
			}
			b.ReportMetric(float64(judged)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}

// BenchmarkRefuse turns new buyers away from a sale that is sold out; it must
// neither write nor sync.
func BenchmarkRefuse(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := newCrowd(b, size, 0)
			b.ReportAllocs()
			turned := 0
			for b.Loop() {
				if turned%size == 0 {
					c.next()
					c.reserve(b, sale.SoldOut)
				}
				turned++
			}
			b.ReportMetric(float64(turned)/b.Elapsed().Seconds(), "refusals/s")
		})
	}
}
