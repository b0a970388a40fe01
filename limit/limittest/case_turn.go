package limittest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// turnCases are about leaky buckets.
func turnCases() group {
	return group{
		"L17_Paced":          paced,
		"L17_QueueIsBounded": queueIsBounded,
		"TurnIsGivenBack":    turnIsGivenBack,
		"DeadlineIsTooSoon":  deadlineIsTooSoon,
		"AllowTakesNoQueue":  allowTakesNoQueue,
	}
}

// paced lets ten callers wait at once: all get a turn, evenly spaced.
func paced(t *testing.T, w *World) {
	const gap = 20 * time.Millisecond
	r := limit.Rate{Name: "r", Algorithm: limit.LeakyBucket, Quota: 5, Window: 5 * gap, Burst: 20}
	var mu sync.Mutex
	var turns, ends []time.Duration
	var work sync.WaitGroup
	start := time.Now() //nolint:forbidigo // the caller's clock, beside the store's
	for range 10 {
		work.Go(func() {
			d, err := w.limiter.Wait(t.Context(), "s", 1, r)
			end := time.Since(start) //nolint:forbidigo // the caller's clock, beside the store's
			if err != nil || !d.Allowed {
				t.Errorf("%v, %+v", err, d)
			}
			mu.Lock()
			defer mu.Unlock()
			turns, ends = append(turns, d.Turn), append(ends, end)
		})
	}
	work.Wait()
	slices.Sort(turns)
	slices.Sort(ends)
	require.Len(t, turns, 10)
	for i := range turns {
		require.GreaterOrEqual(t, ends[i], time.Duration(i)*gap, "turn %d comes too soon", i)
		if w.is.Still {
			require.Equal(t, time.Duration(i)*gap, turns[i])
		}
	}
}

func queueIsBounded(t *testing.T, w *World) {
	r := limit.Rate{Name: "r", Algorithm: limit.LeakyBucket, Quota: 1, Window: long, Burst: 3}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var mu sync.Mutex
	var waited int
	d, err := w.limiter.Wait(ctx, "s", 1, r)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	for range 3 {
		work.Go(func() {
			_, failed := w.limiter.Wait(ctx, "s", 1, r)
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				waited++
			}
		})
	}
	defer work.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return w.peek(t, "s", r).Binding.Remaining == 0 }, 20*time.Second, time.Millisecond)
	d, err = w.limiter.Wait(ctx, "s", 1, r)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, limit.Exceeded, d.Reason)
	require.Positive(t, d.Binding.RetryAfter)
	require.LessOrEqual(t, d.Binding.RetryAfter, long)
}

func turnIsGivenBack(t *testing.T, w *World) {
	r := limit.Rate{Name: "r", Algorithm: limit.LeakyBucket, Quota: 1, Window: long, Burst: 3}
	_, err := w.limiter.Wait(t.Context(), "s", 1, r)
	require.NoError(t, err)
	left := w.peek(t, "s", r).Binding.Remaining
	for range 5 { // more often than there are turns
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, failed := w.limiter.Wait(ctx, "s", 1, r)
			ended <- failed
		}()
		require.Eventually(t, func() bool { return w.peek(t, "s", r).Binding.Remaining < left }, 20*time.Second, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, left, w.peek(t, "s", r).Binding.Remaining)
	}
}

// deadlineIsTooSoon: who could not wait for its turn takes none.
func deadlineIsTooSoon(t *testing.T, w *World) {
	r := limit.Rate{Name: "r", Algorithm: limit.LeakyBucket, Quota: 1, Window: long, Burst: 3}
	_, err := w.limiter.Wait(t.Context(), "s", 1, r)
	require.NoError(t, err)
	left := w.peek(t, "s", r).Binding.Remaining
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := w.limiter.Wait(ctx, "s", 1, r)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Greater(t, d.Binding.RetryAfter, long/2)
	require.Equal(t, left, w.peek(t, "s", r).Binding.Remaining)
}

func allowTakesNoQueue(t *testing.T, w *World) {
	r := limit.Rate{Name: "r", Algorithm: limit.LeakyBucket, Quota: 4, Window: brief, Burst: 4}
	w.admitted(t, "s", 1, r)
	d := w.allow(t, "s", 1, r)
	if w.is.Still {
		require.False(t, d.Allowed)
		require.Equal(t, brief/4, d.Binding.RetryAfter)
	}
	w.Advance(d.Binding.RetryAfter)
	w.admitted(t, "s", 3, r)
	if w.is.Still {
		require.Equal(t, 3*brief/4, w.refused(t, "s", 1, r).Binding.RetryAfter, "three turns are taken")
	}
}
