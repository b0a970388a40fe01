package redislimit

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// FuzzReadAnswers: whatever a server says is taken apart or refused, and what is
// accepted makes sense (L4).
func FuzzReadAnswers(f *testing.F) {
	good := append([]byte{1}, make([]byte, replySize-1)...)
	binary.LittleEndian.PutUint64(good[1+numberSize:], math.Float64bits(7))
	f.Add(string(good), 1)
	f.Add("", 0)
	f.Add(string(good[:replySize-1]), 1)
	p := plan.New(limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 3, Window: time.Second})
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 100 {
			return
		}
		answers, err := readAnswers(s, n)
		if err != nil {
			require.ErrorIs(t, err, errShape)
			return
		}
		require.Len(t, answers, n)
		for i := range answers {
			state := answers[i].state(p)
			require.GreaterOrEqual(t, state.Remaining, int64(0))
			require.LessOrEqual(t, state.Remaining, state.Limit)
			require.Equal(t, state.Refused, state.RetryAfter > 0)
			require.GreaterOrEqual(t, state.ResetAfter, time.Duration(0))
		}
	})
}

// FuzzArg: whatever rate is valid goes to the scripts exactly, as integers that a
// float holds.
func FuzzArg(f *testing.F) {
	f.Add(uint8(3), int64(6000), int64(1_000_000), int64(7), int64(1))
	f.Add(uint8(4), int64(limit.MaxQuota), int64(2_678_400_000_000), int64(0), int64(1))
	f.Add(uint8(2), int64(1), int64(1000), int64(0), int64(1))
	f.Add(uint8(2), int64(999_999_946), int64(2_678_399_999_968), int64(0), int64(1))
	f.Fuzz(func(t *testing.T, algorithm uint8, quota, us, burst, cost int64) {
		if us < 0 || us > limit.MaxWindow.Microseconds() {
			return
		}
		rate := limit.Rate{Name: "r", Algorithm: limit.Algorithm(algorithm), Quota: quota, Window: time.Duration(us) * time.Microsecond, Burst: burst}
		var book plan.Book
		plans, err := book.Call(nil, cost, []limit.Rate{rate})
		if err != nil {
			return
		}
		p := plans[0]
		require.Equal(t, p.Span*p.Gain, p.Rate.Quota*p.Unit, "the pace is exact")
		a := newAsk(p, cost)
		arg := a.arg(false)
		require.Len(t, arg, argSize)
		require.Equal(t, algorithm+followed, arg[0])
		span := p.Span
		if rate.Algorithm == limit.SlidingWindow {
			span = p.Cell
		}
		for i, want := range []int64{p.Limit, cost, span, p.Gain, p.Unit, a.room, p.Top()} {
			got, ok := readNumber(arg[1+i*numberSize:])
			require.True(t, ok, "number %d", i)
			require.Equal(t, want, got, "number %d", i)
		}
	})
}

// The share of a process never is more than its part over time, and always
// something.
func TestShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		rate := limit.Rate{
			Name: "r", Algorithm: limit.Algorithm(rapid.Uint8Range(1, 5).Draw(r, "algorithm")), Quota: rapid.Int64Range(1, 100).Draw(r, "quota"),
			Window: time.Duration(rapid.IntRange(1, 5000).Draw(r, "window")) * time.Millisecond,
		}
		n := rapid.Int64Range(1, 64).Draw(r, "instances")
		part := share(plan.New(rate), n)
		require.NoError(r, part.Validate())
		if rate.Algorithm == limit.Concurrency {
			require.Equal(r, max(1, rate.Quota/n), part.Quota)
			return
		}
		whole := float64(rate.Quota) / float64(rate.Window)
		require.LessOrEqual(r, float64(part.Quota)/float64(part.Window)*float64(n), whole*(1+1e-3))
	})
}

// The slots of the Cluster, by values of its specification and of redis-server.
func TestSlot(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0x31C3, slot("123456789"))
	require.Equal(t, 12182, slot("foo"))
	require.Equal(t, 0, slot(""))
}
