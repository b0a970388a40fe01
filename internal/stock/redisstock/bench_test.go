package redisstock_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// callers is how many goroutines press at once, as in the measured limits.
const callers = 64

// press sends attempts of new users, n a call, from all callers, and counts
// attempts as operations.
func press(b *testing.B, n int, units int64, want sale.Verdict) {
	b.Helper()
	server := testenv.Redis(b, "appendonly no")
	c := open(b, dial(b, server.Addr))
	l := stock.Lane{Sale: 7}
	live(b, c, l, units)
	var users atomic.Int64
	b.SetParallelism(callers / 2)
	b.ReportAllocs()
	before := serverTime(b, server)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		call := stock.Call{Lane: l, Epoch: 1, Terms: 1, Attempts: make([]stock.Attempt, n)}
		for more := true; more; {
			size := 0
			for size < n && pb.Next() {
				size++
			}
			if more = size == n; size == 0 {
				return
			}
			first := users.Add(int64(size))
			for i := range size {
				a := &call.Attempts[i]
				a.ID, a.User, a.Quantity = orderID(7, first-int64(i)), "user-"+strconv.FormatInt(1e9+first-int64(i), 10), 1
			}
			part := call
			part.Attempts, part.AskedAt = call.Attempts[:size], time.Now()
			reply, err := c.Take(b.Context(), part)
			if err != nil || reply.State != stock.Open || reply.Results[0].Verdict != want || reply.Results[size-1].Verdict != want {
				b.Errorf("%v %+v", err, reply.State)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
	b.ReportMetric((serverTime(b, server)-before)/float64(b.N), "server-ns/op")
}

// serverTime returns the processor time that the server has used, in ns; unlike
// the rate, it hardly depends on what else the machine does.
func serverTime(tb testing.TB, s *testenv.RedisServer) float64 {
	tb.Helper()
	var sum float64
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(s.Info(field), 64)
		require.NoError(tb, err)
		sum += seconds * 1e9
	}
	return sum
}

func orderID(n sale.Number, i int64) sale.OrderID {
	return sale.DeriveOrderID(sale.Key{1}, n, "bench", strconv.FormatInt(i, 10))
}

func BenchmarkTake(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { press(b, n, 1<<40, sale.Taken) })
	}
}

func BenchmarkRefuse(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { press(b, n, 0, sale.SoldOut) })
	}
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
