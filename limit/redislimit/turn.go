package redislimit

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// reservation is a turn of a leaky bucket.
type reservation struct {
	tag          string
	plan         *plan.Plan
	cost         int64
	turn, before int64
}

// reserve takes a turn that comes before the context's deadline.
func (l *Limiter) reserve(ctx context.Context, r *reservation) (limit.Decision, error) {
	p := r.plan
	a := ask{plan: p, cost: r.cost, room: p.Limit * p.Unit}
	if end, ok := ctx.Deadline(); ok {
		patience := max(0, time.Until(end).Microseconds()) //nolint:forbidigo // the caller's deadline is of this clock
		if patience < a.room/p.Gain {
			a.room = patience * p.Gain
		}
	}
	j := &job{keys: []string{l.names.key(r.tag, p)}, args: []string{a.arg(true)}}
	if err := l.line(r.tag).do(ctx, j); err != nil {
		if ctx.Err() != nil && j.done != nil { // it may get a turn all the same
			l.abandon(j, *r) //nolint:contextcheck // the caller has gone
		}
		return limit.Decision{}, err
	}
	got := j.answers[0]
	d := limit.Decision{Binding: got.state(p)}
	if got.refused {
		d.Reason = limit.Exceeded
		return d, nil
	}
	r.turn, r.before = got.turn, got.before
	before := max(0, got.used-r.cost*p.Unit)
	d.Allowed, d.Turn = true, micros((before+p.Gain-1)/p.Gain)
	return d, nil
}

// abandon gives back the turn of a job whose caller has gone, once it is there.
func (l *Limiter) abandon(j *job, r reservation) {
	if !l.begin() {
		return
	}
	go func() {
		defer l.end()
		<-j.done
		if j.err == nil && !j.answers[0].refused {
			r.turn, r.before = j.answers[0].turn, j.answers[0].before
			l.back(context.Background(), &r)
		}
	}()
}

// sleep waits for a turn, or gives it back.
func (l *Limiter) sleep(ctx context.Context, d time.Duration, r *reservation) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		l.back(ctx, r)
		return ctx.Err()
	}
}

// back gives a turn back, if the store answers; else it stays unused.
func (l *Limiter) back(ctx context.Context, r *reservation) {
	_, _ = l.call(ctx, r.tag, func(ctx context.Context) rueidis.RedisResult { // see above
		return l.lua.refund.Exec(ctx, l.client, []string{l.names.key(r.tag, r.plan)}, []string{refundArg(r.plan, r.cost, r.turn, r.before)})
	})
}
