package lab

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// The same demo on the fast path, twice on one database: a demo leaves the sales of
// others alone, takes no account of them, and leaves nothing behind that sells or opens
// anything.
func TestDemoOnTheFastPath(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.RedisURL, o.LedgerURL = testenv.Redis(t).URL, testenv.Postgres(t).URL
	names := make(map[string]bool)
	for range 2 {
		var out bytes.Buffer
		report, err := Demo(t.Context(), o, &out)
		require.NoError(t, err, out.String())
		require.Equal(t, int64(30), report.Units.Paid)
		require.Zero(t, report.Units.Oversold+report.Units.LeftOver)
		require.Len(t, report.Audit.Sales, 1)
		require.Equal(t, report.Sale, report.Audit.Sales[0].Slug)
		require.True(t, strings.HasPrefix(report.Sale, saleID+"-"))
		names[report.Sale] = true
	}
	require.Len(t, names, 2)

	store, err := pgledger.Open(t.Context(), pgledger.Options{URL: o.LedgerURL})
	require.NoError(t, err)
	book := ledger.New(store)
	defer func() { require.NoError(t, book.Close()) }()
	sales, err := book.ListSales(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, sales, 2)
	for i := range sales {
		require.Equal(t, sale.Closed, sales[i].State)
	}
	keys, err := book.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 2)
	for i := range keys {
		require.Contains(t, names, keys[i].Label)
		require.NotZero(t, keys[i].RevokedAt)
	}
}
