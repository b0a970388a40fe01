package lock

import (
	"context"
	"math"
	"time"
)

// Owner names one acquisition, not a process, thread or goroutine: every call of
// Lock that is not a re-entry draws a new one. It is the id of its Locker, a dot,
// and a number. Whoever knows it may release it, from anywhere.
type Owner string

// Fence is the fencing token of a grant. Fences of one name grow strictly, over
// all holders, kinds of access and fail-overs. Zero is no fence.
type Fence uint64

// Kind tells three families of names apart; equal names of different kinds are
// different locks.
type Kind uint8

// The kinds.
const (
	Mutex     Kind = iota // one holder
	ReadWrite             // many readers or one writer
	Permits               // a semaphore
)

func (k Kind) String() string {
	switch k {
	case Mutex:
		return "mutex"
	case ReadWrite:
		return "readwrite"
	case Permits:
		return "permits"
	}
	return "unknown"
}

// Everything is the limit of a read-write lock, and what a writer takes of it.
const Everything = math.MaxInt32

// Request says who wants what. The same request may be sent any number of times:
// a store answers a repetition as it answered the first.
type Request struct {
	Kind  Kind
	Name  string
	Owner Owner
	// By is the id of the Locker that sends the request, which need not be the
	// one that drew the owner. Empty is no Locker.
	By string
	// Limit is how much there is: 1 for a mutex, Everything for a read-write
	// lock, the number of permits of a semaphore. It travels with each request.
	Limit int64
	// Count is how much of it is wanted, or still needed, from 1 to Limit.
	Count int64
	// Lease is how long a grant lives if it is not renewed, in whole milliseconds.
	Lease time.Duration
	// Queue is how long a place in the queue lives if it is not refreshed by
	// another Acquire. Zero does not queue.
	Queue time.Duration
	// Barging takes what is free although others wait, and on release leaves it
	// free instead of handing it to the first in the queue.
	Barging bool
	// From takes over the grant of another owner. The grant gets a new fence. If
	// that one does not hold it any more, nothing is granted. Empty takes from
	// nobody.
	From Owner
	// Fence is the highest fence known to the owner; a store that keeps several
	// copies of a name learns it with renewals and releases. Zero is none.
	Fence Fence
	// Metadata is kept beside the grant for whoever inspects it.
	Metadata string
}

// Grant is the answer to Acquire.
type Grant struct {
	// Fence is not zero if and only if the owner holds what it asked for.
	Fence Fence
	// Refused says that waiting is in vain: the owner holds less than it asks for,
	// and what is held never grows. No reader becomes a writer.
	Refused bool
	// Holder is one of those in the way. Empty if there is none or it is unknown.
	Holder Owner
	// Left is when the first lease in the way ends, if it is not renewed. Zero or
	// less is unknown.
	Left time.Duration
	// First says that the owner has the first place in the queue.
	First bool
	// Waiters is the length of the queue, with the owner.
	Waiters int
	// Retry is when to ask again, for a store without a queue; it grows with each
	// refusal. Zero leaves it to the Locker.
	Retry time.Duration
}

// Handoff is a grant that a release gave to a waiter of the same Locker. Its
// lease began not before the release was sent.
type Handoff struct {
	Owner Owner
	Fence Fence
}

// Outcome is the answer to Release.
type Outcome struct {
	// Released says that the owner held something until this request of the same
	// Locker, or until the one that it repeats.
	Released bool
	// Next are the waiters of the Locker that asks (Request.By) that now hold what
	// was given back. Waiters of other Lockers are told over their topics.
	Next []Handoff
}

// Holder is one that Inspect saw.
type Holder struct {
	Owner    Owner
	Fence    Fence
	Count    int64
	Left     time.Duration // until its lease ends, if it is not renewed
	Metadata string
}

// Info is what Inspect saw; by the time it is read, things may have changed.
type Info struct {
	Holders []Holder // empty: it is free
	Waiters int
	Fence   Fence // the last one given; zero if the store remembers none
}

// Store is what a Locker needs of the place where locks live. Each call is one
// atomic step and may be repeated after an error, whose outcome is unknown unless
// it is a *StoreError that says otherwise. Time is the store's own; nothing is
// taken from the clock of a caller. Implementations are safe for concurrent use.
type Store interface {
	// Acquire gives the owner what it asks for, or refreshes its place in the
	// queue, or says what is in the way. An owner that holds it already gets the
	// same fence again, with a lease that begins anew; what it holds stays what it
	// is. A free lock goes to the first in the queue whose place is alive, in the
	// order of their first calls.
	Acquire(ctx context.Context, r *Request) (Grant, error)
	// Renew lets the lease begin anew and reports whether the owner still held
	// it. It never creates a grant and never adds to what is left. Where Count is
	// less than what the owner holds, the rest is given back and goes to the first
	// in the queue in the same step; all of them are told over their topics. The
	// fence stays.
	Renew(ctx context.Context, r *Request) (bool, error)
	// Release gives back what the owner holds and leaves the queue if it waits.
	// What is given back goes to the first in the queue in the same step. An
	// owner that neither holds nor waits changes nothing. For each name the store
	// remembers the last owner that was released and by which Locker, so that a
	// repetition is answered as the first; a lease that had run out was not
	// released. Whoever repeats after another release of the name hears that
	// nothing was held.
	Release(ctx context.Context, r *Request) (Outcome, error)
	// Inspect looks at a name and changes nothing.
	Inspect(ctx context.Context, kind Kind, name string) (Info, error)
	// Topic names the channel on which the owner of a request is told of a grant;
	// requests may share one. Empty: there is none, and waiters ask from time to
	// time, each time as another owner: such a store takes back itself, and perhaps
	// late, what it gave to an owner that it then refused or answered with an error.
	Topic(r *Request) string
	// Subscribe listens to a topic until ctx ends or the connection is lost, and
	// returns why. It tells ready when nothing that happens later is missed, and
	// wake of each owner that should ask again. Both must not block.
	Subscribe(ctx context.Context, topic string, ready func(), wake func(Owner)) error
}
