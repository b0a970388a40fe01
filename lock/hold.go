package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// state is where a hold is in its life.
type state uint8

const (
	held     state = iota
	leaving        // given back, but the store has not confirmed it
	released       // the store does not know it any more, or it was handed over
	lost
)

// hold is something held, and its watchdog. Several leases share it where locks
// are re-entered.
type hold struct {
	l     *Locker
	c     call
	began time.Time
	turn  chan struct{} // full during a call that changes the lease

	mu       sync.Mutex
	r        Request // what the store is asked with; Lease and Count change
	state    state
	cause    error // of every state but held
	late     bool  // a call that acquires may still be on its way
	renewing bool
	least    time.Duration // the shortest lease of calls that may still be on their way, or zero
	until    time.Time     // the promise: nobody else holds it before
	base     time.Time     // what renewals keep to: each third of the lease after it
	due      time.Time     // the next renewal
	timer    *time.Timer
	leases   []*Lease // also those whose part the store has not taken back yet
	news     []Event  // to be told when no lock is held
}

// hold begins the life of something that was acquired. It is nil after Close.
func (l *Locker) hold(ctx context.Context, r Request, c call, got taken) *Lease {
	r.Fence, r.Queue = got.fence, 0
	h := &hold{l: l, c: c, r: r, began: got.sent, late: got.unsure, turn: make(chan struct{}, 1)}
	if got.unsure {
		h.least = r.Lease
	}
	h.until = validUntil(got.sent, r.Lease)
	h.base, h.due = got.sent, got.sent.Add(r.Lease/3)
	lease := newLease(ctx, h, r.Count)
	h.leases = []*Lease{lease}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.keep(h) {
		lease.end(ErrReleased)
		return nil
	}
	h.timer = time.AfterFunc(h.nextTick(time.Now()), h.tick)
	return lease
}

// validUntil is when a lease must be taken for lost: a little before the store
// can give it to another, for clocks that run at different speeds.
func validUntil(sent time.Time, lease time.Duration) time.Time {
	return sent.Add(lease - lease/100 - 2*time.Millisecond)
}

// alive compares both clocks of the machine: the monotonic one stands still while
// the machine sleeps, and the other one may be set back.
func alive(now, until time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// renews reports whether the watchdog still keeps the lease alive. The caller
// holds mu.
func (h *hold) renews(now time.Time) bool {
	return !h.c.fixed && (h.c.maxHold == 0 || now.Sub(h.began) < h.c.maxHold)
}

// nextTick is how long the watchdog may sleep. The caller holds mu.
func (h *hold) nextTick(now time.Time) time.Duration {
	next := h.until
	if h.renews(now) && !h.renewing && h.due.Before(next) {
		next = h.due
	}
	return max(next.Sub(now), 0)
}

// length is the lease that may be relied on: a call without an answer may come
// late, and make it shorter. The caller holds mu.
func (h *hold) length() time.Duration {
	if h.least > 0 {
		return min(h.least, h.r.Lease)
	}
	return h.r.Lease
}

// tick is the watchdog: it renews when it is time, and knows a loss in time even
// if the store does not answer.
func (h *hold) tick() {
	defer h.tell()
	h.mu.Lock()
	now := time.Now()
	if h.state != held {
		h.mu.Unlock()
		return
	}
	if !alive(now, h.until) {
		cause := ErrLost
		if !h.c.fixed && !h.renews(now) {
			cause = ErrMaxHold
		}
		h.lose(cause)
		h.mu.Unlock()
		return
	}
	renew := false
	if h.renews(now) && !h.renewing && !now.Before(h.due) {
		renew, h.renewing = h.l.begin(), true // after Close nothing is renewed
	}
	h.timer.Reset(h.nextTick(now))
	h.mu.Unlock()
	if renew {
		h.watch()
		h.l.work.Done()
	}
}

// watch renews once and sets the time of the next renewal: the next third of the
// lease since it began, so that lateness does not add up, or soon after an error.
func (h *hold) watch() {
	ok, err := h.renew(context.Background(), 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewing = false
	if h.state != held {
		return
	}
	now, third := time.Now(), h.length()/3
	if ok && err == nil {
		h.due = now.Add(third - now.Sub(h.base)%third)
	} else {
		h.due = now.Add(third / 4)
	}
	h.timer.Reset(h.nextTick(now))
}

// take waits for the turn to change the lease.
func (h *hold) take(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// renew asks the store once to let the lease begin anew, for a new length if one
// is given, and to take back what is not needed any more. It reports whether the
// lease is still held; with an error that is unknown.
func (h *hold) renew(ctx context.Context, length time.Duration) (bool, error) {
	if err := h.take(ctx); err != nil {
		return false, err
	}
	defer func() { <-h.turn }()
	if ctx.Err() != nil {
		return false, ended(ctx)
	}
	h.mu.Lock()
	r, err := h.r, h.gone()
	until := h.until
	h.mu.Unlock()
	if err != nil {
		return false, err
	}
	if length > 0 {
		r.Lease = length
	}
	sent := time.Now()
	within, cancel := context.WithTimeout(ctx, min(h.l.callTimeout(r.Lease), until.Sub(sent)))
	ok, err := h.l.store.Renew(within, &r)
	cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.doubt(r.Lease, sent)
		h.note(RenewFailed, time.Since(sent), err)
	case h.state != held: // given back meanwhile
	case !ok:
		h.lose(ErrLost)
	default:
		h.r.Lease = r.Lease
		h.until = validUntil(sent, h.length())
		h.note(Renewed, time.Since(sent), nil)
	}
	return ok, err
}

// doubt is what a renewal without an answer leaves behind: it may have set its
// lease, or may do so at any time. The caller holds mu.
func (h *hold) doubt(lease time.Duration, sent time.Time) {
	before := h.length()
	if h.least == 0 || lease < h.least {
		h.least = lease
	}
	if h.state != held || lease >= before {
		return
	}
	if until := validUntil(sent, lease); until.Before(h.until) {
		h.until = until
	}
	h.base, h.due = sent, time.Now().Add(lease/12)
	h.timer.Reset(h.nextTick(time.Now()))
}

// gone returns why the hold is over, or nil. The caller holds mu.
func (h *hold) gone() error {
	if h.state == held {
		return nil
	}
	return h.cause
}

// lose ends the hold without a call. The caller holds mu.
func (h *hold) lose(cause error) {
	h.end(lost, cause)
	h.note(Lost, time.Since(h.began), cause)
}

// end stops the watchdog and ends every lease. The caller holds mu.
func (h *hold) end(s state, cause error) {
	h.state, h.cause = s, cause
	h.timer.Stop()
	for _, lease := range h.leases {
		lease.end(cause)
	}
	h.l.forget(h)
}

// note keeps an event until it can be told. The caller holds mu.
func (h *hold) note(kind EventKind, took time.Duration, err error) {
	h.news = append(h.news, Event{
		Kind: kind, Lock: h.r.Kind, Name: h.r.Name, Owner: h.r.Owner, Fence: h.r.Fence, Took: took, Err: err,
	})
}

// tell passes on what happened, while no lock is held: who is told may look at the
// lease.
func (h *hold) tell() {
	h.mu.Lock()
	news := h.news
	h.news = nil
	h.mu.Unlock()
	for _, e := range news {
		h.l.config.Observe(e)
	}
}

// leave ends one lease. It reports whether it was the last one, which ends when
// everything is given back, or else whether the others need less; then every call
// from now on gives the rest back.
func (h *hold) leave(lease *Lease) (last, less bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.leases, lease) {
		return false, false, lease.over
	}
	if h.state != held {
		return true, false, nil
	}
	var need int64
	for _, other := range h.leases {
		if other != lease && other.over == nil {
			need = max(need, other.count)
		}
	}
	if need == 0 {
		return true, false, nil
	}
	lease.end(ErrReleased)
	if need >= h.r.Count && lease.count <= h.r.Count {
		h.remove(lease)
		return false, false, nil
	}
	h.r.Count = need
	return false, true, nil
}

// remove forgets a lease whose part is given back, and reports whether it was
// there. The caller holds mu.
func (h *hold) remove(lease *Lease) bool {
	i := slices.Index(h.leases, lease)
	if i >= 0 {
		h.leases = slices.Delete(h.leases, i, i+1)
	}
	return i >= 0
}

// shrink has the store take back the part of a hold that only this lease needed: a
// writer becomes a reader. It may be called again after an error.
func (h *hold) shrink(ctx context.Context, lease *Lease) error {
	ok, err := h.renew(ctx, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !ok:
		return ErrLost
	case !h.remove(lease):
		return lease.over
	}
	return nil
}

// release gives everything back. It may be called again after an error. The
// leases end before the store is asked: who gives back has stopped using.
func (h *hold) release(ctx context.Context, cause error) error {
	h.mu.Lock()
	if h.state == held {
		h.end(leaving, cause)
	}
	h.mu.Unlock()
	if err := h.take(ctx); err != nil {
		return err
	}
	defer func() { <-h.turn }()
	h.mu.Lock()
	was, r, over := h.state, h.r, h.cause
	h.mu.Unlock()
	if was == released {
		return over
	}
	outcome, err := h.l.giveBack(ctx, &r)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && was == lost:
		return errors.Join(over, err)
	case err != nil:
		return err
	}
	h.state = released
	if h.late && h.l.begin() {
		go func() {
			defer h.l.work.Done()
			h.l.undoLate(context.WithoutCancel(ctx), &r)
		}()
	}
	switch {
	case was == lost:
		return over
	case !outcome.Released:
		h.cause = ErrLost
		h.note(Lost, time.Since(h.began), ErrLost)
		return ErrLost
	}
	h.note(Released, time.Since(h.began), nil)
	return nil
}
