package redislimit

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// share is what one of n processes has of a rate while nobody knows of the others.
// A quota that is too small to be divided is one in a longer window.
func share(p *plan.Plan, n int64) limit.Rate {
	r := p.Rate
	if r.Algorithm == limit.TokenBucket || r.Algorithm == limit.LeakyBucket {
		r.Burst = max(1, p.Limit/n)
	}
	if r.Quota >= n {
		r.Quota /= n
		return r
	}
	if r.Algorithm != limit.Concurrency {
		longer := r.Window * time.Duration(n) / time.Duration(r.Quota)
		r.Window = min(limit.MaxWindow, longer.Round(time.Microsecond))
	}
	r.Quota = 1
	return r
}

// shares returns those of the rates that are Local; closed is one that refuses.
func (l *Limiter) shares(plans []*plan.Plan) (rates []limit.Rate, closed *plan.Plan) {
	for _, p := range plans {
		switch p.Rate.OnError {
		case limit.Closed:
			return nil, p
		case limit.Local:
			rates = append(rates, share(p, int64(l.o.Instances)))
		case limit.Open:
		}
	}
	return rates, nil
}

// fitting cuts a cost to what the share of a process can admit at all.
func fitting(cost int64, rates []limit.Rate) int64 {
	for i := range rates {
		cost = min(cost, rates[i].Capacity())
	}
	return cost
}

// unavailable is the refusal of a rate with the policy Closed.
func (l *Limiter) unavailable(p *plan.Plan) limit.Decision {
	return limit.Decision{
		Degraded: true, Reason: limit.Unavailable,
		Binding: limit.State{Rate: p.Rate.Name, Refused: true, Limit: p.Limit, RetryAfter: l.o.Probe},
	}
}

// without decides by the policies.
func (l *Limiter) without(ctx context.Context, q *inquiry) (limit.Decision, error) {
	rates, closed := l.shares(q.plans)
	if closed != nil {
		return l.unavailable(closed), nil
	}
	if len(rates) == 0 {
		return limit.Decision{Allowed: true, Degraded: true}, nil
	}
	var d limit.Decision
	var err error
	if q.cost == 0 {
		d, err = l.local.Peek(ctx, q.subject, rates...)
	} else {
		d, err = l.local.Allow(ctx, q.subject, fitting(q.cost, rates), rates...)
	}
	d.Degraded = true
	return d, err
}

// allWithout does the same for several subjects.
func (l *Limiter) allWithout(ctx context.Context, asked []inquiry) ([]limit.Decision, error) {
	out := make([]limit.Decision, len(asked))
	fits := true
	spent := len(asked)
	for i := range asked {
		if !fits {
			out[i] = limit.Decision{Allowed: true, Degraded: true}
			continue
		}
		var err error
		if out[i], err = l.without(ctx, &asked[i]); err != nil {
			return nil, err
		}
		if fits = out[i].Allowed; !fits {
			spent = i
		}
	}
	if fits {
		return out, nil
	}
	for i := range asked[:spent] {
		l.refundLocal(ctx, asked[i].subject, asked[i].cost, asked[i].plans)
	}
	return out, nil
}

// refundLocal gives back what without has spent.
func (l *Limiter) refundLocal(ctx context.Context, subject string, cost int64, plans []*plan.Plan) {
	rates, closed := l.shares(plans)
	if closed == nil && len(rates) > 0 {
		_ = l.local.Refund(ctx, subject, fitting(cost, rates), rates...) // memory fails only for those who have gone
	}
}
