package redislimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// TestDenialsNeverRefuseMore leads random lives of one subject in a model of the
// store and asks, at every step, whether what is remembered refuses what the store
// would admit. Other processes spend in between, and answers take their time.
func TestDenialsNeverRefuseMore(t *testing.T) {
	t.Parallel()
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket, limit.LeakyBucket} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) { denyLife(r, a) })
		})
	}
}

func denyLife(r *rapid.T, a limit.Algorithm) {
	rate := limit.Rate{Name: "r", Algorithm: a, Quota: rapid.Int64Range(1, 6).Draw(r, "quota"), Window: time.Duration(rapid.Int64Range(1000, 9000).Draw(r, "window")) * time.Microsecond}
	p := plan.New(rate)
	store := &model{plan: p}
	d := newDenials(int64(time.Hour), 64)
	now := int64(1_000_000) // µs
	for range rapid.IntRange(1, 60).Draw(r, "steps") {
		now += rapid.Int64Range(0, 3000).Draw(r, "pass")
		cost := rapid.Int64Range(1, p.Limit).Draw(r, "cost")
		if _, ok := d.denied("s", []*plan.Plan{p}, cost, now*1000); ok {
			require.Positive(r, store.after(cost, now), "the store would admit it")
			continue
		}
		sent, version := now, d.version("s")
		now += rapid.Int64Range(0, 500).Draw(r, "way to the store")
		after := store.after(cost, now)
		if after == 0 {
			store.spend(cost, now)
		}
		if rapid.Bool().Draw(r, "refund in between") {
			store.refund()
			d.forget("s")
		}
		now += rapid.Int64Range(0, 500).Draw(r, "way back")
		if after > 0 {
			d.learn(refusal{"s", p, cost, limit.State{Rate: "r", Refused: true, RetryAfter: micros(after)}, sent * 1000, version})
		}
	}
}

// model is a store that keeps every call.
type model struct {
	plan  *plan.Plan
	calls []struct{ at, cost int64 }
}

func (m *model) spend(cost, now int64) {
	m.calls = append(m.calls, struct{ at, cost int64 }{now, cost})
}

func (m *model) refund() { m.calls = nil }

// after looks for the first microsecond at which a cost fits.
func (m *model) after(cost, now int64) int64 {
	for wait := int64(0); ; wait++ {
		if m.fits(cost, now+wait) {
			return wait
		}
	}
}

func (m *model) fits(cost, now int64) bool {
	p := m.plan
	var used, begin, at int64
	for _, c := range m.calls {
		switch p.Rate.Algorithm {
		case limit.FixedWindow:
			if begin == 0 || c.at-begin >= p.Span {
				begin, used = c.at, 0
			}
			used += c.cost
		case limit.SlidingWindow: // cells begin with the first call after nothing counted
			if begin == 0 || (c.at-begin)/p.Cell-(at-begin)/p.Cell > plan.Cells {
				begin = c.at
			}
			at = c.at
			if (now-begin)/p.Cell-(c.at-begin)/p.Cell <= plan.Cells {
				used += c.cost
			}
		case limit.TokenBucket, limit.LeakyBucket:
			used = max(0, used-(c.at-at)*p.Gain) + c.cost*p.Unit
			at = c.at
		case limit.Concurrency:
		}
	}
	switch p.Rate.Algorithm {
	case limit.FixedWindow:
		return begin == 0 || now-begin >= p.Span || used+cost <= p.Limit
	case limit.TokenBucket:
		return max(0, used-(now-at)*p.Gain)+cost*p.Unit <= p.Limit*p.Unit
	case limit.LeakyBucket:
		return used <= (now-at)*p.Gain
	case limit.SlidingWindow, limit.Concurrency:
	}
	return used+cost <= p.Limit
}

// What is known is bounded, and forgetting is all that the bound does.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDenials(int64(time.Hour), 640)
	p := plan.New(limit.Rate{Name: "r", Algorithm: limit.TokenBucket, Quota: 1, Window: time.Hour})
	for i := range 10_000 {
		d.learn(refusal{string(rune(i)), p, 1, limit.State{Refused: true, RetryAfter: time.Hour}, 0, 0})
	}
	n := 0
	for i := range d.shards {
		n += len(d.shards[i].subjects)
	}
	require.LessOrEqual(t, n, 640)
	_, ok := d.denied(string(rune(9999)), []*plan.Plan{p}, 1, 1)
	require.True(t, ok, "the last one is known")
}

// Refusals of a limit are remembered also where it is new, after thousands of other
// rates, and where its plan has been worked out again since.
func TestDenialsAreOfRates(t *testing.T) {
	t.Parallel()
	var book plan.Book
	of := func(name string, window time.Duration) []*plan.Plan {
		plans, err := book.Call(nil, 1, []limit.Rate{{Name: name, Algorithm: limit.FixedWindow, Quota: 1, Window: window}})
		require.NoError(t, err)
		return plans
	}
	flood := func() {
		for i := range 5000 {
			of("once", time.Minute+time.Duration(i)*time.Microsecond)
		}
	}
	d := newDenials(int64(time.Hour), 64)
	flood()
	for cost := int64(2); cost > 0; cost-- {
		d.learn(refusal{"s", of("late", time.Hour)[0], cost, limit.State{Rate: "late", Refused: true, RetryAfter: time.Minute}, 1, 0})
		_, ok := d.denied("s", of("late", time.Hour), cost, 2)
		require.True(t, ok)
		flood()
		_, ok = d.denied("s", of("late", time.Hour), cost, 2)
		require.True(t, ok, "its plan is another one by now")
		_, ok = d.denied("s", of("late", time.Hour-time.Second), cost, 2)
		require.False(t, ok, "a changed rate")
	}
	require.Len(t, d.shard("s").subjects["s"], 1, "one rate is one refusal")
}
