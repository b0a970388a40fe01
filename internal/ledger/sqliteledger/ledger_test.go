package sqliteledger_test

import (
	"database/sql"
	"errors"
	"fmt"
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
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.World {
		t.Helper()
		return newWorld(t).World(t)
	})
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

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{path: filepath.Join(tb.TempDir(), "ledger.db")}
	w.clock.Store(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC).UnixMilli())
	return w
}

func (w *world) options() sqliteledger.Options {
	return sqliteledger.Options{Path: w.path, Clock: w.now, Migrate: true, BeforeStatement: w.before}
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

func (w *world) open(tb testing.TB) *sqliteledger.Store {
	tb.Helper()
	return w.openWith(tb, w.options())
}

func (w *world) openWith(tb testing.TB, o sqliteledger.Options) *sqliteledger.Store {
	tb.Helper()
	s, err := sqliteledger.Open(tb.Context(), o)
	require.NoError(tb, err)
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
func (w *world) sql(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(5000)&_pragma=ignore_check_constraints(1)")
	require.NoError(tb, err)
	_, err = db.ExecContext(tb.Context(), statement, args...)
	require.NoError(tb, errors.Join(err, db.Close()))
}

// sale is a sale of one item, open for an hour, two a buyer.
func (w *world) sale(slug string, stock int64) sale.Sale {
	start := w.now()
	return sale.Sale{
		Slug: slug,
		Rules: sale.Rules{
			Title: "Drop", StartsAt: start, EndsAt: start.Add(time.Hour), PerUserLimit: 2, LimitRule: sale.LimitLive,
			Hold: time.Minute, MaxUnpaidHolds: 2, CoolDown: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe-42", Title: "Shoe", Stock: stock, Price: 4990}},
	}
}

// publish enters the sale and opens it.
func (w *world) publish(tb testing.TB, book *ledger.Book, slug string, stock int64) sale.Sale {
	tb.Helper()
	s, err := book.CreateSale(tb.Context(), w.sale(slug, stock))
	require.NoError(tb, err)
	s, err = book.ChangeSale(tb.Context(), s.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(tb, err)
	return s
}

// clicks is a batch of one attempt for each user.
func clicks(s sale.Sale, key string, users ...string) ledger.Batch {
	b := ledger.Batch{Sale: s.Number, Epoch: s.Epoch}
	for _, user := range users {
		b.Attempts = append(b.Attempts, ledger.Attempt{ID: s.OrderID(user, key), User: user, Quantity: 1})
	}
	return b
}

// take reserves a unit for each user.
func take(tb testing.TB, book *ledger.Book, s sale.Sale, users ...string) []sale.Order {
	tb.Helper()
	out, err := book.Reserve(tb.Context(), clicks(s, "k", users...))
	require.NoError(tb, err)
	orders := make([]sale.Order, 0, len(users))
	for _, r := range out.Results {
		require.NoError(tb, r.Err)
		require.Equal(tb, sale.Taken, r.Verdict)
		orders = append(orders, r.Order)
	}
	return orders
}

// dump is everything in the file, table by table, as text. It checks that the
// file is sound as well.
func dump(tb testing.TB, path string) string {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, db.Close()) }()
	var out strings.Builder
	for _, table := range []string{"sales", "items", "terms", "prices", "orders", "holders", "payments", "refunds", "journal", "api_keys", "gate", "gate_listings", "gate_keys"} {
		for _, row := range query(tb, db, "SELECT * FROM "+table+" ORDER BY 1, 2") {
			out.WriteString(table + row + "\n")
		}
	}
	require.Equal(tb, []string{"|ok"}, query(tb, db, "PRAGMA integrity_check"))
	require.Empty(tb, query(tb, db, "PRAGMA foreign_key_check"))
	return out.String()
}

// query returns the rows of a query as texts.
func query(tb testing.TB, db *sql.DB, text string) (out []string) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), text)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, errors.Join(rows.Err(), rows.Close())) }()
	columns, err := rows.Columns()
	require.NoError(tb, err)
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	for rows.Next() {
		require.NoError(tb, rows.Scan(values...))
		row := ""
		for _, v := range values {
			switch v := (*v.(*any)).(type) {
			case []byte:
				row += fmt.Sprintf("|%x", v)
			default:
				row += fmt.Sprintf("|%v", v)
			}
		}
		out = append(out, row)
	}
	return out
}
