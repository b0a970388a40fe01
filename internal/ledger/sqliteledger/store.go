package sqliteledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// Store is a ledger.Store on one SQLite file. Its methods are safe for
// concurrent use; make one with Open.
type Store struct {
	opts    Options
	writer  *pool // one connection: writers wait in line
	readers *pool
}

var _ ledger.Store = (*Store)(nil)

// ErrReadOnly says that the store was opened for reading.
var ErrReadOnly = errors.New("sqliteledger: the ledger is open for reading only")

// errOver is what a reader or a transaction answers after its function returned.
var errOver = errors.New("sqliteledger: the transaction is over")

// Now implements ledger.Clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	return s.now(), nil
}

func (s *Store) now() time.Time {
	return ledger.FromMillis(s.opts.Clock().UnixMilli())
}

// Update implements ledger.Store. Writers wait in line, first come first served,
// and are alone while they run, so fn runs once. When the end of ctx comes
// before the commit has begun, the transaction is undone; a panic of fn undoes
// it too and goes on.
func (s *Store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	return s.writer.with(ctx, func(c *conn) error { return s.update(ctx, c, fn) })
}

func (s *Store) update(ctx context.Context, c *conn, fn func(ledger.Tx) error) error {
	if err := s.ask("begin"); err != nil {
		return err
	}
	raw, err := c.begin(ctx, driver.TxOptions{})
	if err != nil {
		return err
	}
	t := newTx(s, c)
	committing := false
	defer func() {
		t.over.Store(true)
		if !committing {
			c.rollback(raw)
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.ask("commit"); err != nil {
		return err
	}
	committing = true
	if err := c.commit(raw); err != nil {
		return err
	}
	return s.ask("committed")
}

// ask puts a statement that is not in a file to Options.BeforeStatement.
func (s *Store) ask(statement string) error {
	if s.opts.BeforeStatement == nil {
		return nil
	}
	return s.opts.BeforeStatement(statement)
}

// Snapshot implements ledger.Store: one read transaction. The reader may be used
// inside the functions that its own Each methods call.
func (s *Store) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	return s.readers.with(ctx, func(c *conn) error {
		raw, err := c.begin(ctx, driver.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		at := &pinned{c: c}
		defer func() {
			at.over.Store(true)
			c.rollback(raw)
		}()
		if err := c.get(ctx, variant{"snapshot", 1}, nil, func(*row) error { return nil }); err != nil {
			return err
		}
		return fn(&reader{source: at, onCorrupt: s.opts.OnCorrupt})
	})
}

// Read implements ledger.Store. A function given to one of its Each methods must
// not read through Read again: it would wait for a second connection while it
// holds the first. Snapshot has no such limit.
func (s *Store) Read() ledger.Reader {
	return &reader{source: s.readers, onCorrupt: s.opts.OnCorrupt}
}

// Close implements ledger.Store. It waits for what is running; the last
// connection copies the write-ahead log into the file.
func (s *Store) Close() error {
	err := s.readers.close()
	return errors.Join(err, s.writer.close())
}
