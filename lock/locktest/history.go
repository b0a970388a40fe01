package locktest

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// History records what callers asked of one mutex and what they were told, in the
// order of time, and asks afterwards whether a lock that is correct could have
// answered so. A lease that was lost may have ended at any moment after it was last
// seen alive: whenever a lock is given, all the others are looked at. It is safe
// for concurrent use.
type History struct {
	moment atomic.Int64 // counts what happens
	mu     sync.Mutex
	ops    []porcupine.Operation
	live   map[lock.Owner]*live // what was returned and not given back yet
	damage int                  // faults going on now
	faults int                  // that have begun or ended
}

type live struct {
	lease   *lock.Lease
	seen    int64 // when it was alive, as far as is known
	excused bool  // the store may have lost it while its holder cannot know
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{live: map[lock.Owner]*live{}} }

// Damage runs something that makes the store forget what it has confirmed, or
// give it to another: a server that loses its memory, a lock that is broken.
// Leases that are held meanwhile may be lost long before their holders know.
func (h *History) Damage(do func()) {
	count := func(by int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.damage += by
		h.faults++
		for _, one := range h.live {
			one.excused = true
		}
	}
	count(1)
	defer count(-1)
	do()
}

// look notes which leases are alive. The caller holds mu.
func (h *History) look() {
	now := h.now() // before they are looked at
	for _, one := range h.live {
		if !one.excused && one.lease.Context().Err() == nil && one.lease.Err() == nil {
			one.seen = now
		}
	}
}

type opKind int

const (
	opLock   opKind = iota
	opUnlock        // given back in time
	opLost          // over at some moment before that
)

type step struct {
	kind  opKind
	owner lock.Owner
	fence lock.Fence
}

func (h *History) now() int64 { return h.moment.Add(1) }

func (h *History) add(s step, call, end int64) {
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(h.ops), Input: s, Call: call, Output: nil, Return: end})
}

// Lock locks a name and records it. A failure is not recorded: it leaves nothing
// behind.
func (h *History) Lock(ctx context.Context, l *lock.Locker, name string, opts ...lock.Option) (*lock.Lease, error) {
	h.mu.Lock()
	faults := h.faults
	h.mu.Unlock()
	call := h.now()
	lease, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	end := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(step{opLock, lease.Owner(), lease.Fence()}, call, end)
	h.look()
	one := &live{lease: lease, seen: end}
	if h.damage > 0 || h.faults != faults { // it may have been forgotten before it came
		one.seen, one.excused = call, true
	}
	h.live[lease.Owner()] = one
	return lease, nil
}

// Unlock gives a lease back and records it: the holder relied on the lock until
// the call. If the lease was lost before, it relied on it until then.
func (h *History) Unlock(ctx context.Context, lease *lock.Lease) error {
	h.mu.Lock()
	h.look()
	h.mu.Unlock()
	call := h.now()
	early := lease.Err()
	err := lease.Unlock(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	kind := opUnlock
	if early != nil || err != nil {
		kind = opLost
		call = h.live[lease.Owner()].seen
	}
	h.add(step{kind, lease.Owner(), lease.Fence()}, call, h.now())
	delete(h.live, lease.Owner())
	return err
}

// held is the state of a correct lock.
type held struct {
	owner lock.Owner
	last  lock.Fence
}

// Require asserts that the history is one of a correct mutex: a lock is given
// while nobody holds it, with a fence larger than all before.
func (h *History) Require(t *testing.T) {
	t.Helper()
	require.True(t, h.correct(), "no correct lock has this history")
}

func (h *History) correct() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	model := porcupine.Model{
		Init: func() any { return held{} },
		Step: func(state, input, _ any) (bool, any) {
			now, ok := state.(held)
			s, fine := input.(step)
			if !ok || !fine {
				return false, state
			}
			if s.kind == opLock {
				return now.owner == "" && s.fence > now.last, held{s.owner, s.fence}
			}
			if now.owner != s.owner {
				return false, state
			}
			return true, held{"", now.last}
		},
		DescribeOperation: func(input, _ any) string {
			s, _ := input.(step)
			return strings.Join([]string{[]string{"lock", "unlock", "lost"}[s.kind], string(s.owner)}, " ")
		},
	}
	h.look()
	ops := h.ops
	for owner, one := range h.live { // it may be held until the end of time
		ops = append(ops, porcupine.Operation{Input: step{opLost, owner, one.lease.Fence()}, Call: one.seen, Return: math.MaxInt64})
	}
	for i := range ops {
		ops[i].ClientId = i
	}
	return porcupine.CheckOperationsTimeout(model, ops, time.Minute) == porcupine.Ok
}
