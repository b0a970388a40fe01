package limittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// changeCases change rates while they are used.
func changeCases() group {
	return group{
		"L16_QuotaChanges":  quotaChanges,
		"L16_WindowChanges": windowChanges,
		"L16_PaceChanges":   paceChanges,
		"L16_RefundsFollow": refundsFollow,
	}
}

func quotaChanges(t *testing.T, w *World) {
	for _, r := range counting(10, long) {
		s := w.subject()
		w.admitted(t, s, 6, r)
		more := r
		more.Quota = 20
		got := w.admitted(t, s, 1, more).Binding.Remaining
		require.EqualValues(t, 13, got, "%s: nothing is forgotten", r.Algorithm)
		less := r
		less.Quota = 3
		w.refused(t, s, 1, less)
		require.Zero(t, w.peek(t, s, less).Binding.Remaining)
		w.refused(t, s, 14, more)
	}
}

// windowChanges shortens a window: what blocks does so for no longer than the new
// one does.
func windowChanges(t *testing.T, w *World) {
	for _, r := range counting(10, long) {
		s := w.subject()
		w.admitted(t, s, 10, r)
		short := r
		short.Window = brief
		d := w.refused(t, s, 10, short)
		require.LessOrEqual(t, d.Binding.RetryAfter, brief*17/16)
		w.Advance(d.Binding.RetryAfter)
		w.admitted(t, s, 10, short)
		long2 := r
		long2.Window = 2 * long
		w.refused(t, s, 10, long2)
	}
}

func paceChanges(t *testing.T, w *World) {
	r := limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 7, Window: long, Burst: 10}
	w.admitted(t, "s", 9, r)
	r.Quota, r.Window, r.Burst = 13, long-time.Second, 12
	require.EqualValues(t, 2, w.admitted(t, "s", 1, r).Binding.Remaining)
	r.Burst = 4
	d := w.refused(t, "s", 1, r)
	require.LessOrEqual(t, d.Binding.RetryAfter, r.Window/13+time.Microsecond, "what is above the new burst is cut off")
}

// refundsFollow gives back under a smaller and shorter rate: only what is given back
// is, whatever that rate would have counted.
func refundsFollow(t *testing.T, w *World) {
	for _, r := range counting(10, long) {
		s := w.subject()
		w.admitted(t, s, 6, r)
		less := r
		less.Quota, less.Window = 3, limit.MinWindow
		w.Advance(2 * limit.MinWindow)
		require.NoError(t, w.limiter.Refund(t.Context(), s, 1, less))
		require.EqualValues(t, 5, w.peek(t, s, r).Binding.Remaining, r.Algorithm)
	}
}
