package redislimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// clusterLines is how many ranges of slots are gathered and found to fail apart in
// a Cluster.
const clusterLines = 16

// Limiter is a limit.Limiter in Redis. It is safe for concurrent use.
type Limiter struct {
	client    rueidis.Client
	o         Options
	start     time.Time
	plans     plan.Book
	names     *namer
	lua       scripts
	checkHash string
	sharded   bool
	lines     []line
	denials   *denials
	local     *memlimit.Limiter

	mu      sync.Mutex // orders begin and Close
	closed  atomic.Bool
	running sync.WaitGroup
}

// New returns a limiter over a client, which stays the caller's to close, after the
// limiter. Nothing is sent yet. Errors are limit.ErrInvalid.
func New(client rueidis.Client, o Options) (*Limiter, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	local, err := memlimit.New(memlimit.Options{MaxSubjects: o.MaxSubjects})
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(checkSource)) //nolint:gosec // it is how Redis names scripts
	l := &Limiter{
		client: client, o: o, names: newNamer(o.Prefix, o.HashKey), lua: newScripts(), checkHash: hex.EncodeToString(sum[:]),
		lines: make([]line, 1), denials: newDenials(int64(o.MaxDeny), o.MaxSubjects), local: local,
		start: time.Now(), //nolint:forbidigo // the clock of refusals and of a store that rests is this process's
	}
	if client.Mode() == rueidis.ClientModeCluster {
		l.sharded, l.lines = true, make([]line, clusterLines)
	}
	for i := range l.lines {
		l.lines[i].limiter = l
	}
	return l, nil
}

// Close ends the limiter: calls under way are answered, later ones are
// limit.ErrClosed.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed.Store(true)
	l.mu.Unlock()
	l.running.Wait()
}

// begin counts something that Close waits for; it is false after Close.
func (l *Limiter) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	l.running.Add(1)
	return true
}

func (l *Limiter) end() { l.running.Done() }

// clock is this process's, in ns; it never is 0.
func (l *Limiter) clock() int64 {
	return int64(time.Since(l.start)) + 1 //nolint:forbidigo // see New
}

func left(until, now int64) time.Duration { return time.Duration(until - now) }

func (l *Limiter) line(tag string) *line {
	if len(l.lines) == 1 {
		return &l.lines[0]
	}
	return &l.lines[slot(tag)*len(l.lines)/slots]
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
	if d, ok := l.remembered(subject, cost, plans); ok {
		return d, nil
	}
	return l.ask(ctx, inquiry{subject: subject, cost: cost, plans: append([]*plan.Plan(nil), plans...)})
}

// remembered is a refusal that still stands.
func (l *Limiter) remembered(subject string, cost int64, plans []*plan.Plan) (limit.Decision, bool) {
	state, ok := l.denials.denied(subject, plans, cost, l.clock())
	if !ok {
		return limit.Decision{}, false
	}
	return limit.Decision{Reason: limit.Exceeded, Remembered: true, Binding: state}, true
}

// inquiry is what is asked about one subject.
type inquiry struct {
	subject string
	cost    int64 // 0 looks
	plans   []*plan.Plan
	sent    int64  // when it was asked
	version uint64 // of the refusals then
	tag     string
}

// prepare adds an inquiry to a job.
func (l *Limiter) prepare(j *job, q *inquiry) {
	q.sent, q.version, q.tag = l.clock(), l.denials.version(q.subject), l.names.tag(q.subject)
	for _, p := range q.plans {
		a := newAsk(p, q.cost)
		j.keys, j.args = append(j.keys, l.names.key(q.tag, p)), append(j.args, a.arg(false))
	}
}

// seal marks the end of a job, so that what follows in a batch is another call.
func (j *job) seal() *job {
	last := []byte(j.args[len(j.args)-1])
	last[0] -= followed
	j.args[len(j.args)-1] = string(last)
	return j
}

func (l *Limiter) ask(ctx context.Context, q inquiry) (limit.Decision, error) {
	j := &job{}
	l.prepare(j, &q)
	err := l.line(q.tag).do(ctx, j.seal())
	switch {
	case err == nil:
		return l.decision(&q, j.answers), nil
	case passes(ctx, err):
		return limit.Decision{}, err
	}
	return l.without(ctx, &q)
}

// passes reports whether an error is the caller's, not the store's.
func passes(ctx context.Context, err error) bool { return ctx.Err() != nil || err == limit.ErrClosed } //nolint:errorlint // it comes as it is

// decision turns the answers into one, and remembers refusals.
func (l *Limiter) decision(q *inquiry, answers []answer) limit.Decision {
	var d limit.Decision
	if len(answers) == 1 {
		d.Binding = answers[0].state(q.plans[0])
		if d.Allowed = !d.Binding.Refused; !d.Allowed {
			d.Reason = limit.Exceeded
		}
	} else {
		d.States = make([]limit.State, len(answers))
		for i := range answers {
			d.States[i] = answers[i].state(q.plans[i])
		}
		d.Bind()
	}
	if d.Allowed || q.cost == 0 {
		return d
	}
	for i := range answers {
		if s := answers[i].state(q.plans[i]); s.Refused {
			l.denials.learn(refusal{q.subject, q.plans[i], q.cost, s, q.sent, q.version})
		}
	}
	return d
}

// AllowAll implements limit.Limiter.
func (l *Limiter) AllowAll(ctx context.Context, checks []limit.Check) ([]limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := plan.Checks(checks); err != nil {
		return nil, err
	}
	asked := make([]inquiry, len(checks))
	for i, c := range checks {
		plans, err := l.plans.Call(nil, c.Cost, c.Rates)
		if err != nil {
			return nil, err
		}
		asked[i] = inquiry{subject: c.Subject, cost: c.Cost, plans: plans}
	}
	for i := range asked {
		if d, ok := l.remembered(asked[i].subject, asked[i].cost, asked[i].plans); ok {
			out := make([]limit.Decision, len(asked))
			for k := range out {
				out[k].Allowed = true
			}
			out[i] = d
			return out, nil
		}
	}
	if l.sharded {
		return l.allEach(ctx, asked)
	}
	return l.allAtOnce(ctx, asked)
}

// allAtOnce asks for all subjects in one step.
func (l *Limiter) allAtOnce(ctx context.Context, asked []inquiry) ([]limit.Decision, error) {
	j := &job{}
	for i := range asked {
		l.prepare(j, &asked[i])
	}
	err := l.lines[0].do(ctx, j.seal())
	if err != nil {
		if passes(ctx, err) {
			return nil, err
		}
		return l.allWithout(ctx, asked)
	}
	out := make([]limit.Decision, len(asked))
	rest := j.answers
	for i := range asked {
		n := len(asked[i].plans)
		out[i] = l.decision(&asked[i], rest[:n])
		rest = rest[n:]
	}
	return out, nil
}

// allEach asks for the subjects side by side, and gives back if one is refused.
func (l *Limiter) allEach(ctx context.Context, asked []inquiry) ([]limit.Decision, error) {
	out, errs := make([]limit.Decision, len(asked)), make([]error, len(asked))
	var work sync.WaitGroup
	for i := range asked {
		work.Go(func() { out[i], errs[i] = l.ask(ctx, asked[i]) })
	}
	work.Wait()
	var failed error
	fits := true
	for i := range asked {
		if errs[i] != nil {
			failed = errs[i]
		}
		fits = fits && out[i].Allowed
	}
	if fits && failed == nil {
		return out, nil
	}
	back := context.WithoutCancel(ctx)
	for i := range asked {
		if errs[i] == nil && out[i].Allowed {
			l.giveBack(back, &asked[i], out[i].Degraded)
		}
	}
	return out, failed
}

// giveBack refunds as well as it can. What a store that has gone keeps is paid back
// by time.
func (l *Limiter) giveBack(ctx context.Context, q *inquiry, local bool) { //nolint:revive // where it was spent
	if local {
		l.refundLocal(ctx, q.subject, q.cost, q.plans)
		return
	}
	_ = l.refund(ctx, q.subject, q.cost, q.plans) // see above
}
