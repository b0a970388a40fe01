package memlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/limittest"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB, o memlimit.Options) *memlimit.Limiter {
	tb.Helper()
	l, err := memlimit.New(o)
	require.NoError(tb, err)
	return l
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	limittest.Run(t, limittest.Kind{Still: true}, func(t *testing.T, run func(*testing.T, *limittest.World)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			run(t, &limittest.World{
				Open:    func(tb testing.TB) limit.Limiter { tb.Helper(); return open(tb, memlimit.Options{}) },
				Advance: time.Sleep, //nolint:forbidigo // fake time
			})
		})
	})
}

// A flood of subjects takes no more memory than it may, and what counts is not
// forgotten for it.
func TestFloodOfSubjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, memlimit.Options{MaxSubjects: 640})
		r := limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 1, Window: time.Minute}
		closed, free := r, r
		closed.OnError, free.OnError = limit.Closed, limit.Open
		allow := func(subject string, rates ...limit.Rate) limit.Decision {
			d, err := l.Allow(t.Context(), subject, 1, rates...)
			require.NoError(t, err)
			return d
		}
		require.True(t, allow("honest", r).Allowed)
		admitted, degraded := 0, 0
		for i := range 5000 {
			d := allow(string(rune(i+1000)), r)
			if d.Allowed {
				admitted++
			}
			if d.Degraded {
				degraded++
			}
		}
		require.LessOrEqual(t, admitted, 640+64)
		require.Greater(t, degraded, 4000)
		require.False(t, allow("honest", r).Allowed, "it was not forgotten")
		for i := range 100 { // some find room in none of the shards
			d := allow("closed"+string(rune(i+1000)), closed)
			require.Equal(t, limit.Decision{Degraded: true, Reason: limit.Unavailable, Binding: d.Binding}, d)
			require.Equal(t, limit.Decision{Degraded: true, Allowed: true}, allow("open"+string(rune(i+1000)), free))
		}
		time.Sleep(time.Minute) //nolint:forbidigo // fake time
		for i := range 60 {
			require.False(t, allow("late"+string(rune(i+1000)), r).Degraded, "what is over makes room")
		}
	})
}
