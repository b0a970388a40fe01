package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func request(owner string, lease time.Duration) *lock.Request {
	by := lock.Owner(owner).Locker()
	return &lock.Request{Kind: lock.Mutex, Name: "n", Owner: lock.Owner(owner), By: by, Limit: 1, Count: 1, Lease: lease}
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
		"ReleaseRepeats":          releaseRepeats,
		"ReleaseOfTheExpired":     releaseExpired,
		"ReleaseHandsToItsLocker": releaseHands,
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

// releaseRepeats: the answer to a repetition is that to the first, until another
// release of the name; and only for the Locker that sent it.
func releaseRepeats(t *testing.T, w *world) {
	release := func(r *lock.Request) bool {
		out, err := w.store.Release(ctx(t), r)
		require.NoError(t, err)
		return out.Released
	}
	a, b := request("a.1", time.Minute), request("b.1", time.Minute)
	require.False(t, release(a), "nobody held it")
	_, err := w.store.Acquire(ctx(t), a)
	require.NoError(t, err)
	require.True(t, release(a))
	require.True(t, release(a))
	breaker := *a
	breaker.By = "c"
	require.False(t, release(&breaker), "there was nothing to break")
	held, err := w.store.Acquire(ctx(t), b)
	require.NoError(t, err)
	require.True(t, release(a))
	info, err := w.store.Inspect(ctx(t), lock.Mutex, "n")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.Equal(t, b.Owner, info.Holders[0].Owner)
	w.same(t, held.Fence, info.Holders[0].Fence)
	breaker.Owner = b.Owner
	require.True(t, release(&breaker))
	require.False(t, release(b), "it was broken")
	require.True(t, release(&breaker))
}

// releaseExpired: what had run out is not released, but handed on.
func releaseExpired(t *testing.T, w *world) {
	a := request("a.1", lock.MinLease)
	_, err := w.store.Acquire(ctx(t), a)
	require.NoError(t, err)
	until(t, "the lease ends", func() bool {
		info, failed := w.store.Inspect(ctx(t), lock.Mutex, "n")
		require.NoError(t, failed)
		return len(info.Holders) == 0
	})
	for range 2 {
		out, failed := w.store.Release(ctx(t), a)
		require.NoError(t, failed)
		if w.exact { // the servers of a quorum see the end one after the other
			require.False(t, out.Released)
		}
	}
	b, err := w.store.Acquire(ctx(t), request("b.1", time.Minute))
	require.NoError(t, err)
	require.NotZero(t, b.Fence)
}

// releaseHands: the answer tells of waiters of the Locker that asked, whomever it
// has released.
func releaseHands(t *testing.T, w *world) {
	if !w.queue {
		return // nobody waits there
	}
	a, next := request("a.1", time.Minute), request("a.2", time.Minute)
	next.Queue = time.Minute
	for _, by := range []string{"b", "a"} {
		for _, r := range []*lock.Request{a, next} {
			_, err := w.store.Acquire(ctx(t), r)
			require.NoError(t, err)
		}
		breaker := *a
		breaker.By = by
		out, err := w.store.Release(ctx(t), &breaker)
		require.NoError(t, err)
		require.True(t, out.Released)
		if by == "b" {
			require.Empty(t, out.Next)
		} else {
			require.Len(t, out.Next, 1)
			require.Equal(t, next.Owner, out.Next[0].Owner)
		}
		_, err = w.store.Release(ctx(t), next)
		require.NoError(t, err)
	}
}
