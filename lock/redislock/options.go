package redislock

import (
	"fmt"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/lock"
)

// Options of a store. The zero value is a good one.
type Options struct {
	// Prefix begins every key and channel. It must not hold braces. Empty is "lk:".
	Prefix string
	// Retention is how long an unused key stays, for its fence. It is at least
	// twice the longest lease. Where processes differ, the longest counts. Zero is
	// a day.
	Retention time.Duration
	// Claim is how long a lock that was handed to a waiter in another process
	// waits to be taken up, because that process may have died. Waiters ask at
	// least every half a second: with a shorter claim, one that misses its message
	// may miss its turn and wait for the next. Zero is 2 s.
	Claim time.Duration
	// Replicas is how many replicas must confirm a grant or renewal before it
	// counts (WAIT on the same connection). It makes the loss of a lock in a
	// fail-over less likely, not impossible: a replica that has not confirmed may
	// still be the one that is promoted. Each call that waits for them has a
	// connection of its own, up to 16. Zero asks for none.
	Replicas int
	// ReplicaTimeout is how long they may take. Zero is 100 ms.
	ReplicaTimeout time.Duration
	// ConfirmFence lets a quorum write the fence back before a grant counts, which
	// costs another round trip. Without it, fences of a quorum grow strictly as
	// long as the clocks of the servers differ by less than the leases. Only for
	// NewQuorum.
	ConfirmFence bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = "lk:"
	}
	if o.Retention == 0 {
		o.Retention = 24 * time.Hour
	}
	if o.Claim == 0 {
		o.Claim = 2 * time.Second
	}
	if o.ReplicaTimeout == 0 {
		o.ReplicaTimeout = 100 * time.Millisecond
	}
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return o, fmt.Errorf("%w: braces in the prefix %q", lock.ErrInvalid, o.Prefix)
	case o.Retention < 2*lock.MinLease, o.Claim < lock.MinLease, o.Replicas < 0, o.ReplicaTimeout < time.Millisecond:
		return o, fmt.Errorf("%w: options of a store out of range", lock.ErrInvalid)
	}
	return o, nil
}
