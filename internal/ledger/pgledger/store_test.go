package pgledger_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestOpenAtOnce: several instances meet an empty database.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	w := worldAt(testenv.Postgres(t).URL)
	const n = 6
	stores := make([]*pgledger.Store, n)
	require.NoError(t, together(n, func(i int) (err error) {
		o := w.options()
		o.MaxConns = 2
		stores[i], err = pgledger.Open(t.Context(), o)
		return err
	}))
	require.NoError(t, together(n, func(i int) error {
		_, err := ledger.New(stores[i]).CreateSale(t.Context(), w.sale(fmt.Sprint("drop-", i), 10))
		return err
	}))
	numbers, err := stores[0].Read().SaleNumbers(t.Context())
	require.NoError(t, err)
	require.Len(t, numbers, n)
	require.NoError(t, together(n, func(i int) error { return stores[i].Close() }))
	require.Equal(t, int64(1), ask[int64](t, w, "SELECT count(*) FROM goose_db_version WHERE version_id = 1"))
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	w := worldAt(testenv.Postgres(t).URL)
	tables := func() int64 { return ask[int64](t, w, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") }
	pending, err := pgledger.MigrationStatus(t.Context(), w.url)
	require.NoError(t, err)
	require.NotEmpty(t, pending)
	require.Zero(t, pending[0].AppliedAt)
	for _, readOnly := range []bool{false, true} {
		_, err = pgledger.Open(t.Context(), pgledger.Options{URL: w.url, ReadOnly: readOnly})
		require.ErrorIs(t, err, sqldb.ErrSchemaOlder)
		require.Contains(t, hintOf(t, err), "migrate up")
	}
	require.Zero(t, tables(), "looking creates nothing")
	_, err = pgledger.Open(t.Context(), pgledger.Options{URL: w.url, ReadOnly: true, Migrate: true})
	require.Error(t, err)

	applied, err := pgledger.Migrate(t.Context(), w.url)
	require.NoError(t, err)
	require.Len(t, applied, len(pending))
	require.WithinDuration(t, time.Now(), applied[0].AppliedAt, time.Minute)
	status, err := pgledger.MigrationStatus(t.Context(), w.url)
	require.NoError(t, err)
	require.Equal(t, applied, status)
	again, err := pgledger.Migrate(t.Context(), w.url)
	require.NoError(t, err)
	require.Empty(t, again)

	w.sql(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
	for _, o := range []pgledger.Options{{}, {Migrate: true}, {ReadOnly: true}} {
		o.URL = w.url
		_, err = pgledger.Open(t.Context(), o)
		require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
		require.Contains(t, hintOf(t, err), "newer")
	}
	_, err = pgledger.Migrate(t.Context(), w.url)
	require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
}

// TestSettings: what a connection asks of the server, and what is refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(t, "ALTER ROLE CURRENT_USER IN DATABASE "+strings.TrimPrefix(mustParse(t, w.url).Path, "/")+" SET synchronous_commit = off")
	o := w.options()
	o.ApplicationName, o.LockTimeout = "till 7", 1500*time.Millisecond
	store := w.openWith(t, o)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.Equal(t, int64(1), ask[int64](t, w, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'till 7' AND datname = current_database()"))
	w.sql(t, `CREATE FUNCTION settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		new.label = current_setting('lock_timeout') || ' ' || current_setting('synchronous_commit') || ' ' || current_setting('transaction_isolation');
		RETURN new; END $$`)
	w.sql(t, "CREATE TRIGGER settings BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION settings()")
	require.NoError(t, store.Update(t.Context(), func(tx ledger.Tx) error { return tx.PutAPIKey(t.Context(), ledger.APIKey{ID: "k"}) }))
	key, err := store.Read().APIKey(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "1500ms on read committed", key.Label, "what is answered is on the disk, whatever the default")

	look := w.openWith(t, pgledger.Options{URL: w.url, ReadOnly: true})
	t.Cleanup(func() { require.NoError(t, look.Close()) })
	require.ErrorIs(t, look.Update(t.Context(), func(ledger.Tx) error { return nil }), pgledger.ErrReadOnly)
	_, err = look.Read().Due(t.Context(), time.Time{}, w.now(), 10)
	require.NoError(t, err, "looking locks nothing")

	admin := w.connect(t)
	_, err = admin.Exec(t.Context(), "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	require.NoError(t, err)
	u := mustParse(t, w.url)
	u.Path = "/latin"
	_, err = pgledger.Open(t.Context(), pgledger.Options{URL: u.String(), Migrate: true})
	require.ErrorContains(t, err, "LATIN1")
	_, err = admin.Exec(t.Context(), "DROP DATABASE latin WITH (FORCE)")
	require.NoError(t, errors.Join(err, admin.Close(t.Context())))
}

func mustParse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// TestServersClock: without a clock of its own the ledger has the server's, and a
// transaction has the time at which it got its sale, not that at which it began to
// wait for it.
func TestServersClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Clock = nil
	store := w.openWith(t, o)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.endless(t, book)
	now, err := book.Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Minute)
	require.Equal(t, now.Truncate(time.Millisecond), now)
	require.Equal(t, time.UTC, now.Location())

	other := w.connect(t)
	_, err = other.Exec(t.Context(), "BEGIN; SELECT FROM sales FOR UPDATE")
	require.NoError(t, err)
	judged := make(chan ledger.Batched, 1)
	go func() {
		out, failed := book.Reserve(t.Context(), clicks(s, "k", "ann"))
		if failed == nil {
			judged <- out
		}
		close(judged)
	}()
	require.Eventually(t, func() bool {
		return ask[int64](t, w, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND datname = current_database()") > 0
	}, 30*time.Second, 5*time.Millisecond)
	released, err := book.Now(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "COMMIT")
	require.NoError(t, errors.Join(err, other.Close(t.Context())))
	out := <-judged
	require.Len(t, out.Results, 1)
	require.False(t, out.At.Before(released))
}

// TestOddTexts: what PostgreSQL cannot hold is found nowhere, refused alone when it
// is written, and kept whole as a dead letter.
func TestOddTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 100)
	ctx, r := t.Context(), store.Read()
	odd := []string{"a\x00b", "\xff", "a\xc3", strings.Repeat("x", 1<<20)}
	for i, text := range odd {
		if len(text) < 10 {
			_, err := book.Sale(ctx, text)
			require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
			_, err = book.ChangeSale(ctx, text, 0, sale.Change{Action: sale.ActionPause})
			require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
			_, err = book.APIKey(ctx, text)
			require.Equal(t, sale.CodeKeyNotFound, sale.CodeOf(err))
			require.Equal(t, sale.CodeKeyNotFound, sale.CodeOf(book.RevokeAPIKey(ctx, text)))
			_, found, err := r.Payment(ctx, text)
			require.NoError(t, err)
			require.False(t, found)
			orders, err := book.ListOrders(ctx, ledger.OrderFilter{User: text})
			require.NoError(t, err)
			require.Empty(t, orders)
		}
		good := []string{fmt.Sprint("ann-", i), fmt.Sprint("bob-", i), fmt.Sprint("cid-", i)}
		out, err := book.Reserve(ctx, clicks(s, "k", good[0], text, good[1], good[2]))
		require.NoError(t, err)
		for j, res := range out.Results {
			if j == 1 {
				require.ErrorIs(t, res.Err, ledger.ErrConstraint)
				continue
			}
			require.NoError(t, res.Err)
			require.Equal(t, sale.Taken, res.Verdict)
		}
		letter := ledger.Letter{
			ID: ledger.LetterID{1: byte(i), 2: 1}, Place: text[:1] + "lane", Cause: "\x00" + text[:1], Raw: []byte{0, 0xff},
			Attempt: &ledger.Attempt{ID: s.OrderID(text, "k"), User: text, SKU: text[:1], Quantity: 1, Slip: &ledger.Slip{Epoch: 1, Terms: 1, TakenAt: w.now().UTC(), Presented: true}},
		}
		require.NoError(t, book.Park(ctx, s.Number, []ledger.Letter{letter}))
		kept, found, err := r.LetterOf(ctx, letter.Attempt.ID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, letter.Attempt, kept.Attempt)
		require.Equal(t, letter.Place, kept.Place)
		require.Equal(t, letter.Cause, kept.Cause)
	}
	recount(t, store, s.Number)
}

// TestReadsInsideOfReads: a snapshot's reader may be used while one of its own Each
// methods runs, and pages of more rows than one are whole.
func TestReadsInsideOfReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.open(t)
	book := ledger.New(store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	s := w.publish(t, book, "drop", 5000)
	users := make([]string, 2300)
	for i := range users {
		users[i] = fmt.Sprint("user-", i)
	}
	take(t, book, s, users...)
	ctx := t.Context()
	require.NoError(t, store.Snapshot(ctx, func(r ledger.Reader) error {
		seen, last := 0, sale.OrderID{}
		require.NoError(t, r.EachOrder(ctx, s.Number, func(o sale.Order) error {
			require.Negative(t, strings.Compare(string(last[:]), string(o.ID[:])), "in order, once")
			last = o.ID
			if seen++; seen%1000 == 1 {
				_, err := book.Reserve(ctx, clicks(s, "k", fmt.Sprint("later-", seen)))
				require.NoError(t, err)
				holders, err := r.Holders(ctx, s.Number, []string{o.User, fmt.Sprint("later-", seen)})
				require.NoError(t, err)
				require.Len(t, holders, 1, "the instant stays the same")
			}
			return nil
		}))
		require.Equal(t, len(users), seen)
		seen = 0
		require.NoError(t, r.EachHolder(ctx, s.Number, func(ledger.Holder) error { seen++; return nil }))
		require.Equal(t, len(users), seen)
		return nil
	}))
	seen := 0
	stop := errors.New("enough")
	require.ErrorIs(t, store.Read().EachOrder(ctx, s.Number, func(sale.Order) error {
		seen++
		return stop
	}), stop)
	require.Equal(t, 1, seen)
	require.NoError(t, store.Read().EachOrder(ctx, s.Number, func(sale.Order) error { seen++; return nil }))
	require.Equal(t, 1+len(users)+3, seen)
}
