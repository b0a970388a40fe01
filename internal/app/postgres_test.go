package app

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sqldb"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// On PostgreSQL a URL is opened like a file, but several may own it.
func TestLedgerOnPostgres(t *testing.T) {
	t.Parallel()
	url, log := testenv.Postgres(t).URL, slog.New(slog.DiscardHandler)
	open := func(access Access) *Book {
		b, err := OpenLedger(t.Context(), url, access, log)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	pending, err := LedgerMigrations(t.Context(), url)
	require.NoError(t, err)
	require.NotEmpty(t, pending)
	require.Zero(t, pending[0].AppliedAt)
	for _, access := range []Access{Look, Touch} {
		_, err = OpenLedger(t.Context(), url, access, log)
		require.ErrorIs(t, err, sqldb.ErrSchemaOlder, "%s creates nothing", access)
	}
	applied, err := MigrateLedger(t.Context(), url)
	require.NoError(t, err)
	require.Len(t, applied, len(pending))

	one, two := open(Own), open(Own)
	require.NoError(t, one.PutAPIKey(t.Context(), ledger.APIKey{ID: "one"}))
	require.NoError(t, open(Touch).PutAPIKey(t.Context(), ledger.APIKey{ID: "two"}))
	keys, err := two.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.ErrorIs(t, open(Look).PutAPIKey(t.Context(), ledger.APIKey{ID: "three"}), pgledger.ErrReadOnly)
}
