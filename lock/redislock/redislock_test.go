package redislock_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// client returns a client like the one an application has.
func client(tb testing.TB, o rueidis.ClientOption) rueidis.Client {
	tb.Helper()
	o.DisableCache, o.AlwaysPipelining = true, true
	o.ConnWriteTimeout = 2 * time.Second
	c, err := rueidis.NewClient(o)
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c
}

func single(tb testing.TB, addr string) rueidis.Client {
	tb.Helper()
	return client(tb, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
}

// fresh returns stores that know nothing of each other, over one client.
func fresh(c rueidis.Client) func(testing.TB) lock.Store {
	next := prefixes()
	return func(tb testing.TB) lock.Store {
		tb.Helper()
		return store(tb, c, redislock.Options{Prefix: next()})
	}
}

// prefixes returns one after the other.
func prefixes() func() string {
	var n atomic.Int64
	return func() string { return "t" + strconv.FormatInt(n.Add(1), 10) + ":" }
}

func store(tb testing.TB, c rueidis.Client, o redislock.Options) *redislock.Store {
	tb.Helper()
	s, err := redislock.New(c, o)
	require.NoError(tb, err)
	return s
}

func locker(tb testing.TB, s lock.Store, c lock.Config) *lock.Locker {
	tb.Helper()
	l, err := lock.New(s, c)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		_ = l.Close(ctx) // its server may be gone
	})
	return l
}

var everything = locktest.Features{Queue: true, Exact: true, Shared: true}

func TestSingle(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	locktest.Run(t, everything, fresh(single(t, s.Addr)))
}

// The suite behind Sentinel, and once more after a fail-over: one client lives
// through it.
//
//nolint:tparallel,paralleltest // the two halves come one after the other
func TestSentinel(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t, "appendonly no")
	open := fresh(client(t, rueidis.ClientOption{
		InitAddress: g.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: g.Name},
	}))
	t.Run("Before", func(t *testing.T) { locktest.Run(t, everything, open) })
	next := g.Replica()
	g.Primary().Kill()
	g.AwaitPrimary(next)
	l := locker(t, open(t), lock.Config{})
	require.Eventually(t, func() bool { // the client hears of it a moment later
		lease, err := l.TryLock(t.Context(), "n")
		return err == nil && lease.Unlock(t.Context()) == nil
	}, time.Minute, 10*time.Millisecond)
	t.Run("After", func(t *testing.T) { locktest.Run(t, everything, open) })
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no")
	locktest.Run(t, everything, fresh(client(t, rueidis.ClientOption{InitAddress: c.Addrs()})))
}
