package ledgertest

import (
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// World is one store with a clock in the examiner's hand. Each case gets its own.
type World struct {
	// Store is examined, under a ledger.Book that the examiner makes and closes.
	Store ledger.Store
	// Advance moves the ledger's clock; nothing else does. Durations are whole
	// milliseconds. Safe for concurrent use.
	Advance func(d time.Duration)
	// Reopen closes the store and opens the same data again, with the same clock
	// and refusals.
	Reopen func(t *testing.T) ledger.Store
	// Faults says what the world can make go wrong; nil members cannot be asked
	// of it, and the cases that need them are left out.
	Faults Faults
}

// Faults are capabilities of a World.
type Faults struct {
	// AbortAt makes the k-th statement, from 1, of the next write transaction
	// fail and the transaction roll back, as if the process had died there. The
	// commit counts as the last statement, and fails before it is durable. fired
	// tells whether the statement came. A plan that did not fire ends with its
	// transaction.
	AbortAt func(k int) (fired func() bool)
	// LoseReply makes the next commit durable and its call fail all the same.
	LoseReply func()
	// Refuse makes the database refuse, from now on, every row of an order of
	// this user, with ledger.ErrConstraint.
	Refuse func(t *testing.T, user string)
}

// MemWorld returns a world over a fresh MemStore, with every capability.
func MemWorld(*testing.T) World {
	m := NewMemStore()
	w := World{Store: m}
	// The store changes hands at Reopen; the world's members follow it.
	w.Advance = func(d time.Duration) { m.Advance(d) }
	w.Reopen = func(*testing.T) ledger.Store {
		m = m.Reopen()
		return m
	}
	w.Faults = Faults{
		AbortAt:   func(k int) func() bool { return m.AbortAt(k) },
		LoseReply: func() { m.LoseReply() },
		Refuse:    func(_ *testing.T, user string) { m.Refuse(user) },
	}
	return w
}
