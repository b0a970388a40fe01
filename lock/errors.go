package lock

import (
	"errors"
	"fmt"
	"time"
)

// The errors of this package; test for them with errors.Is.
var (
	// ErrNotAcquired is any failure to get a lock. It comes with its cause: a
	// *NotAcquiredError, the error of the context, ErrClosed, or an error of the
	// store, whose outcome was then undone.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrNotHeld is any attempt to use a lease that is not held any more.
	ErrNotHeld = errors.New("lock: not held")
	// ErrLost is an ErrNotHeld that the holder did not bring about: the lease ran
	// out, was broken, or the store has forgotten it. It is the cause of a lost
	// lease's context.
	ErrLost = fmt.Errorf("%w: the lease was lost", ErrNotHeld)
	// ErrReleased is an ErrNotHeld after Unlock or Handle, and then the cause of
	// the lease's context.
	ErrReleased = fmt.Errorf("%w: it was released", ErrNotHeld)
	// ErrMaxHold is an ErrLost that the holder's own option brought about.
	ErrMaxHold = fmt.Errorf("%w: held for longer than allowed", ErrLost)
	// ErrUpgrade refuses to make a reader a writer, also where it is the only one:
	// two that wait for each other would wait for ever. Release the read lock first.
	ErrUpgrade = errors.New("lock: a reader cannot become the writer")
	// ErrReentry refuses a second lock of the same name in one chain of contexts
	// where re-entry was switched off.
	ErrReentry = errors.New("lock: the context holds this lock already")
	// ErrReplication is a grant that too few replicas have confirmed in time.
	ErrReplication = errors.New("lock: too few replicas have confirmed")
	// ErrClosed is any use of a Locker after Close. A lease that Close took away is
	// over by ErrReleased and ErrClosed, both.
	ErrClosed = errors.New("lock: the locker is closed")
	// ErrInvalid is a mistake in a name or an option; nothing was sent.
	ErrInvalid = errors.New("lock: invalid")
	// ErrUnsupported is a kind of lock that a store does not offer.
	ErrUnsupported = errors.New("lock: not offered by this store")
)

// errTaken ends a lease that its holder still wanted, by Close.
var errTaken = fmt.Errorf("%w: %w", ErrReleased, ErrClosed)

// NotAcquiredError says who was in the way when the attempt ended. It is an
// ErrNotAcquired.
type NotAcquiredError struct {
	Name string
	// Holder is one of those in the way at the last look. Empty is unknown.
	Holder Owner
	// Left is how long its lease still ran, if it is not renewed. Zero is unknown.
	Left time.Duration
	// Waiters is the length of the queue at the last look.
	Waiters int
	// Waited is how long this attempt waited.
	Waited time.Duration
}

func (e *NotAcquiredError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("lock: %q not acquired in %s", e.Name, e.Waited.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock: %q not acquired in %s: held by %q for another %s, %d waiting",
		e.Name, e.Waited.Round(time.Millisecond), e.Holder, e.Left.Round(time.Millisecond), e.Waiters)
}

// Is makes it an ErrNotAcquired.
func (e *NotAcquiredError) Is(target error) bool { return target == ErrNotAcquired }

// StoreError is an error of a store.
type StoreError struct {
	// Op is the step that failed, such as "acquire".
	Op string
	// Permanent says that the same call will fail again: an account without
	// rights, a key of another type.
	Permanent bool
	Err       error
}

func (e *StoreError) Error() string { return "lock: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns what the store's client said.
func (e *StoreError) Unwrap() error { return e.Err }

func permanent(err error) bool {
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrInvalid) {
		return true
	}
	trouble, ok := errors.AsType[*StoreError](err)
	return ok && trouble.Permanent
}

// notAcquired joins the failure with its cause.
func notAcquired(cause error) error {
	if errors.Is(cause, ErrNotAcquired) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrNotAcquired, cause)
}
