package sqliteledger_test

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// FuzzLetter: whatever a slip was, it finds a place and is read as it was found;
// and whatever became of its order, no unit is lost.
func FuzzLetter(f *testing.F) {
	w := newWorld(f)
	book := ledger.New(w.open(f))
	f.Cleanup(func() { require.NoError(f, book.Close()) })
	s := w.publish(f, book, "drop", 1000)
	n := uint64(0)
	for _, raw := range []string{"", "\x00", "\xff\xfe", "'; DROP TABLE dead_letters; --", "v\x01", "ｊｏ\u2028"} {
		f.Add([]byte(raw), raw, raw, int64(1), int64(-1), true)
		f.Add([]byte(raw), "ann", "shoe", int64(0), int64(1)<<62, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, user, sku string, quantity, terms int64, presented bool) {
		n++
		id := sha256.Sum256([]byte{byte(n >> 16), byte(n >> 8), byte(n)}) //nolint:gosec // one byte at a time
		a := &ledger.Attempt{
			ID: s.OrderID(user, string(id[:])), User: user, SKU: sku, Quantity: quantity,
			Slip: &ledger.Slip{Epoch: quantity, Terms: terms, TakenAt: w.now().UTC(), Presented: presented},
		}
		l := ledger.Letter{ID: ledger.LetterID(id[:16]), Place: user, Cause: sku, Raw: raw, Attempt: a}
		before, err := book.SaleByNumber(t.Context(), s.Number)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, book.Park(t.Context(), s.Number, []ledger.Letter{l}))
		}
		kept, err := book.Letter(t.Context(), l.ID)
		require.NoError(t, err)
		l.Sale, l.State, l.ParkedAt = s.Number, ledger.LetterOpen, w.now().UTC()
		l.Raw = append([]byte(nil), raw[:min(len(raw), ledger.MaxRaw)]...)
		l.Attempt.Slip.Presented = true
		require.Equal(t, l, kept)
		o, err := book.Order(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, sale.Rejected, o.State)
		require.Equal(t, user, o.User)
		after, err := book.SaleByNumber(t.Context(), s.Number)
		require.NoError(t, err)
		require.Equal(t, before, after)
		out, err := book.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Attempts: []ledger.Attempt{*a}})
		require.NoError(t, err)
		require.True(t, out.Results[0].Err != nil || out.Results[0].Order.State == sale.Rejected || out.Results[0].Verdict == sale.Taken, "%+v", out.Results[0])
	})
}
