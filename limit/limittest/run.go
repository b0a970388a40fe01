package limittest

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// Kind says what an implementation's worlds are like. A case that needs what they
// are not is not run.
type Kind struct {
	// Shared says that limiters of World.Open count together.
	Shared bool
	// Still says that time stands still but for World.Advance. Only then bounds and
	// times are examined to the microsecond.
	Still bool
}

// World is what a case has for itself.
type World struct {
	// Open returns another limiter over the same store, as another process or one
	// that was started again would have it.
	Open func(testing.TB) limit.Limiter
	// Advance lets time pass for the store. Where it stands still otherwise, that
	// costs nothing.
	Advance func(time.Duration)

	is       Kind
	limiter  limit.Limiter
	subjects int
}

// group is some cases, by name.
type group map[string]func(*testing.T, *World)

// Run examines an implementation. In runs a case in an empty world, perhaps in a
// bubble of fake time.
func Run(t *testing.T, is Kind, in func(*testing.T, func(*testing.T, *World))) {
	t.Helper()
	for name, run := range cases(is) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *World) {
				t.Helper()
				w.is, w.limiter = is, w.Open(t)
				run(t, w)
			})
		})
	}
}

// cases are those that worlds of a kind can examine.
func cases(is Kind) group {
	out := group{}
	for _, g := range []group{callCases(), countCases(), changeCases(), turnCases(), slotCases()} {
		maps.Copy(out, g)
	}
	if is.Shared {
		maps.Copy(out, sharedCases())
	}
	if is.Still {
		maps.Copy(out, exactCases())
		maps.Copy(out, modelCases())
	}
	return out
}

// subject returns one that nobody has used.
func (w *World) subject() string {
	w.subjects++
	return "subject " + strconv.Itoa(w.subjects)
}

// rounds is how often a case repeats what takes time where it is real.
func (w *World) rounds() int {
	if w.is.Still {
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
