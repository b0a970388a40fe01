package settle_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestOverRedisAndPostgres has two processes' worth of workers settle a sale over
// the real stores: a consumer that died, entries that were trimmed, copied and
// forged, cancelled orders and a restock.
func TestOverRedisAndPostgres(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client, err := redisconn.Open(t.Context(), redisconn.Options{URL: server.URL})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	counter, err := redisstock.New(client, redisstock.Options{CallTimeout: 10 * time.Second})
	require.NoError(t, err)
	url := testenv.Postgres(t).URL
	books := make([]ledger.Ledger, 2)
	for i := range books {
		books[i] = openPostgres(t, url)
	}
	s := newShop(t, books[0], counter, 400)
	const tray = "{doorbuster:1.0.0}:tray"

	// Before anybody works: one consumer has died over four entries, of which one
	// was trimmed; one entry has a copy, one is garbage.
	ids := make([]sale.OrderID, 0, 400)
	for range 6 {
		ids = append(ids, s.take(t, 50)...)
	}
	lost := s.take(t, 1)
	held, err := counter.Claim(t.Context(), s.lane(), stock.Claim{Consumer: "dead", Max: 7})
	require.NoError(t, err)
	require.Len(t, held, 7)
	require.Equal(t, "1", server.Must("XDEL", tray, held[6].ID))
	plant := func(fields map[string]string) {
		words := append(make([]string, 0, 3+2*len(fields)), "XADD", tray, "*")
		for name, value := range fields {
			words = append(words, name, value)
		}
		server.Must(words...)
	}
	plant(held[0].Fields)
	forged := maps.Clone(held[1].Fields)
	forged[stock.FieldTerms] = "2"
	plant(forged)
	plant(map[string]string{"garbage": "\x00"})

	seen := []*witness{{}, {}}
	for i, l := range books {
		o := options([]string{"a", "b"}[i], seen[i])
		o.TakeOver = time.Second
		hire(t, l, counter, o)
	}
	ids = append(ids, s.take(t, 49)...)
	eventually := func(what string, ok func() bool) {
		require.Eventually(t, ok, 20*time.Second, 20*time.Millisecond, what)
	}
	ordered := func() bool {
		found, failed := books[0].OrdersByID(t.Context(), ids)
		return failed == nil && len(found) == len(ids)
	}
	eventually("every slip becomes an order", ordered)
	for _, id := range ids[:100] {
		_, err = books[0].Cancel(t.Context(), id, "")
		require.NoError(t, err)
	}
	_, err = books[1].ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 10}})
	require.NoError(t, err)
	// 400 + 10 − 349 + 100, and the unit whose slip was trimmed stays taken.
	eventually("what came back sells again", func() bool {
		at, failed := counter.Read(t.Context(), s.lane())
		return failed == nil && at.Left[0] == 160 && at.Queued == 0
	})
	eventually("the tray ends empty, and nothing is pending", func() bool {
		return server.Must("XLEN", tray) == "0" && len(pending(t, counter, s.lane())) == 0
	})
	found, err := books[0].OrdersByID(t.Context(), append(ids, lost...))
	require.NoError(t, err)
	require.Len(t, found, len(ids))
	for _, id := range ids[100:] {
		require.Equal(t, sale.Reserved, found[id].State)
	}
	letters, err := books[0].ListLetters(t.Context(), ledger.LetterFilter{Sale: s.sale.Number})
	require.NoError(t, err)
	require.Len(t, letters, 51, "fifty forged slips and the garbage")
	for i := range letters {
		require.Nil(t, letters[i].Attempt)
	}
	_, err = settle.NewDeadLetters(books[1]).Drop(t.Context(), letters[0].ID)
	require.NoError(t, err)
	seen[0].note(func() {
		seen[1].note(func() { require.Equal(t, 1, seen[0].trimmed+seen[1].trimmed) })
	})
}

// pending returns what any consumer has claimed and not done.
func pending(t *testing.T, c stock.Counter, l stock.Lane) []stock.Entry {
	t.Helper()
	entries, err := c.TakeOver(t.Context(), l, "auditor", 0, 100)
	require.NoError(t, err)
	return entries
}
