package lock

import (
	"context"
	"errors"
	"time"
)

// Lease is a lock that is held. Its methods may be called from any goroutine.
type Lease struct {
	hold   *hold
	count  int64
	ctx    context.Context //nolint:containedctx // it is what Context returns
	outer  context.Context //nolint:containedctx // the context of the caller, which re-entries outlive a lease by
	cancel context.CancelCauseFunc
	over   error // why it is, or nil; guarded by the hold
}

// ending is the cause of the context of a lease that is over. It tells the end of
// one lock from that of another around it.
type ending struct {
	error
	hold *hold
}

// Unwrap returns ErrReleased, ErrLost or another of their kind.
func (e *ending) Unwrap() error { return e.error }

// end ends the lease, once. The caller holds the hold's mu.
func (s *Lease) end(cause error) {
	if s.over == nil {
		s.over = cause
		s.cancel(&ending{cause, s.hold})
	}
}

// leaseContext carries a lease to the calls that are made while it is held.
type leaseContext struct {
	context.Context //nolint:containedctx // it is a context
	lease           *Lease
	key             carryKey
}

// carryKey finds a lease in a context.
type carryKey struct {
	l    *Locker
	kind Kind
	name string
}

func (c *leaseContext) Value(key any) any {
	if k, ok := key.(carryKey); ok && k == c.key {
		return c.lease
	}
	return c.Context.Value(key)
}

// newLease returns a lease whose context ends with the caller's, or before.
func newLease(ctx context.Context, h *hold, count int64) *Lease {
	lease := &Lease{hold: h, count: count, outer: ctx}
	lease.carry(ctx)
	return lease
}

func (s *Lease) carry(ctx context.Context) {
	inner, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	s.ctx = inner
	if r := &s.hold.r; r.Kind != Permits { // a second permit is a second permit
		s.ctx = &leaseContext{Context: inner, lease: s, key: carryKey{s.hold.l, r.Kind, r.Name}}
	}
}

// carried finds the lease that a context carries for a request.
func carried(ctx context.Context, l *Locker, r *Request) *Lease {
	if r.Kind == Permits {
		return nil
	}
	lease, _ := ctx.Value(carryKey{l, r.Kind, r.Name}).(*Lease)
	return lease
}

// reenter adds a lease to a hold. It may outlive the outer one: releasing that
// one first does not end it.
func (h *hold) reenter(ctx context.Context, outer *Lease, count int64) (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.gone(); err != nil {
		return nil, notAcquired(err)
	}
	if ctx.Err() != nil {
		return nil, notAcquired(ended(ctx))
	}
	if count > h.r.Count {
		return nil, notAcquired(ErrUpgrade)
	}
	base, stop := context.WithoutCancel(ctx), func() {}
	deadline, bounded := ctx.Deadline()
	if bounded {
		base, stop = context.WithDeadline(base, deadline)
	}
	lease := newLease(base, h, count)
	lease.outer = outer.outer
	pass := func(from context.Context) func() bool {
		return context.AfterFunc(from, func() {
			e, ok := errors.AsType[*ending](context.Cause(from))
			switch {
			case ok && e.hold == h: // of another lease of this lock, which this one outlives
			case bounded && errors.Is(from.Err(), context.DeadlineExceeded): // it comes by itself
			default:
				lease.cancel(context.Cause(from))
			}
		})
	}
	stopInner, stopOuter := pass(ctx), pass(outer.outer)                      //nolint:contextcheck // the end of either is passed on
	context.AfterFunc(lease.ctx, func() { stopInner(); stopOuter(); stop() }) //nolint:contextcheck // the lease's own
	h.leases = append(h.leases, lease)
	return lease, nil
}

// Context ends when the lease is lost (cause ErrLost), given back (ErrReleased,
// and also ErrClosed if Close did it) or the context of the caller ends. It carries
// the lease: locks of the same name that the same Locker takes with it are
// re-entries. The end of the caller's context does not give the lock back; Unlock
// does.
func (s *Lease) Context() context.Context { return s.ctx }

// Fence is the fencing token: pass it on with every write that the lock guards,
// and let the guarded resource refuse a smaller one than it has seen. Nothing else
// stops a holder that was paused and does not know yet that it lost the lock. It
// changes only when a writer becomes a reader.
func (s *Lease) Fence() Fence {
	s.hold.mu.Lock()
	defer s.hold.mu.Unlock()
	return s.hold.r.Fence
}

// Owner is what Inspect shows for this lease.
func (s *Lease) Owner() Owner { return s.hold.r.Owner }

// Name is what was locked.
func (s *Lease) Name() string { return s.hold.r.Name }

// ValidUntil is how long this process may rely on the lease without another
// answer of the store. Renewals move it on.
func (s *Lease) ValidUntil() time.Time {
	s.hold.mu.Lock()
	defer s.hold.mu.Unlock()
	return s.hold.until
}

// Err is nil while the lease is held, as far as is known without asking: else
// ErrLost, ErrMaxHold or ErrReleased. The context of the lease may have ended
// nevertheless, with that of the caller.
func (s *Lease) Err() error {
	s.hold.mu.Lock()
	defer s.hold.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	if !alive(time.Now(), s.hold.until) {
		return ErrLost
	}
	return nil
}

// Check asks the store whether the lease is held; the lease begins anew by that.
// An error that is no ErrNotHeld leaves it unknown.
func (s *Lease) Check(ctx context.Context) error { return s.renew(ctx, 0) }

// Extend lets the lease end d from now, and every renewal after it, too. It never
// adds to what is left. After an error that is no ErrNotHeld either length may be
// in force, so the shorter one is relied on from then on; see ValidUntil.
func (s *Lease) Extend(ctx context.Context, d time.Duration) error {
	if err := validLease(d); err != nil {
		return err
	}
	if err := s.renew(ctx, d); err != nil {
		return err
	}
	h := s.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == held {
		now := time.Now()
		h.base, h.due = now, now.Add(h.length()/3)
		h.timer.Reset(h.nextTick(now))
	}
	return nil
}

func (s *Lease) renew(ctx context.Context, length time.Duration) error {
	defer s.hold.tell()
	if err := s.Err(); err != nil {
		return err
	}
	ok, err := s.hold.renew(ctx, length)
	if err != nil {
		return err
	}
	if err = s.Err(); err == nil && !ok {
		err = ErrLost
	}
	return err
}

// Unlock gives the lock back and hands it to the next waiter. After an error that
// is no ErrNotHeld the outcome is unknown: call it again, or let the lease end.
// ErrLost says that the lock was not held any more; ErrReleased, that it was
// given back before. The last of several re-entries gives the lock back. The
// context bounds the call; it may be shorter than the lease, but should not be
// the one whose end is the reason to unlock: context.WithoutCancel helps.
func (s *Lease) Unlock(ctx context.Context) error {
	h := s.hold
	defer h.tell()
	last, less, err := h.leave(s)
	switch {
	case err != nil:
		return err
	case last:
		return h.release(ctx, ErrReleased)
	case less:
		return h.shrink(ctx, s)
	}
	return nil
}

// run is the body of Do.
func (s *Lease) run(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	defer func() {
		lost := s.Err()
		unlocked := s.Unlock(context.WithoutCancel(ctx))
		switch {
		case errors.Is(lost, ErrLost), errors.Is(lost, ErrClosed):
			err = errors.Join(err, lost)
		case errors.Is(lost, ErrReleased): // by fn itself
		case unlocked != nil:
			err = errors.Join(err, unlocked)
		}
	}()
	return fn(s.ctx, s) //nolint:contextcheck // the lease's context ends with the caller's
}
