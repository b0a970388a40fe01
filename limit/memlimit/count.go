package memlimit

import (
	"math"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// count is one rate of one subject. All times are microseconds of the limiter's
// clock. The scripts of redislimit compute the same.
type count struct {
	plan *plan.Plan
	// at is when used was true: for windows, when the window or the newest cell
	// began.
	at   int64
	used int64 // tokens of a window, or units of debt of a bucket
	turn int64 // the number of the last turn of a leaky bucket
	more *extra
}

// extra is what only some algorithms need.
type extra struct {
	cells [plan.Cells + 1]int64 // the newest first
	last  int64                 // when the newest call was
	slots []slot                // by end
}

type slot struct{ id, end int64 }

func newCount(p *plan.Plan, now int64) count {
	c := count{plan: p, at: now}
	if p.Rate.Algorithm == limit.SlidingWindow || p.Rate.Algorithm == limit.Concurrency {
		c.more = &extra{}
	}
	return c
}

// as returns what the count is under another rate of the same name and algorithm.
// What was spent stays spent, cut to the new capacity; what is over by the old rate
// does not come back. The count itself does not change: only a call that spends
// decides which rate it follows.
func (c *count) as(p *plan.Plan, now int64) *count {
	old, out := c.plan, *c
	if c.more != nil {
		more := *c.more
		more.slots = slices.Clone(more.slots)
		out.more = &more
	}
	switch p.Rate.Algorithm {
	case limit.TokenBucket, limit.LeakyBucket:
		if now-c.at >= ceil(c.used, old.Gain) {
			out.used = 0
		}
		debt := math.Ceil(float64(out.used) / float64(old.Unit) * float64(p.Unit))
		out.used = int64(min(debt, float64(p.Top())))
	case limit.FixedWindow:
		out.pass(now)
		out.used = min(out.used, p.Limit)
	case limit.SlidingWindow:
		out.pass(now)
		if old.Cell != p.Cell {
			out.used, out.at = min(out.used, p.Limit), out.more.last
			out.more.cells = [plan.Cells + 1]int64{out.used}
		}
	case limit.Concurrency:
	}
	out.plan = p
	return &out
}

// pass lets time pass until now. It changes nothing that counts.
func (c *count) pass(now int64) {
	p := c.plan
	switch p.Rate.Algorithm {
	case limit.TokenBucket, limit.LeakyBucket:
		if gone := now - c.at; gone >= ceil(c.used, p.Gain) {
			c.used = 0
		} else {
			c.used -= gone * p.Gain
		}
		c.at = now
	case limit.FixedWindow:
		if now-c.at >= p.Span {
			c.used, c.at = 0, now
		}
	case limit.SlidingWindow:
		c.shift(now)
	case limit.Concurrency:
		slots := c.more.slots
		for len(slots) > 0 && slots[0].end <= now {
			slots = slots[1:]
		}
		c.more.slots = slots
	}
}

func (c *count) shift(now int64) {
	n := (now - c.at) / c.plan.Cell
	if n == 0 {
		return
	}
	cells := &c.more.cells
	if n > plan.Cells || c.used == 0 {
		*cells, c.used, c.at = [plan.Cells + 1]int64{}, 0, now
		return
	}
	copy(cells[n:], cells[:])
	clear(cells[:n])
	c.at += n * c.plan.Cell
	c.used = 0
	for _, k := range cells {
		c.used += k
	}
}

// idle reports whether nothing counts, so that the count may be forgotten.
func (c *count) idle(now int64) bool {
	c.pass(now)
	return c.used == 0 && (c.more == nil || len(c.more.slots) == 0)
}

// after is when a call of this cost is admitted; 0 is now.
func (c *count) after(cost, now int64) int64 {
	p := c.plan
	switch p.Rate.Algorithm {
	case limit.TokenBucket:
		return ceil(max(0, c.used+(cost-p.Limit)*p.Unit), p.Gain)
	case limit.LeakyBucket:
		return ceil(c.used, p.Gain)
	case limit.FixedWindow:
		if c.used+cost > p.Limit {
			return c.at + p.Span - now
		}
	case limit.SlidingWindow:
		return c.cellsUntil(c.used+cost-p.Limit, now)
	case limit.Concurrency:
		if i := int64(len(c.more.slots)) - p.Limit; i >= 0 {
			return c.more.slots[i].end - now
		}
	}
	return 0
}

// cellsUntil is when n of what is used has left the window; 0 if n is not positive.
func (c *count) cellsUntil(n, now int64) int64 {
	for i := plan.Cells; i >= 0 && n > 0; i-- {
		if n -= c.more.cells[i]; n <= 0 {
			return c.at + int64(plan.Cells+1-i)*c.plan.Cell - now
		}
	}
	return 0
}

// spend adds a cost, which fits.
func (c *count) spend(cost, now int64) {
	switch p := c.plan; p.Rate.Algorithm {
	case limit.TokenBucket, limit.LeakyBucket:
		c.used += cost * p.Unit
		c.turn = max(c.turn+1, now)
	case limit.FixedWindow:
		if c.used == 0 {
			c.at = now
		}
		c.used += cost
	case limit.SlidingWindow:
		if c.used == 0 {
			c.at = now
		}
		c.used += cost
		c.more.cells[0] += cost
		c.more.last = now
	case limit.Concurrency:
	}
}

// refund takes a cost back, as far as it still counts: of a sliding window from
// what would leave it first, since nobody knows when it was spent.
func (c *count) refund(cost int64) {
	switch p := c.plan; p.Rate.Algorithm {
	case limit.TokenBucket:
		c.used = max(0, c.used-cost*p.Unit)
	case limit.FixedWindow:
		c.used = max(0, c.used-cost)
	case limit.SlidingWindow:
		for i := plan.Cells; i >= 0 && cost > 0; i-- {
			n := min(cost, c.more.cells[i])
			c.more.cells[i] -= n
			c.used -= n
			cost -= n
		}
	case limit.LeakyBucket, limit.Concurrency:
	}
}

// state says how the count stands; after is when the call is admitted.
func (c *count) state(after, now int64) limit.State {
	p := c.plan
	s := limit.State{Rate: p.Rate.Name, Refused: after > 0, Limit: p.Limit, RetryAfter: micros(after)}
	var next, reset int64
	switch p.Rate.Algorithm {
	case limit.TokenBucket, limit.LeakyBucket:
		s.Remaining = max(0, p.Limit*p.Unit-c.used) / p.Unit
		if s.Remaining < p.Limit {
			next = ceil(c.used-(p.Limit-s.Remaining-1)*p.Unit, p.Gain)
		}
		reset = ceil(c.used, p.Gain)
	case limit.FixedWindow:
		s.Remaining = max(0, p.Limit-c.used)
		if c.used > 0 {
			next = c.at + p.Span - now
		}
		reset = next
	case limit.SlidingWindow:
		s.Remaining = max(0, p.Limit-c.used)
		next, reset = c.cellsUntil(max(1, c.used-p.Limit+1), now), c.cellsUntil(c.used, now)
	case limit.Concurrency:
		n := int64(len(c.more.slots))
		s.Remaining = max(0, p.Limit-n)
		if n > 0 {
			next, reset = c.more.slots[max(0, n-p.Limit)].end-now, c.more.slots[n-1].end-now
		}
	}
	s.MoreAfter, s.ResetAfter = micros(next), micros(reset)
	return s
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
