package sqliteledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// TestStatements prepares every statement against the schema and reads how
// SQLite would run it: nothing may walk through a table that grows with sales.
func TestStatements(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/ledger.db"
	_, err := Migrate(t.Context(), path)
	require.NoError(t, err)
	statements, err := loadStatements()
	require.NoError(t, err)
	db, err := sql.Open("sqlite", readerDSN(path))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })

	// Each of these must walk a whole table: it says so by its name.
	walks := map[string][]string{
		"sale_numbers": {"sales"}, "sale_list": {"s"}, "orders_of_all": {"s"}, "orders_of_user": {"s"},
		"key_list": {"api_keys"}, "gate_keys": {"gate_keys"}, "snapshot": {"sales"},
		"orders_reserved": {"o"}, "orders_any_reserved": {"o"}, // along an index of what is reserved
	}
	// Each of these sorts: a page, or a range that comes in another order.
	sorts := []string{"orders_of_all", "orders_of_user", "orders_reserved", "refunds_each"}
	used := make(map[string]bool)
	for name, s := range statements {
		for _, text := range []string{s.Text, widen(s.Text, 256)} {
			n := len(s.Params)
			if text != s.Text {
				n += 255
			}
			plan := explain(t, db, text, n)
			for _, step := range plan {
				if table, walked := strings.CutPrefix(step, "SCAN "); walked {
					table, _, _ = strings.Cut(table, " ")
					require.True(t, table == "mine" || table == "m" || table == "CONSTANT" || slices.Contains(walks[name], table), "%s: %v", name, plan)
				}
				if step == "USE TEMP B-TREE FOR ORDER BY" {
					require.Contains(t, sorts, name, "%v", plan)
				}
				for _, index := range []string{"orders_id", "orders_sale", "orders_due", "sales_slug", "refunds_state", "payments_order", "refunds_order", "journal_lane", "dead_letters_sale", "dead_letters_state", "dead_letters_order", "gate_listings_subject", "gate_listings_end"} {
					used[index] = used[index] || strings.Contains(step, index)
				}
			}
		}
	}
	for index, is := range used {
		require.True(t, is, "no statement uses the index %s", index)
	}
}

func explain(t *testing.T, db *sql.DB, text string, params int) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, params)...)
	require.NoError(t, err, text)
	defer func() { require.NoError(t, rows.Close()) }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		plan = append(plan, step)
	}
	require.NoError(t, rows.Err())
	return plan
}

// TestPragmas: what durability and safety rest on is asked of the connections
// themselves, since a setting that SQLite does not know is ignored in silence.
func TestPragmas(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/ledger.db"
	_, err := Migrate(t.Context(), path)
	require.NoError(t, err)
	for dsn, want := range map[string]map[string]string{
		writerDSN(path): {
			"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "query_only": "0",
			"wal_autocheckpoint": "4000", "journal_size_limit": "67108864", "cache_size": "-65536", "ignore_check_constraints": "0",
		},
		readerDSN(path): {"journal_mode": "wal", "busy_timeout": "5000", "query_only": "1"},
	} {
		c, err := open(t.Context(), dsn, nil)
		require.NoError(t, err)
		for name, value := range want {
			c.statements = map[string]sqldb.Statement{name: {Name: name, Text: "PRAGMA " + name}}
			require.NoError(t, c.get(t.Context(), variant{name, 1}, nil, func(r *row) error {
				require.Equal(t, value, fmt.Sprint(r.next()), name)
				return nil
			}))
		}
		require.NoError(t, c.close())
	}
	require.True(t, sqlite.FdatasyncEnabled() || runtime.GOOS != "linux")
	require.True(t, sqlite.OFDLockingEnabled() || runtime.GOOS != "linux", "reading the file elsewhere in the process must not drop its locks")
}

// TestPoolLine: who waits longest is served first, and a place in the line ends
// with its context.
func TestPoolLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, func(context.Context) (*conn, error) { return &conn{}, nil })
		release := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			first <- p.with(t.Context(), func(*conn) error {
				<-release
				return nil
			})
		}()
		synctest.Wait()

		var order []int // written only by whoever holds the connection
		impatient, leave := context.WithCancel(t.Context())
		left := make(chan error, 50)
		for i := range 50 {
			ctx := t.Context()
			if i == 20 {
				ctx = impatient
			}
			go func() {
				err := p.with(ctx, func(*conn) error {
					order = append(order, i)
					return nil
				})
				if err != nil {
					left <- err
				}
			}()
			synctest.Wait() // it stands in line now
		}
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		close(release)
		synctest.Wait()
		require.NoError(t, <-first)
		require.Len(t, order, 49)
		require.IsIncreasing(t, order)
	})
}

// TestPoolReplacesBroken: a connection that met trouble is not lent again.
func TestPoolReplacesBroken(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/ledger.db"
	_, err := Migrate(t.Context(), path)
	require.NoError(t, err)
	opened := 0
	p := newPool(1, func(ctx context.Context) (*conn, error) {
		opened++
		return open(ctx, writerDSN(path), nil)
	})
	for range 3 {
		require.NoError(t, p.with(t.Context(), func(*conn) error { return nil }))
	}
	require.Equal(t, 1, opened)
	require.NoError(t, p.with(t.Context(), func(c *conn) error {
		c.broken = true
		return nil
	}))
	require.NoError(t, p.with(t.Context(), func(*conn) error { return nil }))
	require.Equal(t, 2, opened)
	require.NoError(t, p.close())
	require.ErrorIs(t, p.with(t.Context(), func(*conn) error { return nil }), errClosed)
	require.NoError(t, p.close(), "a second close changes nothing")
}

// TestChunks: every key is asked for once, in a statement that is wide enough.
func TestChunks(t *testing.T) {
	t.Parallel()
	for n := range 600 {
		next := 0
		require.NoError(t, chunks(n, func(from, to, width int) error {
			require.Equal(t, next, from)
			require.Greater(t, to, from)
			require.GreaterOrEqual(t, width, to-from)
			require.Contains(t, listWidths(), width)
			next = to
			return nil
		}))
		require.Equal(t, n, next)
	}
}

// TestSaleRange: the range holds the ids of the sale and of no other.
func TestSaleRange(t *testing.T) {
	t.Parallel()
	first, last := saleRange(0x01020304)
	require.Equal(t, "01020304000000000000000000000000", hex.EncodeToString(first[:]))
	require.Equal(t, "01020304ffffffffffffffffffffffff", hex.EncodeToString(last[:]))
}
