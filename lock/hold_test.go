package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// A shorter lease whose answer is lost may be in force: the promise is the shorter
// one, and it is renewed in time for that.
func TestExtendShorterWithALostAnswer(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				_, _ = p.store.Store.Renew(ctx, r)
				return false, errDown
			}
		})
		require.ErrorIs(t, lease.Extend(t.Context(), time.Second), errDown)
		require.Less(t, time.Until(lease.ValidUntil()), time.Second)
		p.store.set(func() { p.store.renew = nil })
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		require.NoError(t, lease.Err(), "it was renewed in time")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The same where nothing answers any more: the loss is known before another has it.
func TestExtendShorterAndSilence(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		var once sync.Once
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				once.Do(func() { _, _ = p.store.Store.Renew(ctx, r) })
				return false, silent(ctx)
			}
		})
		require.Error(t, lease.Extend(t.Context(), time.Second))
		next, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
		require.NoError(t, next.Err())
	})
}

// A shorter renewal that arrives after a longer one has succeeded makes the lease
// shorter again, so the longer one is not relied on.
func TestLateShorterRenewal(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.near.Lock(t.Context(), "n", lock.WithLease(time.Second))
		require.NoError(t, err)
		var late *lock.Request
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				if late == nil {
					one := *r
					late = &one
					return false, silent(ctx)
				}
				return p.store.Store.Renew(ctx, r)
			}
		})
		require.Error(t, lease.Check(t.Context()))
		require.NoError(t, lease.Extend(t.Context(), 30*time.Second))
		require.Less(t, time.Until(lease.ValidUntil()), time.Second)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		require.NoError(t, lease.Err(), "it is renewed in time for the shorter one")
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, _ *lock.Request) (bool, error) { return false, silent(ctx) }
		})
		_, err = p.store.Store.Renew(t.Context(), late)
		require.NoError(t, err)
		next, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
		require.NoError(t, next.Err())
	})
}

// rw takes the write lock and reads under it.
func (p *pair) rw(t *testing.T) (write, read *lock.Lease) {
	t.Helper()
	write, err := p.near.ReadWrite("n").Lock(t.Context())
	require.NoError(t, err)
	read, err = p.near.ReadWrite("n").RLock(write.Context())
	require.NoError(t, err)
	return write, read
}

// A writer that was lost does not come back as a reader.
func TestDowngradeOfALostWriter(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		write, read := p.rw(t)
		require.NoError(t, p.far.ReadWrite("n").Break(t.Context(), write.Owner()))
		require.ErrorIs(t, write.Unlock(t.Context()), lock.ErrLost)
		require.ErrorIs(t, read.Err(), lock.ErrLost)
		require.ErrorIs(t, context.Cause(read.Context()), lock.ErrLost)
		require.ErrorIs(t, read.Unlock(t.Context()), lock.ErrLost)
		p.idle(t, lock.ReadWrite, "n")
	})
}

// While a writer becomes a reader nobody becomes the writer again: others may read
// already.
func TestReentryDuringADowngrade(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		write, read := p.rw(t)
		fence := read.Fence()
		goOn := make(chan struct{})
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				ok, err := p.store.Store.Renew(ctx, r)
				<-goOn
				return ok, err
			}
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- write.Unlock(t.Context()) }()
		synctest.Wait()
		_, err := p.near.ReadWrite("n").Lock(read.Context())
		require.ErrorIs(t, err, lock.ErrUpgrade)
		other, err := p.far.ReadWrite("n").TryRLock(t.Context())
		require.NoError(t, err)
		close(goOn)
		require.NoError(t, <-unlocked)
		require.ErrorIs(t, write.Unlock(t.Context()), lock.ErrReleased)
		require.NoError(t, other.Err())
		require.Equal(t, fence, read.Fence(), "the fence stays")
	})
}

// A reader that leaves while the writer becomes one waits for that, and leaves
// nothing behind.
func TestReleaseDuringADowngrade(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		write, read := p.rw(t)
		goOn := make(chan struct{})
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				<-goOn
				return p.store.Store.Renew(ctx, r)
			}
		})
		results := make(chan error, 2)
		go func() { results <- write.Unlock(t.Context()) }()
		synctest.Wait()
		go func() { results <- read.Unlock(t.Context()) }()
		synctest.Wait()
		close(goOn)
		for range 2 {
			if err := <-results; err != nil {
				require.ErrorIs(t, err, lock.ErrReleased)
			}
		}
		p.idle(t, lock.ReadWrite, "n")
		require.Zero(t, p.events.Count(lock.Lost))
	})
}

// A downgrade without an answer can be repeated, and the next renewal does it too.
func TestDowngradeIsRepeated(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"Unlock", "renewal"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			together(t, lock.Config{}, func(t *testing.T, p *pair) {
				write, read := p.rw(t)
				p.store.set(func() {
					p.store.renew = func(context.Context, *lock.Request) (bool, error) { return false, errDown }
				})
				require.ErrorIs(t, write.Unlock(t.Context()), errDown)
				require.ErrorIs(t, write.Err(), lock.ErrReleased)
				_, err := p.far.ReadWrite("n").TryRLock(t.Context())
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				p.store.set(func() { p.store.renew = nil })
				if again == "Unlock" {
					require.NoError(t, write.Unlock(t.Context()))
				} else {
					time.Sleep(lock.DefaultLease / 3) //nolint:forbidigo // in a bubble
					synctest.Wait()
				}
				other, err := p.far.ReadWrite("n").TryRLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, read.Check(t.Context()))
				require.NoError(t, read.Unlock(t.Context()))
				require.NoError(t, other.Unlock(t.Context()))
			})
		})
	}
}

// Two that unlock at once, or look while somebody unlocks, hear of no loss.
func TestUnlockTwiceAtOnce(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		for range 300 {
			lease, err := p.near.Lock(t.Context(), "n")
			require.NoError(t, err)
			var work sync.WaitGroup
			var errs [2]error
			for i := range errs {
				work.Go(func() { errs[i] = lease.Unlock(t.Context()) })
			}
			work.Go(func() {
				if failed := lease.Check(t.Context()); failed != nil {
					assert.ErrorIs(t, failed, lock.ErrReleased)
				}
			})
			work.Wait()
			require.Condition(t, func() bool { return (errs[0] == nil) != (errs[1] == nil) }, "one of them has done it: %v", errs)
			require.ErrorIs(t, errors.Join(errs[:]...), lock.ErrReleased)
		}
		require.Zero(t, p.events.Count(lock.Lost))
		require.Equal(t, uint64(300), p.events.Count(lock.Released))
	})
}

// A look that is on its way when the lease is given back hears that, not a loss.
func TestCheckDuringUnlock(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		goOn := make(chan struct{})
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, r *lock.Request) (bool, error) {
				<-goOn
				return p.store.Store.Renew(ctx, r)
			}
		})
		checked, unlocked := make(chan error, 1), make(chan error, 1)
		go func() { checked <- lease.Check(t.Context()) }()
		synctest.Wait()
		go func() { unlocked <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		require.ErrorIs(t, lease.Err(), lock.ErrReleased, "it is over at once")
		close(goOn)
		require.ErrorIs(t, <-checked, lock.ErrReleased)
		require.NoError(t, <-unlocked)
		p.idle(t, lock.Mutex, "n")
	})
}

// The context of a call that waits for a renewal bounds the waiting.
func TestUnlockDoesNotWaitForARenewal(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		p.store.set(func() {
			p.store.renew = func(ctx context.Context, _ *lock.Request) (bool, error) { return false, silent(ctx) }
		})
		go func() { _ = lease.Check(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		c, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, lease.Unlock(c), context.DeadlineExceeded)
		require.Equal(t, 10*time.Millisecond, time.Since(start))
		require.NoError(t, lease.Unlock(t.Context()), "it can be repeated")
	})
}

// An observer may look at the lease it is told of.
func TestObserverLooksAtTheLease(t *testing.T) {
	t.Parallel()
	var lease *lock.Lease
	seen := 0
	look := func(lock.Event) {
		if lease != nil {
			seen++
			_, _, _ = lease.ValidUntil(), lease.Fence(), lease.Err()
		}
	}
	together(t, lock.Config{Observe: look}, func(t *testing.T, p *pair) {
		var err error
		lease, err = p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, lease.Check(t.Context()))
		p.store.set(func() {
			p.store.renew = func(context.Context, *lock.Request) (bool, error) { return false, errDown }
		})
		require.ErrorIs(t, lease.Check(t.Context()), errDown)
		p.store.set(func() { p.store.renew = nil })
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 3, seen)
	})
}
