package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// lossCases are lives on a bad line.
func lossCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"OneAtATime": lossy(oneAtATime),
		"Unlock":     lossyUnlock,
		"HandOver":   lossyHandOver,
		"Extend":     lossyExtend,
	}
}

// lossy runs a case on a bad line.
func lossy(run func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		run(t, w.bad())
	}
}

// bad is the same world on a bad line. Leases are short there: what could not be
// given back ends by itself.
func (w *world) bad() *world {
	return &world{store: &line{Store: w.store}, exact: w.exact, queue: w.queue, lossy: true}
}

// line is a store on a line that loses some of the calls, by turns on the way
// there and on the way back.
type line struct {
	lock.Store
	calls atomic.Int64
}

var errLost = &lock.StoreError{Op: "call", Err: errors.New("no answer")}

// pass runs a call, unless it gets lost.
func (l *line) pass(call func() error) error {
	n := l.calls.Add(1) % 15 // odd, or it would always be the same calls
	if n == 3 {
		return errLost
	}
	err := call()
	if n == 11 {
		return errLost
	}
	return err
}

func (l *line) Acquire(ctx context.Context, r *lock.Request) (g lock.Grant, err error) {
	err = l.pass(func() error { g, err = l.Store.Acquire(ctx, r); return err })
	if err != nil {
		g = lock.Grant{}
	}
	return g, err
}

func (l *line) Renew(ctx context.Context, r *lock.Request) (ok bool, err error) {
	err = l.pass(func() error { ok, err = l.Store.Renew(ctx, r); return err })
	return ok && err == nil, err
}

func (l *line) Release(ctx context.Context, r *lock.Request) (out lock.Outcome, err error) {
	err = l.pass(func() error { out, err = l.Store.Release(ctx, r); return err })
	if err != nil {
		out = lock.Outcome{}
	}
	return out, err
}

// unlocked judges the result of an Unlock among others: on a bad line somebody else
// may have held and given back the lock before it is known.
func (w *world) unlocked(t *testing.T, err error) {
	t.Helper()
	if _, unknown := errors.AsType[*lock.StoreError](err); w.lossy && (unknown || errors.Is(err, lock.ErrNotHeld)) {
		return
	}
	assert.NoError(t, err)
}

// insist repeats a call until its outcome is known.
func insist(call func() error) error {
	for {
		err := call()
		if _, unknown := errors.AsType[*lock.StoreError](err); !unknown {
			return err
		}
	}
}

// lossyUnlock: whatever is lost, nobody hears of a loss that was none.
func lossyUnlock(t *testing.T, w *world) {
	l := w.bad().with(t, lock.Config{Lease: limit})
	for range 40 {
		lease := must(t, l, "n")
		require.NoError(t, insist(func() error { return lease.Unlock(ctx(t)) }))
	}
}

// lossyHandOver hands a lock on from process to process.
func lossyHandOver(t *testing.T, w *world) {
	w = w.bad()
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n", lock.WithLease(limit))
	for range 20 {
		fence := lease.Fence()
		handle, err := lease.Handle()
		require.NoError(t, err)
		lease, err = b.Adopt(ctx(t), handle)
		require.NoError(t, err)
		require.Greater(t, lease.Fence(), fence)
		require.NoError(t, insist(func() error { return lease.Check(ctx(t)) }))
		a, b = b, a
	}
	require.NoError(t, insist(func() error { return lease.Unlock(ctx(t)) }))
}

// lossyExtend makes a lease longer and shorter: the store never lets go before the
// holder knows.
func lossyExtend(t *testing.T, w *world) {
	clean := w.locker(t)
	lease := must(t, w.bad().locker(t), "n", lock.WithLease(limit))
	for i := range 40 {
		err := lease.Extend(ctx(t), time.Duration(1+i%3)*limit/4)
		if _, unknown := errors.AsType[*lock.StoreError](err); !unknown {
			require.NoError(t, err)
		}
		promised := lease.ValidUntil()
		info, err := clean.Inspect(ctx(t), "n")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		require.Equal(t, lease.Owner(), info.Holders[0].Owner)
		require.False(t, time.Now().Add(info.Holders[0].Left).Before(promised), "the promise is longer than the lease")
	}
	require.NoError(t, insist(func() error { return lease.Unlock(ctx(t)) }))
}

// lossyDowngrade lets writers become readers.
func lossyDowngrade(t *testing.T, w *world) {
	a, b := w.bad().with(t, lock.Config{Lease: limit}).ReadWrite("n"), w.locker(t).ReadWrite("n")
	for range 20 {
		write, err := a.Lock(ctx(t))
		require.NoError(t, err)
		read, err := a.RLock(write.Context())
		require.NoError(t, err)
		_, err = b.TryRLock(ctx(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, insist(func() error { return write.Unlock(ctx(t)) }))
		other, err := b.TryRLock(ctx(t))
		require.NoError(t, err)
		_, err = b.TryLock(ctx(t))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, other.Unlock(ctx(t)))
		require.NoError(t, insist(func() error { return read.Check(ctx(t)) }))
		require.NoError(t, insist(func() error { return read.Unlock(ctx(t)) }))
	}
}
