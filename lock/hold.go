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
	turn  sync.Mutex // of the calls that change the lease; each is bounded

	mu       sync.Mutex
	r        Request // what the store is asked with; Lease, Count and Fence change
	state    state
	cause    error // of lost
	unsure   bool  // a release has ended without an answer
	renewing bool
	until    time.Time // the promise: nobody else holds it before
	base     time.Time // what renewals keep to: each third of the lease after it
	due      time.Time // the next renewal
	timer    *time.Timer
	leases   []*Lease
}

// hold begins the life of something that was acquired.
func (l *Locker) hold(ctx context.Context, r Request, c call, got taken) *Lease {
	r.Fence, r.Queue = got.fence, 0
	h := &hold{l: l, c: c, r: r, began: got.sent}
	h.until = validUntil(got.sent, r.Lease)
	h.base, h.due = got.sent, got.sent.Add(r.Lease/3)
	lease := newLease(ctx, h, r.Count)
	h.leases = []*Lease{lease}
	h.mu.Lock()
	h.timer = time.AfterFunc(h.nextTick(time.Now()), h.tick)
	h.mu.Unlock()
	l.keep(h)
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

// tick is the watchdog: it renews when it is time, and knows a loss in time even
// if the store does not answer.
func (h *hold) tick() {
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
	renew := h.renews(now) && !h.renewing && !now.Before(h.due) && h.l.begin()
	h.renewing = h.renewing || renew
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
	now, third := time.Now(), h.r.Lease/3
	if ok && err == nil {
		h.due = now.Add(third - now.Sub(h.base)%third)
	} else {
		h.due = now.Add(h.r.Lease / 12)
	}
	h.timer.Reset(h.nextTick(now))
}

// renew asks the store once to let the lease begin anew, for a new length if one
// is given. It reports whether the lease is still held; with an error that is
// unknown.
func (h *hold) renew(ctx context.Context, length time.Duration) (bool, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
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
		h.tell(RenewFailed, time.Since(sent), err)
	case h.state != held: // given back meanwhile
	case !ok:
		h.lose(ErrLost)
	default:
		h.r.Lease, h.until = r.Lease, validUntil(sent, r.Lease)
		h.tell(Renewed, time.Since(sent), nil)
	}
	return ok, err
}

// gone returns why the hold is over, or nil. The caller holds mu.
func (h *hold) gone() error {
	switch h.state {
	case held:
		return nil
	case lost:
		return h.cause
	case leaving, released:
	}
	return ErrReleased
}

// lose ends the hold without a call. The caller holds mu.
func (h *hold) lose(cause error) {
	h.state, h.cause = lost, cause
	h.end(cause)
	h.tell(Lost, time.Since(h.began), cause)
}

// end stops the watchdog and tells every lease. The caller holds mu.
func (h *hold) end(cause error) {
	h.timer.Stop()
	for _, lease := range h.leases {
		lease.cancel(cause)
	}
	h.l.forget(h)
}

func (h *hold) tell(kind EventKind, took time.Duration, err error) {
	h.l.config.Observe(Event{
		Kind: kind, Lock: h.r.Kind, Name: h.r.Name, Owner: h.r.Owner, Fence: h.r.Fence, Took: took, Err: err,
	})
}

// drop takes one of several leases away; what remains may need less. It reports
// whether it was the last one, which stays until the store has confirmed.
func (h *hold) drop(lease *Lease) (last bool, need int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.leases, lease)
	if i < 0 {
		return false, 0, ErrReleased
	}
	if len(h.leases) == 1 {
		return true, 0, nil
	}
	h.leases = slices.Delete(h.leases, i, i+1)
	lease.cancel(ErrReleased)
	for _, other := range h.leases {
		need = max(need, other.count)
	}
	if h.state == lost {
		return false, 0, h.cause
	}
	return false, need, nil
}

// shrink gives back the part of a hold that nobody needs any more: a writer
// becomes a reader.
func (h *hold) shrink(ctx context.Context, need int64) error {
	h.turn.Lock()
	defer h.turn.Unlock()
	h.mu.Lock()
	r := h.r
	err := h.gone()
	h.mu.Unlock()
	if err != nil || need >= r.Count {
		return err
	}
	r.Count = need
	within, cancel := context.WithTimeout(ctx, h.l.callTimeout(r.Lease))
	defer cancel()
	sent := time.Now()
	ok, err := h.l.store.Renew(within, &r)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == held && ok {
		h.r.Count, h.until = need, validUntil(sent, r.Lease)
	}
	return nil
}

// release gives everything back. It may be called again after an error. The
// leases end before the store is asked: who gives back has stopped using.
func (h *hold) release(ctx context.Context, cause error) error {
	h.mu.Lock()
	was := h.state
	if was == released {
		h.mu.Unlock()
		return ErrReleased
	}
	if was == held {
		h.state = leaving
		h.end(cause)
	}
	r, unsure := h.r, h.unsure
	h.mu.Unlock()

	outcome, err := h.l.giveBack(ctx, &r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.unsure = true
		if was == lost {
			err = errors.Join(h.cause, err)
		}
		return err
	}
	h.state = released
	switch {
	case was == lost:
		return h.cause
	case !outcome.Released && !unsure:
		h.tell(Lost, time.Since(h.began), ErrLost)
		return ErrLost
	}
	h.tell(Released, time.Since(h.began), nil)
	return nil
}
