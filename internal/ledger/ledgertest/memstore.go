package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// ErrAborted is what a statement returns that the examiner has aborted. It wraps
// nothing: to the ledger it is infrastructure trouble like any other.
var ErrAborted = errors.New("ledgertest: the statement was aborted")

var errClosed = errors.New("ledgertest: the store is closed")

// MemStore is a Store of maps: the reference model of the contract. A write
// transaction works on a copy of everything and puts it in the place of the old
// on commit; readers keep the copy they began with. Its clock moves only by
// Advance. Make one with NewMemStore.
type MemStore struct {
	writer  sync.Mutex // held by the one write transaction
	current atomic.Pointer[state]
	clock   atomic.Int64 // ms since 1970
	closed  atomic.Bool

	faults sync.Mutex
	plan   plan
}

var _ ledger.Store = (*MemStore)(nil)

// plan is what shall go wrong.
type plan struct {
	abortAt   int // statement of the next write transaction, from 1; 0 for none
	fired     *atomic.Bool
	loseReply bool
	refused   map[string]bool
}

// state is everything that is stored. A committed state never changes again.
type state struct {
	last     sale.Number
	sales    map[sale.Number]*rows
	payments map[string]ledger.PaymentRow
	refunds  map[sale.RefundID]sale.Refund
	refunded []sale.RefundID // in the order they came to be
	letters  map[ledger.LetterID]ledger.Letter
	parked   []ledger.LetterID // in the order they were parked
	keys     map[string]ledger.APIKey
	gate     gate
}

// rows is everything of one sale.
type rows struct {
	rec     ledger.Record
	terms   []ledger.Terms
	orders  map[sale.OrderID]sale.Order
	holders map[string]ledger.Holder
	entries []ledger.Entry
}

// NewMemStore returns an empty store whose clock stands at 2026-11-27 09:00 UTC.
func NewMemStore() *MemStore {
	m := &MemStore{}
	m.clock.Store(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC).UnixMilli())
	m.current.Store(&state{})
	m.plan.refused = make(map[string]bool)
	return m
}

// Advance moves the clock.
func (m *MemStore) Advance(d time.Duration) { m.clock.Add(d.Milliseconds()) }

// Reopen returns a store with the same data, clock and refusals, and closes m.
func (m *MemStore) Reopen() *MemStore {
	m.writer.Lock()
	defer m.writer.Unlock()
	m.closed.Store(true)
	next := NewMemStore()
	next.current.Store(m.current.Load())
	next.clock.Store(m.clock.Load())
	m.faults.Lock()
	defer m.faults.Unlock()
	next.plan.refused = m.plan.refused
	return next
}

// AbortAt makes the k-th statement, from 1, of the next write transaction fail
// with ErrAborted; the commit is its last statement. fired tells whether it came
// so far.
func (m *MemStore) AbortAt(k int) (fired func() bool) {
	m.faults.Lock()
	defer m.faults.Unlock()
	m.plan.abortAt, m.plan.fired = k, new(atomic.Bool)
	return m.plan.fired.Load
}

// LoseReply makes the next commit succeed and report ErrAborted.
func (m *MemStore) LoseReply() {
	m.faults.Lock()
	defer m.faults.Unlock()
	m.plan.loseReply = true
}

// Refuse makes the store refuse, from now on, every row of an order of user.
func (m *MemStore) Refuse(user string) {
	m.faults.Lock()
	defer m.faults.Unlock()
	m.plan.refused[user] = true
}

func (m *MemStore) refuses(user string) bool {
	m.faults.Lock()
	defer m.faults.Unlock()
	return m.plan.refused[user]
}

// Now implements ledger.Clock.
func (m *MemStore) Now(ctx context.Context) (time.Time, error) {
	if err := m.check(ctx); err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(m.clock.Load()).UTC(), nil
}

func (m *MemStore) check(ctx context.Context) error {
	if m.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// Update implements ledger.Store. The writer's lock is held throughout, so every
// transaction is alone.
func (m *MemStore) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	m.writer.Lock()
	defer m.writer.Unlock()
	if err := m.check(ctx); err != nil {
		return err
	}
	m.faults.Lock()
	wrong := m.plan
	m.plan.abortAt, m.plan.fired, m.plan.loseReply = 0, nil, false
	m.faults.Unlock()

	work := m.current.Load().copy()
	tx := &memTx{
		memReader: memReader{store: m, at: func() *state { return work }},
		now:       time.UnixMilli(m.clock.Load()).UTC(),
		locked:    make(map[sale.Number]bool),
		plan:      wrong,
	}
	tx.statement = tx.step
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.step(ctx); err != nil { // the commit
		return err
	}
	m.current.Store(work)
	if wrong.loseReply {
		return fmt.Errorf("commit: %w", ErrAborted)
	}
	return nil
}

// Snapshot implements ledger.Store.
func (m *MemStore) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	if err := m.check(ctx); err != nil {
		return err
	}
	seen := m.current.Load()
	return fn(&memReader{store: m, at: func() *state { return seen }, statement: m.check})
}

// Read implements ledger.Store.
func (m *MemStore) Read() ledger.Reader {
	return &memReader{store: m, at: m.current.Load, statement: m.check}
}

// Close implements ledger.Store.
func (m *MemStore) Close() error {
	m.writer.Lock()
	defer m.writer.Unlock()
	m.closed.Store(true)
	return nil
}
