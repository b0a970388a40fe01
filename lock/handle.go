package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handle is a lock on its way to another process, as text by encoding/json. It is
// a secret of those two: who has it can take the lock.
type Handle struct {
	Kind  Kind          `json:"kind"`
	Name  string        `json:"name"`
	Owner Owner         `json:"owner"`
	Limit int64         `json:"limit"`
	Count int64         `json:"count"`
	Lease time.Duration `json:"lease_ns"`
	// MaxHold is what is left of the longest hold, at least 1. Zero is no bound.
	MaxHold  time.Duration `json:"max_hold_ns,omitempty"`
	Fixed    bool          `json:"fixed,omitempty"` // the lease is not renewed
	Barging  bool          `json:"barging,omitempty"`
	Metadata string        `json:"metadata,omitempty"`
}

// Handle ends this lease (cause ErrReleased) but not the lock, which then waits
// for Adopt until what is left of the lease has passed. Only a lease without
// re-entries can be handed over.
func (s *Lease) Handle() (Handle, error) {
	h := s.hold
	defer h.tell()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.gone(); err != nil {
		return Handle{}, err
	}
	if len(h.leases) != 1 {
		return Handle{}, fmt.Errorf("%w: the lock is entered %d times", ErrInvalid, len(h.leases))
	}
	h.end(released, ErrReleased)
	h.note(Released, time.Since(h.began), nil)
	r := &h.r
	out := Handle{
		Kind: r.Kind, Name: r.Name, Owner: r.Owner, Limit: r.Limit, Count: r.Count, Lease: r.Lease,
		Fixed: h.c.fixed, Barging: r.Barging, Metadata: r.Metadata,
	}
	if h.c.maxHold > 0 {
		out.MaxHold = max(h.c.maxHold-time.Since(h.began), 1)
	}
	return out, nil
}

func (h *Handle) valid() error {
	ok := h.Owner != "" && h.MaxHold >= 0
	switch h.Kind {
	case Mutex:
		ok = ok && h.Limit == 1 && h.Count == 1
	case ReadWrite:
		ok = ok && h.Limit == Everything && (h.Count == 1 || h.Count == Everything)
	case Permits:
		ok = ok && h.Limit < Everything && h.Count >= 1 && h.Count <= h.Limit
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("%w: no handle of a lock", ErrInvalid)
	}
	return errors.Join(validName(h.Name), validLease(h.Lease))
}

// options are those that the lock was taken with; the caller's come after them.
func (h *Handle) options(opts []Option) []Option {
	return append([]Option{func(c *call) { c.lease, c.fixed, c.maxHold = h.Lease, h.Fixed, h.MaxHold }, WithMetadata(h.Metadata)}, opts...)
}

// Adopt goes on with a lock that another process has handed over, with the options
// it was taken with unless others are given. It gets a new owner and a new fence,
// so a handle works once: the second to try, or the first if it comes too late,
// gets ErrLost. Where the store does not answer, it is asked again until its answer
// is known, the context ends or the lease has passed; after any other error than
// ErrLost the lock may be free.
func (l *Locker) Adopt(ctx context.Context, handle Handle, opts ...Option) (*Lease, error) {
	err := handle.valid()
	var c call
	if err == nil {
		c, err = l.options(0, handle.options(opts))
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	return l.acquire(ctx, Request{
		Kind: handle.Kind, Name: handle.Name, Limit: handle.Limit, Count: handle.Count, Barging: handle.Barging, From: handle.Owner,
	}, c)
}

// adopt asks until the answer is known.
func (a *attempt) adopt(ctx context.Context) (taken, error) {
	for {
		got, err := a.ask(ctx)
		switch {
		case err == nil && got.fence != 0:
			return got, nil
		case err == nil:
			return taken{}, notAcquired(ErrLost)
		case a.hopeless(ctx, err) || time.Since(a.start) >= a.r.Lease || !rest(ctx, jitter(10*time.Millisecond<<min(a.tries, 6))):
			a.abandon(ctx)
			return taken{}, notAcquired(err)
		}
	}
}
