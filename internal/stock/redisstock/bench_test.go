package redisstock_test

import (
	"encoding/binary"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
	c := open(b, dial(b, server.URL))
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

// orderID makes ids that cost nothing; as spread as real ones, they do not
// compress.
func orderID(n sale.Number, i int64) (id sale.OrderID) {
	binary.BigEndian.PutUint32(id[:4], uint32(n))
	spread := uint64(i+1) * 0x9e3779b97f4a7c15 //nolint:gosec // never negative
	binary.BigEndian.PutUint64(id[4:], spread)
	binary.BigEndian.PutUint32(id[12:], uint32(spread>>32)*0x85ebca6b)
	return id
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

// BenchmarkClassic is what this counter is compared with: a lock per sale, a
// decrement, an unlock; who finds the lock taken comes back after 1 ms.
func BenchmarkClassic(b *testing.B) {
	client := dial(b, testenv.Redis(b, "appendonly no").URL)
	ctx := b.Context()
	require.NoError(b, client.Do(ctx, client.B().Set().Key("stock").Value(strconv.Itoa(1<<40)).Build()).Error())
	unlock := rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	var tokens atomic.Int64
	b.SetParallelism(callers / 2)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		retry := time.NewTimer(0)
		for pb.Next() {
			token := text(tokens.Add(1))
			for client.Do(ctx, client.B().Set().Key("lock").Value(token).Nx().PxMilliseconds(10_000).Build()).Error() != nil {
				retry.Reset(time.Millisecond)
				<-retry.C
			}
			err := client.Do(ctx, client.B().Decr().Key("stock").Build()).Error()
			if err = errors.Join(err, unlock.Exec(ctx, client, []string{"lock"}, []string{token}).Error()); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
}

// TestMemoryPerUnit sells units one each to users with ids of 20 bytes, in calls
// of several sizes, nobody judging, and weighs the server.
func TestMemoryPerUnit(t *testing.T) {
	t.Parallel()
	const units, goal = 40_000, 250
	for _, n := range []int{1, 16, 256} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t, "appendonly no")
			c := open(t, dial(t, server.URL))
			l := stock.Lane{Sale: 7}
			live(t, c, l, units)
			before := usedMemory(t, server)
			for sold := 0; sold < units; {
				call := stock.Call{Lane: l, Epoch: 1, Terms: 1, AskedAt: time.Now()}
				for ; len(call.Attempts) < n && sold < units; sold++ {
					id := orderID(7, int64(sold))
					call.Attempts = append(call.Attempts, stock.Attempt{ID: id, User: "user-" + text(1e14+int64(sold)), Quantity: 1, MAC: stock.MAC(id)})
				}
				reply, err := c.Take(t.Context(), call)
				require.NoError(t, err)
				require.Equal(t, stock.Open, reply.State)
			}
			s, err := c.Read(t.Context(), l)
			require.NoError(t, err)
			require.Equal(t, []int64{units, units}, []int64{s.Taken, s.Queued})
			each := float64(usedMemory(t, server)-before) / units
			t.Logf("%.0f bytes a unit, its slip included, at %d a call", each, n)
			require.LessOrEqual(t, each, float64(goal))
		})
	}
}

func usedMemory(tb testing.TB, s *testenv.RedisServer) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s.Info("used_memory"), 10, 64)
	require.NoError(tb, err)
	return n
}
