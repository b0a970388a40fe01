package limits_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

const (
	goroutines = 256
	turn       = 400 * time.Millisecond
	rounds     = 7
)

// peer is a library behind one face: it reports whether a key is admitted.
type peer func(ctx context.Context, key string) (bool, error)

// doorbuster admits quota an hour.
func doorbuster(b *testing.B, addr string, quota int64) peer {
	b.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
	})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	l, err := redislimit.New(c, redislimit.Options{Timeout: 5 * time.Second})
	require.NoError(b, err)
	b.Cleanup(l.Close)
	rates := []limit.Rate{{Name: "bench", Algorithm: limit.TokenBucket, Quota: quota, Window: time.Hour, OnError: limit.Closed}}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key, 1, rates...)
		if d.Degraded {
			err = fmt.Errorf("degraded: %w", limit.ErrUnavailable)
		}
		return d.Allowed, err
	}
}

func redisRate(b *testing.B, addr string, quota int64) peer {
	b.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 80})
	b.Cleanup(func() { _ = c.Close() })
	l := redis_rate.NewLimiter(c)
	per := redis_rate.PerHour(int(quota))
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, per)
		return err == nil && r.Allowed > 0, err
	}
}

// crowd lets every goroutine ask for the keys of its own, and returns calls a second
// and how many of all were admitted.
func crowd(b *testing.B, p peer, keys func(goroutine int) []string) (perSecond float64, admitted int64) {
	b.Helper()
	var n, yes atomic.Int64
	var work sync.WaitGroup
	start := time.Now()
	end := start.Add(turn)
	for g := range goroutines {
		own := keys(g)
		work.Go(func() {
			calls, in := int64(0), int64(0)
			for i := 0; i%8 != 0 || time.Now().Before(end); i++ {
				ok, err := p(b.Context(), own[i%len(own)])
				if err != nil {
					b.Error(err)
					return
				}
				if calls++; ok {
					in++
				}
			}
			n.Add(calls)
			yes.Add(in)
		})
	}
	work.Wait()
	return float64(n.Load()) / time.Since(start).Seconds(), yes.Load()
}

// distinct gives each goroutine sixteen keys that no other one has.
func distinct(g int) []string {
	out := make([]string, 16)
	for i := range out {
		out[i] = "user" + strconv.Itoa(g) + "." + strconv.Itoa(i)
	}
	return out
}

func hot(int) []string { return []string{"hot"} }

func median(xs []float64) float64 { return slices.Sorted(slices.Values(xs))[len(xs)/2] }

// compare lets two libraries take turns, and prints their rates and the median of
// the ratios.
func compare(b *testing.B, name string, goal float64, ours, theirs func() float64) {
	b.Helper()
	ours()
	theirs()
	fast, slow, factor := make([]float64, 0, rounds), make([]float64, 0, rounds), make([]float64, 0, rounds)
	for range rounds {
		slow = append(slow, theirs())
		fast = append(fast, ours())
		factor = append(factor, fast[len(fast)-1]/max(slow[len(slow)-1], 1))
	}
	value, verdict := median(factor), ""
	if value < goal {
		verdict = " MISSED"
	}
	b.ReportMetric(value, "ratio")
	_, _ = fmt.Fprintf(os.Stdout, "  %s: calls/s: doorbuster %.0f, redis_rate %.0f\n", name, median(fast), median(slow))
	_, _ = fmt.Fprintf(os.Stdout, "RATIO %s %.2f %.2f%s\n", name, value, goal, verdict)
}

// BenchmarkLimitAllow: 256 goroutines, each with keys of its own, which are admitted.
func BenchmarkLimitAllow(b *testing.B) {
	for b.Loop() {
		s := testenv.Redis(b, "appendonly no")
		const plenty = 1_000_000
		run := func(p peer) func() float64 {
			return func() float64 {
				rate, admitted := crowd(b, p, distinct)
				require.Positive(b, admitted)
				return rate
			}
		}
		compare(b, "limit_allow_vs_redis_rate", 2, run(doorbuster(b, s.Addr, plenty)), run(redisRate(b, s.Addr, plenty)))
	}
}

// BenchmarkLimitDenied: 256 goroutines ask for one key that is used up.
func BenchmarkLimitDenied(b *testing.B) {
	for b.Loop() {
		s := testenv.Redis(b, "appendonly no")
		run := func(p peer) func() float64 {
			return func() float64 {
				rate, admitted := crowd(b, p, hot)
				require.LessOrEqual(b, admitted, int64(2))
				return rate
			}
		}
		compare(b, "limit_denied_vs_redis_rate", 50, run(doorbuster(b, s.Addr, 1)), run(redisRate(b, s.Addr, 1)))
	}
}
