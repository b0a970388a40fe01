package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func multiCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"AllOrNothing": func(t *testing.T, w *world) {
			a, b := w.locker(t), w.locker(t)
			all, err := a.LockAll(ctx(t), []string{"b", "a", "c", "a"})
			require.NoError(t, err)
			for _, name := range []string{"a", "b", "c"} {
				taken(t, b, name)
				require.NotZero(t, all.Fence(name))
			}
			require.Zero(t, all.Fence("d"))
			require.NoError(t, all.Check(ctx(t)))
			require.NoError(t, all.Extend(ctx(t), time.Minute))
			require.NoError(t, all.Unlock(ctx(t)))
			require.ErrorIs(t, all.Err(), lock.ErrReleased)

			held := must(t, b, "c")
			_, err = a.LockAll(ctx(t), []string{"a", "b", "c"}, lock.WithWait(20*time.Millisecond))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			_, err = a.LockAll(ctx(t), []string{"a", "b", "c"}, lock.WithWait(0))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			for _, name := range []string{"a", "b"} { // they are given back beside the caller
				require.NoError(t, must(t, b, name).Unlock(ctx(t)))
			}
			require.NoError(t, held.Unlock(ctx(t)))
		},
		"N12_OppositeOrders": func(t *testing.T, w *world) {
			var work sync.WaitGroup
			c := ctx(t)
			for i := range 4 {
				l := w.locker(t)
				names := []string{"a", "b"}
				if i%2 == 0 {
					names = []string{"b", "a"}
				}
				work.Go(func() {
					for range 50 {
						all, err := l.LockAll(c, names)
						if err != nil {
							t.Error(err)
							return
						}
						assert.NoError(t, all.Unlock(c))
					}
				})
			}
			work.Wait()
		},
		"N13_CancelFreesAll": func(t *testing.T, w *world) {
			a, b := w.locker(t), w.locker(t)
			for _, held := range []string{"a", "b", "c"} {
				lease := must(t, b, held)
				c, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				_, err := a.LockAll(c, []string{"a", "b", "c"})
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, lease.Unlock(ctx(t)))
			}
			for _, name := range []string{"a", "b", "c"} {
				must(t, b, name)
			}
		},
		"LossOfOneEndsAll": func(t *testing.T, w *world) {
			l := w.locker(t)
			all, err := l.LockAll(ctx(t), []string{"a", "b", "c"}, lock.WithLease(renewed))
			require.NoError(t, err)
			info, err := l.Inspect(ctx(t), "a")
			require.NoError(t, err)
			require.NoError(t, l.Break(ctx(t), "a", info.Holders[0].Owner))
			require.ErrorIs(t, done(t, all.Context()), lock.ErrLost)
			require.ErrorIs(t, all.Unlock(ctx(t)), lock.ErrLost)
			free(t, l, "b")
			free(t, l, "c")
		},
	}
}
