package limittest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// countCases are about how much is admitted, and when.
func countCases() map[string]func(*testing.T, *World) {
	return map[string]func(*testing.T, *World){
		"L2_AdmittedAtRetryAfter": admittedAtRetryAfter,
		"L5_PartsOfTokensStay":    partsStay,
		"L7_ExactPace":            exactPace,
		"L10_ExactInACrowd":       exactInACrowd,
		"L13_LimitOne":            limitOne,
		"C49_ProcessesShare":      processesShare,
		"TimesOfAState":           timesOfAState,
	}
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
			if w.Still {
				require.False(t, d.Allowed)
			}
			if d.Allowed { // time has passed by itself
				continue
			}
			after := d.Binding.RetryAfter
			require.Positive(t, after)
			if w.Still {
				w.Advance(after - time.Microsecond)
				require.False(t, w.allow(t, s, 3, r).Allowed, "%s: not before", r.Algorithm)
				after = time.Microsecond
			}
			w.Advance(after)
			require.True(t, w.allow(t, s, 3, r).Allowed, r.Algorithm)
		}
	}
}

func partsStay(t *testing.T, w *World) {
	if !w.Still {
		return
	}
	r := limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 10, Window: time.Second, Burst: 10}
	w.admitted(t, "s", 10, r)
	w.Advance(270 * time.Millisecond) // 2.7 tokens
	require.Zero(t, w.admitted(t, "s", 2, r).Binding.Remaining)
	d := w.refused(t, "s", 1, r)
	require.Equal(t, 30*time.Millisecond, d.Binding.RetryAfter)
	w.Advance(30 * time.Millisecond)
	w.admitted(t, "s", 1, r)
}

func exactPace(t *testing.T, w *World) {
	if !w.Still {
		return
	}
	for _, r := range []limit.Rate{
		{Name: "r", Algorithm: limit.TokenBucket, Quota: 6000, Window: time.Second, Burst: 7},
		{Name: "r", Algorithm: limit.TokenBucket, Quota: 1000, Window: time.Minute, Burst: 2},
		{Name: "r", Algorithm: limit.TokenBucket, Quota: 7, Window: time.Second, Burst: 2},
	} {
		s := w.subject()
		w.admitted(t, s, r.Burst, r)
		step := (r.Window / time.Duration(r.Quota)).Truncate(time.Microsecond) // rounded down: just too early, sooner or later
		var got int64
		start, steps := time.Duration(0), 60
		for range steps {
			w.Advance(step)
			start += step
			if w.allow(t, s, 1, r).Allowed {
				got++
			}
			require.Equal(t, int64(start)*r.Quota/int64(r.Window), got, "%d per %s after %s", r.Quota, r.Window, start)
			if d := w.peek(t, s, r); !d.Allowed {
				w.Advance(d.Binding.RetryAfter)
				start += d.Binding.RetryAfter
				w.admitted(t, s, 1, r)
				got++
			}
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
			if w.Shared && i%2 == 1 {
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
	if !w.Shared {
		return
	}
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

func timesOfAState(t *testing.T, w *World) {
	if !w.Still {
		return
	}
	const second = time.Second
	token := limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 10, Window: 10 * second, Burst: 5}
	w.admitted(t, "s", 2, token)
	w.Advance(second / 2)
	require.Equal(t, limit.State{Rate: "r", Limit: 5, Remaining: 2, MoreAfter: second / 2, ResetAfter: 5 * second / 2}, w.admitted(t, "s", 1, token).Binding)
	fixed := limit.Rate{Name: "r", Algorithm: limit.FixedWindow, Quota: 10, Window: 16 * second}
	w.admitted(t, "s", 2, fixed)
	w.Advance(second)
	require.Equal(t, limit.State{Rate: "r", Limit: 10, Remaining: 7, MoreAfter: 15 * second, ResetAfter: 15 * second}, w.admitted(t, "s", 1, fixed).Binding)
	sliding := limit.Rate{Name: "r", Algorithm: limit.SlidingWindow, Quota: 10, Window: 16 * second}
	w.admitted(t, "s", 4, sliding)
	w.Advance(3 * second)
	w.admitted(t, "s", 4, sliding)
	require.Equal(t, limit.State{
		Rate: "r", Limit: 10, Remaining: 2, Refused: true, RetryAfter: 14 * second, MoreAfter: 14 * second, ResetAfter: 17 * second,
	}, w.refused(t, "s", 5, sliding).Binding)
	require.Equal(t, 17*second, w.refused(t, "s", 7, sliding).Binding.RetryAfter)
}
