package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// listCases: listings without gaps or duplicates.
func listCases() []testCase {
	return []testCase{
		{name: "List/orders, newest first", run: listOrders},
		{name: "List/orders by sale, user and state", run: listFiltered},
		{name: "List/new orders do not shift a page", run: listShifted},
		{name: "List/sales", run: listSales},
		{name: "List/refunds", run: listRefunds},
		{name: "List/buyers", run: listBuyers},
	}
}

// pages lists orders page by page to the end.
func (w *world) pages(t *testing.T, f ledger.OrderFilter) []sale.Order {
	t.Helper()
	var out []sale.Order
	for {
		page, err := w.ledger.ListOrders(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), f.Limit)
		out = append(out, page...)
		if len(page) < f.Limit {
			return out
		}
		last := page[len(page)-1]
		f.Before = ledger.Cursor{At: last.ReservedAt, ID: last.ID}
	}
}

// crowd makes orders of several instants, several to an instant.
func (w *world) crowd(t *testing.T, s sale.Sale) []sale.Order {
	t.Helper()
	all := make([]sale.Order, 0, 25)
	for i := range 5 {
		for j := range 5 {
			all = append(all, w.take(t, s, fmt.Sprint("user-", j), strconv.Itoa(i), 1))
		}
		w.Advance(time.Millisecond)
	}
	slices.SortFunc(all, func(a, b sale.Order) int {
		if c := b.ReservedAt.Compare(a.ReservedAt); c != 0 {
			return c
		}
		return bytes.Compare(b.ID[:], a.ID[:])
	})
	return all
}

func roomy(s *sale.Sale) { s.Items[0].Stock, s.PerUserLimit = 1000, 100 }

func listOrders(t *testing.T, w *world) {
	empty, err := w.ledger.ListOrders(t.Context(), ledger.OrderFilter{})
	require.NoError(t, err)
	require.Empty(t, empty)
	all := w.crowd(t, w.open(t, roomy))
	for _, size := range []int{1, 3, 5, 25, 1000} {
		require.Equal(t, all, w.pages(t, ledger.OrderFilter{Limit: size}), "pages of %d", size)
	}
	page, err := w.ledger.ListOrders(t.Context(), ledger.OrderFilter{})
	require.NoError(t, err)
	require.Equal(t, all, page)
}

func listFiltered(t *testing.T, w *world) {
	s, other := w.open(t, roomy), w.open(t, roomy)
	all := append(w.crowd(t, other), w.crowd(t, s)...)
	for i := range all {
		switch i % 3 {
		case 0:
			all[i] = w.cancel(t, all[i])
		case 1:
			all[i] = w.pay(t, all[i], fmt.Sprint("p-", i))
		}
	}
	for _, f := range []ledger.OrderFilter{
		{},
		{Sale: s.Number},
		{User: "user-3"},
		{State: sale.Paid},
		{Sale: other.Number, User: "user-1"},
		{Sale: s.Number, State: sale.Reserved},
		{User: "user-2", State: sale.Cancelled},
		{Sale: s.Number, User: "user-0", State: sale.Paid},
		{Sale: 99},
		{User: "USER-3"},
		{State: sale.Refunded},
	} {
		var want []sale.Order
		for _, o := range all {
			if (f.Sale == 0 || o.ID.Sale() == f.Sale) && (f.User == "" || o.User == f.User) && (f.State == "" || o.State == f.State) {
				want = append(want, o)
			}
		}
		slices.SortFunc(want, newest)
		f.Limit = 4
		require.Equal(t, want, w.pages(t, f), "%+v", f)
	}
	reserved := func(n sale.Number) bool {
		yes, err := w.ledger.AnyReserved(t.Context(), n)
		require.NoError(t, err)
		return yes
	}
	require.True(t, reserved(s.Number))
	require.True(t, reserved(other.Number))
	require.False(t, reserved(99))
	for _, o := range all {
		if o.ID.Sale() == s.Number && o.State == sale.Reserved {
			w.cancel(t, o)
		}
	}
	require.False(t, reserved(s.Number))
	require.True(t, reserved(other.Number), "one sale at a time")
}

func listShifted(t *testing.T, w *world) {
	s := w.open(t, roomy)
	all := w.crowd(t, s)
	f := ledger.OrderFilter{Sale: s.Number, Limit: 4}
	var got []sale.Order
	for i := 0; ; i++ {
		page, err := w.ledger.ListOrders(t.Context(), f)
		require.NoError(t, err)
		got = append(got, page...)
		if len(page) == 0 {
			break
		}
		last := page[len(page)-1]
		f.Before = ledger.Cursor{At: last.ReservedAt, ID: last.ID}
		w.take(t, s, "intruder", strconv.Itoa(i), 1)
	}
	require.Equal(t, all, got)
}

func listSales(t *testing.T, w *world) {
	var all []sale.Sale
	for range 7 {
		all = append(all, w.draft(t, nil))
	}
	w.act(t, all[2], sale.ActionDelete)
	all = slices.Delete(all, 2, 3)
	all[3] = w.act(t, all[3], sale.ActionPublish)
	for _, size := range []int{1, 2, 100} {
		var got []sale.Sale
		for after := sale.Number(0); ; {
			page, err := w.ledger.ListSales(t.Context(), after, size)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].Number
		}
		require.Equal(t, all, got)
	}
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		numbers, err := r.SaleNumbers(t.Context())
		require.Len(t, numbers, 7, "deleted ones included")
		require.True(t, slices.IsSorted(numbers))
		return err
	}))
}

func listRefunds(t *testing.T, w *world) {
	s := w.open(t, roomy)
	want := make([]sale.RefundID, 0, 9)
	for i := range 9 {
		id := fmt.Sprint("p-", i)
		w.refund(t, w.pay(t, w.take(t, s, "ann", id, 1), id), true)
		want = append(want, sale.DeriveRefundID(id))
		if i%4 == 3 {
			w.Advance(time.Millisecond)
		}
	}
	var err error
	for _, i := range []int{1, 5, 6} {
		_, err = w.ledger.RefundDone(t.Context(), want[i])
		require.NoError(t, err)
	}
	open := []sale.RefundID{want[0], want[2], want[3], want[4], want[7], want[8]}
	for state, want := range map[sale.RefundState][]sale.RefundID{"": want, sale.RefundRequired: open, sale.RefundDone: {want[1], want[5], want[6]}} {
		for _, size := range []int{1, 2, 100} {
			var got []sale.RefundID
			f := ledger.RefundFilter{State: state, Limit: size}
			for {
				page, listErr := w.ledger.ListRefunds(t.Context(), f)
				require.NoError(t, listErr)
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					got = append(got, r.ID)
				}
				f.After = got[len(got)-1]
			}
			require.Equal(t, want, got, "%q in pages of %d", state, size)
		}
	}
	// A record that was done meanwhile still marks its place in the open ones.
	page, err := w.ledger.ListRefunds(t.Context(), ledger.RefundFilter{State: sale.RefundRequired, After: want[5]})
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Equal(t, want[7], page[0].ID)
}

func listBuyers(t *testing.T, w *world) {
	s, other := w.open(t, roomy), w.open(t, roomy)
	w.cancel(t, w.take(t, s, "ann", "1", 1))
	w.take(t, s, "ann", "2", 1)
	w.take(t, s, "bob", "1", 1)
	w.take(t, other, "cid", "1", 1)
	w.refuse(t, s, click(s, "dan", "1", 0), sale.BadQuantity)
	got, err := w.ledger.Buyers(t.Context(), s.Number)
	require.NoError(t, err)
	require.ElementsMatch(t, []uint64{sale.UserHash("ann"), sale.UserHash("bob")}, got)
}

// keyCases: API keys.
func keyCases() []testCase {
	return []testCase{{name: "Keys/put, read, revoke", run: keysKept}}
}

func keysKept(t *testing.T, w *world) {
	_, err := w.ledger.APIKey(t.Context(), "a")
	requireCode(t, sale.CodeKeyNotFound, err)
	requireCode(t, sale.CodeKeyNotFound, w.ledger.RevokeAPIKey(t.Context(), "a"))
	a := ledger.APIKey{ID: "a", Hash: [32]byte{1, 2, 255}, Scopes: []string{"shop", "admin"}, Label: "till <1>"}
	b := ledger.APIKey{ID: "b", Hash: [32]byte{9}, Scopes: []string{"ops"}, CreatedAt: w.now(t).Add(-time.Hour)}
	require.NoError(t, w.ledger.PutAPIKey(t.Context(), a))
	require.NoError(t, w.ledger.PutAPIKey(t.Context(), b))
	a.CreatedAt = w.now(t)
	w.Advance(time.Second)
	require.NoError(t, w.ledger.RevokeAPIKey(t.Context(), "b"))
	b.RevokedAt = w.now(t)
	w.Advance(time.Second)
	require.NoError(t, w.ledger.RevokeAPIKey(t.Context(), "b"), "revoked once, and for good")
	w.reopen(t)
	for _, want := range []ledger.APIKey{a, b} {
		got, readErr := w.ledger.APIKey(t.Context(), want.ID)
		require.NoError(t, readErr)
		require.Equal(t, want, got)
	}
	all, err := w.ledger.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []ledger.APIKey{a, b}, all)
}
