package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// loseFirst keeps the first Acquire from arriving, until late delivers it.
func (p *pair) loseFirst() (late func(*testing.T)) {
	var first *lock.Request
	p.store.set(func() {
		p.store.acquire = func(ctx context.Context, r *lock.Request) (lock.Grant, error) {
			if first == nil {
				one := *r
				first = &one
				return lock.Grant{}, silent(ctx)
			}
			return p.store.Store.Acquire(ctx, r)
		}
	})
	return func(t *testing.T) {
		t.Helper()
		_, err := p.store.Store.Acquire(t.Context(), first)
		require.NoError(t, err)
	}
}

// A call without an answer may arrive after the lock was got by another one and
// given back. What it brings about is undone.
func TestLateAcquireAfterUnlock(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		late := p.loseFirst()
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		late(t)
		start := time.Now()
		next, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Second)
		require.NoError(t, next.Unlock(t.Context()))
		require.Zero(t, p.events.Count(lock.Lost))
	})
}

// The same after an attempt that was given up.
func TestLateAcquireAfterGivingUp(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		late := p.loseFirst()
		_, err := p.near.TryLock(t.Context(), "n")
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		synctest.Wait() // it was undone once
		late(t)
		info, err := p.far.Inspect(t.Context(), "n")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		time.Sleep(2 * time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		p.idle(t, lock.Mutex, "n")
	})
}

// WithWait is a bound also where the store is silent, and the error tells of that.
func TestWaitBoundsASilentStore(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		p.store.set(func() {
			p.store.acquire = func(ctx context.Context, _ *lock.Request) (lock.Grant, error) {
				return lock.Grant{}, silent(ctx)
			}
		})
		start := time.Now()
		_, err := p.near.TryLock(t.Context(), "n", lock.WithWait(50*time.Millisecond))
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		_, ok := errors.AsType[*lock.StoreError](err)
		require.True(t, ok, "the trouble is told: %v", err)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's context has not ended")

		p.store.set(func() {
			p.store.acquire = func(context.Context, *lock.Request) (lock.Grant, error) { return lock.Grant{}, errDown }
		})
		_, err = p.near.TryLock(t.Context(), "n", lock.WithWait(50*time.Millisecond))
		require.ErrorIs(t, err, errDown)
		c, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = p.near.Lock(c, "n")
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// deaf is a store that tells nobody anything.
type deaf struct{ lock.Store }

func (deaf) Subscribe(ctx context.Context, _ string, ready func(), _ func(lock.Owner)) error {
	ready()
	return silent(ctx)
}

// However long a place in the queue lives, who waits asks often enough to find a
// grant that nobody told of before it lapses.
func TestPatientWaiterIsNotPassedOver(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		patient, err := lock.New(deaf{p.store}, lock.Config{Waiter: time.Minute})
		require.NoError(t, err)
		first, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			_, failed := patient.Lock(t.Context(), "n")
			got <- failed
		}()
		synctest.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		released := time.Now()
		require.NoError(t, first.Unlock(t.Context()))
		require.NoError(t, <-got)
		require.Less(t, time.Since(released), time.Second)
		require.NoError(t, patient.Close(t.Context()))
	})
}

// Breaking a lock hands it to a waiter of the Locker that broke it, who learns of
// it at once.
func TestBreakTellsItsOwnWaiters(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		for _, breaker := range []*lock.Locker{p.near, p.far} {
			first, err := p.far.Lock(t.Context(), "n")
			require.NoError(t, err)
			waiting := make(chan *lock.Lease, 1)
			go func() {
				lease, _ := p.near.Lock(t.Context(), "n")
				waiting <- lease
			}()
			synctest.Wait()
			start := time.Now()
			require.NoError(t, breaker.Break(t.Context(), "n", first.Owner()))
			lease := <-waiting
			require.Equal(t, start, time.Now())
			if breaker == p.far {
				require.ErrorIs(t, first.Err(), lock.ErrLost, "its own Locker knows it at once")
			}
			require.ErrorIs(t, first.Unlock(t.Context()), lock.ErrLost)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// LockAll does not outlast its context, whatever it has to give back.
func TestLockAllReturnsInTime(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		_, err := p.far.Lock(t.Context(), "z")
		require.NoError(t, err)
		p.store.set(func() {
			p.store.release = func(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
				if r.Name == "z" {
					return p.store.Store.Release(ctx, r)
				}
				return lock.Outcome{}, silent(ctx)
			}
		})
		c, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err = p.near.LockAll(c, []string{"a", "b", "c", "z"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		p.store.set(func() { p.store.release = nil })
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		p.idle(t, lock.Mutex, "a")
	})
}

// A lost lock stays lost although the first release had no answer.
func TestUnlockOfALostLockWithATroubledStore(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		for _, lost := range []bool{true, false} {
			lease, err := p.near.Lock(t.Context(), "n")
			require.NoError(t, err)
			if lost {
				require.NoError(t, p.far.Break(t.Context(), "n", lease.Owner()))
			}
			calls := 0
			p.store.set(func() {
				p.store.release = func(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
					out, failed := p.store.Store.Release(ctx, r)
					if calls++; calls == 1 {
						return lock.Outcome{}, errDown // the answer is lost
					}
					return out, failed
				}
			})
			err = lease.Unlock(t.Context())
			if lost {
				require.ErrorIs(t, err, lock.ErrLost)
			} else {
				require.NoError(t, err)
			}
			p.store.set(func() { p.store.release = nil })
		}
		require.Equal(t, uint64(1), p.events.Count(lock.Lost))
		require.Equal(t, uint64(1), p.events.Count(lock.Released))
	})
}

// A release between a try in vain and the subscription is not missed: who begins
// to listen asks at once.
func TestReleaseBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		first, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		unlocked := errors.New("not yet")
		p.store.set(func() {
			p.store.before = func() { unlocked = first.Unlock(t.Context()) }
		})
		start := time.Now()
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, unlocked)
		require.Equal(t, start, time.Now())
		require.NoError(t, lease.Unlock(t.Context()))
	})
}
