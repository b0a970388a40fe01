package limittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// exactCases count every microsecond; they need time that stands still.
func exactCases() group {
	return group{
		"L5_PartsOfTokensStay":     partsStay,
		"L7_ExactPace":             exactPace,
		"C46_L11_NoDoubleAtAnEdge": noDoubleAtAnEdge,
		"L16_WindowsEnd":           windowsEnd,
		"TimesOfAState":            timesOfAState,
	}
}

func partsStay(t *testing.T, w *World) {
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

// noDoubleAtAnEdge spends all at the end of one window and all at the beginning of
// the next.
func noDoubleAtAnEdge(t *testing.T, w *World) {
	sliding := limit.Rate{Name: "r", Algorithm: limit.SlidingWindow, Quota: 5, Window: time.Second}
	for _, us := range []int{1, 1000, 10_000, 62_499, 62_500, 500_000} {
		s, before := w.subject(), time.Duration(us)*time.Microsecond
		w.admitted(t, s, 1, sliding) // the first window begins
		w.Advance(time.Second - before)
		w.admitted(t, s, 4, sliding)
		w.Advance(2 * before)
		w.refused(t, s, 5, sliding)
		w.refused(t, s, 2, sliding)
		w.Advance(time.Second - 2*before - time.Microsecond)
		w.refused(t, s, 5, sliding)
		w.Advance(time.Second/16 + time.Microsecond)
		w.admitted(t, s, 5, sliding)
	}
	fixed := sliding
	fixed.Algorithm = limit.FixedWindow
	s := w.subject()
	w.admitted(t, s, 1, fixed)
	w.Advance(time.Second - time.Microsecond)
	w.admitted(t, s, 4, fixed)
	w.Advance(time.Microsecond)
	w.admitted(t, s, 5, fixed) // as the package says
	w.Advance(time.Second - time.Microsecond)
	w.refused(t, s, 1, fixed)
}

func timesOfAState(t *testing.T, w *World) {
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

// windowsEnd changes windows while something counts in them: what was spent is over
// when it is by either of the rates.
func windowsEnd(t *testing.T, w *World) {
	const second = time.Second
	const expiry = 2 * time.Millisecond // a store may forget in milliseconds
	in := func(a limit.Algorithm, quota int64, window time.Duration) limit.Rate {
		return limit.Rate{Name: "r", Algorithm: a, Quota: quota, Window: window}
	}
	fixed := limit.FixedWindow
	w.admitted(t, "s", 4, in(fixed, 4, 16*second))
	w.Advance(8 * second)
	require.Equal(t, second, w.refused(t, "s", 1, in(fixed, 4, 9*second)).Binding.RetryAfter, "it has begun when it had")
	w.refused(t, "s", 1, in(fixed, 4, 16*second))
	w.admitted(t, "s", 4, in(fixed, 4, 8*second)) // a shorter one is over, and the next begins
	w.Advance(4 * second)
	w.refused(t, "s", 1, in(fixed, 4, 16*second))
	w.Advance(4*second + expiry)
	w.admitted(t, "s", 4, in(fixed, 4, 16*second)) // what is over does not come back

	sliding := limit.SlidingWindow
	w.admitted(t, "s", 4, in(sliding, 8, 16*second))
	w.Advance(16*second - second/10)
	w.admitted(t, "s", 1, in(sliding, 8, 16*second))
	w.Advance(second + second/2)
	d := w.peek(t, "s", in(sliding, 8, 15*second))
	require.EqualValues(t, 7, d.Binding.Remaining, "what has left the window does not come back")
	require.LessOrEqual(t, d.Binding.ResetAfter, 15*second*17/16)
	w.Advance(18 * second)
	w.admitted(t, "s", 8, in(sliding, 8, 100*second))

	bucket := limit.TokenBucket
	w.admitted(t, "s", 4, in(bucket, 4, 16*second))
	w.Advance(8 * second)
	require.Zero(t, w.peek(t, "s", in(bucket, 4, 1600*second)).Binding.Remaining, "since the last call, the pace is the new one")
	require.EqualValues(t, 2, w.peek(t, "s", in(bucket, 4, 16*second)).Binding.Remaining, "and a look changes nothing")
	w.Advance(8*second + expiry)
	w.admitted(t, "s", 4, in(bucket, 4, 1600*second))
}
