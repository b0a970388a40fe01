package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func waitCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"WaitsForTheRelease":        waitsForRelease,
		"WaitsForTheEndOfALease":    waitsForEnd,
		"N31_WaitBeyondTheLease":    waitBeyondLease,
		"N14_LeaseBelowTheWait":     leaseBelowWait,
		"N48_TheLoserGoesOnWaiting": loserWaits,
		"N05_CancelLeavesNothing":   cancelLeaves,
		"WaitIsOver":                waitIsOver,
	}
}

type locked struct {
	lease *lock.Lease
	err   error
}

// background locks in a goroutine.
func background(c context.Context, l *lock.Locker, opts ...lock.Option) <-chan locked {
	out := make(chan locked, 1)
	go func() {
		lease, err := l.Lock(c, "n", opts...)
		out <- locked{lease, err}
	}()
	return out
}

func waitsForRelease(t *testing.T, w *world) {
	first := must(t, w.locker(t), "n")
	waiting := w.waiting(t)
	require.NoError(t, first.Unlock(ctx(t)))
	got := <-waiting
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Fence(), first.Fence())
}

func waitsForEnd(t *testing.T, w *world) {
	r := request("gone.1", short) // its process has died
	_, err := w.store.Acquire(ctx(t), r)
	require.NoError(t, err)
	must(t, w.locker(t), "n")
}

func waitBeyondLease(t *testing.T, w *world) {
	first := must(t, w.locker(t), "n", lock.WithLease(renewed))
	waiting := w.waiting(t, lock.WithLease(short), lock.WithWait(limit))
	lasts(3 * short)
	require.NoError(t, first.Unlock(ctx(t)))
	got := <-waiting
	require.NoError(t, got.err)
}

// leaseBelowWait: a wait that is longer than the lease must not return a lease
// that has ended meanwhile.
func leaseBelowWait(t *testing.T, w *world) {
	first := must(t, w.locker(t), "n")
	start := time.Now()
	waiting := w.waiting(t, lock.WithLease(short), lock.WithWait(limit))
	lasts(2 * short)
	require.NoError(t, first.Unlock(ctx(t)))
	got := <-waiting
	require.NoError(t, got.err)
	require.Greater(t, got.lease.ValidUntil(), start.Add(2*short), "it counts from the try that was successful")
	sound(t, got.lease)
}

func loserWaits(t *testing.T, w *world) {
	first := must(t, w.locker(t), "n")
	one, two := w.waiting(t), w.waiting(t)
	require.NoError(t, first.Unlock(ctx(t)))
	var winner locked
	var loser <-chan locked
	select {
	case winner = <-one:
		loser = two
	case winner = <-two:
		loser = one
	}
	require.NoError(t, winner.err)
	select {
	case <-loser:
		require.FailNow(t, "the loser has stopped waiting")
	case <-time.NewTimer(short).C:
	}
	require.NoError(t, winner.lease.Unlock(ctx(t)))
	require.NoError(t, (<-loser).err)
}

// cancelLeaves cancels at every moment of an acquisition.
func cancelLeaves(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	for i := range 60 {
		lease := must(t, a, "n")
		c, cancel := context.WithCancel(t.Context())
		waiting := background(c, b)
		lasts(time.Duration(i%6) * 50 * time.Microsecond)
		if i%2 == 0 {
			cancel()
			require.NoError(t, lease.Unlock(ctx(t)))
		} else {
			require.NoError(t, lease.Unlock(ctx(t)))
			cancel()
		}
		if got := <-waiting; got.err == nil {
			require.NoError(t, got.lease.Unlock(ctx(t)))
		} else {
			require.ErrorIs(t, got.err, context.Canceled)
		}
		cancel()
	}
	until(t, "nothing is left", func() bool {
		info, err := a.Inspect(ctx(t), "n")
		require.NoError(t, err)
		return len(info.Holders) == 0 && info.Waiters == 0
	})
}

func waitIsOver(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	must(t, a, "n")
	_, err := b.TryLock(ctx(t), "n", lock.WithWait(30*time.Millisecond))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the context has not ended")
	_, err = b.Lock(ctx(t), "n", lock.WithWait(0))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	queued(t, a, 0)
}
