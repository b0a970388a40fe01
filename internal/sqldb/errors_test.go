package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

func TestIsConstraint(t *testing.T) {
	t.Parallel()
	db := database(t)
	db.SetMaxOpenConns(1)
	run := func(statement string, args ...any) error {
		_, err := db.ExecContext(t.Context(), statement, args...)
		return err
	}
	require.NoError(t, run("PRAGMA foreign_keys = 1"))
	require.NoError(t, run("CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT"))
	require.NoError(t, run("CREATE TABLE t (x INTEGER NOT NULL UNIQUE CHECK (x > 0), p INTEGER REFERENCES parent (id)) STRICT"))
	require.NoError(t, run("CREATE TRIGGER no BEFORE INSERT ON t WHEN new.x = 7 BEGIN SELECT raise(ABORT, 'no'); END"))
	require.NoError(t, run("INSERT INTO t (x) VALUES (1)"))
	for _, refused := range []error{
		run("INSERT INTO t (x) VALUES (0)"),
		run("INSERT INTO t (x) VALUES (1)"),
		run("INSERT INTO t (x) VALUES (NULL)"),
		run("INSERT INTO t (x) VALUES ('one')"),
		run("INSERT INTO t (x) VALUES (7)"),
		run("INSERT INTO t (x, p) VALUES (2, 9)"),
		run("INSERT INTO parent (id) VALUES ('one')"),
	} {
		require.Error(t, refused)
		require.True(t, sqldb.IsConstraint(fmt.Errorf("wrapped: %w", refused)), "%v", refused)
		require.False(t, sqldb.IsBusy(refused))
	}
	for _, trouble := range []error{
		nil, errors.New("constraint"), context.Canceled, sql.ErrNoRows,
		run("SELECT nothing"), run("INSERT INTO missing VALUES (1)"), run("ROLLBACK"),
	} {
		require.False(t, sqldb.IsConstraint(trouble), "%v", trouble)
		require.False(t, sqldb.IsBusy(trouble), "%v", trouble)
	}
}

func TestIsBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	one, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	require.NoError(t, err)
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(one.Close(), other.Close())) })
	tx, err := one.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = other.BeginTx(t.Context(), nil)
	require.True(t, sqldb.IsBusy(err), "%v", err)
	require.False(t, sqldb.IsConstraint(err))
	require.ErrorContains(t, err, "locked")
	require.NoError(t, tx.Rollback())
}

func TestStates(t *testing.T) {
	t.Parallel()
	answer := func(state string) error { return fmt.Errorf("insert: %w", &pgconn.PgError{Code: state}) }
	for _, state := range []string{"23505", "23514", "22021", "22003", "P0001", "21000", "54000"} {
		require.True(t, sqldb.IsConstraint(answer(state)), state)
		require.False(t, sqldb.IsConflict(answer(state)), state)
	}
	for _, state := range []string{"40001", "40P01"} {
		require.True(t, sqldb.IsConflict(answer(state)), state)
		require.False(t, sqldb.IsConstraint(answer(state)), state)
	}
	for _, state := range []string{"55P03", "57014", "57P01", "53100", "25006", "42P01", "08006", ""} {
		require.False(t, sqldb.IsConstraint(answer(state)), state)
		require.False(t, sqldb.IsConflict(answer(state)), state)
		require.Equal(t, state == "55P03", sqldb.IsBusy(answer(state)), state)
		require.Equal(t, state == "25006", sqldb.IsReadOnly(answer(state)), state)
	}
	require.Empty(t, sqldb.State(sql.ErrNoRows))
}
