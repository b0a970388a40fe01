package bench_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const (
	overload     = 3
	overloadFor  = 5 * time.Second
	buyWires     = 1000
	detailRate   = 200
	detailWires  = 16
	longest      = int64(time.Minute / time.Microsecond)
	significance = 3
)

// BenchmarkIsolation: buys are offered, on schedule, at three times what
// saturates the server, while sale details are looked at two hundred times a
// second. The p99 of buys over the p99 of details, both from the intended
// instant. Goal: 2.
func BenchmarkIsolation(b *testing.B) {
	for b.Loop() {
		server := testenv.Serve(b, "--log-level", "error")
		api, err := client.New(client.Options{URL: server.URL, Token: server.AdminKey()})
		require.NoError(b, err)
		openSale(b, api, 1_000_000)
		next := buyersOf(b, server)

		wires := dialAll(b, server.URL, buyWires)
		saturated := closedLoop(wires[:buyers], next, 3*time.Second)
		rate := overload * saturated

		details := [][]byte{get("/v1/sales/drop", "")}
		var buys, looks *result
		var both sync.WaitGroup
		both.Go(func() { buys = openLoop(wires, rate, overloadFor, next) })
		both.Go(func() {
			looks = openLoop(dialAll(b, server.URL, detailWires), detailRate, overloadFor, func() []byte { return details[0] })
		})
		both.Wait()
		for status := range looks.statuses {
			require.Equal(b, http.StatusOK, status, "details succeed under overload")
		}
		note("saturated at %.0f buys/s; offered %.0f/s: answers %v, p99 %v; details p99 %v", saturated, rate,
			buys.statuses, buys.p99(), looks.p99())
		ratio(b, "isolation", float64(buys.p99())/float64(looks.p99()), 2)
	}
}

// buyersOf returns a source of requests, each of a new buyer. Signing a token
// costs the generator little beside the server's work.
func buyersOf(tb testing.TB, server *testenv.Server) func() []byte {
	tb.Helper()
	var last atomic.Int64
	return func() []byte {
		user := "buyer-" + strconv.FormatInt(last.Add(1), 10)
		return post("/v1/sales/drop/orders", server.Token(user), "k-"+user, attemptBody)
	}
}

func closedLoop(wires []*line, next func() []byte, d time.Duration) float64 {
	var done atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for _, w := range wires {
		wg.Go(func() {
			for time.Since(start) < d {
				if status, err := w.do(next()); err != nil || status != http.StatusCreated {
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// result is what an open loop saw.
type result struct {
	statuses map[int]int
	latency  *hdr.Histogram // µs from the intended instant to the answer
}

func (r *result) p99() time.Duration {
	return time.Duration(r.latency.ValueAtQuantile(99)) * time.Microsecond
}

// openLoop sends requests on a schedule that the answers do not slow down: each
// connection has its own slots, and one that is late is measured from its slot.
func openLoop(wires []*line, rate float64, d time.Duration, next func() []byte) *result {
	all := &result{statuses: make(map[int]int), latency: hdr.New(1, longest, significance)}
	interval := time.Duration(float64(len(wires)) / rate * float64(time.Second))
	start := time.Now().Add(50 * time.Millisecond)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, w := range wires {
		wg.Go(func() {
			own := &result{statuses: make(map[int]int), latency: hdr.New(1, longest, significance)}
			slot := start.Add(interval * time.Duration(i) / time.Duration(len(wires)))
			for ; slot.Before(start.Add(d)); slot = slot.Add(interval) {
				request := next()
				if ahead := time.Until(slot); ahead > 0 {
					<-time.After(ahead) //nolint:forbidigo // the schedule of the open loop
				}
				status, err := w.do(request)
				if err != nil {
					status = -1
				}
				own.statuses[status]++
				_ = own.latency.RecordValue(min(time.Since(slot).Microseconds()+1, longest))
				if err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.latency.Merge(own.latency)
			for status, n := range own.statuses {
				all.statuses[status] += n
			}
		})
	}
	wg.Wait()
	return all
}

func (r *result) String() string { return fmt.Sprint(r.statuses) }
