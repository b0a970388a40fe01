package limittest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// World is what a case has for itself.
type World struct {
	// Open returns another limiter over the same store, as another process or one
	// that was started again would have it.
	Open func(testing.TB) limit.Limiter
	// Shared says that limiters of Open count together.
	Shared bool
	// Advance lets time pass for the store. Where it stands still otherwise, that
	// costs nothing.
	Advance func(time.Duration)
	// Still says that time stands still but for Advance.
	Still bool

	limiter  limit.Limiter
	subjects int
}

// Run examines an implementation. In runs a case in an empty world, perhaps in a
// bubble of fake time.
func Run(t *testing.T, in func(*testing.T, func(*testing.T, *World))) {
	t.Helper()
	groups := []map[string]func(*testing.T, *World){
		callCases(), countCases(), edgeCases(), changeCases(), turnCases(), slotCases(), modelCases(),
	}
	for _, cases := range groups {
		for name, run := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *World) {
					t.Helper()
					w.limiter = w.Open(t)
					run(t, w)
				})
			})
		}
	}
}

// subject returns one that nobody has used.
func (w *World) subject() string {
	w.subjects++
	return "subject " + strconv.Itoa(w.subjects)
}

// rounds is how often a case repeats what takes time where it is real.
func (w *World) rounds() int {
	if w.Still {
		return 3
	}
	return 1
}

// long is a window in which a test sees nothing come back.
const long = 10 * time.Hour

// brief is a window that a test can wait for where time is real.
const brief = 400 * time.Millisecond

func (w *World) allow(t require.TestingT, subject string, cost int64, rates ...limit.Rate) limit.Decision {
	d, err := w.limiter.Allow(context.Background(), subject, cost, rates...)
	require.NoError(t, err)
	return d
}

func (w *World) peek(t require.TestingT, subject string, rates ...limit.Rate) limit.Decision {
	d, err := w.limiter.Peek(context.Background(), subject, rates...)
	require.NoError(t, err)
	return d
}

// admitted asserts that a call is, and returns what it said.
func (w *World) admitted(t require.TestingT, subject string, cost int64, rates ...limit.Rate) limit.Decision {
	d := w.allow(t, subject, cost, rates...)
	require.True(t, d.Allowed, "%+v", d)
	require.Equal(t, limit.None, d.Reason)
	require.False(t, d.Degraded)
	require.Zero(t, d.Binding.RetryAfter)
	return d
}

func (w *World) refused(t require.TestingT, subject string, cost int64, rates ...limit.Rate) limit.Decision {
	d := w.allow(t, subject, cost, rates...)
	require.False(t, d.Allowed, "%+v", d)
	require.Equal(t, limit.Exceeded, d.Reason)
	require.False(t, d.Degraded)
	require.True(t, d.Binding.Refused)
	require.Positive(t, d.Binding.RetryAfter)
	return d
}

// counting returns a rate of each algorithm that Allow counts with.
func counting(quota int64, window time.Duration) []limit.Rate {
	return []limit.Rate{
		{Name: "r", Algorithm: limit.FixedWindow, Quota: quota, Window: window},
		{Name: "r", Algorithm: limit.SlidingWindow, Quota: quota, Window: window},
		{Name: "r", Algorithm: limit.TokenBucket, Quota: quota, Window: window},
	}
}
