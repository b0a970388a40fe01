package sqldb_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

func schema(versions ...string) sqldb.Schema {
	files := fstest.MapFS{}
	for _, v := range versions {
		files[v+".sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE t" + v[:5] + " (x INTEGER);\n")}
	}
	return sqldb.Schema{
		Dialect: goose.DialectSQLite3, Files: files,
		Versioned: "SELECT count(*) FROM sqlite_schema WHERE name = 'goose_db_version'",
	}
}

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "x.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestSchema(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), database(t)
	one, two := schema("00001_first"), schema("00001_first", "00002_second")

	var mismatch *sqldb.MismatchError
	require.ErrorAs(t, one.Check(ctx, db), &mismatch)
	require.Equal(t, sqldb.MismatchError{Have: 0, Want: 1}, *mismatch)
	status, err := two.Status(ctx, db)
	require.NoError(t, err)
	require.Equal(t, []sqldb.Migration{{Version: 1, Name: "00001_first.sql"}, {Version: 2, Name: "00002_second.sql"}}, status)
	require.Empty(t, tables(t, db), "looking writes nothing")

	applied, err := one.Up(ctx, db)
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.NotZero(t, applied[0].AppliedAt)
	require.NoError(t, one.Check(ctx, db))
	require.ErrorIs(t, two.Check(ctx, db), sqldb.ErrSchemaOlder)
	status, err = two.Status(ctx, db)
	require.NoError(t, err)
	require.Equal(t, applied[0], status[0])
	require.Zero(t, status[1].AppliedAt)

	applied, err = two.Up(ctx, db)
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.Equal(t, "00002_second.sql", applied[0].Name)
	require.Contains(t, tables(t, db), "t00002")
	applied, err = two.Up(ctx, db)
	require.NoError(t, err)
	require.Empty(t, applied)

	// The older binary meets the newer database.
	require.ErrorIs(t, one.Check(ctx, db), sqldb.ErrSchemaNewer)
	_, err = one.Up(ctx, db)
	require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
	_, err = one.Status(ctx, db)
	require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
	require.ErrorContains(t, err, "version 2, not 1")
}

func tables(t *testing.T, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table'")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Err())
	return names
}

// TestSchemaBroken: a migration that fails leaves nothing of itself, and what
// cannot be read is no fresh database.
func TestSchemaBroken(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), database(t)
	s := schema()
	s.Files = fstest.MapFS{
		"00001_first.sql": {Data: []byte("-- +goose Up\nCREATE TABLE t00001 (x);\n")},
		"00002_bad.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE half (x);\nCREATE TABLE t00001 (x);\n")},
	}
	_, err := s.Up(ctx, db)
	require.ErrorContains(t, err, "t00001")
	require.NotContains(t, tables(t, db), "half")
	require.NoError(t, schema("00001_first").Check(ctx, db))

	_, err = db.ExecContext(ctx, "ALTER TABLE goose_db_version RENAME COLUMN version_id TO other")
	require.NoError(t, err)
	require.ErrorContains(t, s.Check(ctx, db), "version")
	require.NotErrorIs(t, s.Check(ctx, db), sqldb.ErrSchemaOlder)
	_, err = s.Up(ctx, db)
	require.Error(t, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Check(ended, db), context.Canceled)

	s.Files = fstest.MapFS{}
	_, err = s.Up(ctx, db)
	require.ErrorContains(t, err, "migrations")
}
