package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// fails makes the next n inserts of orders fail with a state; the count survives
// the rollback.
func (w *world) fails(t *testing.T, state string, n int) {
	t.Helper()
	w.sql(t, "CREATE SEQUENCE IF NOT EXISTS inserts")
	w.sql(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('inserts') <= %d THEN RAISE EXCEPTION 'made by the test' USING ERRCODE = '%s'; END IF; RETURN new; END $$`, n, state))
	w.sql(t, "CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION fail()")
	w.sql(t, "ALTER SEQUENCE inserts RESTART")
}

// TestConflictsAreRepeated: what the server undid because of somebody else is begun
// anew, a few times; other trouble is not.
func TestConflictsAreRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := w.book(t, w.options())
	s := w.publish(t, book, "drop", 100)
	for _, state := range []string{"40001", "40P01"} {
		w.fails(t, state, 4)
		out, err := book.Reserve(t.Context(), clicks(s, "k", "ann "+state))
		require.NoError(t, err)
		require.Equal(t, sale.Taken, out.Results[0].Verdict)

		w.fails(t, state, 5)
		_, err = book.Reserve(t.Context(), clicks(s, "k", "bob "+state))
		require.True(t, sqldb.IsConflict(err), "%v", err)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		out, err = book.Reserve(t.Context(), clicks(s, "k", "bob "+state))
		require.NoError(t, err, "nothing was done")
		require.Equal(t, sale.Taken, out.Results[0].Verdict)
	}
	w.fails(t, "53100", 1) // the disk is full
	_, err := book.Reserve(t.Context(), clicks(s, "k", "cid"))
	require.Equal(t, "53100", sqldb.State(err))
	require.NotErrorIs(t, err, ledger.ErrConstraint)
}

// TestServerThatCannotBeReached: whoever starts something is told why; a buyer is told
// nothing of the house.
func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	right, err := url.Parse(o.URL)
	require.NoError(t, err)
	for said, wrong := range map[string]func(u *url.URL){
		`database "nowhere" does not exist`: func(u *url.URL) { u.Path = "/nowhere" },
		"connection refused":                func(u *url.URL) { u.Host = "127.0.0.1:1" },
	} {
		u := *right
		wrong(&u)
		_, failed := pgledger.Open(t.Context(), pgledger.Options{URL: u.String()})
		told, is := errors.AsType[*sale.Error](failed)
		require.True(t, is, "%v", failed)
		require.Equal(t, sale.CodeUnavailable, told.Code)
		require.Contains(t, told.Message, said)
		require.Contains(t, told.Hint, "ledger.url")
	}
	p := testenv.NewProxy(t, right.Host)
	o.URL = strings.Replace(o.URL, right.Host, p.Addr, 1)
	book := w.book(t, o)
	p.Cut()
	_, err = book.ListSales(t.Context(), 0, 1)
	require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	if told, is := errors.AsType[*sale.Error](err); is {
		require.NotContains(t, told.Message+told.Hint, "ledger")
		require.True(t, told.Retry)
	}
}

// TestDeadlock: two who lock sales in opposite order both get there.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	a, b := w.publish(t, book, "a", 1), w.publish(t, book, "b", 1)
	var met, done sync.WaitGroup
	met.Add(2)
	errs := make([]error, 2)
	for i, order := range [][2]sale.Number{{a.Number, b.Number}, {b.Number, a.Number}} {
		first := true
		done.Go(func() {
			errs[i] = store.Update(t.Context(), func(tx ledger.Tx) error {
				if _, err := tx.LockSale(t.Context(), order[0]); err != nil {
					return err
				}
				if first { // each holds what the other one wants
					first = false
					met.Done()
					met.Wait()
				}
				_, err := tx.LockSale(t.Context(), order[1])
				return err
			})
		})
	}
	done.Wait()
	require.NoError(t, errors.Join(errs...))
}

// quiet waits until no connection of the ledger is in a transaction.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return ask[int64](t, w, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'doorbuster' AND state <> 'idle'`) == 0
	}, 30*time.Second, 10*time.Millisecond)
}

// TestEndOfContext: a caller who leaves while he waits leaves nothing behind, and
// one who waits for a lock longer than is allowed is told so.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.LockTimeout = 300 * time.Millisecond
	book := w.book(t, o)
	s := w.publish(t, book, "drop", 10)
	other := w.connect(t)
	_, err := other.Exec(t.Context(), "BEGIN; SELECT FROM sales FOR UPDATE")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = book.Reserve(ctx, clicks(s, "k", "ann"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = book.Reserve(t.Context(), clicks(s, "k", "bob"))
	require.True(t, sqldb.IsBusy(err), "%v", err)
	require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	_, err = book.Sale(t.Context(), "drop")
	require.NoError(t, err, "readers wait for nobody")
	_, err = other.Exec(t.Context(), "COMMIT")
	require.NoError(t, errors.Join(err, other.Close(t.Context())))

	w.quiet(t)
	require.Zero(t, ask[int64](t, w, "SELECT count(*) FROM orders"))
	take(t, book, s, "ann", "bob")
}

// TestPanic: a transaction whose function panics is undone, and its connection
// serves the next.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.MaxConns = 2 // one of them writes
	store := w.openWith(t, o)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	for range 3 {
		require.PanicsWithValue(t, "oops", func() {
			_ = store.Update(t.Context(), func(tx ledger.Tx) error {
				require.NoError(t, tx.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}))
				panic("oops")
			})
		})
		require.PanicsWithValue(t, "oops", func() {
			_ = store.Snapshot(t.Context(), func(ledger.Reader) error { panic("oops") })
		})
	}
	w.quiet(t)
	keys, err := store.Read().ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)

	var kept ledger.Tx
	require.NoError(t, store.Update(t.Context(), func(tx ledger.Tx) error {
		kept = tx
		return nil
	}))
	require.Error(t, kept.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}), "the transaction is over")
	_, err = kept.SaleBySlug(t.Context(), "x")
	require.Error(t, err)
}

// TestSwallowedTrouble: a transaction with a refused statement is not committed,
// even if its function has not noticed.
func TestSwallowedTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 1)
	before := w.dump(t)
	err := store.Update(t.Context(), func(tx ledger.Tx) error {
		rec, err := tx.LockSale(t.Context(), s.Number)
		require.NoError(t, err)
		require.NoError(t, tx.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}))
		require.ErrorIs(t, tx.Write(t.Context(), &ledger.Changes{
			Sale: s.Number, Sold: []int64{2}, FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head,
		}), ledger.ErrConstraint)
		return nil
	})
	require.ErrorIs(t, err, ledger.ErrConstraint)
	require.Equal(t, before, w.dump(t))
}

// TestNoPassword: whatever is wrong with a URL, its password stays with it.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "s3cr3t"
	user := func(address string) string {
		scheme, rest, _ := strings.Cut(address, "://")
		_, host, _ := strings.Cut(rest, "@")
		return scheme + "://tester:" + secret + "@" + host
	}
	for name, address := range map[string]string{
		"wrong password":   user(w.url),
		"nobody there":     "postgres://ann:" + secret + "@127.0.0.1:1/x?connect_timeout=5",
		"bad parameter":    "postgres://ann:" + secret + "@127.0.0.1:1/x?sslmode=sometimes",
		"bad port":         "postgres://ann:" + secret + "@127.0.0.1:" + secret + "/x",
		"bad escape":       "postgres://ann:%zz" + secret + "@127.0.0.1:1/x",
		"password in it":   "postgres://127.0.0.1:1/x?user=ann&sslmode=sometimes&password=" + secret,
		"another scheme":   "mysql://ann:" + secret + "@127.0.0.1:1/x",
		"not a URL at all": secret,
	} {
		_, err := pgledger.Open(t.Context(), pgledger.Options{URL: address})
		require.Error(t, err, name)
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, fmt.Sprintf("%v %+v", e, e), secret, name)
		}
		require.NotEmpty(t, hintOf(t, err), name)
		_, err = pgledger.MigrationStatus(t.Context(), address)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), secret, name)
	}
	_, err := pgledger.Open(t.Context(), pgledger.Options{URL: "postgres://127.0.0.1:1/x?sslmode=sometimes"})
	require.ErrorContains(t, err, "sslmode", "what is wrong is said")
}

// hintOf returns the advice that an error carries.
func hintOf(t *testing.T, err error) string {
	t.Helper()
	var coded *sale.Error
	require.ErrorAs(t, err, &coded)
	return coded.Hint
}

// Snapshots are for audits and builds, which take long; buyers do not wait for them.
func TestSnapshotsLeaveConnectionsToTheSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	book := w.book(t, w.options()) // 8 connections
	s := w.publish(t, book, "drop", 100)
	holding, end := make(chan struct{}, 8), make(chan struct{})
	var reading sync.WaitGroup
	for range cap(holding) {
		reading.Go(func() {
			err := book.Snapshot(t.Context(), func(ledger.Reader) error {
				holding <- struct{}{}
				<-end
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-holding
	<-holding
	for _, user := range []string{"ann", "bob", "cid"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		out, err := book.Reserve(ctx, clicks(s, "k", user))
		cancel()
		require.NoError(t, err)
		require.Equal(t, sale.Taken, out.Results[0].Verdict)
	}
	require.Empty(t, holding, "a quarter of the connections")
	close(end)
	reading.Wait()
	require.Len(t, holding, 6, "the others had their turn")
}

// A schema's name may be as long as the server takes; a channel's is no longer.
func TestLongSchema(t *testing.T) {
	t.Parallel()
	w := worldAt(testenv.Postgres(t).URL)
	schema := "shop_" + strings.Repeat("x", 58)
	w.sql(t, "CREATE SCHEMA "+schema)
	u, err := url.Parse(w.url)
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	w.url = u.String()
	book := w.book(t, w.options())
	w.publish(t, book, "drop", 10)
}
