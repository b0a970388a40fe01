package sqliteledger_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.World { return newWorld(t).World(t) })
}

var errFault = errors.New("the test failed this statement")

// world is a ledger in a file of its own, with a clock that the test moves and
// faults that it plans.
type world struct {
	path  string
	clock atomic.Int64 // ms since 1970

	mu      sync.Mutex
	planned plan // for the next write transaction
	running plan
}

// plan is what shall go wrong in one write transaction.
type plan struct {
	abortAt   int // statement, from 1
	fired     *atomic.Bool
	loseReply bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{path: filepath.Join(t.TempDir(), "ledger.db")}
	w.clock.Store(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC).UnixMilli())
	return w
}

func (w *world) options() sqliteledger.Options {
	return sqliteledger.Options{Path: w.path, Clock: w.now, Migrate: true, BeforeStatement: w.before}
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

func (w *world) open(t testing.TB) *sqliteledger.Store {
	t.Helper()
	s, err := sqliteledger.Open(t.Context(), w.options())
	require.NoError(t, err)
	return s
}

// before takes the plan up at the begin of a transaction and drops it with it.
func (w *world) before(statement string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if statement == "begin" {
		w.running, w.planned = w.planned, plan{}
	}
	if statement == "committed" {
		if w.running.loseReply {
			return errFault
		}
		return nil
	}
	w.running.abortAt--
	if w.running.abortAt == 0 && w.running.fired != nil {
		w.running.fired.Store(true)
		return errFault
	}
	return nil
}

// World gives the world to the examiner.
func (w *world) World(t *testing.T) ledgertest.World {
	t.Helper()
	s := w.open(t)
	return ledgertest.World{
		Store:   s,
		Advance: func(d time.Duration) { w.clock.Add(d.Milliseconds()) },
		Reopen: func(t *testing.T) ledger.Store {
			t.Helper()
			require.NoError(t, s.Close())
			s = w.open(t)
			return s
		},
		Faults: ledgertest.Faults{
			AbortAt: func(k int) func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.planned.abortAt, w.planned.fired = k, new(atomic.Bool)
				return w.planned.fired.Load
			},
			LoseReply: func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.planned.loseReply = true
			},
			Refuse: func(t *testing.T, user string) {
				t.Helper()
				quoted := "'" + strings.ReplaceAll(user, "'", "''") + "'"
				for _, event := range []string{"INSERT", "UPDATE"} {
					w.sql(t, "CREATE TRIGGER refuse_"+event+" BEFORE "+event+" ON orders WHEN new.user = "+quoted+
						" BEGIN SELECT raise(ABORT, 'refused by the test'); END")
				}
			},
		},
	}
}

// sql runs a statement on the file behind the store's back.
func (w *world) sql(t testing.TB, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(5000)&_pragma=ignore_check_constraints(1)")
	require.NoError(t, err)
	_, err = db.ExecContext(context.Background(), statement, args...)
	require.NoError(t, errors.Join(err, db.Close()))
}
