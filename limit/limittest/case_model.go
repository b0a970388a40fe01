package limittest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/limit"
)

// modelCases lead random lives, and recount every admission.
func modelCases() group {
	out := group{}
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket, limit.LeakyBucket} {
		out["NeverAboveTheBound/"+a.String()] = func(t *testing.T, w *World) { neverAbove(t, w, a) }
	}
	return out
}

func neverAbove(t *testing.T, w *World, a limit.Algorithm) {
	steps := 24
	if w.is.Shared { // each of them is a journey
		steps = 10
	}
	rapid.Check(timeless{t}, func(r *rapid.T) {
		rate := limit.Rate{
			Name: "r", Algorithm: a, Quota: rapid.Int64Range(1, 12).Draw(r, "quota"),
			Window: time.Duration(rapid.Int64Range(1000, 70_000).Draw(r, "window")) * time.Microsecond,
		}
		if a == limit.TokenBucket || a == limit.LeakyBucket {
			rate.Burst = rapid.Int64Range(1, 12).Draw(r, "burst")
		}
		life := &history{rate: rate, subject: w.subject(), full: w.subject()}
		w.admitted(r, life.full, 1, fullRate())
		for range rapid.IntRange(1, steps).Draw(r, "steps") {
			life.step(r, w)
		}
	})
}

// timeless keeps rapid from asking a test for its deadline, which it has none of in
// a bubble of fake time.
type timeless struct{ testing.TB }

// history is what was admitted, and when.
type history struct {
	rate    limit.Rate
	subject string
	full    string // a subject that has used up its fullRate
	now     int64  // µs
	calls   []spent
}

func fullRate() limit.Rate {
	return limit.Rate{Name: "full", Algorithm: limit.FixedWindow, Quota: 1, Window: long}
}

type spent struct{ at, cost int64 }

func (h *history) step(t *rapid.T, w *World) {
	span := h.rate.Window.Microseconds()
	wait := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*span), rapid.Int64Range(0, span/h.rate.Quota+1),
		rapid.SampledFrom([]int64{1, span - 1, span, span + 1, span / 16, span/16 + 1})).Draw(t, "wait")
	h.pass(w, wait)
	cost := rapid.Int64Range(1, h.rate.Capacity()).Draw(t, "cost")
	look := w.peek(t, h.subject, h.rate)
	if h.rate.Algorithm != limit.LeakyBucket && rapid.IntRange(0, 3).Draw(t, "beside one that is full") == 0 {
		out, err := w.limiter.AllowAll(context.Background(), []limit.Check{check(h.subject, cost, h.rate), check(h.full, 1, fullRate())})
		require.NoError(t, err)
		require.False(t, out[1].Allowed)
		require.Equal(t, look.Binding.Remaining, w.peek(t, h.subject, h.rate).Binding.Remaining, "the other's refusal costs nothing")
	}
	d := w.allow(t, h.subject, cost, h.rate)
	if h.rate.Algorithm != limit.LeakyBucket {
		require.Equal(t, look.Binding.Remaining >= cost, d.Allowed, "Remaining tells")
	}
	h.record(t, d, cost)
	if !d.Allowed && rapid.Bool().Draw(t, "return at RetryAfter") {
		us := d.Binding.RetryAfter.Microseconds()
		require.LessOrEqual(t, us, h.longest(), "nobody waits for ever")
		h.pass(w, us-1)
		require.False(t, w.peekCost(t, h, cost), "not before RetryAfter")
		h.pass(w, 1)
		d = w.allow(t, h.subject, cost, h.rate)
		require.True(t, d.Allowed, "at RetryAfter")
		h.record(t, d, cost)
	}
}

// peekCost reports whether a cost fits, without spending it.
func (w *World) peekCost(t *rapid.T, h *history, cost int64) bool {
	look := w.peek(t, h.subject, h.rate)
	if h.rate.Algorithm == limit.LeakyBucket {
		return look.Allowed
	}
	return look.Binding.Remaining >= cost
}

func (h *history) pass(w *World, us int64) {
	h.now += us
	w.Advance(time.Duration(us) * time.Microsecond)
}

// longest is how long a refusal may last, in µs.
func (h *history) longest() int64 {
	span := h.rate.Window.Microseconds()
	switch h.rate.Algorithm {
	case limit.FixedWindow:
		return span
	case limit.SlidingWindow:
		return span + span/16 + 17
	case limit.TokenBucket, limit.LeakyBucket:
		return span*h.rate.Capacity()/h.rate.Quota + 1
	case limit.Concurrency:
	}
	return 0
}

// record recounts every window that ends now.
func (h *history) record(t *rapid.T, d limit.Decision, cost int64) {
	require.GreaterOrEqual(t, d.Binding.Remaining, int64(0))
	require.LessOrEqual(t, d.Binding.Remaining, d.Binding.Limit)
	if !d.Allowed {
		require.Positive(t, d.Binding.RetryAfter)
		return
	}
	h.calls = append(h.calls, spent{h.now, cost})
	var sum int64
	for i, c := range slices.Backward(h.calls) {
		sum += c.cost
		require.LessOrEqual(t, sum, h.bound(h.now-c.at, h.calls[i:]), "%+v: %d in the last %d µs", h.rate, sum, h.now-c.at)
	}
}

// bound is that of the package comment, for a time in µs that includes both ends.
func (h *history) bound(us int64, calls []spent) int64 {
	span := h.rate.Window.Microseconds()
	switch h.rate.Algorithm {
	case limit.FixedWindow:
		return h.rate.Quota * (us/span + 2)
	case limit.SlidingWindow:
		return h.rate.Quota * (us/span + 1)
	case limit.TokenBucket:
		return h.rate.Capacity() + us*h.rate.Quota/span
	case limit.LeakyBucket:
		largest := int64(0)
		for _, c := range calls {
			largest = max(largest, c.cost)
		}
		return largest + us*h.rate.Quota/span
	case limit.Concurrency:
	}
	return 0
}
