package redislock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// A release whose request was lost is repeated, and the answer is exact: who was
// broken, or broke nobody, hears of it.
func TestLostReleaseOfTheBroken(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]testenv.Direction{"Requests": testenv.Requests, "Replies": testenv.Replies} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lose := func() { b.proxy.Lose(direction, 1, "EVALSHA") }
			take := func(l *lock.Locker) *lock.Lease {
				lease, err := l.Lock(t.Context(), "n")
				require.NoError(t, err)
				return lease
			}
			far := take(b.far)
			require.NoError(t, b.near.Break(t.Context(), "n", far.Owner()))
			lose()
			require.ErrorIs(t, far.Unlock(t.Context()), lock.ErrLost)
			near := take(b.near)
			lose()
			require.NoError(t, b.far.Break(t.Context(), "n", near.Owner()))
			lose()
			require.ErrorIs(t, b.far.Break(t.Context(), "n", "nobody.1"), lock.ErrNotHeld)
			require.ErrorIs(t, near.Unlock(t.Context()), lock.ErrLost)
			require.NoError(t, take(b.near).Unlock(t.Context()))
			reader, err := b.far.ReadWrite("n").RLock(t.Context())
			require.NoError(t, err)
			lose()
			require.NoError(t, reader.Unlock(t.Context()))
			reader, err = b.far.ReadWrite("n").RLock(t.Context())
			require.NoError(t, err)
			_, err = store(t, single(t, b.server.Addr), redislock.Options{}).Release(t.Context(),
				&lock.Request{Kind: lock.ReadWrite, Name: "n", Owner: reader.Owner(), By: "breaker"})
			require.NoError(t, err)
			lose()
			require.ErrorIs(t, reader.Unlock(t.Context()), lock.ErrLost)
		})
	}
}
