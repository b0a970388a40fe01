package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// A handle that nobody gave out opens nothing.
func TestAdoptChecksTheHandle(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		good := lock.Handle{Name: "n", Owner: "a.1", Limit: 1, Count: 1, Lease: time.Second}
		for _, spoil := range []func(*lock.Handle){
			func(h *lock.Handle) { *h = lock.Handle{Name: "n"} },
			func(h *lock.Handle) { h.Owner = "" },
			func(h *lock.Handle) { h.Name = "" },
			func(h *lock.Handle) { h.Kind = 9 },
			func(h *lock.Handle) { h.Limit = 2 },
			func(h *lock.Handle) { h.Count = 0 },
			func(h *lock.Handle) { h.Kind = lock.ReadWrite },
			func(h *lock.Handle) { h.Kind, h.Limit, h.Count = lock.ReadWrite, lock.Everything, 2 },
			func(h *lock.Handle) { h.Kind, h.Limit, h.Count = lock.Permits, 3, 4 },
			func(h *lock.Handle) { h.Kind, h.Limit = lock.Permits, lock.Everything },
			func(h *lock.Handle) { h.Lease = time.Nanosecond },
			func(h *lock.Handle) { h.MaxHold = -1 },
		} {
			h := good
			spoil(&h)
			_, err := p.near.Adopt(t.Context(), h)
			require.ErrorIs(t, err, lock.ErrInvalid, "%+v", h)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		_, err := p.near.Adopt(t.Context(), good)
		require.ErrorIs(t, err, lock.ErrLost)
		p.idle(t, lock.Mutex, "n")
	})
}

// A lost answer does not cost the lock that was handed over.
func TestAdoptWithLostAnswers(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		lease, err := p.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		handle, err := lease.Handle()
		require.NoError(t, err)
		var once sync.Once
		p.store.set(func() {
			p.store.acquire = func(ctx context.Context, r *lock.Request) (g lock.Grant, err error) {
				g, err = p.store.Store.Acquire(ctx, r)
				once.Do(func() { g, err = lock.Grant{}, errDown })
				return g, err
			}
		})
		adopted, err := p.near.Adopt(t.Context(), handle)
		require.NoError(t, err)
		require.Greater(t, adopted.Fence(), lease.Fence())
		require.NoError(t, adopted.Check(t.Context()))
		require.Equal(t, uint64(1), p.events.Count(lock.Acquired))
		require.NoError(t, adopted.Unlock(t.Context()))
	})
}

// What was asked for with the lock goes with it.
func TestAdoptKeepsTheOptions(t *testing.T) {
	t.Parallel()
	together(t, lock.Config{}, func(t *testing.T, p *pair) {
		hand := func(opts ...lock.Option) *lock.Lease {
			lease, err := p.far.Lock(t.Context(), "n", append(opts, lock.WithMetadata("host:7"))...)
			require.NoError(t, err)
			time.Sleep(4 * time.Second) //nolint:forbidigo // in a bubble
			handle, err := lease.Handle()
			require.NoError(t, err)
			adopted, err := p.near.Adopt(t.Context(), handle)
			require.NoError(t, err)
			info, err := p.near.Inspect(t.Context(), "n")
			require.NoError(t, err)
			require.Equal(t, "host:7", info.Holders[0].Metadata)
			return adopted
		}
		start := time.Now()
		fixed := hand(lock.WithFixedLease(10 * time.Second))
		<-fixed.Context().Done()
		require.ErrorIs(t, context.Cause(fixed.Context()), lock.ErrLost)
		require.Less(t, time.Since(start), 15*time.Second)

		start = time.Now()
		bounded := hand(lock.WithLease(6*time.Second), lock.WithMaxHold(time.Minute))
		<-bounded.Context().Done()
		require.ErrorIs(t, context.Cause(bounded.Context()), lock.ErrMaxHold)
		require.LessOrEqual(t, time.Since(start), 66*time.Second)
	})
}
