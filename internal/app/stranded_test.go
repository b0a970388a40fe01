package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Redis is gone for good, and the server is started without it: it says that it cannot
// sell what was on the fast path, and an operator can bring that to the direct path.
func TestServerWithoutTheRedisOfItsSales(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := load(t, dir)
	book, err := OpenLedger(t.Context(), cfg.Ledger.URL, Own, nil)
	require.NoError(t, err)
	now, err := book.Now(t.Context())
	require.NoError(t, err)
	_, err = book.CreateSale(t.Context(), sale.Sale{
		Slug: "drop", Items: []sale.Item{{SKU: "shoe", Stock: 5, Price: 100}},
		Rules: sale.Rules{StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Minute, Currency: "EUR", Preferred: sale.PathFast},
	})
	require.NoError(t, err)
	s, err := book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	b, err := book.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	_, err = book.FinishBuild(t.Context(), ledger.Finish{Build: b, Salts: []uint32{7}, Load: func(context.Context, ledger.Present) error { return nil }})
	require.NoError(t, err)
	require.NoError(t, book.Close())

	stop := start(t, cfg)
	require.Equal(t, http.StatusServiceUnavailable, get(t, dir, OpsAddressFile, "/readyz"))
	read := func(file string) string {
		text, readErr := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, readErr)
		return strings.TrimSpace(string(text))
	}
	admin, err := client.New(client.Options{URL: "http://" + read(APIAddressFile), Token: read(AdminKeyFile), Retry: client.Retry{Tries: 1}})
	require.NoError(t, err)
	buy := func() error {
		_, buyErr := admin.Buy(t.Context(), "drop", "k", client.Attempt{Quantity: 1, OnBehalfOf: "ann"})
		return buyErr
	}
	require.ErrorIs(t, buy(), client.ErrUnavailable)
	_, err = admin.SetPath(t.Context(), "drop", 0, "fast")
	require.ErrorContains(t, err, "no fast path")
	_, err = admin.Preheat(t.Context(), "drop")
	require.ErrorContains(t, err, "no fast path")
	moved, err := admin.SetPath(t.Context(), "drop", 0, "direct")
	require.NoError(t, err)
	require.Equal(t, "direct", moved.Path)
	require.NoError(t, buy())
	_, err = admin.SetPath(t.Context(), "drop", 0, "direct")
	require.NoError(t, err, "once more")
	require.Eventually(t, func() bool { return get(t, dir, OpsAddressFile, "/readyz") == http.StatusOK }, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, stop())
}
