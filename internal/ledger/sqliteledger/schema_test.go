package sqliteledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// hintOf returns the advice that an error carries.
func hintOf(t *testing.T, err error) string {
	t.Helper()
	var coded *sale.Error
	require.ErrorAs(t, err, &coded)
	return coded.Hint
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a name? with #odd % letters", "ledger.db")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))

	pending, err := sqliteledger.MigrationStatus(t.Context(), path)
	require.NoError(t, err)
	require.NotEmpty(t, pending)
	for _, m := range pending {
		require.Zero(t, m.AppliedAt, "%s", m.Name)
	}
	require.NoFileExists(t, path, "looking creates nothing")

	applied, err := sqliteledger.Migrate(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, applied, len(pending))
	require.Equal(t, "00001_ledger.sql", applied[0].Name)
	status, err := sqliteledger.MigrationStatus(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, applied, status)
	require.NotZero(t, status[0].AppliedAt)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "the file holds the keys of sales")

	again, err := sqliteledger.Migrate(t.Context(), path)
	require.NoError(t, err)
	require.Empty(t, again)
	s, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestOpenRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	_, err := sqliteledger.Open(t.Context(), sqliteledger.Options{Path: filepath.Join(dir, "none.db")})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, hintOf(t, err), "migrate up")
	require.NoFileExists(t, filepath.Join(dir, "none.db"))

	_, err = sqliteledger.Open(t.Context(), sqliteledger.Options{})
	require.ErrorContains(t, err, "path")
	_, err = sqliteledger.Open(t.Context(), sqliteledger.Options{Path: filepath.Join(dir, "x.db"), ReadOnly: true, Migrate: true})
	require.Error(t, err)

	empty := filepath.Join(dir, "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, readOnly := range []bool{false, true} {
		_, err = sqliteledger.Open(t.Context(), sqliteledger.Options{Path: empty, ReadOnly: readOnly})
		require.ErrorIs(t, err, sqldb.ErrSchemaOlder)
		require.Contains(t, hintOf(t, err), "migrate up")
	}

	garbage := filepath.Join(dir, "garbage.db")
	require.NoError(t, os.WriteFile(garbage, make([]byte, 4096), 0o600))
	require.NoError(t, os.WriteFile(garbage, []byte("this is a letter to a friend, not a database, and long enough to be looked at closely"), 0o600))
	for _, o := range []sqliteledger.Options{{Path: garbage}, {Path: garbage, Migrate: true}, {Path: garbage, ReadOnly: true}} {
		_, err = sqliteledger.Open(t.Context(), o)
		require.ErrorContains(t, err, "not a database", "what cannot be read is not taken for a fresh file")
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.open(t).Close())
	w.sql(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)")
	before, err := os.ReadFile(w.path)
	require.NoError(t, err)

	for _, o := range []sqliteledger.Options{{}, {Migrate: true}, {ReadOnly: true}} {
		o.Path = w.path
		_, err = sqliteledger.Open(t.Context(), o)
		require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
		require.ErrorContains(t, err, "99999")
		require.Contains(t, hintOf(t, err), "newer")
	}
	_, err = sqliteledger.Migrate(t.Context(), w.path)
	require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
	_, err = sqliteledger.MigrationStatus(t.Context(), w.path)
	require.ErrorIs(t, err, sqldb.ErrSchemaNewer)
	after, err := os.ReadFile(w.path)
	require.NoError(t, err)
	require.Equal(t, before, after, "a refused database is not touched")
}

// TestOpenAtOnce: several processes, here several stores, meet an empty path.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 8
	stores, errs := make([]*sqliteledger.Store, n), make([]error, n)
	done := make(chan struct{})
	for i := range n {
		go func() {
			stores[i], errs[i] = sqliteledger.Open(t.Context(), w.options())
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	require.NoError(t, errors.Join(errs...))
	// SQLite keeps writers of several stores apart: none is lost, none is busy.
	for i, s := range stores {
		go func() {
			book := ledger.New(s)
			_, errs[i] = book.CreateSale(t.Context(), w.sale(fmt.Sprint("drop-", i), 10))
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	require.NoError(t, errors.Join(errs...))
	numbers, err := stores[0].Read().SaleNumbers(t.Context())
	require.NoError(t, err)
	require.Len(t, numbers, n)
	for _, s := range stores {
		require.NoError(t, s.Close())
	}
}
