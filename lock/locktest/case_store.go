package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func request(owner string, lease time.Duration) *lock.Request {
	return &lock.Request{Kind: lock.Mutex, Name: "n", Owner: lock.Owner(owner), Limit: 1, Count: 1, Lease: lease}
}

// storeCases speak to the store as a Locker does whose answers get lost.
func storeCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"AcquireRepeats": func(t *testing.T, w *world) {
			a := request("a.1", time.Minute)
			first, err := w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			require.NotZero(t, first.Fence)
			again, err := w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			w.same(t, first.Fence, again.Fence)
			other, err := w.store.Acquire(ctx(t), request("b.1", time.Minute))
			require.NoError(t, err)
			require.Zero(t, other.Fence)
		},
		"ReleaseRepeats": func(t *testing.T, w *world) {
			a, b := request("a.1", time.Minute), request("b.1", time.Minute)
			_, err := w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			out, err := w.store.Release(ctx(t), a)
			require.NoError(t, err)
			require.True(t, out.Released)
			held, err := w.store.Acquire(ctx(t), b)
			require.NoError(t, err)
			out, err = w.store.Release(ctx(t), a)
			require.NoError(t, err)
			require.False(t, out.Released)
			info, err := w.store.Inspect(ctx(t), lock.Mutex, "n")
			require.NoError(t, err)
			require.Len(t, info.Holders, 1)
			require.Equal(t, b.Owner, info.Holders[0].Owner)
			w.same(t, held.Fence, info.Holders[0].Fence)
		},
		"N29_N43_RenewNeverCreates": func(t *testing.T, w *world) {
			a := request("a.1", time.Minute)
			ok, err := w.store.Renew(ctx(t), a)
			require.NoError(t, err)
			require.False(t, ok)
			a.Lease = lock.MinLease
			_, err = w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			until(t, "the lease ends", func() bool {
				info, failed := w.store.Inspect(ctx(t), lock.Mutex, "n")
				require.NoError(t, failed)
				return len(info.Holders) == 0
			})
			ok, err = w.store.Renew(ctx(t), a)
			require.False(t, ok)
			if w.exact { // the servers of a quorum see the end one after the other
				require.NoError(t, err)
			}
		},
		"N46_RenewNeverAdds": func(t *testing.T, w *world) {
			a := request("a.1", time.Second)
			_, err := w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			for range 50 {
				ok, failed := w.store.Renew(ctx(t), a)
				require.NoError(t, failed)
				require.True(t, ok)
			}
			info, err := w.store.Inspect(ctx(t), lock.Mutex, "n")
			require.NoError(t, err)
			require.LessOrEqual(t, info.Holders[0].Left, time.Second)
		},
		"TakeOver": func(t *testing.T, w *world) {
			a := request("a.1", time.Minute)
			first, err := w.store.Acquire(ctx(t), a)
			require.NoError(t, err)
			b := request("b.1", time.Minute)
			b.From = a.Owner
			second, err := w.store.Acquire(ctx(t), b)
			require.NoError(t, err)
			require.Greater(t, second.Fence, first.Fence)
			again, err := w.store.Acquire(ctx(t), b)
			require.NoError(t, err)
			w.same(t, second.Fence, again.Fence)
			c := request("c.1", time.Minute)
			c.From = a.Owner
			third, err := w.store.Acquire(ctx(t), c)
			require.NoError(t, err)
			require.Zero(t, third.Fence)
		},
		"FencesGrow": func(t *testing.T, w *world) {
			a := request("a.1", time.Minute)
			var last lock.Fence
			for range 100 {
				g, err := w.store.Acquire(ctx(t), a)
				require.NoError(t, err)
				require.Greater(t, g.Fence, last)
				last = g.Fence
				_, err = w.store.Release(ctx(t), a)
				require.NoError(t, err)
			}
		},
		"NamesDoNotMeet": func(t *testing.T, w *world) {
			l := w.locker(t)
			for _, name := range []string{"a", "{a}", "a:q", "{a}:q", "x{a}", "m:{a}", "=a"} {
				must(t, l, name)
			}
		},
	}
}
