package redislimit

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// call sends something outside of the line, once. It is carried out whether or not
// the caller waits for it.
func (l *Limiter) call(ctx context.Context, tag string, send func(context.Context) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	if !l.begin() {
		return rueidis.RedisMessage{}, limit.ErrClosed
	}
	defer l.end()
	line := l.line(tag)
	if !line.ready() {
		return rueidis.RedisMessage{}, errResting
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout)
	defer cancel()
	sent := l.clock()
	msg, err := send(ctx).ToMessage()
	if line.heard(sent, err); err != nil {
		return msg, fmt.Errorf("%w: %w", limit.ErrUnavailable, err)
	}
	return msg, nil
}

// Peek implements limit.Limiter.
func (l *Limiter) Peek(ctx context.Context, subject string, rates ...limit.Rate) (limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limit.Decision{}, err
	}
	plans, err := l.plans.Peek(nil, rates)
	if err != nil {
		return limit.Decision{}, err
	}
	q := inquiry{subject: subject}
	for _, p := range plans {
		if p.Rate.Algorithm != limit.Concurrency {
			q.plans = append(q.plans, p)
		}
	}
	if len(q.plans) == len(plans) {
		return l.ask(ctx, q)
	}
	return l.peekSlots(ctx, q, plans)
}

// Refund implements limit.Limiter.
func (l *Limiter) Refund(ctx context.Context, subject string, cost int64, rates ...limit.Rate) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	plans, err := l.plans.Call(nil, cost, rates)
	if err != nil {
		return err
	}
	return l.refund(ctx, subject, cost, plans)
}

func (l *Limiter) refund(ctx context.Context, subject string, cost int64, plans []*plan.Plan) error {
	tag := l.names.tag(subject)
	keys, args := make([]string, 0, len(plans)), make([]string, 0, len(plans))
	for _, p := range plans {
		if p.Rate.Algorithm != limit.LeakyBucket {
			keys, args = append(keys, l.names.key(tag, p)), append(args, refundArg(p, cost, 0, 0))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := l.call(ctx, tag, func(ctx context.Context) rueidis.RedisResult {
		return l.lua.refund.Exec(ctx, l.client, keys, args)
	})
	if err != nil {
		l.refundLocal(ctx, subject, cost, plans)
	}
	l.denials.forget(subject)
	return err
}

// refundArg is an ARGV of lua/refund.lua.
func refundArg(p *plan.Plan, cost, turn, before int64) string {
	b := append(make([]byte, 0, 1+3*numberSize), kind(p.Rate.Algorithm))
	for _, n := range [...]int64{cost, turn, before} {
		b = appendNumber(b, n)
	}
	return string(b)
}

// Reset implements limit.Limiter.
func (l *Limiter) Reset(ctx context.Context, subject string, rates ...limit.Rate) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	plans, err := l.plans.Peek(nil, rates)
	if err != nil {
		return err
	}
	tag := l.names.tag(subject)
	keys := make([]string, 0, len(plans))
	for _, p := range plans {
		keys = append(keys, l.names.key(tag, p))
	}
	_, err = l.call(ctx, tag, func(ctx context.Context) rueidis.RedisResult {
		return l.client.Do(ctx, l.client.B().Unlink().Key(keys...).Build())
	})
	if local, closed := l.shares(plans); closed == nil && len(local) > 0 {
		_ = l.local.Reset(ctx, subject, local...) // memory fails only for those who have gone
	}
	l.denials.forget(subject)
	return err
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
	turn := reservation{tag: l.names.tag(subject), plan: p, cost: cost}
	d, err := l.reserve(ctx, &turn)
	switch {
	case err == nil:
	case passes(ctx, err):
		return d, err
	default:
		return l.waitWithout(ctx, subject, cost, p)
	}
	if !d.Allowed || d.Turn == 0 {
		return d, nil
	}
	return d, l.sleep(ctx, d.Turn, &turn)
}

// waitWithout is Wait by the policies.
func (l *Limiter) waitWithout(ctx context.Context, subject string, cost int64, p *plan.Plan) (limit.Decision, error) {
	rates, closed := l.shares([]*plan.Plan{p})
	if closed != nil {
		return l.unavailable(closed), nil
	}
	if len(rates) == 0 {
		return limit.Decision{Allowed: true, Degraded: true}, nil
	}
	d, err := l.local.Wait(ctx, subject, fitting(cost, rates), rates[0])
	d.Degraded = true
	return d, err
}
