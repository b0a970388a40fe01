package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
)

// lossy is a bench whose far side loses a message now and then.
type lossy struct {
	*bench
	direction testenv.Direction
}

func (b *lossy) lose(t *testing.T) {
	t.Helper()
	lost := b.proxy.Lose(b.direction, 1, "EVALSHA")
	t.Cleanup(func() { happens(t, lost) })
}

// lossyCases are calls whose request or answer gets lost.
func lossyCases() map[string]func(*testing.T, *lossy) {
	return map[string]func(*testing.T, *lossy){
		"Readers": func(t *testing.T, b *lossy) {
			b.lives(t, func(ctx context.Context) (*lock.Lease, error) { return b.far.ReadWrite("n").RLock(ctx) })
			b.alone(t)
		},
		"Writer": func(t *testing.T, b *lossy) {
			b.lives(t, func(ctx context.Context) (*lock.Lease, error) { return b.far.ReadWrite("n").Lock(ctx) })
			b.alone(t)
		},
		"Permits": func(t *testing.T, b *lossy) {
			far, near := b.far.Semaphore("n", 3), b.near.Semaphore("n", 3)
			b.lives(t, func(ctx context.Context) (*lock.Lease, error) { return far.Acquire(ctx, 2) })
			all, err := near.TryAcquire(t.Context(), 3)
			require.NoError(t, err, "no permit has got lost")
			require.NoError(t, all.Unlock(t.Context()))
		},
		"ShorterExtend": func(t *testing.T, b *lossy) {
			old, err := b.far.Lock(t.Context(), "n", lock.WithLease(time.Minute))
			require.NoError(t, err)
			b.lose(t)
			if b.direction == testenv.Replies {
				require.Error(t, old.Extend(t.Context(), time.Second))
				require.LessOrEqual(t, time.Until(old.ValidUntil()), time.Second, "it may have been done")
			}
			require.NoError(t, persist(t, func() error { return old.Extend(t.Context(), time.Second) }))
			require.NoError(t, old.Unlock(t.Context()))
		},
		"Downgrade": func(t *testing.T, b *lossy) {
			far, near := b.far.ReadWrite("n"), b.near.ReadWrite("n")
			writer, err := far.Lock(t.Context())
			require.NoError(t, err)
			reader, err := far.RLock(writer.Context())
			require.NoError(t, err)
			fence := writer.Fence()
			b.lose(t)
			require.NoError(t, persist(t, func() error { return writer.Unlock(t.Context()) }))
			second, err := near.TryRLock(t.Context())
			require.NoError(t, err, "the writer has become a reader")
			require.NoError(t, reader.Check(t.Context()))
			require.Equal(t, fence, reader.Fence())
			_, err = near.TryLock(t.Context())
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NoError(t, reader.Unlock(t.Context()))
			require.NoError(t, second.Unlock(t.Context()))
			b.alone(t)
		},
		"Adopt": func(t *testing.T, b *lossy) {
			old, err := b.near.Lock(t.Context(), "n")
			require.NoError(t, err)
			handle, err := old.Handle()
			require.NoError(t, err)
			b.lose(t)
			next, err := b.far.Adopt(t.Context(), handle)
			require.NoError(t, err, "a hand-over does not get lost")
			require.Greater(t, next.Fence(), old.Fence())
			require.NoError(t, next.Unlock(t.Context()))
			b.free(t, "n")
		},
	}
}

// lives takes, checks and gives back, and each time something gets lost.
func (b *lossy) lives(t *testing.T, take func(context.Context) (*lock.Lease, error)) {
	t.Helper()
	for _, warm := range []bool{true, false} {
		lose := func() {
			if !warm { // the first time the server learns the scripts
				b.lose(t)
			}
		}
		lose()
		lease, err := take(t.Context())
		require.NoError(t, err)
		lose()
		require.NoError(t, persist(t, func() error { return lease.Check(t.Context()) }))
		lose()
		require.NoError(t, lease.Unlock(t.Context()), "a release that was repeated is a release")
	}
}

// alone asserts that nobody reads or writes.
func (b *lossy) alone(t *testing.T) {
	t.Helper()
	writer, err := b.near.ReadWrite("n").TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, writer.Unlock(t.Context()))
}

func TestLostAnswersOfEveryKind(t *testing.T) {
	t.Parallel()
	for kind, run := range lossyCases() {
		for name, direction := range map[string]testenv.Direction{"Requests": testenv.Requests, "Replies": testenv.Replies} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				run(t, &lossy{newBench(t), direction})
			})
		}
	}
}
