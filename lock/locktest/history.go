package locktest

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// History records what callers asked of one mutex and what they were told, each
// with its time, and asks afterwards whether a lock that is correct could have
// answered so. It is safe for concurrent use.
type History struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	since map[lock.Owner]int64 // when a lease was returned
}

// NewHistory returns an empty history that begins now.
func NewHistory() *History { return &History{start: time.Now(), since: map[lock.Owner]int64{}} }

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

func (h *History) now() int64 { return time.Since(h.start).Nanoseconds() }

func (h *History) add(s step, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s.kind {
	case opLock:
		h.since[s.owner] = end
	case opLost: // at any moment since it was held: nobody saw when
		call = h.since[s.owner]
	case opUnlock:
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(h.ops), Input: s, Call: call, Output: nil, Return: end})
}

// Lock locks a name and records it. A failure is not recorded: it leaves nothing
// behind.
func (h *History) Lock(ctx context.Context, l *lock.Locker, name string, opts ...lock.Option) (*lock.Lease, error) {
	call := h.now()
	lease, err := l.Lock(ctx, name, opts...)
	if err == nil {
		h.add(step{opLock, lease.Owner(), lease.Fence()}, call, h.now())
	}
	return lease, err
}

// Unlock gives a lease back and records it: the holder relied on the lock until
// the call. If the lease was lost before, it relied on it until then.
func (h *History) Unlock(ctx context.Context, lease *lock.Lease) error {
	call := h.now()
	early := lease.Err()
	err := lease.Unlock(ctx)
	kind := opUnlock
	if early != nil || err != nil {
		kind = opLost
	}
	h.add(step{kind, lease.Owner(), lease.Fence()}, call, h.now())
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
	ops := h.ops
	// Who never came back may have held it until the end of time.
	open := map[lock.Owner]bool{}
	for _, op := range ops {
		if s, ok := op.Input.(step); ok {
			open[s.owner] = s.kind == opLock || open[s.owner] && s.kind == opLock
		}
	}
	for _, op := range ops {
		if s, ok := op.Input.(step); ok && s.kind == opLock && open[s.owner] {
			ops = append(ops, porcupine.Operation{Input: step{opLost, s.owner, s.fence}, Call: op.Return, Return: math.MaxInt64})
		}
	}
	for i := range ops {
		ops[i].ClientId = i
	}
	result := porcupine.CheckOperationsTimeout(model, ops, time.Minute)
	require.Equal(t, porcupine.Ok, result, "no correct lock has this history")
}
