package redislock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// jump is how far the server's clock goes in the tests.
const jump = 5 * time.Second

// A clock that jumps by more than a lease has left gives the lock to another. The
// holder cannot know before its next renewal; the fence refuses it.
func TestClockJumpsPastTheLease(t *testing.T) {
	t.Parallel()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	a := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
	b := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
	old, err := a.Lock(t.Context(), "n", lock.WithFixedLease(4*time.Second))
	require.NoError(t, err)
	clock.Set(jump)
	next, err := b.TryLock(t.Context(), "n")
	require.NoError(t, err, "the lease is over by the server's clock")
	require.NoError(t, old.Err(), "and not by the holder's")
	var register locktest.Register
	require.True(t, register.Write(next.Fence(), "next"))
	require.False(t, register.Write(old.Fence(), "old"))
	require.ErrorIs(t, old.Check(t.Context()), lock.ErrLost)
	require.NoError(t, next.Check(t.Context()))
}

// A lease that has more left than the jump survives it, in either direction, and
// so do the places in the queue.
func TestClockJumpsWithinTheLease(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"Ahead": jump, "Back": -jump} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := testenv.RedisWithClock(t, "appendonly no")
			a := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
			b := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
			held, err := a.Lock(t.Context(), "n")
			require.NoError(t, err)
			got := make(chan *lock.Lease, 1)
			go func() {
				lease, _ := b.Lock(t.Context(), "n")
				got <- lease
			}()
			require.Eventually(t, func() bool {
				info, failed := a.Inspect(t.Context(), "n")
				return failed == nil && info.Waiters == 1
			}, time.Minute, time.Millisecond)
			clock.Set(by)
			_, err = b.TryLock(t.Context(), "n")
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NoError(t, held.Check(t.Context()))
			require.NoError(t, held.Unlock(t.Context()))
			next := <-got
			require.NotNil(t, next)
			require.Greater(t, next.Fence(), held.Fence(), "also if the clock is behind the last fence")
			require.NoError(t, next.Check(t.Context()))
		})
	}
}

// A clock that was set back lets the lock of a dead holder stand for longer by
// that, and no more.
func TestClockSetBackDelaysTheNext(t *testing.T) {
	t.Parallel()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	ours := store(t, single(t, s.Addr), redislock.Options{})
	dead := lock.Request{Kind: lock.Mutex, Name: "n", Owner: "dead.1", Limit: 1, Count: 1, Lease: time.Second}
	first, err := ours.Acquire(t.Context(), &dead)
	require.NoError(t, err)
	clock.Set(-jump)
	l := locker(t, ours, lock.Config{})
	info, err := l.Inspect(t.Context(), "n")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.InDelta(t, jump+time.Second, info.Holders[0].Left, float64(time.Second))
	next, err := l.Lock(within(t, time.Minute), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), first.Fence)
}

// A grant that lapsed before it was taken up, so that its owner waits again, is not
// there once more when the clock goes back; else its owner would be served twice,
// the second time when nobody waits for it.
func TestClockBringsNoGrantBack(t *testing.T) {
	t.Parallel()
	server, clock := testenv.RedisWithClock(t, "appendonly no")
	s := store(t, single(t, server.Addr), redislock.Options{})
	ask := func(owner lock.Owner) (*lock.Request, lock.Grant) {
		r := &lock.Request{Kind: lock.Mutex, Name: "n", Owner: owner, By: owner.Locker(), Limit: 1, Count: 1, Lease: time.Minute, Queue: time.Minute}
		g, err := s.Acquire(t.Context(), r)
		require.NoError(t, err)
		return r, g
	}
	first, _ := ask("a.1")
	ask("b.1")
	ask("c.1")
	_, err := s.Release(t.Context(), first) // b.1 has two seconds
	require.NoError(t, err)
	clock.Set(jump)
	_, late := ask("b.1")
	require.Zero(t, late.Fence, "c.1 was there before")
	clock.Set(0)
	_, again := ask("b.1")
	require.Zero(t, again.Fence)
	for _, owner := range []lock.Owner{"c.1", "b.1"} {
		r, g := ask(owner)
		require.NotZero(t, g.Fence, owner)
		_, err = s.Release(t.Context(), r)
		require.NoError(t, err)
	}
	info, err := s.Inspect(t.Context(), lock.Mutex, "n")
	require.NoError(t, err)
	require.Empty(t, info.Holders)
	require.Zero(t, info.Waiters)
}

// A crowd under a clock that jumps to and fro, with leases that outlast the jumps.
func TestCrowdUnderAJumpingClock(t *testing.T) {
	t.Parallel()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	history := locktest.NewHistory()
	var work sync.WaitGroup
	for range 3 {
		l := locker(t, store(t, single(t, s.Addr), redislock.Options{}), lock.Config{})
		for range 3 {
			work.Go(func() {
				for range 100 {
					lease, err := history.Lock(ctx, l, "n", lock.WithLease(time.Minute))
					if err != nil {
						return
					}
					_ = history.Unlock(context.WithoutCancel(ctx), lease)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	jumps := time.NewTicker(10 * time.Millisecond)
	defer jumps.Stop()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for {
		select {
		case <-done:
			history.Require(t)
			return
		case <-jumps.C:
			clock.Set(rand.N(2*jump) - jump)
		case <-limit.C:
			require.FailNow(t, "the crowd does not get through")
		}
	}
}
