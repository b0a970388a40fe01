package limit

import "context"

// MaxChecks is how many subjects one call of AllowAll may name.
const MaxChecks = 16

// Limiter decides. Implementations are safe for concurrent use; limittest examines
// them. Subjects are any bytes, also none, and are compared byte for byte.
//
// Errors are mistakes of the call (ErrInvalid, ErrTooLarge), ErrClosed, or that of
// a context that has ended; a decision of such a call may have been spent already.
// A store that does not answer is no error: the policies of the rates decide then.
type Limiter interface {
	// Allow spends cost of each rate of a subject, or nothing at all if one of them
	// refuses. A LeakyBucket admits only if its turn has come.
	Allow(ctx context.Context, subject string, cost int64, rates ...Rate) (Decision, error)
	// AllowAll does the same for several subjects, in one round trip where the store
	// can: all costs are spent, or none. The decisions are in the order of the
	// checks; all are Allowed, or what is shows who was not against it. Where the
	// subjects lie apart (memory, a Cluster), costs are spent and given back if
	// another subject refuses; a third party may be refused in between.
	AllowAll(ctx context.Context, checks []Check) ([]Decision, error)
	// Peek tells how rates stand and spends nothing.
	Peek(ctx context.Context, subject string, rates ...Rate) (Decision, error)
	// Wait takes the next turn of a LeakyBucket and returns when it has come. It
	// refuses at once if Burst turns are queued already, or if the context has a
	// deadline before the turn. If the context ends first, the turn is given back,
	// unless others have queued behind it: theirs do not move, and it stays unused.
	Wait(ctx context.Context, subject string, cost int64, rate Rate) (Decision, error)
	// Acquire takes one of the slots of a Concurrency rate. The slot is nil if and
	// only if the call was refused or failed. It ends by itself after Window, so
	// that the slots of crashed holders return.
	Acquire(ctx context.Context, subject string, rate Rate) (Slot, Decision, error)
	// Refund gives back what was spent for work that was not done. It never gives
	// back more than counts at the moment, and a turn of a LeakyBucket is not given
	// back. Errors are also ErrUnavailable: then it may or may not have been done.
	Refund(ctx context.Context, subject string, cost int64, rates ...Rate) error
	// Reset forgets what was spent, and all slots. Errors are also ErrUnavailable.
	Reset(ctx context.Context, subject string, rates ...Rate) error
}

// Check is one part of AllowAll. No two checks of a call are about one subject.
type Check struct {
	Subject string
	Cost    int64
	Rates   []Rate
}

// Slot is one of a Concurrency rate, held. It is safe for concurrent use.
type Slot interface {
	// Extend lets the lease begin anew. Errors are ErrSlotLost, ErrUnavailable, or
	// that of the context.
	Extend(ctx context.Context) error
	// Release gives the slot back. Errors are the same; whatever they are, the slot
	// ends with its lease.
	Release(ctx context.Context) error
}
