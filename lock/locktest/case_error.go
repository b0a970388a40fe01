package locktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func errorCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"N25_N26_UnlockTwice": func(t *testing.T, w *world) {
			l := w.locker(t)
			lease := must(t, l, "n")
			require.NoError(t, lease.Unlock(ctx(t)))
			err := lease.Unlock(ctx(t))
			require.ErrorIs(t, err, lock.ErrNotHeld)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			require.NotErrorIs(t, err, lock.ErrLost)
		},
		"N26_UnlockAfterExpiry": func(t *testing.T, w *world) {
			lease := must(t, w.locker(t), "n", lock.WithFixedLease(lock.MinLease))
			require.ErrorIs(t, done(t, lease.Context()), lock.ErrLost)
			require.ErrorIs(t, lease.Unlock(ctx(t)), lock.ErrNotHeld)
		},
		"N27_N32_BothErrorsVisible": func(t *testing.T, w *world) {
			l := w.locker(t)
			held := must(t, l, "n")
			c, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err := l.Lock(c, "n")
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			who, ok := errors.AsType[*lock.NotAcquiredError](err)
			require.True(t, ok)
			require.Equal(t, held.Owner(), who.Holder)
			require.Positive(t, who.Left)
		},
		"EndedContext": func(t *testing.T, w *world) {
			l := w.locker(t)
			c, cancel := context.WithCancelCause(t.Context())
			cancel(errWork)
			_, err := l.TryLock(c, "n")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errWork)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			free(t, l, "n")
		},
		"InvalidOptions": func(t *testing.T, w *world) {
			l := w.locker(t)
			for _, o := range []lock.Option{
				lock.WithLease(0), lock.WithLease(500 * time.Microsecond), lock.WithLease(time.Second + 1), lock.WithLease(2 * lock.MaxLease),
				lock.WithWait(-1), lock.WithMaxHold(0), lock.WithMetadata(strings.Repeat("x", lock.MaxMetadata+1)), lock.WithFixedLease(-1),
			} {
				_, err := l.TryLock(ctx(t), "n", o)
				require.ErrorIs(t, err, lock.ErrInvalid)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
			}
			for _, name := range []string{"", "{", "a}b", "}{", "{}", "x{}{a}", strings.Repeat("x", lock.MaxName+1)} {
				_, err := l.TryLock(ctx(t), name)
				require.ErrorIs(t, err, lock.ErrInvalid, name)
			}
			for _, c := range []lock.Config{{Lease: time.Nanosecond}, {Waiter: time.Microsecond}, {CallTimeout: -1}, {Patience: -1}} {
				_, err := lock.New(w.store, c)
				require.ErrorIs(t, err, lock.ErrInvalid)
			}
			_, err := l.LockAll(ctx(t), nil)
			require.ErrorIs(t, err, lock.ErrInvalid)
			for _, n := range []int{0, 4, -1} {
				_, err = l.Semaphore("n", 3).TryAcquire(ctx(t), n)
				require.ErrorIs(t, err, lock.ErrInvalid)
			}
		},
	}
}
