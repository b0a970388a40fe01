package lock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Leases are locks of several names, held together.
type Leases struct {
	all []*Lease // in the order of their names
}

// LockAll takes the locks of all names, or none. They are taken in the order of
// the names, whatever order they are given in and each once, so two callers that
// hold nothing else never wait for each other; who holds a later name already may
// wait for ever. What is held meanwhile is kept alive, and given back in the
// background after an error. WithWait bounds the whole. With WithWait(0) it is one
// attempt at each.
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...Option) (*Leases, error) {
	if len(names) == 0 {
		return nil, notAcquired(ErrInvalid)
	}
	c, err := l.options(forever, opts)
	if err != nil {
		return nil, notAcquired(err)
	}
	start := time.Now()
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	held := &Leases{}
	for _, name := range sorted {
		left := c.wait
		if c.wait > 0 {
			left = max(c.wait-time.Since(start), 0)
		}
		// The context of one is that of the next, so the last one ends with any.
		inner := ctx //nolint:contextcheck // each lease ends with the caller's context
		if len(held.all) > 0 {
			inner = held.Context()
		}
		lease, err := l.take(inner, mutex(name), left, append(slices.Clone(opts), waitOf(left)))
		if err != nil {
			l.dismiss(ctx, held)
			return nil, err
		}
		held.all = append(held.all, lease)
	}
	return held, nil
}

// dismiss gives back what was not enough, beside the caller, who may be in a hurry.
// What fails ends with its lease, and what Close has released is no more.
func (l *Locker) dismiss(ctx context.Context, part *Leases) {
	if len(part.all) > 0 && l.begin() {
		go func() {
			defer l.work.Done()
			_ = part.Unlock(context.WithoutCancel(ctx))
		}()
	}
}

func waitOf(d time.Duration) Option { return func(c *call) { c.wait = d } }

// Context ends when one of the locks is lost or given back, with its cause. It
// carries them all.
func (s *Leases) Context() context.Context { return s.all[len(s.all)-1].ctx }

// Fence is the fence of one name, zero if it is none of these.
func (s *Leases) Fence(name string) Fence {
	for _, lease := range s.all {
		if lease.Name() == name {
			return lease.Fence()
		}
	}
	return 0
}

// Err is nil while all of them are held; see Lease.Err.
func (s *Leases) Err() error { return s.each(func(lease *Lease) error { return lease.Err() }) }

// Check asks the store for each of them; see Lease.Check.
func (s *Leases) Check(ctx context.Context) error {
	return s.each(func(lease *Lease) error { return lease.Check(ctx) })
}

// Extend lets each of them end d from now; see Lease.Extend.
func (s *Leases) Extend(ctx context.Context, d time.Duration) error {
	return s.each(func(lease *Lease) error { return lease.Extend(ctx, d) })
}

// Unlock gives all of them back, the last one first, and goes on where one fails.
func (s *Leases) Unlock(ctx context.Context) error {
	return s.each(func(lease *Lease) error { return lease.Unlock(ctx) })
}

func (s *Leases) each(do func(*Lease) error) error {
	var failed []error
	for _, lease := range slices.Backward(s.all) {
		if err := do(lease); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
