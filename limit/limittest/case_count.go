package limittest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// countCases are about how much is admitted, and when. See also exactCases.
func countCases() group {
	return group{
		"L2_AdmittedAtRetryAfter": admittedAtRetryAfter,
		"L10_ExactInACrowd":       exactInACrowd,
		"L13_LimitOne":            limitOne,
		"L14_CallAtTheEnd":        callAtTheEnd,
	}
}

// sharedCases need limiters that count together.
func sharedCases() group {
	return group{"C49_ProcessesShare": processesShare}
}

func admittedAtRetryAfter(t *testing.T, w *World) {
	rates := append(counting(4, brief), limit.Rate{Name: "b", Algorithm: limit.TokenBucket, Quota: 7, Window: brief, Burst: 4},
		limit.Rate{Name: "l", Algorithm: limit.LeakyBucket, Quota: 4, Window: brief})
	for _, r := range rates {
		s := w.subject()
		first := int64(3)
		if r.Algorithm == limit.LeakyBucket {
			first = 1
		}
		w.admitted(t, s, first, r)
		for range w.rounds() {
			d := w.allow(t, s, 3, r)
			if w.is.Still {
				require.False(t, d.Allowed)
			}
			if d.Allowed { // time has passed by itself
				continue
			}
			after := d.Binding.RetryAfter
			require.Positive(t, after)
			if w.is.Still {
				w.Advance(after - time.Microsecond)
				require.False(t, w.allow(t, s, 3, r).Allowed, "%s: not before", r.Algorithm)
				after = time.Microsecond
			}
			w.Advance(after)
			require.True(t, w.allow(t, s, 3, r).Allowed, r.Algorithm)
		}
	}
}

func exactInACrowd(t *testing.T, w *World) {
	for _, r := range counting(100, long) {
		var admitted atomic.Int64
		var work sync.WaitGroup
		s := w.subject()
		other := w.Open(t)
		for i := range 64 {
			l := w.limiter
			if w.is.Shared && i%2 == 1 {
				l = other
			}
			work.Go(func() {
				for range 2000 / 64 {
					d, err := l.Allow(t.Context(), s, 1, r)
					if err != nil || d.Degraded {
						t.Errorf("%v, %+v", err, d)
						return
					}
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		work.Wait()
		require.EqualValues(t, 100, admitted.Load(), r.Algorithm)
	}
}

func limitOne(t *testing.T, w *World) {
	for _, r := range counting(1, brief) {
		s := w.subject()
		for range w.rounds() {
			w.admitted(t, s, 1, r)
			d := w.refused(t, s, 1, r)
			w.Advance(d.Binding.RetryAfter)
		}
	}
}

func processesShare(t *testing.T, w *World) {
	for _, r := range counting(20, long) {
		s := w.subject()
		admitted := 0
		for range 4 {
			for _, l := range []limit.Limiter{w.Open(t), w.Open(t), w.Open(t), w.Open(t)} { // and all start again
				for range 5 {
					d, err := l.Allow(t.Context(), s, 1, r)
					require.NoError(t, err)
					if d.Allowed {
						admitted++
					}
				}
			}
		}
		require.Equal(t, 20, admitted, r.Algorithm)
	}
}

func callAtTheEnd(t *testing.T, w *World) {
	for _, r := range counting(2, brief) {
		s := w.subject()
		for range w.rounds() {
			w.admitted(t, s, 2, r)
			d := w.peek(t, s, r)
			w.Advance(d.Binding.ResetAfter)
			require.EqualValues(t, 2, w.peek(t, s, r).Binding.Remaining, r.Algorithm)
		}
	}
}
