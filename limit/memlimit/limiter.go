package memlimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// Options of a limiter. The zero value is a good one.
type Options struct {
	// MaxSubjects bounds how many subjects are remembered, to within a factor of
	// two for small numbers. Zero is 131,072, which take about 40 MB with a rate each.
	MaxSubjects int
}

// Limiter is a limit.Limiter in memory. It is safe for concurrent use.
type Limiter struct {
	start  time.Time
	seed   maphash.Seed
	plans  plan.Book
	slots  atomic.Int64 // the number of the last slot
	shards [shardCount]shard
}

// New returns a limiter under which nothing has been spent. Errors are
// limit.ErrInvalid.
func New(o Options) (*Limiter, error) {
	if o.MaxSubjects < 0 {
		return nil, fmt.Errorf("%w: room for %d subjects", limit.ErrInvalid, o.MaxSubjects)
	}
	if o.MaxSubjects == 0 {
		o.MaxSubjects = 1 << 17
	}
	l := &Limiter{start: time.Now(), seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].entries = map[string]*entry{}
		l.shards[i].room = (o.MaxSubjects + shardCount - 1) / shardCount
	}
	return l, nil
}

func (l *Limiter) now() int64 { return time.Since(l.start).Microseconds() }

func (l *Limiter) shard(subject string) *shard {
	return &l.shards[maphash.String(l.seed, subject)%shardCount]
}

// Allow implements limit.Limiter.
func (l *Limiter) Allow(ctx context.Context, subject string, cost int64, rates ...limit.Rate) (limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limit.Decision{}, err
	}
	var buf [limit.MaxRates]*plan.Plan
	plans, err := l.plans.Call(buf[:0], cost, rates)
	if err != nil {
		return limit.Decision{}, err
	}
	return l.decide(subject, cost, plans), nil
}

// Peek implements limit.Limiter.
func (l *Limiter) Peek(ctx context.Context, subject string, rates ...limit.Rate) (limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limit.Decision{}, err
	}
	var buf [limit.MaxRates]*plan.Plan
	plans, err := l.plans.Peek(buf[:0], rates)
	if err != nil {
		return limit.Decision{}, err
	}
	return l.decide(subject, 0, plans), nil
}

// decide spends a cost of each rate, or none; a cost of 0 asks what 1 would get.
func (l *Limiter) decide(subject string, cost int64, plans []*plan.Plan) limit.Decision {
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now()
	e := s.find(subject, now)
	if e == nil {
		return s.crowded(cost, plans, now)
	}
	return e.decide(cost, plans, now)
}

func (e *entry) decide(cost int64, plans []*plan.Plan, now int64) limit.Decision {
	var out limit.Decision
	if len(plans) == 1 {
		c := e.of(plans[0], now)
		after := c.after(max(1, cost), now)
		if after == 0 && cost > 0 {
			c.spend(cost, now)
			e.keep(c)
		}
		out.Binding = c.state(after, now)
		if out.Allowed = after == 0; !out.Allowed {
			out.Reason = limit.Exceeded
		}
		return out
	}
	var after [limit.MaxRates]int64
	fits := true
	for i, p := range plans {
		after[i] = e.of(p, now).after(max(1, cost), now)
		fits = fits && after[i] == 0
	}
	out.States = make([]limit.State, len(plans))
	for i, p := range plans {
		c := e.of(p, now)
		if fits && cost > 0 {
			c.spend(cost, now)
			e.keep(c)
		}
		out.States[i] = c.state(after[i], now)
	}
	out.Bind()
	return out
}

// crowded decides for a subject that finds no room, by the policies.
func (s *shard) crowded(cost int64, plans []*plan.Plan, now int64) limit.Decision {
	shared := make([]*plan.Plan, 0, len(plans))
	for _, p := range plans {
		switch p.Rate.OnError {
		case limit.Closed:
			return limit.Decision{Degraded: true, Reason: limit.Unavailable, Binding: unknown(p)}
		case limit.Local:
			shared = append(shared, p)
		case limit.Open:
		}
	}
	out := limit.Decision{Allowed: true}
	if len(shared) > 0 {
		out = s.spill.decide(cost, shared, now)
	}
	out.Degraded = true
	return out
}

// unknown is the state of a rate that refuses because nobody knows its count.
func unknown(p *plan.Plan) limit.State {
	return limit.State{Rate: p.Rate.Name, Refused: true, Limit: p.Limit, RetryAfter: time.Second}
}

// AllowAll implements limit.Limiter.
func (l *Limiter) AllowAll(ctx context.Context, checks []limit.Check) ([]limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := plan.Checks(checks); err != nil {
		return nil, err
	}
	var buf [limit.MaxRates]*plan.Plan
	for _, c := range checks {
		if _, err := l.plans.Call(buf[:0], c.Cost, c.Rates); err != nil {
			return nil, err
		}
	}
	out := make([]limit.Decision, len(checks))
	fits := true
	for i, c := range checks {
		plans, err := l.plans.Call(buf[:0], c.Cost, c.Rates)
		if err != nil {
			return nil, err
		}
		out[i] = l.decide(c.Subject, c.Cost, plans)
		fits = fits && out[i].Allowed
	}
	if fits {
		return out, nil
	}
	for i, c := range checks {
		if out[i].Allowed {
			if err := l.Refund(context.WithoutCancel(ctx), c.Subject, c.Cost, c.Rates...); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Refund implements limit.Limiter.
func (l *Limiter) Refund(ctx context.Context, subject string, cost int64, rates ...limit.Rate) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [limit.MaxRates]*plan.Plan
	plans, err := l.plans.Call(buf[:0], cost, rates)
	if err != nil {
		return err
	}
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[subject]
	if e == nil {
		return nil
	}
	now := l.now()
	for _, p := range plans {
		if c := e.own(p); c != nil {
			c.pass(now)
			c.refund(cost)
		}
	}
	return nil
}

// Reset implements limit.Limiter.
func (l *Limiter) Reset(ctx context.Context, subject string, rates ...limit.Rate) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [limit.MaxRates]*plan.Plan
	plans, err := l.plans.Peek(buf[:0], rates)
	if err != nil {
		return err
	}
	s := l.shard(subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[subject]
	if e == nil {
		return nil
	}
	now := l.now()
	for _, p := range plans {
		c := newCount(p, now)
		e.keep(&c)
	}
	return nil
}
