package redislimit

import (
	"context"
	"crypto/rand"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// held is a slot in Redis.
type held struct {
	limiter *Limiter
	tag     string
	plan    *plan.Plan
	id      string
}

// slotsNow is what lua/slot.lua says.
type slotsNow struct {
	done                    bool
	held, free, first, last int64
}

// step sends one step about a slot.
func (h *held) step(ctx context.Context, op string) (slotsNow, error) {
	l, p := h.limiter, h.plan
	msg, err := l.call(ctx, h.tag, func(ctx context.Context) rueidis.RedisResult {
		return l.lua.slot.Exec(ctx, l.client, []string{l.names.key(h.tag, p)},
			[]string{op, h.id, strconv.FormatInt(p.Limit, 10), strconv.FormatInt(p.Span, 10)})
	})
	if err != nil {
		return slotsNow{}, err
	}
	return readSlots(&msg)
}

func readSlots(msg *rueidis.RedisMessage) (slotsNow, error) {
	list, err := msg.AsIntSlice()
	if err != nil || len(list) != 5 {
		return slotsNow{}, errShape
	}
	for _, n := range list {
		if n < 0 {
			return slotsNow{}, errShape
		}
	}
	return slotsNow{list[0] == 1, list[1], list[2], list[3], list[4]}, nil
}

// state is that of the rate, for a call that wanted a slot.
func (s slotsNow) state(p *plan.Plan, wanted bool) limit.State { //nolint:revive // who has a slot is not refused
	out := limit.State{Rate: p.Rate.Name, Limit: p.Limit, Remaining: max(0, p.Limit-s.held), MoreAfter: micros(s.first), ResetAfter: micros(s.last)}
	if wanted {
		out.Refused, out.RetryAfter = s.free > 0, micros(s.free)
	}
	return out
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
	mine := &held{limiter: l, tag: l.names.tag(subject), plan: p, id: rand.Text()}
	now, err := mine.step(ctx, "acquire")
	switch {
	case err == nil && ctx.Err() != nil:
		_, _ = mine.step(context.WithoutCancel(ctx), "release") // else it ends with its lease
		return nil, limit.Decision{}, ctx.Err()
	case err == nil:
		d := limit.Decision{Allowed: now.done, Binding: now.state(p, !now.done)}
		if !now.done {
			d.Reason = limit.Exceeded
			return nil, d, nil
		}
		return mine, d, nil
	case passes(ctx, err):
		return nil, limit.Decision{}, err
	}
	return l.acquireWithout(ctx, subject, p)
}

// acquireWithout is Acquire by the policies.
func (l *Limiter) acquireWithout(ctx context.Context, subject string, p *plan.Plan) (limit.Slot, limit.Decision, error) {
	rates, closed := l.shares([]*plan.Plan{p})
	if closed != nil {
		return nil, l.unavailable(closed), nil
	}
	if len(rates) == 0 {
		return uncounted{}, limit.Decision{Allowed: true, Degraded: true}, nil
	}
	s, d, err := l.local.Acquire(ctx, subject, rates[0])
	d.Degraded = true
	return s, d, err
}

// uncounted is a slot of a rate that is Open.
type uncounted struct{}

func (uncounted) Extend(ctx context.Context) error  { return ctx.Err() }
func (uncounted) Release(ctx context.Context) error { return ctx.Err() }

// Extend implements limit.Slot.
func (h *held) Extend(ctx context.Context) error { return h.change(ctx, "extend") }

// Release implements limit.Slot.
func (h *held) Release(ctx context.Context) error { return h.change(ctx, "release") }

func (h *held) change(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := h.step(ctx, op)
	if err == nil && !now.done {
		err = limit.ErrSlotLost
	}
	return err
}

// peekSlots is Peek where some of the rates are about concurrency; q has the others.
func (l *Limiter) peekSlots(ctx context.Context, q inquiry, plans []*plan.Plan) (limit.Decision, error) {
	var d limit.Decision
	others := map[*plan.Plan]limit.State{}
	if len(q.plans) > 0 {
		rest, err := l.ask(ctx, q)
		if err != nil || rest.Degraded {
			return rest, err
		}
		i := 0
		for s := range rest.All() {
			others[q.plans[i]] = s
			i++
		}
	}
	tag := l.names.tag(q.subject)
	for _, p := range plans {
		state, ok := others[p]
		if !ok {
			now, err := (&held{limiter: l, tag: tag, plan: p}).step(ctx, "peek")
			if err != nil && passes(ctx, err) {
				return limit.Decision{}, err
			}
			if err != nil {
				return l.without(ctx, &inquiry{subject: q.subject, plans: plans})
			}
			state = now.state(p, true)
		}
		d.States = append(d.States, state)
	}
	d.Bind()
	if len(d.States) == 1 {
		d.States = nil
	}
	return d, nil
}
