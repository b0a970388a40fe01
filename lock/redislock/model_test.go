package redislock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// TestStoresAgree leads random lives of one name in Redis and in memory, which
// must give the same answers at every step.
func TestStoresAgree(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	open := fresh(single(t, s.Addr))
	for _, kind := range []lock.Kind{lock.Mutex, lock.ReadWrite, lock.Permits} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				life := &twins{redis: open(t), memory: memlock.New(), kind: kind}
				r.Repeat(map[string]func(*rapid.T){
					"acquire": func(r *rapid.T) { life.acquire(t, r) },
					"release": func(r *rapid.T) { life.release(t, r) },
					"renew":   func(r *rapid.T) { life.renew(t, r) },
					"":        func(r *rapid.T) { life.inspect(t, r) },
				})
			})
		})
	}
}

// twins are two stores that lead one life.
type twins struct {
	redis, memory lock.Store
	kind          lock.Kind
}

// request draws one of few owners of two lockers. Everything lives long, so that
// time changes nothing.
func (w *twins) request(r *rapid.T) *lock.Request {
	out := &lock.Request{Kind: w.kind, Name: "n", Limit: 1, Count: 1, Lease: time.Hour}
	out.Owner = lock.Owner(fmt.Sprintf("%s.%d", rapid.SampledFrom([]string{"a", "b"}).Draw(r, "locker"), rapid.IntRange(1, 3).Draw(r, "owner")))
	out.Barging = rapid.IntRange(0, 4).Draw(r, "barging") == 0
	if rapid.Bool().Draw(r, "queue") {
		out.Queue = time.Hour
	}
	switch w.kind {
	case lock.Mutex:
	case lock.ReadWrite:
		out.Limit = lock.Everything
		if rapid.Bool().Draw(r, "write") {
			out.Count = lock.Everything
		}
	case lock.Permits:
		out.Limit = 3
		out.Count = rapid.Int64Range(1, 3).Draw(r, "count")
	}
	return out
}

func (w *twins) acquire(t *testing.T, r *rapid.T) {
	t.Helper()
	q := w.request(r)
	if rapid.IntRange(0, 5).Draw(r, "from") == 0 {
		q.From = w.request(r).Owner
	}
	a, err := w.redis.Acquire(t.Context(), q)
	require.NoError(r, err)
	b, err := w.memory.Acquire(t.Context(), q)
	require.NoError(r, err)
	require.Equal(r, b.Fence != 0, a.Fence != 0, "granted")
	require.Equal(r, b.Refused, a.Refused)
	if a.Fence == 0 && q.From == "" {
		require.Equal(r, b.First, a.First)
		require.Equal(r, b.Waiters, a.Waiters)
	}
}

func (w *twins) release(t *testing.T, r *rapid.T) {
	t.Helper()
	q := w.request(r)
	a, err := w.redis.Release(t.Context(), q)
	require.NoError(r, err)
	b, err := w.memory.Release(t.Context(), q)
	require.NoError(r, err)
	require.Equal(r, b.Released, a.Released)
	require.Len(r, a.Next, len(b.Next))
	for i := range a.Next {
		require.Equal(r, b.Next[i].Owner, a.Next[i].Owner)
	}
}

func (w *twins) renew(t *testing.T, r *rapid.T) {
	t.Helper()
	q := w.request(r)
	a, err := w.redis.Renew(t.Context(), q)
	require.NoError(r, err)
	b, err := w.memory.Renew(t.Context(), q)
	require.NoError(r, err)
	require.Equal(r, b, a)
}

func (w *twins) inspect(t *testing.T, r *rapid.T) {
	t.Helper()
	a, err := w.redis.Inspect(t.Context(), w.kind, "n")
	require.NoError(r, err)
	b, err := w.memory.Inspect(t.Context(), w.kind, "n")
	require.NoError(r, err)
	require.Equal(r, b.Waiters, a.Waiters)
	counts := map[lock.Owner]int64{}
	var used int64
	for _, h := range b.Holders {
		counts[h.Owner] = h.Count
	}
	require.Len(r, a.Holders, len(b.Holders))
	for _, h := range a.Holders {
		require.Equal(r, counts[h.Owner], h.Count)
		used += h.Count
	}
	require.LessOrEqual(r, used, int64(lock.Everything))
}
