package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
)

// The same life over SQLite: audited, spoiled, repaired, exported.
func TestSQLite(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC).UnixMilli())
	store, err := sqliteledger.Open(t.Context(), sqliteledger.Options{
		Path: filepath.Join(t.TempDir(), "ledger.db"), Migrate: true,
		Clock: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := newShopOver(t, store, func(d time.Duration) { clock.Add(d.Milliseconds()) })
	s.tell(t)
	s.live(t, rand.New(rand.NewPCG(3, 7)), 150)

	report, err := Run(t.Context(), store, Options{})
	require.NoError(t, err)
	require.Empty(t, brokenRules(&report.Sales[0]), "%s", text(t, &report))
	var file bytes.Buffer
	done, err := Export(t.Context(), store, s.sale.Number, &file)
	require.NoError(t, err)
	offline, err := Verify(t.Context(), &file, VerifyOptions{Head: done.Head})
	require.NoError(t, err)
	require.False(t, offline.Broken())

	healthy := s.capture(t)
	s.spoil(t, ledger.Changes{Sold: []int64{0, -1}, Holders: []ledger.Holder{{User: "bob", Live: 0, Cap: 2}}})
	report, err = Run(t.Context(), store, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"P2.counter", "P3.holders"}, brokenRules(&report.Sales[0]))
	repaired, err := Repair(t.Context(), store, Options{})
	require.NoError(t, err)
	require.Len(t, repaired.Sales, 1)
	require.Equal(t, 1, repaired.Sales[0].Holders, fmt.Sprint(repaired))
	report, err = Run(t.Context(), store, Options{})
	require.NoError(t, err)
	require.False(t, report.Broken(), "%s", text(t, &report))
	after := s.capture(t)
	require.Equal(t, healthy.facts.sold, after.facts.sold)
	require.Equal(t, healthy.orders, after.orders)
	require.Equal(t, healthy.entries, after.entries)
}
