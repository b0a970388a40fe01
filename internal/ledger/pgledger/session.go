package pgledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

const (
	// commitTimeout is how long the answer to a commit is waited for, also when the
	// caller has gone: to know it is worth more than to be quick.
	commitTimeout = 5 * time.Second
	// rollbackTimeout is the same for a rollback; without an answer the connection
	// is closed, which undoes the transaction too.
	rollbackTimeout = time.Second
)

// step is one statement of a transaction.
type step struct {
	name string
	args []any
	want int64            // how many rows it must return or change; anyRows for any number
	tag  string           // what the server must call it, if not empty
	each func(*row) error // is given every row; nil if there are none
}

const anyRows = -1

// session is one connection in one transaction.
type session struct {
	conn       *pgx.Conn
	statements map[string]string
	before     func(name string) error // see Options.BeforeStatement; nil in snapshots
	over       atomic.Bool
	// failed is the first trouble with a statement. After it the server would refuse
	// every other, and the transaction cannot be committed.
	failed error
}

// run sends statements in one go: they are executed in order, up to the first that
// fails, and nothing is waited for in between.
func (s *session) run(ctx context.Context, steps ...step) error {
	if s.over.Load() {
		return errOver
	}
	if s.failed != nil {
		return s.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var batch pgx.Batch
	var stop error
	for i := range steps {
		if s.before != nil {
			if stop = s.before(steps[i].name); stop != nil {
				steps = steps[:i] // those before it are executed
				break
			}
		}
		text, known := s.statements[steps[i].name]
		if !known {
			return fmt.Errorf("pgledger: there is no statement %s", steps[i].name)
		}
		batch.Queue(text, steps[i].args...)
	}
	if len(steps) > 0 {
		if err := s.send(ctx, &batch, steps); err != nil {
			return err
		}
	}
	s.failed = stop
	return stop
}

func (s *session) send(ctx context.Context, batch *pgx.Batch, steps []step) (err error) {
	results := s.conn.SendBatch(ctx, batch)
	defer func() { // also when a function of the caller panics
		if closeErr := results.Close(); err == nil && closeErr != nil {
			err = s.fail("end of a batch", closeErr)
		}
	}()
	for i := range steps {
		if err := s.take(results, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// take reads what the server says to one statement.
func (s *session) take(results pgx.BatchResults, st *step) error {
	rows, err := results.Query()
	if err != nil {
		return s.fail(st.name, err)
	}
	defer rows.Close()
	if err := eachRow(rows, st.each); err != nil {
		return err
	}
	if err := rows.Err(); err != nil {
		return s.fail(st.name, err)
	}
	tag := rows.CommandTag()
	if n := tag.RowsAffected(); st.want != anyRows && n != st.want {
		s.failed = fmt.Errorf("%w: %s is about %d rows instead of %d", ledger.ErrConstraint, st.name, n, st.want)
		return s.failed
	}
	if st.tag != "" && tag.String() != st.tag {
		s.failed = fmt.Errorf("pgledger: %s: the server answered %s", st.name, tag)
		return s.failed
	}
	return nil
}

// eachRow gives the rows to a function that must not keep them.
func eachRow(rows pgx.Rows, each func(*row) error) error {
	var r row
	for rows.Next() {
		if each == nil {
			continue
		}
		r.values, r.read = rows.RawValues(), 0
		if err := each(&r); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) fail(name string, err error) error {
	s.failed = failed(name, err)
	return s.failed
}

// failed names the statement that failed and tells refusals from trouble.
func failed(name string, err error) error {
	if sqldb.IsConstraint(err) && (name != "commit" || !sqldb.IsLimit(err)) { // the server's, as a full queue of NOTIFY
		return fmt.Errorf("%w: %s: %w", ledger.ErrConstraint, name, err)
	}
	return fmt.Errorf("pgledger: %s: %w", name, err)
}

// query runs one statement that must not change anything.
func (s *session) query(ctx context.Context, name string, args []any, each func(*row) error) error {
	return s.run(ctx, step{name: name, args: args, want: anyRows, each: each})
}

// ErrUnknown says that the answer to a commit was lost: the transaction may be
// durable or may never have been. Look again by order id, or repeat the call.
var ErrUnknown = errors.New("pgledger: it is not known whether the transaction was committed")

// commit ends the transaction. Its steps come before the commit in the same
// go. Once it has been sent, the end of ctx is not looked at any more, for as long
// as commitTimeout.
func (s *session) commit(ctx context.Context, steps ...step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := s.run(ctx, append(steps, step{name: "commit", want: anyRows, tag: "COMMIT"})...)
	if err == nil || !s.conn.IsClosed() || pgconn.SafeToRetry(err) {
		// As long as it is connected the server has said what became of it.
		return err
	}
	s.failed = fmt.Errorf("%w: %w", ErrUnknown, err)
	return s.failed
}

// end leaves no transaction open, whatever has happened.
func (s *session) end(ctx context.Context) {
	s.over.Store(true)
	const idle = 'I'
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, s.statements["rollback"]); err != nil {
		_ = s.conn.Close(ctx)
	}
}

// again reports whether the transaction failed in a way of which it is known that
// nothing was done, and that may not come again: another transaction was in its
// way, or the connection was lost before the commit was sent.
func (s *session) again(ctx context.Context) bool {
	if s.failed == nil || ctx.Err() != nil || errors.Is(s.failed, ErrUnknown) {
		return false
	}
	return sqldb.IsConflict(s.failed) || sqldb.IsReadOnly(s.failed) || s.conn.IsClosed()
}
