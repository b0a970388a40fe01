package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// take is every way to a lease: re-entry, or an attempt.
func (l *Locker) take(ctx context.Context, r Request, wait time.Duration, opts []Option) (*Lease, error) {
	c, err := l.options(wait, opts)
	if err == nil {
		err = validName(r.Name)
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	if outer := carried(ctx, l, &r); outer != nil {
		if c.once {
			return nil, notAcquired(ErrReentry)
		}
		return outer.hold.reenter(ctx, outer, r.Count)
	}
	r.Barging = c.barging
	return l.acquire(ctx, r, c)
}

// acquire is one attempt, from the first call to the lease.
func (l *Locker) acquire(ctx context.Context, r Request, c call) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, notAcquired(ended(ctx))
	}
	if !l.begin() {
		return nil, notAcquired(ErrClosed)
	}
	defer l.work.Done()
	r.Owner, r.By, r.Lease, r.Metadata = l.owner(), l.id, c.lease, c.meta
	a := attempt{l: l, r: r, c: c, start: time.Now()}
	got, err := a.run(ctx)
	r.Owner = a.r.Owner
	waited := time.Since(a.start)
	if err != nil {
		l.config.Observe(Event{Kind: NotAcquired, Lock: r.Kind, Name: r.Name, Owner: r.Owner, Took: waited, Err: err})
		return nil, err
	}
	r.From, got.unsure = "", a.unsure
	lease := l.hold(ctx, r, c, got)
	if lease == nil {
		a.abandon(ctx)
		err = notAcquired(ErrClosed)
		l.config.Observe(Event{Kind: NotAcquired, Lock: r.Kind, Name: r.Name, Owner: r.Owner, Took: waited, Err: err})
		return nil, err
	}
	l.config.Observe(Event{Kind: Acquired, Lock: r.Kind, Name: r.Name, Owner: r.Owner, Fence: got.fence, Took: waited})
	return lease, nil
}

// taken is a grant and the moment from which its lease certainly runs.
type taken struct {
	fence  Fence
	sent   time.Time
	unsure bool // an earlier call has ended without an answer
}

// attempt is one way to a lock, from the first call until it is held or given up.
type attempt struct {
	l       *Locker
	r       Request
	c       call
	start   time.Time
	signals chan signal
	last    Grant
	trouble error     // of the last call
	since   time.Time // when the trouble began
	tries   int       // in trouble
	asked   int       // with an answer
	unsure  bool      // a call has ended without an answer
}

func (a *attempt) run(ctx context.Context) (taken, error) {
	switch {
	case a.r.From != "":
		return a.adopt(ctx)
	case a.c.wait == 0:
		return a.once(ctx)
	}
	a.r.Queue = a.l.config.Waiter
	topic, first := a.l.store.Topic(&a.r), a.r.Owner
	a.signals = a.l.waiters.add(first, topic)
	got, err := a.wait(ctx, topic)
	a.l.waiters.remove(first)
	if err != nil {
		a.abandon(ctx)
	}
	return got, err
}

// once asks a single time. A plain refusal leaves nothing behind to clean up.
func (a *attempt) once(ctx context.Context) (taken, error) {
	got, err := a.ask(ctx)
	switch {
	case err == nil && got.fence != 0:
		return got, nil
	case err == nil:
		return taken{}, a.refused()
	default:
		a.abandon(ctx)
		return taken{}, notAcquired(err)
	}
}

func (a *attempt) wait(ctx context.Context, topic string) (taken, error) {
	var bound <-chan time.Time // fires when the caller has waited for as long as it wanted
	if a.c.wait > 0 {
		timer := time.NewTimer(a.c.wait - time.Since(a.start))
		defer timer.Stop()
		bound = timer.C
	}
	if topic == "" {
		one := a.l.turns.join(a.r.Name)
		defer a.l.turns.leave(a.r.Name, one)
		select {
		case one.busy <- struct{}{}:
			defer func() { <-one.busy }()
		case <-bound:
			return taken{}, a.refused()
		case <-ctx.Done():
			return taken{}, a.givenUp(ended(ctx))
		case <-a.l.closed:
			return taken{}, a.givenUp(ErrClosed)
		}
	}
	joined := false
	for {
		got, err := a.ask(ctx)
		if err != nil && a.hopeless(ctx, err) {
			return taken{}, notAcquired(errors.Join(err, a.refused()))
		}
		if got.fence != 0 {
			return got, nil
		}
		if !joined && topic != "" { // most locks are free and need nobody to tell
			joined = true
			a.l.topics.join(topic) //nolint:contextcheck // a subscription is not one waiter's
			defer a.l.topics.leave(topic)
		}
		if got, err = a.rest(ctx, bound); err != nil || got.fence != 0 {
			return got, err
		}
		if topic == "" { // what the store still takes back is not the next owner's
			if a.trouble != nil {
				a.abandon(ctx)
			}
			a.r.Owner, a.unsure = a.l.owner(), false
		}
	}
}

// rest waits for a grant, or for a reason to ask again, which is neither a grant
// nor an error.
func (a *attempt) rest(ctx context.Context, bound <-chan time.Time) (taken, error) {
	pause := time.NewTimer(a.pause())
	defer pause.Stop()
	select {
	case s := <-a.signals:
		got := taken(s)
		switch {
		case got.fence == 0 || !a.usable(got):
			return taken{}, nil
		case ctx.Err() != nil:
			return taken{}, a.givenUp(ended(ctx))
		}
		return got, nil
	case <-pause.C:
		return taken{}, nil
	case <-bound:
		return taken{}, a.givenUp(nil)
	case <-ctx.Done():
		return taken{}, a.givenUp(ended(ctx))
	case <-a.l.closed:
		return taken{}, a.givenUp(ErrClosed)
	}
}

// ask calls the store once. A grant counts only if its lease has not run out on
// the way and nobody has stopped waiting for it.
func (a *attempt) ask(ctx context.Context) (taken, error) {
	sent := time.Now()
	limit := a.l.callTimeout(a.r.Lease)
	if a.c.wait > 0 {
		limit = min(limit, a.c.wait-sent.Sub(a.start))
	}
	within, cancel := context.WithTimeout(ctx, limit)
	grant, err := a.l.store.Acquire(within, &a.r)
	silent := within.Err() != nil
	cancel()
	a.unsure = a.unsure || err != nil
	switch {
	case ctx.Err() != nil:
		return taken{}, ended(ctx)
	case err != nil:
		if a.trouble = err; silent { // that a context has ended is said of the caller's alone
			a.trouble = &StoreError{Op: "acquire", Err: fmt.Errorf("no answer in %s", limit)}
			return taken{}, a.trouble
		}
		return taken{}, err
	case grant.Refused:
		return taken{}, ErrUpgrade
	}
	a.last, a.trouble, a.tries = grant, nil, 0
	a.asked++
	got := taken{fence: grant.Fence, sent: sent}
	if got.fence != 0 && !a.usable(got) {
		a.trouble = fmt.Errorf("%w: the answer came after the lease", ErrLost)
		return taken{}, a.trouble
	}
	return got, nil
}

func (a *attempt) usable(got taken) bool {
	return alive(time.Now(), validUntil(got.sent, a.r.Lease))
}

// hopeless reports whether an error ends the waiting. Others are the store's
// passing weakness: a fail-over, a lost connection.
func (a *attempt) hopeless(ctx context.Context, err error) bool {
	if a.trouble == nil || ctx.Err() != nil || permanent(err) {
		return true
	}
	if a.tries++; a.tries == 1 {
		a.since = time.Now()
	}
	return time.Since(a.since) >= a.l.config.Patience
}

// longestPoll finds a grant that nobody told of before it lapses, however long a
// place in the queue lives: a store keeps unclaimed grants for two seconds.
const longestPoll = 500 * time.Millisecond

// pause is how long to wait for a signal before asking again.
func (a *attempt) pause() time.Duration {
	poll := min(a.r.Queue/4, longestPoll)
	switch {
	case a.trouble != nil:
		return jitter(min(poll, 10*time.Millisecond<<min(a.tries, 10)))
	case a.last.Retry > 0:
		return jitter(a.last.Retry << min(a.asked, 4))
	case a.last.First && a.last.Left > 0:
		return min(poll, a.last.Left+time.Millisecond)
	}
	return poll
}

// jitter returns a time from half of d to one and a half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) } //nolint:gosec // no secret

func (a *attempt) refused() error {
	return &NotAcquiredError{
		Name: a.r.Name, Holder: a.last.Holder, Left: max(a.last.Left, 0), Waiters: a.last.Waiters, Waited: time.Since(a.start),
	}
}

// givenUp is the error of waiting that came to nothing: what was in the way, what
// was wrong with the store, and why waiting ended, if not because it was bounded.
func (a *attempt) givenUp(cause error) error {
	if a.trouble == nil && cause == nil {
		return a.refused()
	}
	return errors.Join(a.refused(), a.trouble, cause)
}

// ended returns why a context has ended: its error and its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// abandon undoes an attempt whose outcome is unknown or not wanted any more: it
// leaves the queue, and if the lock was granted meanwhile, passes it on. It runs
// beside the caller, who may be in a hurry. After a call without an answer that
// call may still be on its way, on a connection that broke, so it is undone twice.
func (a *attempt) abandon(ctx context.Context) {
	l, r, unsure := a.l, a.r, a.unsure
	l.work.Go(func() { // the caller is counted, so the group is not at rest
		detached := context.WithoutCancel(ctx)
		if _, err := l.giveBack(detached, &r); err == nil && unsure {
			l.undoLate(detached, &r) // else it ends by itself: nobody renews it
		}
	})
}

// undoLate releases once more what a call without an answer, which was on its way
// when it was released, may have brought about since.
func (l *Locker) undoLate(ctx context.Context, r *Request) {
	late := time.NewTimer(l.callTimeout(r.Lease))
	defer late.Stop()
	select {
	case <-late.C:
	case <-l.closed:
	}
	_, _ = l.giveBack(ctx, r)
}

// giveBack releases what a request may hold, tries again after an error of
// unknown outcome, and passes what it frees to waiters of this Locker.
func (l *Locker) giveBack(ctx context.Context, r *Request) (Outcome, error) {
	const tries = 3
	var failed error
	for i := range tries {
		within, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
		sent := time.Now()
		outcome, err := l.store.Release(within, r)
		cancel()
		if err == nil {
			l.waiters.hand(outcome.Next, sent)
			if failed != nil {
				// The answer that was lost may have named one of our waiters.
				l.waiters.nudge(l.store.Topic(r))
			}
			return outcome, nil
		}
		failed = err
		if permanent(err) || i+1 == tries || !rest(ctx, jitter(10*time.Millisecond<<i)) {
			break
		}
	}
	return Outcome{}, failed
}

// rest waits; it is false if the context has ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
