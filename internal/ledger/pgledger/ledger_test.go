package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.World {
		t.Helper()
		return newWorld(t).World(t)
	})
}

// Random lives, each told apart from the reference store by no answer.
func TestMachine(t *testing.T) {
	t.Parallel()
	ledgertest.Machine(t, func(t *testing.T) ledgertest.World {
		t.Helper()
		return newWorld(t).World(t)
	}, 15)
}

var errFault = errors.New("the test failed this statement")

// world is a ledger in a database of its own, with a clock that the test moves and
// faults that it plans.
type world struct {
	url   string
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
	return worldAt(testenv.PostgresLike(tb, func(url string) error {
		_, err := pgledger.Migrate(context.Background(), url) //nolint:usetesting // for all tests of the process
		return err
	}).URL)
}

func worldAt(url string) *world {
	w := &world{url: url}
	w.clock.Store(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC).UnixMilli())
	return w
}

func (w *world) options() pgledger.Options {
	return pgledger.Options{URL: w.url, Clock: w.now, Migrate: true, BeforeStatement: w.before}
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

func (w *world) open(tb testing.TB) *pgledger.Store {
	tb.Helper()
	return w.openWith(tb, w.options())
}

func (w *world) openWith(tb testing.TB, o pgledger.Options) *pgledger.Store {
	tb.Helper()
	s, err := pgledger.Open(tb.Context(), o)
	require.NoError(tb, err)
	return s
}

// book opens a ledger that the end of the test closes.
func (w *world) book(tb testing.TB, o pgledger.Options) *ledger.Book {
	tb.Helper()
	b := ledger.New(w.openWith(tb, o))
	tb.Cleanup(func() { require.NoError(tb, b.Close()) })
	return b
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
			Refuse: func(t *testing.T, user string) { t.Helper(); w.refuse(t, user) },
		},
	}
}

// refuse makes the database refuse every order of a user.
func (w *world) refuse(tb testing.TB, user string) {
	tb.Helper()
	w.sql(tb, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$`)
	w.sql(tb, `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON orders FOR EACH ROW
		WHEN (new.user_id = `+quoted(user)+`) EXECUTE FUNCTION refuse()`)
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// connect opens a connection behind the store's back.
func (w *world) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), w.url)
	require.NoError(tb, err)
	return conn
}

// sql runs a statement behind the store's back.
func (w *world) sql(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	conn := w.connect(tb)
	_, err := conn.Exec(tb.Context(), statement, args...)
	require.NoError(tb, errors.Join(err, conn.Close(tb.Context())))
}

// ask returns the only value of a query.
func ask[T any](tb testing.TB, w *world, query string, args ...any) (v T) {
	tb.Helper()
	conn := w.connect(tb)
	err := conn.QueryRow(tb.Context(), query, args...).Scan(&v)
	require.NoError(tb, errors.Join(err, conn.Close(tb.Context())))
	return v
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
	return open(tb, book, w.sale(slug, stock))
}

func open(tb testing.TB, book *ledger.Book, s sale.Sale) sale.Sale {
	tb.Helper()
	s, err := book.CreateSale(tb.Context(), s)
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

// dump is everything in the database, table by table, as text.
func (w *world) dump(tb testing.TB) string {
	tb.Helper()
	conn := w.connect(tb)
	defer func() { require.NoError(tb, conn.Close(tb.Context())) }()
	var out strings.Builder
	for _, table := range []string{"sales", "items", "terms", "prices", "orders", "holders", "payments", "refunds", "journal", "dead_letters", "api_keys", "gate", "gate_listings", "gate_keys"} {
		rows, err := conn.Query(tb.Context(), "SELECT t::text FROM "+table+" t")
		require.NoError(tb, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(tb, err)
		slices.Sort(lines)
		fmt.Fprintf(&out, "%s\n%s\n", table, strings.Join(lines, "\n"))
	}
	return out.String()
}
