package ledgertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// saleCases: a sale from draft to deleted.
func saleCases() []testCase {
	return []testCase{
		{name: "Sale/created as a draft", run: saleCreated},
		{name: "Sale/a slug is taken once", run: saleSlug},
		{name: "Sale/bad sales are refused whole", run: saleBad},
		{name: "Sale/every act in every state", run: saleMatrix},
		{name: "Sale/a stale version is refused", run: saleVersion},
		{name: "Sale/deleted while holds wait", run: saleDeleteHeld},
		{name: "Sale/deleted while orders may be queued", run: saleDeleteQueued},
		{name: "Sale/created again under the same slug", run: saleAgain},
		{name: "Sale/one change of many at once", run: saleRace},
	}
}

func saleCreated(t *testing.T, w *world) {
	in := w.basic(t)
	in.Number, in.State, in.Version, in.Terms, in.Epoch, in.Path = 99, sale.Closed, 7, 7, 7, sale.PathFast
	in.BuildToken, in.BuildAt, in.Salts = 7, in.StartsAt, []uint32{7}
	in.Items[0].Sold = 3
	s, err := w.ledger.CreateSale(t.Context(), in)
	require.NoError(t, err)
	want := in
	want.Number, want.State, want.Version, want.Terms, want.Epoch, want.Path = s.Number, sale.Draft, 1, 1, 1, sale.PathDirect
	want.Preferred, want.BuildToken, want.BuildAt, want.Salts = sale.PathDirect, 0, time.Time{}, nil
	want.Items = []sale.Item{{SKU: "shoe-42", Title: "Shoe", Stock: 10, Price: 1250}}
	want.Key, want.CreatedAt, want.UpdatedAt = s.Key, w.now(t), w.now(t)
	require.Equal(t, want, s)
	require.NotZero(t, s.Number)
	require.NotZero(t, s.Key)
	require.Equal(t, int64(3), in.Items[0].Sold, "the caller's sale is left alone")
	for _, read := range []func() (sale.Sale, error){
		func() (sale.Sale, error) { return w.ledger.Sale(t.Context(), s.Slug) },
		func() (sale.Sale, error) { return w.ledger.SaleByNumber(t.Context(), s.Number) },
	} {
		found, readErr := read()
		require.NoError(t, readErr)
		require.Equal(t, s, found)
	}
	other := w.draft(t, nil)
	require.Greater(t, other.Number, s.Number)
	require.NotEqual(t, s.Key, other.Key)
	_, err = w.ledger.Sale(t.Context(), "nothing-here")
	requireCode(t, sale.CodeSaleNotFound, err)
	_, err = w.ledger.SaleByNumber(t.Context(), 12345)
	requireCode(t, sale.CodeSaleNotFound, err)
	_, err = w.ledger.ChangeSale(t.Context(), "nothing-here", 0, sale.Change{Action: sale.ActionPublish})
	requireCode(t, sale.CodeSaleNotFound, err)
}

func saleSlug(t *testing.T, w *world) {
	in := w.basic(t)
	var made atomic.Int64
	together(t, 8, func(ctx context.Context, _ int) error {
		_, err := w.ledger.CreateSale(ctx, in)
		if err == nil {
			made.Add(1)
		}
		return allowed(err, sale.CodeSaleExists)
	})
	require.Equal(t, int64(1), made.Load())
	_, err := w.ledger.CreateSale(t.Context(), in)
	requireCode(t, sale.CodeSaleExists, err)
	all, err := w.ledger.ListSales(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func saleBad(t *testing.T, w *world) {
	for _, edit := range []func(*sale.Sale){
		func(s *sale.Sale) { s.Slug = "Upper" },
		func(s *sale.Sale) { s.Items = nil },
		func(s *sale.Sale) { s.Items = append(s.Items, s.Items[0]) },
		func(s *sale.Sale) { s.Items[0].Stock = -1 },
		func(s *sale.Sale) { s.Items[0].Stock = sale.MaxInteger + 1 },
		func(s *sale.Sale) { s.Items[0].Price = sale.MaxInteger },
		func(s *sale.Sale) { s.PerUserLimit = 0 },
		func(s *sale.Sale) { s.EndsAt = s.StartsAt },
		func(s *sale.Sale) { s.EndsAt = s.StartsAt.Add(999 * time.Microsecond) },
		func(s *sale.Sale) { s.StartsAt = time.Time{} },
	} {
		in := w.basic(t)
		edit(&in)
		_, refused := w.ledger.CreateSale(t.Context(), in)
		requireCode(t, sale.CodeInvalid, refused)
	}
	all, err := w.ledger.ListSales(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, all)

	s := w.open(t, nil)
	rows := w.rowsOf(t, s)
	for _, p := range []sale.Patch{
		{EndsAt: new(s.StartsAt)},
		{EndsAt: new(time.Time{})},
		{StartsAt: new(time.UnixMilli(0))},
		{PerUserLimit: new(int64(0))},
		{PerUserLimit: new(int64(sale.MaxPerUserLimit + 1))},
		{Hold: new(time.Duration(0))},
		{Currency: new("euro")},
		{LimitRule: new(sale.LimitRule("never"))},
		{Items: []sale.ItemPatch{{SKU: "shoe-42", Price: new(int64(-1))}}},
		{Title: new("a\nb")},
	} {
		_, refused := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: p})
		requireCode(t, sale.CodeInvalid, refused)
	}
	_, err = w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Items: []sale.ItemPatch{{SKU: "boot"}}}})
	requireCode(t, sale.CodeItemNotFound, err)
	require.Equal(t, s, w.read(t, s))
	require.Equal(t, rows, w.rowsOf(t, s))
}

func saleMatrix(t *testing.T, w *world) {
	reach := map[sale.State][]sale.Action{
		sale.Draft:     nil,
		sale.Published: {sale.ActionPublish},
		sale.Paused:    {sale.ActionPublish, sale.ActionPause},
		sale.Closed:    {sale.ActionPublish, sale.ActionClose},
	}
	legal := map[sale.State]map[sale.Action]sale.State{
		sale.Draft:     {sale.ActionUpdate: sale.Draft, sale.ActionRestock: sale.Draft, sale.ActionPublish: sale.Published, sale.ActionDelete: sale.Deleted},
		sale.Published: {sale.ActionUpdate: sale.Published, sale.ActionRestock: sale.Published, sale.ActionPause: sale.Paused, sale.ActionClose: sale.Closed},
		sale.Paused:    {sale.ActionUpdate: sale.Paused, sale.ActionRestock: sale.Paused, sale.ActionResume: sale.Published, sale.ActionClose: sale.Closed},
		sale.Closed:    {sale.ActionDelete: sale.Deleted},
	}
	for from, path := range reach {
		for _, act := range []sale.Action{
			sale.ActionUpdate, sale.ActionPublish, sale.ActionPause, sale.ActionResume, sale.ActionClose,
			sale.ActionRestock, sale.ActionDelete, sale.ActionCreate, "unheard",
		} {
			s := w.draft(t, nil)
			for _, a := range path {
				s = w.act(t, s, a)
			}
			w.Advance(time.Second)
			before := w.rowsOf(t, s)
			after, err := w.ledger.ChangeSale(t.Context(), s.Slug, s.Version, sale.Change{Action: act, Patch: sale.Patch{Title: new("New")}})
			to, ok := legal[from][act]
			if !ok {
				require.Error(t, err, "%s a %s sale", act, from)
				require.Equal(t, s, w.read(t, s))
				require.Equal(t, before, w.rowsOf(t, s))
				continue
			}
			require.NoError(t, err, "%s a %s sale", act, from)
			require.Equal(t, to, after.State)
			require.Equal(t, s.Version+1, after.Version)
			require.Equal(t, w.now(t), after.UpdatedAt)
			require.Equal(t, s.CreatedAt, after.CreatedAt)
			require.Equal(t, after, w.read(t, s))
			require.Equal(t, []ledger.Kind{ledger.SaleKind(act)}, w.kinds(t, s, len(before)))
		}
	}
}

func saleVersion(t *testing.T, w *world) {
	s := w.open(t, nil)
	stale := s.Version
	w.take(t, s, "ann", "k", 2)
	require.Equal(t, stale, w.read(t, s).Version, "buying is no change of the sale")
	s = w.restock(t, s, 5)
	for _, c := range []sale.Change{
		{Action: sale.ActionUpdate, Patch: sale.Patch{Title: new("stale")}},
		{Action: sale.ActionRestock, Restock: sale.Restock{Total: new(int64(100))}},
		{Action: sale.ActionPause},
		{Action: sale.ActionDelete},
	} {
		for _, version := range []int64{stale, s.Version + 1, -1} {
			_, err := w.ledger.ChangeSale(t.Context(), s.Slug, version, c)
			requireCode(t, sale.CodeVersionMismatch, err)
		}
	}
	require.Equal(t, int64(13), w.left(t, s))
	after, err := w.ledger.ChangeSale(t.Context(), s.Slug, s.Version, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Title: new("fresh")}})
	require.NoError(t, err)
	require.Equal(t, int64(13), w.left(t, after), "a form says nothing about stock")
	require.Equal(t, int64(2), after.Items[0].Sold)
}

// saleDeleteQueued: nobody judges what is queued in a sale that was put away.
func saleDeleteQueued(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	remove := sale.Change{Action: sale.ActionDelete}
	_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, remove)
	requireCode(t, sale.CodeIllegalState, err)
	require.ErrorContains(t, err, "published", "that comes first")
	s = w.act(t, s, sale.ActionClose)
	_, err = w.ledger.ChangeSale(t.Context(), s.Slug, 0, remove)
	requireCode(t, sale.CodeIllegalState, err)
	require.ErrorContains(t, err, "queued")
	require.Equal(t, s, w.read(t, s))
	require.Equal(t, sale.Deleted, w.act(t, w.direct(t, s), sale.ActionDelete).State)
}

func saleDeleteHeld(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	w.pay(t, w.take(t, s, "bob", "k", 1), "p")
	s = w.act(t, s, sale.ActionClose)
	_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionDelete})
	requireCode(t, sale.CodeIllegalState, err)
	require.Equal(t, s, w.read(t, s))
	w.lapse(t, o)
	gone := w.act(t, s, sale.ActionDelete)
	require.Equal(t, sale.Deleted, gone.State)
	_, err = w.ledger.Sale(t.Context(), s.Slug)
	requireCode(t, sale.CodeSaleNotFound, err)
	_, err = w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
	requireCode(t, sale.CodeSaleNotFound, err)
	all, err := w.ledger.ListSales(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, gone, w.read(t, s), "its rows stay, for audits")
	require.Equal(t, sale.Expired, w.order(t, o.ID).State)
}

// saleAgain: nothing of a deleted sale can touch its successor.
func saleAgain(t *testing.T, w *world) {
	olds := make([]sale.Sale, 0, 3)
	for range 3 {
		s := w.open(t, func(s *sale.Sale) {
			s.PerUserLimit, s.MaxUnpaidHolds = 1, 1
			if len(olds) > 0 {
				s.Slug = olds[0].Slug
			}
		})
		for _, old := range olds {
			require.NotEqual(t, old.Number, s.Number, "numbers are never used again")
			dead, paid := old.OrderID("ann", "k"), old.OrderID("bob", "k")
			_, err := w.ledger.Cancel(t.Context(), dead, "ann")
			requireCode(t, sale.CodeIllegalState, err)
			n, err := w.ledger.Expire(t.Context(), []sale.OrderID{dead, paid})
			require.NoError(t, err)
			require.Zero(t, n)
			late := charge(w.order(t, dead), fmt.Sprint("late-", old.Number))
			require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, late).Outcome)
			require.Equal(t, int64(10), w.left(t, s))
			require.Len(t, w.rowsOf(t, s), 2)
		}
		held := w.take(t, s, "ann", "k", 1) // with a fresh limit and no cool-down
		w.pay(t, w.take(t, s, "bob", "k", 1), fmt.Sprint("p-", s.Number))
		w.lapse(t, held)
		w.act(t, w.act(t, s, sale.ActionClose), sale.ActionDelete)
		olds = append(olds, s)
	}
}

func saleRace(t *testing.T, w *world) {
	s := w.open(t, nil)
	var won atomic.Int64
	together(t, 8, func(ctx context.Context, i int) error {
		_, err := w.ledger.ChangeSale(ctx, s.Slug, s.Version, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Title: new(fmt.Sprint("by ", i))}})
		if err == nil {
			won.Add(1)
		}
		return allowed(err, sale.CodeVersionMismatch)
	})
	require.Equal(t, int64(1), won.Load())
	require.Equal(t, s.Version+1, w.read(t, s).Version)
}

// stockCases: restock and cut.
func stockCases() []testCase {
	return []testCase{
		{name: "Stock/more sells again", run: stockMore},
		{name: "Stock/a cut never goes below what is sold", run: stockCut},
		{name: "Stock/one item of several", run: stockItem},
	}
}

func stockMore(t *testing.T, w *world) {
	s := w.open(t, stock(1))
	w.take(t, s, "ann", "k", 1)
	w.refuse(t, s, click(s, "bob", "k", 1), sale.SoldOut)
	s = w.restock(t, s, 2)
	require.Equal(t, int64(3), s.Items[0].Stock)
	require.Equal(t, int64(1), s.Items[0].Sold)
	require.Equal(t, int64(1), s.Terms)
	r := w.try(t, s, click(s, "bob", "k", 1))
	require.Equal(t, sale.Taken, r.Verdict)
	require.Equal(t, int64(1), r.Left)
	s = w.change(t, s, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "shoe-42", Total: new(int64(7))}})
	require.Equal(t, int64(5), w.left(t, s), "a total counts what is sold")
}

func stockCut(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 2)
	w.pay(t, w.take(t, s, "bob", "k", 2), "p")
	rows := w.rowsOf(t, s)
	for _, cut := range []sale.Restock{{Add: -7}, {Total: new(int64(3))}, {Total: new(int64(0))}} {
		_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: cut})
		requireCode(t, sale.CodeStockBelowSold, err)
	}
	for _, cut := range []sale.Restock{{Add: -11}, {Total: new(int64(-1))}, {Total: new(int64(sale.MaxInteger + 1))}} {
		_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: cut})
		requireCode(t, sale.CodeInvalid, err)
	}
	require.Equal(t, rows, w.rowsOf(t, s))
	s = w.restock(t, s, -6)
	require.Zero(t, w.left(t, s))
	w.refuse(t, s, click(s, "cid", "k", 1), sale.SoldOut)
	w.cancel(t, o)
	w.take(t, s, "cid", "k", 2)
}

func stockItem(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items = append(s.Items, sale.Item{SKU: "shoe-43", Stock: 1, Price: 1}) })
	_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
	requireCode(t, sale.CodeItemNotFound, err)
	s = w.change(t, s, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "shoe-43", Add: 4}})
	require.Equal(t, []int64{10, 5}, []int64{s.Items[0].Stock, s.Items[1].Stock})
	require.Equal(t, s, w.read(t, s))
}
