package pgledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// Store is a ledger.Store on one PostgreSQL database. Its methods are safe for
// concurrent use; make one with Open.
type Store struct {
	opts       Options
	statements map[string]string
	pool       *pgxpool.Pool
	connect    *pgx.ConnConfig // of the connection that listens
	channel    string          // on which journal rows are told
	origin     string          // names this store among those that tell
	turns      chan struct{}   // holds one value for each writer at work
	snapshots  chan struct{}   // holds one value for each snapshot that is open
	closed     chan struct{}
	once       sync.Once
}

var (
	_ ledger.Store    = (*Store)(nil)
	_ ledger.Notifier = (*Store)(nil)
)

// ErrReadOnly says that the store was opened for reading.
var ErrReadOnly = errors.New("pgledger: the ledger is open for reading only")

var (
	errClosed = errors.New("pgledger: the store is closed")
	// errOver is what a reader or a transaction answers after its function returned.
	errOver = errors.New("pgledger: the transaction is over")
)

const (
	// maxTries is how often a transaction is begun at most.
	maxTries = 5
	// firstPause and longestPause bound the wait between two tries.
	firstPause   = 5 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// Now implements ledger.Clock: the server's time.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if s.opts.Clock != nil {
		return s.clock(), nil
	}
	var now time.Time
	err := s.query(ctx, "clock", nil, func(row *row) error {
		now = row.time()
		return row.done()
	})
	return now, err
}

// clock is the time that Options.Clock tells, as the ledger keeps it.
func (s *Store) clock() time.Time { return ledger.FromMillis(s.opts.Clock().UnixMilli()) }

// Update implements ledger.Store. It begins anew, up to maxTries times, where it is
// known that nothing was done: another transaction was in the way, or the
// connection was lost before the commit was sent. When the end of ctx comes before
// the commit has been sent, the transaction is undone; a panic of fn undoes it too
// and goes on. An error that wraps ErrUnknown leaves the outcome open.
func (s *Store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	for try := 1; ; try++ {
		again, err := s.update(ctx, fn)
		if err == nil || !again || try == maxTries {
			return err
		}
		if pause(ctx, try) != nil {
			return err
		}
	}
}

func (s *Store) update(ctx context.Context, fn func(ledger.Tx) error) (again bool, err error) {
	if err = s.enter(ctx, s.turns); err != nil {
		return false, err
	}
	defer func() { <-s.turns }()
	c, err := s.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	t := newTx(s, c.Conn())
	defer t.end(ctx)
	if err = t.begin(ctx); err == nil {
		err = fn(t)
	}
	if err == nil {
		err = t.finish(ctx)
	}
	if err == nil {
		return false, s.ask("committed")
	}
	again = t.again(ctx)
	if again && !sqldb.IsConflict(t.failed) {
		// The other connections lead to the same server.
		_ = t.conn.Close(ctx)
		s.pool.Reset()
	}
	return again, err
}

// enter waits until there are few enough of a kind, first come first served.
func (s *Store) enter(ctx context.Context, turns chan struct{}) error {
	select {
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case turns <- struct{}{}:
		return nil
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := s.pool.Acquire(ctx)
	if err == nil {
		return c, nil
	}
	select {
	case <-s.closed:
		return nil, errClosed
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, sale.Unavailable(err)
}

// pause waits before the next try, for longer after each and never for the same
// time as the other one who failed.
func pause(ctx context.Context, try int) error {
	most := min(longestPause, firstPause<<try)
	timer := time.NewTimer(rand.N(most) + time.Millisecond) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask puts what is no statement to Options.BeforeStatement.
func (s *Store) ask(event string) error {
	if s.opts.BeforeStatement == nil {
		return nil
	}
	return s.opts.BeforeStatement(event)
}

// Snapshot implements ledger.Store: one transaction in which every statement sees
// the instant of the first. The reader may be used inside the functions that its
// own Each methods call. A snapshot keeps a connection for as long as fn runs: a quarter
// of them at most is open at once, so that the sale goes on.
func (s *Store) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	return s.snapshot(ctx, func(r *reader) error { return fn(r) })
}

func (s *Store) snapshot(ctx context.Context, fn func(*reader) error) error {
	if err := s.enter(ctx, s.snapshots); err != nil {
		return err
	}
	defer func() { <-s.snapshots }()
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	at := &session{conn: c.Conn(), statements: s.statements}
	defer at.end(ctx)
	err = at.run(ctx,
		step{name: "begin_snapshot", want: anyRows},
		step{name: "snapshot", args: []any{millis(snapshotIdle)}, want: 1},
	)
	if err != nil {
		return err
	}
	return fn(&reader{source: at, due: "orders_due", onCorrupt: s.opts.OnCorrupt})
}

// Read implements ledger.Store. A function given to one of its Each methods must
// not read through Read again: it would wait for a second connection while it
// holds the first. Snapshot has no such limit.
func (s *Store) Read() ledger.Reader {
	due := "orders_due_free"
	if s.opts.ReadOnly {
		due = "orders_due"
	}
	return &reader{source: s, due: due, onCorrupt: s.opts.OnCorrupt}
}

// query implements source: one statement, which sees the latest commit.
func (s *Store) query(ctx context.Context, name string, args []any, each func(*row) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	rows, err := c.Query(ctx, s.statements[name], args...)
	if err != nil {
		return failed(name, err)
	}
	defer rows.Close()
	if err := eachRow(rows, each); err != nil {
		return err
	}
	if err := rows.Err(); err != nil {
		return failed(name, err)
	}
	return nil
}

// instant implements source.
func (s *Store) instant(ctx context.Context, fn func(*reader) error) error {
	return s.snapshot(ctx, fn)
}

// Close implements ledger.Store. It waits for what is running; callers that still
// wait for their turn are refused, and so is everyone after.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.pool.Close()
	return nil
}
