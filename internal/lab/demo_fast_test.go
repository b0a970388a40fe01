package lab

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

// The same demo on the fast path, twice on one database: a demo leaves the sales of
// others alone, and takes no account of them.
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
}
