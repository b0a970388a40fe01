package redislimit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// outage is a server that has stopped, and a limiter that has noticed.
func outage(t *testing.T, o redislimit.Options) (*testenv.RedisServer, *redislimit.Limiter) {
	t.Helper()
	s := testenv.Redis(t, "appendonly no")
	o.Timeout, o.Probe = 300*time.Millisecond, 20*time.Millisecond
	l := open(t, single(t, s.Addr), o)
	_, err := l.Peek(t.Context(), "warm", rate(limit.FixedWindow, 1, time.Hour))
	require.NoError(t, err)
	s.Pause()
	t.Cleanup(s.Resume)
	return s, l
}

// While the store hangs, each policy does what it says; afterwards it is found again
// by itself.
func TestC50_StoreHangs(t *testing.T) {
	t.Parallel()
	var troubles atomic.Int64
	s, l := outage(t, redislimit.Options{Instances: 4, OnTrouble: func(error) { troubles.Add(1) }})
	open, closed, local := rate(limit.TokenBucket, 40, time.Hour), rate(limit.TokenBucket, 40, time.Hour), rate(limit.TokenBucket, 40, time.Hour)
	open.Name, open.OnError = "open", limit.Open
	closed.Name, closed.OnError = "closed", limit.Closed
	admitted := 0
	for range 100 {
		d, err := l.Allow(t.Context(), "s", 1, open)
		require.NoError(t, err)
		require.True(t, d.Allowed && d.Degraded)
		d, err = l.Allow(t.Context(), "s", 1, closed)
		require.NoError(t, err)
		require.Equal(t, limit.Unavailable, d.Reason)
		require.True(t, !d.Allowed && d.Degraded)
		require.Positive(t, d.Binding.RetryAfter)
		d, err = l.Allow(t.Context(), "s", 1, open, local)
		require.NoError(t, err)
		require.True(t, d.Degraded)
		if d.Allowed {
			admitted++
		} else {
			require.Equal(t, limit.Exceeded, d.Reason)
		}
		d, err = l.Allow(t.Context(), "s", 1, local, closed)
		require.NoError(t, err)
		require.Equal(t, limit.Unavailable, d.Reason)
	}
	require.Equal(t, 10, admitted, "a quarter of the quota")
	require.Positive(t, troubles.Load())
	require.Less(t, troubles.Load(), int64(100), "most calls did not try")
	out, err := l.AllowAll(t.Context(), []limit.Check{
		{Subject: "a", Cost: 10, Rates: []limit.Rate{local}}, {Subject: "b", Cost: 1, Rates: []limit.Rate{closed}},
	})
	require.NoError(t, err)
	require.Equal(t, limit.Unavailable, out[1].Reason)
	d, err := l.Allow(t.Context(), "a", 10, local)
	require.NoError(t, err)
	require.True(t, d.Allowed, "it was given back")

	s.Resume()
	require.Eventually(t, func() bool {
		d, err = l.Allow(t.Context(), "s", 1, closed)
		return err == nil && d.Allowed && !d.Degraded
	}, 20*time.Second, 5*time.Millisecond)
}

// Turns and slots have policies, too; what needs the store says that it is not
// there.
func TestC50_TurnsAndSlots(t *testing.T) {
	t.Parallel()
	_, l := outage(t, redislimit.Options{Instances: 2})
	turns, slots := rate(limit.LeakyBucket, 4, 40*time.Millisecond), rate(limit.Concurrency, 4, time.Hour)
	for range 3 {
		d, err := l.Wait(t.Context(), "s", 1, turns)
		require.NoError(t, err)
		require.True(t, d.Allowed && d.Degraded)
	}
	var held []limit.Slot
	for range 4 {
		slot, d, err := l.Acquire(t.Context(), "s", slots)
		require.NoError(t, err)
		require.True(t, d.Degraded)
		if slot != nil {
			held = append(held, slot)
		}
	}
	require.Len(t, held, 2)
	require.NoError(t, held[0].Extend(t.Context()))
	require.NoError(t, held[0].Release(t.Context()))
	for _, p := range []limit.Policy{limit.Open, limit.Closed} {
		turns.OnError, slots.OnError = p, p
		d, err := l.Wait(t.Context(), "s", 1, turns)
		require.NoError(t, err)
		require.Equal(t, p == limit.Open, d.Allowed)
		slot, d, err := l.Acquire(t.Context(), "s", slots)
		require.NoError(t, err)
		require.Equal(t, p == limit.Open, d.Allowed)
		require.Equal(t, p == limit.Open, slot != nil)
		if slot != nil {
			require.NoError(t, slot.Release(t.Context()))
		}
	}
	r := rate(limit.FixedWindow, 4, time.Hour)
	require.ErrorIs(t, l.Refund(t.Context(), "s", 1, r), limit.ErrUnavailable)
	require.ErrorIs(t, l.Reset(t.Context(), "s", r), limit.ErrUnavailable)
	d, err := l.Peek(t.Context(), "s", r, slots)
	require.NoError(t, err)
	require.True(t, d.Degraded)
}

// A server that is gone, restarted and empty: nobody sees an error, and its scripts
// are sent again.
func TestC50_StoreRestarts(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{Timeout: time.Second, Probe: 10 * time.Millisecond})
	r := rate(limit.SlidingWindow, 1_000_000, time.Hour)
	again := func(degraded bool) {
		require.Eventually(t, func() bool {
			d, err := l.Allow(t.Context(), "s", 1, r)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			return d.Degraded == degraded
		}, 20*time.Second, 5*time.Millisecond)
	}
	again(false)
	s.Kill()
	again(true)
	s.Start()
	again(false)
	s.Must("SCRIPT", "FLUSH")
	again(false)
	s.Must("CONFIG", "SET", "maxmemory", "1") // every write is refused
	again(true)
	s.Must("CONFIG", "SET", "maxmemory", "0")
	again(false)
}

// A caller who goes does not take others along.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{})
	r := rate(limit.TokenBucket, 10, time.Hour)
	allow(t, l, r)
	s.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := l.Allow(ctx, "s", 1, r)
		gone <- err
	}()
	go func() {
		d, err := l.Allow(t.Context(), "s", 1, r)
		if !d.Allowed || d.Degraded {
			err = errors.Join(err, errors.New("not admitted"))
		}
		stays <- err
	}()
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	s.Resume()
	require.NoError(t, <-stays)
	l.Close()
	_, err := l.Allow(t.Context(), "s", 1, r)
	require.ErrorIs(t, err, limit.ErrClosed)
	_, _, err = l.Acquire(t.Context(), "s", rate(limit.Concurrency, 1, time.Hour))
	require.ErrorIs(t, err, limit.ErrClosed)
}

// An outage of one node of a Cluster leaves the others as they are.
func TestC50_OneNodeOfTheCluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no", "cluster-require-full-coverage no", "cluster-node-timeout 60000")
	l := open(t, cluster(t, c), redislimit.Options{Timeout: 250 * time.Millisecond, Probe: 10 * time.Second})
	r := rate(limit.FixedWindow, 1000, time.Hour)
	count := func() int {
		var degraded atomic.Int64
		var work sync.WaitGroup
		for i := range 60 {
			work.Go(func() {
				d, err := l.Allow(t.Context(), strconv.Itoa(i), 1, r)
				if err != nil || !d.Allowed {
					t.Errorf("%v, %+v", err, d)
				}
				if d.Degraded {
					degraded.Add(1)
				}
			})
		}
		work.Wait()
		return int(degraded.Load())
	}
	require.Zero(t, count())
	c.Nodes[1].Pause()
	defer c.Nodes[1].Resume()
	for range 3 { // late once, late twice, at rest
		n := count()
		require.Positive(t, n)
		require.Less(t, n, 45)
	}
}

// Callers who do not stop do not keep a limiter from closing.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{})
	r := rate(limit.TokenBucket, limit.MaxQuota, time.Hour)
	var work sync.WaitGroup
	begun := make(chan struct{}, 8)
	for range cap(begun) {
		work.Go(func() {
			for first := true; ; first = false {
				d, err := l.Allow(t.Context(), "s", 1, r)
				if first {
					begun <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, limit.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if !d.Allowed || d.Degraded {
					t.Errorf("%+v", d)
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	l.Close()
	work.Wait()
}
