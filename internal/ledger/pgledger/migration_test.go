package pgledger

import (
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"

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
