package sqliteledger

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// TestFastPathMigration: a ledger from before the fast path keeps what it holds,
// reads as one that prefers the direct path, and goes on selling. Its gate is new.
func TestFastPathMigration(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, create(path))
	first, err := fs.ReadFile(migrationFiles, "migration/00001_ledger.sql")
	require.NoError(t, err)
	require.NoError(t, onDB(writerDSN(path), func(s sqldb.Schema, db *sql.DB) error {
		s.Files = fstest.MapFS{"00001_ledger.sql": &fstest.MapFile{Data: first}}
		if _, upErr := s.Up(ctx, db); upErr != nil {
			return upErr
		}
		_, execErr := db.ExecContext(ctx, `
			INSERT INTO sales (number, slug, key, title, starts_at, ends_at, per_user_limit, limit_rule, hold_ms, max_unpaid_holds, cool_down_ms,
				currency, state, terms, version, path, epoch, created_at, updated_at, seq)
			VALUES (1, 'drop', zeroblob(32), '', 1, 9000000000000, 2, 'live', 60000, 0, 0, 'EUR', 'published', 1, 2, 'direct', 1, 1, 1, 3);
			INSERT INTO items VALUES (1, 0, 'shoe', '', 5, 1, 100);
			INSERT INTO terms VALUES (1, 1, 'EUR', 60000);
			INSERT INTO prices VALUES (1, 1, 0, 100);
			INSERT INTO orders VALUES (1, x'00000001000000000000000000000001', 1, 'ann', 'shoe', 1, 1, 100, 'EUR', 'reserved', 1, 1, 5, 60005, 0, '', NULL, NULL);
			INSERT INTO holders VALUES (1, 'ann', 1, 0, 0, 2, 0, 1);
			INSERT INTO journal VALUES (1, 1, 1, 'sale.created', NULL, x'7b7d', zeroblob(32)), (1, 2, 1, 'sale.published', NULL, x'7b7d', zeroblob(32)),
				(1, 3, 5, 'order.reserved', x'00000001000000000000000000000001', x'7b7d', zeroblob(32));`)
		return execErr
	}))
	_, err = Open(ctx, Options{Path: path})
	require.ErrorIs(t, err, sqldb.ErrSchemaOlder)
	applied, err := Migrate(ctx, path)
	require.NoError(t, err)
	require.Len(t, applied, 2)
	require.Equal(t, "00002_fast_path.sql", applied[0].Name)
	require.Equal(t, "00003_gate.sql", applied[1].Name)

	s, err := Open(ctx, Options{Path: path, Clock: func() time.Time { return time.UnixMilli(10_000) }})
	require.NoError(t, err)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	now, err := book.Sale(ctx, "drop")
	require.NoError(t, err)
	require.Equal(t, sale.PathDirect, now.Preferred)
	require.Zero(t, now.BuildToken)
	require.Zero(t, now.BuildAt)
	require.Nil(t, now.Salts)
	orders, err := book.ListOrders(ctx, ledger.OrderFilter{User: "ann"})
	require.NoError(t, err)
	require.Len(t, orders, 1)
	require.Empty(t, orders[0].Reason)
	rows, err := book.LaneRows(ctx, 1, 0, 10)
	require.NoError(t, err)
	require.Len(t, rows.Rows, 2, "the index was made of the rows that there were")
	require.Equal(t, uint64(3), rows.Upto)

	out, err := book.Reserve(ctx, ledger.Batch{Sale: 1, Epoch: 1, Attempts: []ledger.Attempt{{ID: now.OrderID("bob", "k"), User: "bob", Quantity: 1}}})
	require.NoError(t, err)
	require.Equal(t, sale.Taken, out.Results[0].Verdict)
	build, err := book.StartBuild(ctx, 1, 1)
	require.NoError(t, err)
	fast, err := book.FinishBuild(ctx, ledger.Finish{Build: build, Salts: []uint32{1}, Load: func(context.Context, ledger.Present) error { return nil }})
	require.NoError(t, err)
	require.Equal(t, sale.PathFast, fast.Path)

	version, err := book.GateVersion(ctx)
	require.NoError(t, err)
	require.Zero(t, version)
	key, err := book.EnsureGateKey(ctx)
	require.NoError(t, err)
	require.Equal(t, uint32(1), key.ID)
}
