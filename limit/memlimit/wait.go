package memlimit

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// turn is a reserved turn of a leaky bucket.
type turn struct {
	number, before int64 // its number, and that of the turn before it
	wait, length   int64 // µs until it comes, and until the next one may
}

// Wait implements limit.Limiter.
func (l *Limiter) Wait(ctx context.Context, subject string, cost int64, rate limit.Rate) (limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limit.Decision{}, err
	}
	p, err := l.plans.One(cost, rate, limit.LeakyBucket)
	if err != nil {
		return limit.Decision{}, err
	}
	patience := int64(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		patience = time.Until(end).Microseconds()
	}
	d, mine := l.reserve(subject, cost, p, patience)
	if !d.Allowed || mine.wait == 0 {
		return d, nil
	}
	timer := time.NewTimer(micros(mine.wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return d, nil
	case <-ctx.Done():
		l.giveBack(subject, cost, p, mine)
		return limit.Decision{}, ctx.Err()
	}
}

// reserve takes a turn that comes within the patience, in microseconds.
func (l *Limiter) reserve(subject string, cost int64, p *plan.Plan, patience int64) (limit.Decision, turn) {
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now()
	e, crowded := s.find(subject, now), false
	if e == nil {
		switch crowded = true; p.Rate.OnError {
		case limit.Open:
			return limit.Decision{Allowed: true, Degraded: true}, turn{}
		case limit.Closed:
			return limit.Decision{Degraded: true, Reason: limit.Unavailable, Binding: unknown(p)}, turn{}
		case limit.Local:
			e = &s.spill
		}
	}
	c := e.of(p, now)
	full := p.Limit * p.Unit
	after := ceil(max(0, c.used-full), p.Gain)
	mine := turn{wait: ceil(c.used, p.Gain), length: ceil(cost*p.Unit, p.Gain), before: c.turn}
	if after == 0 && mine.wait > patience {
		after = mine.wait - patience
	}
	d := limit.Decision{Allowed: after == 0, Degraded: crowded, Turn: micros(mine.wait)}
	if d.Allowed {
		c.spend(cost, now)
		e.keep(c)
		mine.number = c.turn
	} else {
		d.Reason, d.Turn = limit.Exceeded, 0
	}
	d.Binding = c.state(after, now)
	return d, mine
}

// giveBack undoes a reservation if nobody has queued behind it.
func (l *Limiter) giveBack(subject string, cost int64, p *plan.Plan, mine turn) {
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[subject]
	if e == nil {
		e = &s.spill
	}
	c := e.of(p, l.now())
	if c.turn == mine.number {
		c.used, c.turn = max(0, c.used-cost*p.Unit), mine.before
		e.keep(c)
	}
}

// Acquire implements limit.Limiter.
func (l *Limiter) Acquire(ctx context.Context, subject string, rate limit.Rate) (limit.Slot, limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, limit.Decision{}, err
	}
	p, err := l.plans.One(1, rate, limit.Concurrency)
	if err != nil {
		return nil, limit.Decision{}, err
	}
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now()
	e, crowded := s.find(subject, now), false
	if e == nil {
		switch crowded = true; p.Rate.OnError {
		case limit.Open:
			return &held{}, limit.Decision{Allowed: true, Degraded: true}, nil
		case limit.Closed:
			return nil, limit.Decision{Degraded: true, Reason: limit.Unavailable, Binding: unknown(p)}, nil
		case limit.Local:
			e = &s.spill
		}
	}
	c := e.of(p, now)
	after := c.after(1, now)
	d := limit.Decision{Allowed: after == 0, Degraded: crowded}
	if !d.Allowed {
		d.Reason, d.Binding = limit.Exceeded, c.state(after, now)
		return nil, d, nil
	}
	mine := &held{limiter: l, shard: s, entry: e, plan: p, id: l.slots.Add(1)}
	c.hold(slot{mine.id, now + p.Span})
	e.keep(c)
	d.Binding = c.state(0, now)
	return mine, d, nil
}

// hold adds a slot where its end belongs.
func (c *count) hold(s slot) {
	slots := c.more.slots
	i, _ := slices.BinarySearchFunc(slots, s, func(a, b slot) int {
		if a.end <= b.end {
			return -1
		}
		return 1
	})
	c.more.slots = slices.Insert(slots, i, s)
}

// drop removes a slot that is held.
func (c *count) drop(id int64) bool {
	i := slices.IndexFunc(c.more.slots, func(s slot) bool { return s.id == id })
	if i < 0 {
		return false
	}
	c.more.slots = slices.Delete(c.more.slots, i, i+1)
	return true
}

// held is a slot in memory; without a limiter, it is one that nobody counts.
type held struct {
	limiter *Limiter
	shard   *shard
	entry   *entry
	plan    *plan.Plan
	id      int64
}

// Extend implements limit.Slot.
func (h *held) Extend(ctx context.Context) error {
	return h.change(ctx, func(c *count, now int64) { c.hold(slot{h.id, now + h.plan.Span}) })
}

// Release implements limit.Slot.
func (h *held) Release(ctx context.Context) error {
	return h.change(ctx, func(*count, int64) {})
}

// change takes the slot out of its count and lets then do what follows.
func (h *held) change(ctx context.Context, then func(*count, int64)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.limiter == nil {
		return nil
	}
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	now := h.limiter.now()
	for i := range h.entry.counts {
		c := &h.entry.counts[i]
		if c.plan.Rate.Name != h.plan.Rate.Name || c.plan.Rate.Algorithm != limit.Concurrency {
			continue
		}
		if c.pass(now); c.drop(h.id) {
			then(c, now)
			return nil
		}
	}
	return limit.ErrSlotLost
}
