package sqliteledger_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
)

func TestLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock, err := sqliteledger.Lock(w.path)
	require.NoError(t, err)

	_, err = sqliteledger.Lock(w.path)
	require.ErrorIs(t, err, sqliteledger.ErrLocked)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	require.Contains(t, hintOf(t, err), "ledger.url")
	_, err = sqliteledger.Migrate(t.Context(), w.path)
	require.ErrorIs(t, err, sqliteledger.ErrLocked, "no schema changes under a server")

	s := w.open(t) // opening is another matter: the holder does, and audits may
	require.NoError(t, s.Close())
	require.NoError(t, lock.Unlock())
	require.ErrorIs(t, lock.Unlock(), os.ErrClosed)

	// A file that is left behind locks nothing.
	require.FileExists(t, w.path+".lock")
	lock, err = sqliteledger.Lock(w.path)
	require.NoError(t, err)
	require.NoError(t, lock.Unlock())

	_, err = sqliteledger.Lock(t.TempDir() + "/no/such/folder/ledger.db")
	require.ErrorIs(t, err, os.ErrNotExist)
}
