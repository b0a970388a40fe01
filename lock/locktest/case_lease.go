package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

func leaseCases() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"HoldsAndReleases":        holdsAndReleases,
		"N34_N37_WatchdogRenews":  watchdogRenews,
		"N03_NextLeaseIsRenewed":  nextLeaseIsRenewed,
		"N02_N47_LossIsTold":      lossIsTold,
		"N29_ExtendAfterLoss":     extendAfterLoss,
		"N46_ExtendSets":          extendSets,
		"FixedLeaseEnds":          fixedLeaseEnds,
		"MaxHold":                 maxHold,
		"N16_N45_AnyGoroutine":    anyGoroutine,
		"Reentry":                 reentry,
		"ReentryOutlivesTheOuter": reentryOutlives,
		"ReentryAfterLoss":        reentryAfterLoss,
		"WithoutReentry":          withoutReentry,
		"HandOver":                handOver,
		"BreakAndInspect":         breakAndInspect,
		"N41_DoJoinsLoss":         doJoinsLoss,
		"DoReleasesAfterPanic":    doReleases,
		"CloseReleases":           closeReleases,
		"ParentEndsContextOnly":   parentEnds,
	}
}

func holdsAndReleases(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Check(ctx(t)))
	require.Equal(t, "n", lease.Name())
	taken(t, b, "n")
	first := lease.Fence()
	require.NoError(t, lease.Unlock(ctx(t)))
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrReleased)
	require.ErrorIs(t, lease.Err(), lock.ErrReleased)
	require.Greater(t, must(t, b, "n").Fence(), first)
}

func watchdogRenews(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n", lock.WithLease(renewed))
	end := lease.ValidUntil()
	until(t, "it was renewed", func() bool { return lease.ValidUntil().After(end.Add(renewed)) })
	require.NoError(t, lease.Err())
	taken(t, b, "n")
}

func nextLeaseIsRenewed(t *testing.T, w *world) {
	l := w.locker(t)
	first := must(t, l, "n", lock.WithLease(short))
	require.NoError(t, l.Break(ctx(t), "n", first.Owner()))
	require.ErrorIs(t, done(t, first.Context()), lock.ErrLost)
	watchdogRenews(t, w)
}

func lossIsTold(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n", lock.WithLease(short))
	require.NoError(t, b.Break(ctx(t), "n", lease.Owner()))
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrLost)
	require.ErrorIs(t, lease.Err(), lock.ErrLost)
	require.ErrorIs(t, lease.Unlock(ctx(t)), lock.ErrNotHeld)
	free(t, b, "n")
}

func extendAfterLoss(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n")
	require.NoError(t, b.Break(ctx(t), "n", lease.Owner()))
	next := must(t, b, "n")
	require.ErrorIs(t, lease.Extend(ctx(t), time.Second), lock.ErrLost)
	require.ErrorIs(t, lease.Check(ctx(t)), lock.ErrLost)
	require.NoError(t, next.Check(ctx(t)))
	require.Greater(t, next.Fence(), lease.Fence())
}

func extendSets(t *testing.T, w *world) {
	l := w.locker(t)
	lease := must(t, l, "n")
	for range 100 {
		require.NoError(t, lease.Extend(ctx(t), limit))
	}
	info, err := l.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.LessOrEqual(t, info.Holders[0].Left, limit)
	require.Less(t, time.Until(lease.ValidUntil()), limit)
	require.ErrorIs(t, lease.Extend(ctx(t), time.Microsecond), lock.ErrInvalid)
}

func fixedLeaseEnds(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n", lock.WithFixedLease(limit))
	require.NoError(t, lease.Extend(ctx(t), time.Minute))
	require.NoError(t, lease.Extend(ctx(t), short))
	next := must(t, b, "n")
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrLost)
	require.Greater(t, next.Fence(), lease.Fence())
	require.ErrorIs(t, lease.Unlock(ctx(t)), lock.ErrLost)
	require.NoError(t, next.Check(ctx(t)), "the late release has not touched the next holder")
}

func maxHold(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n", lock.WithLease(time.Second), lock.WithMaxHold(short/2)) // before the first renewal
	must(t, b, "n")
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrMaxHold)
	require.ErrorIs(t, lease.Err(), lock.ErrLost)
}

func anyGoroutine(t *testing.T, w *world) {
	l := w.locker(t)
	lease := must(t, l, "n")
	c := ctx(t)
	result := make(chan error, 2)
	go func() {
		_, err := l.TryLock(c, "n") // the same goroutine is not the same owner
		result <- err
		result <- lease.Unlock(c)
	}()
	require.ErrorIs(t, <-result, lock.ErrNotAcquired)
	require.NoError(t, <-result)
	free(t, l, "n")
}

func reentry(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	outer := must(t, a, "n")
	inner, err := a.Lock(outer.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, outer.Fence(), inner.Fence())
	third, err := a.TryLock(inner.Context(), "n")
	require.NoError(t, err)
	other, err := a.Lock(inner.Context(), "other")
	require.NoError(t, err)
	require.NoError(t, other.Unlock(ctx(t)))
	require.NoError(t, third.Unlock(ctx(t)))
	require.NoError(t, inner.Unlock(ctx(t)))
	require.ErrorIs(t, inner.Unlock(ctx(t)), lock.ErrNotHeld)
	require.NoError(t, outer.Err())
	taken(t, b, "n")
	require.NoError(t, outer.Unlock(ctx(t)))
	free(t, b, "n")
}

func reentryOutlives(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	outer := must(t, a, "n")
	parent, cancel := context.WithCancel(outer.Context())
	defer cancel()
	inner, err := a.Lock(parent, "n")
	require.NoError(t, err)
	require.NoError(t, outer.Unlock(ctx(t)))
	require.ErrorIs(t, done(t, parent), lock.ErrReleased)
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Context().Err())
	taken(t, b, "n")
	require.NoError(t, inner.Unlock(ctx(t)))
	free(t, b, "n")
}

func reentryAfterLoss(t *testing.T, w *world) {
	l := w.locker(t)
	lease := must(t, l, "n", lock.WithLease(short))
	require.NoError(t, l.Break(ctx(t), "n", lease.Owner()))
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrLost)
	_, err := l.Lock(lease.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorIs(t, err, lock.ErrLost)
}

func withoutReentry(t *testing.T, w *world) {
	l := w.locker(t)
	lease := must(t, l, "n")
	_, err := l.Lock(lease.Context(), "n", lock.WithoutReentry())
	require.ErrorIs(t, err, lock.ErrReentry)
}

func handOver(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	lease := must(t, a, "n")
	fence := lease.Fence()
	handle, err := lease.Handle()
	require.NoError(t, err)
	require.ErrorIs(t, done(t, lease.Context()), lock.ErrReleased)
	require.ErrorIs(t, lease.Unlock(ctx(t)), lock.ErrReleased)
	taken(t, a, "n")

	text, err := json.Marshal(handle)
	require.NoError(t, err)
	var got lock.Handle
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, handle, got)
	adopted, err := b.Adopt(ctx(t), got)
	require.NoError(t, err)
	require.Greater(t, adopted.Fence(), fence)
	_, err = a.Adopt(ctx(t), handle)
	require.ErrorIs(t, err, lock.ErrLost, "a handle works once")
	require.NoError(t, adopted.Check(ctx(t)))
	require.NoError(t, adopted.Unlock(ctx(t)))
	_, err = a.Adopt(ctx(t), handle)
	require.ErrorIs(t, err, lock.ErrLost, "a handle opens no free lock")
	free(t, a, "n")
}

func breakAndInspect(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	info, err := b.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Empty(t, info.Holders)
	lease := must(t, a, "n", lock.WithMetadata("host:7\nline"))
	info, err = b.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	seen := info.Holders[0]
	require.Equal(t, lease.Owner(), seen.Owner)
	w.same(t, lease.Fence(), seen.Fence)
	require.Equal(t, "host:7\nline", seen.Metadata)
	require.Positive(t, seen.Left)
	require.LessOrEqual(t, seen.Left, lock.DefaultLease)
	require.NoError(t, b.Break(ctx(t), "n", seen.Owner))
	next := must(t, b, "n")
	info, err = b.Inspect(ctx(t), "n")
	require.NoError(t, err)
	require.Empty(t, info.Holders[0].Metadata, "metadata goes with its holder")
	require.ErrorIs(t, a.Break(ctx(t), "n", seen.Owner), lock.ErrNotHeld, "it was not meant for the next one")
	require.NoError(t, next.Check(ctx(t)))
}

var errWork = errors.New("work failed")

func doJoinsLoss(t *testing.T, w *world) {
	l := w.locker(t)
	err := l.Do(ctx(t), "n", func(c context.Context, lease *lock.Lease) error {
		require.NoError(t, l.Break(t.Context(), "n", lease.Owner()))
		<-c.Done()
		return errWork
	}, lock.WithLease(short))
	require.ErrorIs(t, err, errWork)
	require.ErrorIs(t, err, lock.ErrLost)
	require.NoError(t, l.Do(ctx(t), "n", func(context.Context, *lock.Lease) error { return nil }))
	require.NoError(t, l.Do(ctx(t), "n", func(_ context.Context, lease *lock.Lease) error { return lease.Unlock(t.Context()) }))
}

func doReleases(t *testing.T, w *world) {
	l := w.locker(t)
	require.Panics(t, func() {
		_ = l.Do(ctx(t), "n", func(context.Context, *lock.Lease) error { panic("work") })
	})
	free(t, l, "n")
}

func closeReleases(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	held := must(t, a, "n")
	must(t, b, "other")
	waiting := make(chan error, 1)
	c := ctx(t)
	go func() {
		_, err := a.Lock(c, "other")
		waiting <- err
	}()
	require.NoError(t, a.Close(ctx(t)))
	require.ErrorIs(t, <-waiting, lock.ErrClosed)
	require.ErrorIs(t, done(t, held.Context()), lock.ErrClosed)
	_, err := a.Lock(ctx(t), "n")
	require.ErrorIs(t, err, lock.ErrClosed)
	free(t, b, "n")
	require.NoError(t, a.Close(ctx(t)))
}

func parentEnds(t *testing.T, w *world) {
	a, b := w.locker(t), w.locker(t)
	parent, cancel := context.WithCancel(t.Context())
	lease, err := a.Lock(parent, "n")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, done(t, lease.Context()), context.Canceled)
	require.NoError(t, lease.Err(), "it is still held, to clean up under it")
	taken(t, b, "n")
	require.NoError(t, lease.Unlock(ctx(t)))
	free(t, b, "n")
}
