package limit

import (
	"iter"
	"time"
)

// Reason says why a call was refused.
type Reason uint8

// The reasons.
const (
	// None is the reason of an admission.
	None Reason = iota
	// Exceeded is a rate that is used up for now.
	Exceeded
	// Unavailable is a store that does not answer, and a rate with the policy
	// Closed. It says nothing of what the caller has done.
	Unavailable
)

func (r Reason) String() string {
	switch r {
	case None:
		return "none"
	case Exceeded:
		return "exceeded"
	case Unavailable:
		return "unavailable"
	}
	return "unknown"
}

// State is how one rate of a subject stands after a decision.
type State struct {
	// Rate is the rate's name.
	Rate string
	// Refused says that this rate was against it.
	Refused bool
	// Limit is the rate's capacity, see Rate.Capacity.
	Limit int64
	// Remaining is how much could be spent now, from 0 to Limit. For a LeakyBucket
	// it is how many turns may still be queued.
	Remaining int64
	// RetryAfter is after what time the same cost is admitted, if nobody spends
	// anything in between; zero if this rate did not refuse.
	RetryAfter time.Duration
	// MoreAfter is when Remaining grows next; zero if it is at Limit.
	MoreAfter time.Duration
	// ResetAfter is when nothing counts any more, if nobody spends anything; zero if
	// nothing does now.
	ResetAfter time.Duration
}

// Decision is the answer to a call. All times begin when it was made.
type Decision struct {
	// Allowed says that the call was admitted and its cost is spent. After Peek, it
	// says that a cost of 1 would be.
	Allowed bool
	// Reason says why not.
	Reason Reason
	// Degraded says that the store did not answer, or had no room, and the policies
	// of the rates decided.
	Degraded bool
	// Remembered says that an earlier refusal still stands and the store was not
	// asked. Only the refusing rate is in it.
	Remembered bool
	// Binding is the state that matters most: of an admission, the one with the
	// smallest part of its limit left; of a refusal, the refusing one that takes
	// longest. Its name is empty if no rate was asked, as when all are Open.
	Binding State
	// States has every rate in the order of the call if there were several. See All.
	States []State
	// Turn is how long Wait has to wait for its turn from the decision on.
	Turn time.Duration
}

// All goes through the states of all rates that were asked.
func (d *Decision) All() iter.Seq[State] {
	return func(yield func(State) bool) {
		if len(d.States) == 0 && d.Binding.Rate != "" {
			yield(d.Binding)
			return
		}
		for _, s := range d.States {
			if !yield(s) {
				return
			}
		}
	}
}

// Bind sets Binding, Allowed and Reason from States. Implementations call it.
func (d *Decision) Bind() {
	d.Allowed, d.Reason, d.Binding = true, None, State{}
	for i, s := range d.States {
		if s.Refused {
			d.Allowed, d.Reason = false, Exceeded
		}
		if i == 0 || s.matters(&d.Binding) {
			d.Binding = s
		}
	}
}

func (s *State) matters(than *State) bool {
	if s.Refused != than.Refused {
		return s.Refused
	}
	if s.Refused {
		return s.RetryAfter > than.RetryAfter
	}
	// Both products stay below 2^60: see MaxQuota.
	return s.Remaining*than.Limit < than.Remaining*s.Limit
}
