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

// The end of another lock, whose context this one was taken with, ends the
// context but not the lock.
func TestTheEndOfAnOuterLock(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		outer, err := p.near.Lock(t.Context(), "m")
		require.NoError(t, err)
		lease, err := p.near.Lock(outer.Context(), "n")
		require.NoError(t, err)
		again, err := p.near.Lock(lease.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, outer.Unlock(t.Context()))
		synctest.Wait()
		for _, one := range []*lock.Lease{lease, again} {
			require.NoError(t, one.Err(), "it is held")
			require.NoError(t, one.Check(t.Context()))
			require.ErrorIs(t, context.Cause(one.Context()), lock.ErrReleased, "the caller's context has ended")
		}
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, lease.Err(), lock.ErrReleased)
		require.NoError(t, again.Err())
		require.NoError(t, again.Unlock(t.Context()))
		p.idle(t, lock.Mutex, "n")
	})
}

// The context of a re-entry has the deadline of the caller's, and ends as it does.
func TestDeadlineOfAReentry(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		outer, err := p.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		c, cancel := context.WithTimeout(outer.Context(), time.Second)
		defer cancel()
		inner, err := p.near.Lock(c, "n")
		require.NoError(t, err)
		want, _ := c.Deadline()
		got, ok := inner.Context().Deadline()
		require.True(t, ok)
		require.Equal(t, want, got)
		require.NoError(t, outer.Unlock(t.Context()))
		synctest.Wait()
		require.NoError(t, inner.Context().Err())
		<-inner.Context().Done()
		require.Equal(t, want, time.Now())
		require.ErrorIs(t, inner.Context().Err(), context.DeadlineExceeded)
		require.NoError(t, inner.Err())
		require.NoError(t, inner.Unlock(t.Context()))
	})
}

// A Locker that is closed takes locks away from work in progress, and says so.
func TestCloseDuringDo(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		err := p.near.Do(t.Context(), "n", func(c context.Context, lease *lock.Lease) error {
			require.NoError(t, p.near.Close(context.WithoutCancel(c)))
			require.ErrorIs(t, context.Cause(c), lock.ErrClosed)
			require.ErrorIs(t, context.Cause(c), lock.ErrReleased)
			require.ErrorIs(t, lease.Err(), lock.ErrClosed)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrClosed)
		_, err = p.near.Inspect(t.Context(), "n")
		require.ErrorIs(t, err, lock.ErrClosed)
		require.ErrorIs(t, p.near.Break(t.Context(), "n", "a.1"), lock.ErrClosed)
		_, err = p.near.ReadWrite("n").Inspect(t.Context())
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}

// A lock that is on its way when its Locker is closed is given back.
func TestCloseDuringLock(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testing.T, *pair) (*lock.Lease, error){
		"Lock": func(t *testing.T, p *pair) (*lock.Lease, error) {
			return p.near.Lock(t.Context(), "n", lock.WithLease(3*time.Second))
		},
		"Adopt": func(t *testing.T, p *pair) (*lock.Lease, error) {
			return p.near.Adopt(t.Context(), lock.Handle{Name: "n", Owner: "gone.1", Limit: 1, Count: 1, Lease: 3 * time.Second})
		},
	}
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			together(t, lock.Config{}, func(t *testing.T, p *pair) {
				if name == "Adopt" {
					_, err := p.store.Store.Acquire(t.Context(), &lock.Request{Name: "n", Owner: "gone.1", Limit: 1, Count: 1, Lease: time.Minute})
					require.NoError(t, err)
				}
				goOn := make(chan struct{})
				p.store.set(func() {
					p.store.acquire = func(ctx context.Context, r *lock.Request) (lock.Grant, error) {
						g, err := p.store.Store.Acquire(ctx, r)
						<-goOn
						return g, err
					}
				})
				locked, closed := make(chan error, 1), make(chan error, 1)
				go func() {
					lease, err := take(t, p)
					if lease != nil {
						err = errors.New("a lease of a closed locker")
					}
					locked <- err
				}()
				synctest.Wait()
				go func() { closed <- p.near.Close(t.Context()) }()
				synctest.Wait()
				close(goOn)
				require.ErrorIs(t, <-locked, lock.ErrClosed)
				require.NoError(t, <-closed)
				p.idle(t, lock.Mutex, "n")
			})
		})
	}
}

// A watchdog whose Locker is being closed waits, it does not spin.
func TestCloseThatTakesLong(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		for _, name := range []string{"a", "b", "c"} {
			_, err := p.near.Lock(t.Context(), name, lock.WithLease(3*time.Second))
			require.NoError(t, err)
		}
		p.store.set(func() {
			p.store.release = func(ctx context.Context, _ *lock.Request) (lock.Outcome, error) {
				return lock.Outcome{}, silent(ctx)
			}
		})
		// In a bubble, time stands still while somebody spins.
		require.Error(t, p.near.Close(t.Context()))
	})
}
