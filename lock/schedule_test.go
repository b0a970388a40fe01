package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// script is a store whose renewals the test decides on and remembers.
type script struct {
	lock.Store
	mu     sync.Mutex
	times  []time.Time
	answer func(ctx context.Context, n int) error // nil: renew
}

func (s *script) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	s.mu.Lock()
	s.times = append(s.times, time.Now())
	n := len(s.times)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, n); err != nil {
			return false, err
		}
	}
	return s.Store.Renew(ctx, r)
}

func (s *script) renewals(since time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]time.Duration, 0, len(s.times))
	for _, at := range s.times {
		out = append(out, at.Sub(since))
	}
	return out
}

var errDown = errors.New("down")

// inTime runs a test in a bubble of fake time, with a store and a locker.
func inTime(t *testing.T, run func(*testing.T, *script, *lock.Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{Store: memlock.New()}
		l, err := lock.New(s, lock.Config{})
		require.NoError(t, err)
		run(t, s, l)
		require.NoError(t, l.Close(t.Context()))
		synctest.Wait()
	})
}

// Renewals come at each third of the lease since it began.
func TestRenewalsKeepToTheSchedule(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithLease(9*time.Second))
		require.NoError(t, err)
		time.Sleep(31 * time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		want := make([]time.Duration, 0, 10)
		for i := range 10 {
			want = append(want, time.Duration(i+1)*3*time.Second)
		}
		require.Equal(t, want, s.renewals(start))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		require.Len(t, s.renewals(start), 10, "nothing renews a lock that was given back")
	})
}

// N37: a slow answer moves the next renewal, but lateness does not add up.
func TestN37SlowRenewalsDoNotDrift(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		s.answer = func(context.Context, int) error {
			time.Sleep(700 * time.Millisecond) //nolint:forbidigo // in a bubble
			return nil
		}
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithLease(9*time.Second))
		require.NoError(t, err)
		time.Sleep(900 * time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		got := s.renewals(start)
		require.Len(t, got, 300)
		require.Equal(t, 900*time.Second, got[299])
		require.NoError(t, lease.Err())
	})
}

// N02, N04: a store that does not answer costs the lock at the time that was
// promised, not later.
func TestN02LossIsKnownWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		s.answer = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithLease(10*time.Second))
		require.NoError(t, err)
		promised := lease.ValidUntil()
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		require.Equal(t, promised, time.Now())
		require.Less(t, time.Since(start), 10*time.Second, "before the store can give it to another")
		require.Greater(t, len(s.renewals(start)), 2, "it was tried more than once")
		require.ErrorIs(t, lease.Unlock(t.Context()), lock.ErrLost)
	})
}

// Two renewals that fail are no loss.
func TestFailedRenewalsAreRepeated(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		s.answer = func(_ context.Context, n int) error {
			if n <= 2 {
				return errDown
			}
			return nil
		}
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithLease(12*time.Second))
		require.NoError(t, err)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		require.NoError(t, lease.Err())
		require.Equal(t, []time.Duration{4 * time.Second, 5 * time.Second, 6 * time.Second, 8 * time.Second}, s.renewals(start)[:4])
	})
}

// A holder that hangs loses its lock within a lease of the longest hold.
func TestMaxHoldBoundsAHolderThatHangs(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *script, l *lock.Locker) {
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithLease(9*time.Second), lock.WithMaxHold(20*time.Second))
		require.NoError(t, err)
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrMaxHold)
		require.LessOrEqual(t, time.Since(start), 29*time.Second)
		require.Greater(t, time.Since(start), 20*time.Second)
	})
}

// A fixed lease is not renewed.
func TestFixedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n", lock.WithFixedLease(10*time.Second))
		require.NoError(t, err)
		<-lease.Context().Done()
		require.Empty(t, s.renewals(start))
		require.NotErrorIs(t, lease.Err(), lock.ErrMaxHold)
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
	})
}

// N40: what counts is when the successful try was sent, however long was waited.
func TestN40ValidityCountsFromTheLastTry(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		other, err := lock.New(s.Store, lock.Config{})
		require.NoError(t, err)
		first, err := other.Lock(t.Context(), "n")
		require.NoError(t, err)
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, _ := l.Lock(t.Context(), "n", lock.WithLease(3*time.Second))
			got <- lease
		}()
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
		require.NoError(t, first.Unlock(t.Context()))
		lease := <-got
		require.Greater(t, time.Until(lease.ValidUntil()), 2*time.Second)
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
		require.NoError(t, lease.Err())
		require.NoError(t, other.Close(t.Context()))
	})
}

// N35: waiting costs few calls.
func TestN35WaitersAskSeldom(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *script, l *lock.Locker) {
		_, err := l.Lock(t.Context(), "n", lock.WithLease(time.Hour))
		require.NoError(t, err)
		counting := &counter{Store: s}
		other, err := lock.New(counting, lock.Config{})
		require.NoError(t, err)
		var work sync.WaitGroup
		for range 64 {
			work.Go(func() { _, _ = other.TryLock(t.Context(), "n", lock.WithWait(10*time.Second)) })
		}
		work.Wait()
		require.Less(t, counting.calls, 64*10*3, "fewer than three calls a second and waiter")
		require.NoError(t, other.Close(t.Context()))
	})
}

type counter struct {
	lock.Store
	mu    sync.Mutex
	calls int
}

func (c *counter) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.Store.Acquire(ctx, r)
}
