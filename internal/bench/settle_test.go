package bench_test

import (
	"context"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// postgresURL starts a PostgreSQL that syncs every commit. What benchmarks before this
// one have left to be written goes to the disk first.
func postgresURL(b *testing.B) string {
	b.Helper()
	require.NoError(b, exec.CommandContext(b.Context(), "sync").Run())
	return testenv.OwnPostgres(b, "fsync=on", "full_page_writes=on", "shared_buffers=256MB", "min_wal_size=512MB").URL
}

// season gives a database log files to write over, as one has that has been in use: a
// new one makes each of them, 16 MB that are filled and synced, while the judge waits.
func season(b *testing.B, url string) {
	b.Helper()
	p := pool(b, url)
	for range 20 {
		for _, statement := range []string{"SELECT pg_logical_emit_message(false, 'bench', 'x')", "SELECT pg_switch_wal()"} {
			_, err := p.Exec(b.Context(), statement)
			require.NoError(b, err)
		}
	}
	_, err := p.Exec(b.Context(), "CHECKPOINT")
	require.NoError(b, err)
}

func postgresBook(b *testing.B) ledger.Ledger {
	b.Helper()
	return bookAt(b, postgresURL(b))
}

func bookAt(b *testing.B, url string) ledger.Ledger {
	b.Helper()
	store, err := pgledger.Open(b.Context(), pgledger.Options{URL: url, Migrate: true})
	require.NoError(b, err)
	book := ledger.New(store)
	b.Cleanup(func() { require.NoError(b, book.Close()) })
	return book
}

const slipBatch = 1000

// judge returns a call that has a batch of slips of new buyers judged.
func judge(b *testing.B, book ledger.Ledger) func() error {
	b.Helper()
	now, err := book.Now(b.Context())
	require.NoError(b, err)
	_, err = book.CreateSale(b.Context(), sale.Sale{
		Slug: "slips", Items: []sale.Item{{SKU: "shoe", Stock: sale.MaxInteger, Price: 4900}},
		Rules: sale.Rules{
			StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Hour, Currency: "EUR",
		},
	})
	require.NoError(b, err)
	s, err := book.ChangeSale(b.Context(), "slips", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(b, err)
	names := sale.NewNamer(s.Key, s.Number)
	users := 0
	return func() error {
		batch := ledger.Batch{Sale: s.Number, Attempts: make([]ledger.Attempt, slipBatch)}
		taken := time.Now()
		for i := range batch.Attempts {
			users++
			user := "buyer-" + strconv.Itoa(1e9+users)
			batch.Attempts[i] = ledger.Attempt{
				ID: names.OrderID(user, "k"), User: user, SKU: "shoe", Quantity: 1,
				Slip: &ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: taken},
			}
		}
		out, err := book.Reserve(b.Context(), batch)
		if err != nil {
			return err
		}
		for i := range out.Results {
			if out.Results[i].Verdict != sale.Taken {
				return errVerdict
			}
		}
		return nil
	}
}

// BenchmarkSettlement: slips judged into PostgreSQL, a thousand a transaction by one
// worker, against SELECT … FOR UPDATE, UPDATE and INSERT per buyer on eight
// connections. Goal: 25.
func BenchmarkSettlement(b *testing.B) {
	for b.Loop() {
		fast, slow, factor := sideBySide(
			callers(b, 1, slipBatch, judge(b, postgresBook(b))),
			callers(b, 8, 1, rowLock(b)),
		)
		note("orders/s in PostgreSQL: judged in batches %.0f, FOR UPDATE per buyer %.0f", fast, slow)
		ratio(b, "settlement", factor, 25)
	}
}

func pool(b *testing.B, url string) *pgxpool.Pool {
	b.Helper()
	p, err := pgxpool.New(b.Context(), url+"&pool_max_conns=8")
	require.NoError(b, err)
	b.Cleanup(p.Close)
	return p
}

// rowLock sells one unit a call as most tutorials do.
func rowLock(b *testing.B) func() error {
	b.Helper()
	p := pool(b, postgresURL(b))
	_, err := p.Exec(b.Context(), `
		CREATE TABLE stock (item int PRIMARY KEY, units bigint NOT NULL);
		CREATE TABLE orders (id bigint PRIMARY KEY, user_id text NOT NULL, at timestamptz NOT NULL DEFAULT now());
		INSERT INTO stock VALUES (1, 1000000000)`)
	require.NoError(b, err)
	var users atomic.Int64
	return func() error {
		ctx := b.Context()
		tx, err := p.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		var units int64
		if err := tx.QueryRow(ctx, "SELECT units FROM stock WHERE item = 1 FOR UPDATE").Scan(&units); err != nil {
			return err
		}
		if units < 1 {
			return errVerdict
		}
		if _, err := tx.Exec(ctx, "UPDATE stock SET units = units - 1 WHERE item = 1"); err != nil {
			return err
		}
		n := users.Add(1)
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, user_id) VALUES ($1, $2)", n, "buyer-"+strconv.FormatInt(n, 10)); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
}

// BenchmarkJudging: the same slips, against the same rows written into the same
// tables without any rule. Goal: 0.7.
func BenchmarkJudging(b *testing.B) {
	for b.Loop() {
		fast, slow, factor := sideBySide(
			callers(b, 1, slipBatch, judge(b, postgresBook(b))),
			callers(b, 1, slipBatch, bareRows(b)),
		)
		note("orders/s in PostgreSQL: judged %.0f, bare rows %.0f", fast, slow)
		ratio(b, "judging", factor, 0.7)
	}
}

// bareRows returns a call that writes the rows of a batch of orders and nothing else.
func bareRows(b *testing.B) func() error {
	b.Helper()
	url := postgresURL(b)
	store, err := pgledger.Open(b.Context(), pgledger.Options{URL: url, Migrate: true})
	require.NoError(b, err)
	book := ledger.New(store)
	b.Cleanup(func() { require.NoError(b, book.Close()) })
	require.NoError(b, judge(b, book)()) // its rows are the pattern
	p := pool(b, url)
	var number int64
	require.NoError(b, p.QueryRow(b.Context(), "SELECT sale FROM orders LIMIT 1").Scan(&number))
	var body []byte
	require.NoError(b, p.QueryRow(b.Context(), "SELECT body FROM journal WHERE kind = 'order.reserved' LIMIT 1").Scan(&body))
	rows := int64(slipBatch)
	hash := make([]byte, 32)
	return func() error {
		ctx := b.Context()
		ids, users, seqs := make([][16]byte, slipBatch), make([]string, slipBatch), make([]int64, slipBatch)
		bodies, hashes := make([][]byte, slipBatch), make([][]byte, slipBatch)
		now := time.Now().UnixMilli()
		s := sale.Sale{Number: sale.Number(number)} //nolint:gosec // a sale's number
		names := sale.NewNamer(s.Key, s.Number)
		for i := range ids {
			rows++
			users[i], seqs[i] = "buyer-"+strconv.FormatInt(2e9+rows, 10), rows+10
			ids[i], bodies[i], hashes[i] = names.OrderID(users[i], "k"), body, hash
		}
		tx, err := p.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, `INSERT INTO orders (sale, id, user_id, sku, quantity, terms, amount, currency, state, epoch, version,
				reserved_at, expires_at, ended_at, reason, payment_id)
			SELECT $1, u.id, u.user_id, 'shoe', 1, 1, 4900, 'EUR', 'reserved', 1, 1, $4::bigint, $4::bigint + 3600000, 0, '', ''
			FROM unnest($2::uuid[], $3::text[]) AS u (id, user_id)`, number, ids, users, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO holders (sale, user_id, live, refunded, unpaid, cap, cool_until)
			SELECT $1, u.user_id, 1, 0, 0, 1, 0 FROM unnest($2::text[]) AS u (user_id)`, number, users); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO journal (sale, seq, at, kind, order_id, body, hash)
			SELECT $1, u.seq, $6, 'order.reserved', u.id, u.body, u.hash
			FROM unnest($2::bigint[], $3::uuid[], $4::bytea[], $5::bytea[]) AS u (seq, id, body, hash)`, number, seqs, ids, bodies, hashes, now); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
}
