package pgledger

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sqldb"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestGateMigration: a ledger from before the gate keeps what it holds and gets an
// empty gate.
func TestGateMigration(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), testenv.Postgres(t).URL
	first, err := fs.ReadFile(migrationFiles, "migration/00001_ledger.sql")
	require.NoError(t, err)
	_, cfg, err := configure(Options{URL: url})
	require.NoError(t, err)
	require.NoError(t, onDB(ctx, cfg.ConnConfig, func(s sqldb.Schema, db *sql.DB) error {
		s.Files = fstest.MapFS{"00001_ledger.sql": &fstest.MapFile{Data: first}}
		if _, upErr := s.Up(ctx, db); upErr != nil {
			return upErr
		}
		_, execErr := db.ExecContext(ctx, `INSERT INTO api_keys VALUES ('till', decode(repeat('00', 32), 'hex'), '[]', '', 1, 0)`)
		return execErr
	}))
	_, err = Open(ctx, Options{URL: url})
	require.ErrorIs(t, err, sqldb.ErrSchemaOlder)
	pending, err := MigrationStatus(ctx, url)
	require.NoError(t, err)
	require.Len(t, pending, 2)
	require.NotZero(t, pending[0].AppliedAt)
	require.Zero(t, pending[1].AppliedAt)
	applied, err := Migrate(ctx, url)
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.Equal(t, "00002_gate.sql", applied[0].Name)

	s, err := Open(ctx, Options{URL: url})
	require.NoError(t, err)
	book := ledger.New(s)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	_, err = book.APIKey(ctx, "till")
	require.NoError(t, err)
	version, err := book.GateVersion(ctx)
	require.NoError(t, err)
	require.Zero(t, version)
	key, err := book.EnsureGateKey(ctx)
	require.NoError(t, err)
	require.Equal(t, uint32(1), key.ID)
}

// TestOneMigratesAtATime: while another process holds the lock, nothing is created.
func TestOneMigratesAtATime(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), testenv.Postgres(t).URL
	other, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close(context.WithoutCancel(ctx))) })
	_, err = other.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock)
	require.NoError(t, err)
	ask := func(query string) (n int64) {
		require.NoError(t, other.QueryRow(ctx, query).Scan(&n))
		return n
	}
	const waiting = `SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

	opened := make(chan error, 1)
	go func() {
		s, openErr := Open(ctx, Options{URL: url, Migrate: true})
		if openErr == nil {
			openErr = s.Close()
		}
		opened <- openErr
	}()
	require.Eventually(t, func() bool { return ask(waiting) == 1 || len(opened) > 0 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, opened, "it waits for the lock")
	require.Zero(t, ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
	_, err = other.Exec(ctx, "SELECT pg_advisory_unlock($1)", migrationLock)
	require.NoError(t, err)
	require.NoError(t, <-opened)
	require.Equal(t, int64(1), ask("SELECT count(*) FROM goose_db_version WHERE version_id = 1"))
}
