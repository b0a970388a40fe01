package cases_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func orderFilter(n sale.Number, state sale.OrderState) ledger.OrderFilter {
	return ledger.OrderFilter{Sale: n, State: state, Limit: 1000}
}

// The accident: saving a form that was read minutes ago, or a feed from the
// warehouse, puts back the stock figure of then.
// The right outcome: other fields leave stock alone; a new total is judged
// against what is held; a stale write is refused. In the end the stock is the
// last total that was accepted.
func TestC10StockEditDoesNotEraseSales(t *testing.T) {
	t.Parallel()
	t.Run("form", func(t *testing.T) {
		t.Parallel()
		onBoth(t, savedForm)
	})
	t.Run("feed", func(t *testing.T) {
		t.Parallel()
		onBoth(t, feedInACrowd)
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.open(100, 1)
		var mu sync.Mutex
		accepted := make(map[int64]int64) // total by version
		change := func(i int) {
			r := sale.Restock{Add: int64(i%7 - 3)}
			version := int64(0)
			if i%2 == 0 { // a total, made for what was seen
				seen, err := s.book.Sale(t.Context(), drop)
				if err != nil {
					return
				}
				r, version = sale.Restock{Total: new(seen.Items[0].Stock + int64(i%5) - 2)}, seen.Version
			}
			after, err := s.ChangeSale(t.Context(), drop, version, sale.Change{Action: sale.ActionRestock, Restock: r})
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			accepted[after.Version] = after.Items[0].Stock
		}
		crowd(550, func(i int) reply {
			if i%11 == 10 {
				change(i)
				return reply{}
			}
			return s.try(name("u", i), "k", 1)
		})
		require.NotEmpty(t, accepted)
		now := s.sale()
		versions := make([]int64, 0, len(accepted))
		for v := range accepted {
			versions = append(versions, v)
		}
		require.Equal(t, now.Version, slices.Max(versions))
		require.Equal(t, accepted[now.Version], now.Items[0].Stock, "the last total that was accepted")
		s.settled()
	})
}

// savedForm saves what was read before others bought.
func savedForm(s *site) {
	t := s.t
	drop := s.named(drop)
	read := s.open(drop, 100, 1)
	for i := range 5 {
		s.take(name("u", i), drop, 1)
	}
	patch := func(version int64, body string) answer {
		return s.call(s.AdminKey(), http.MethodPatch, "/v1/admin/sales/"+drop, body, "If-Match", etag(version))
	}
	whole := patch(read.Version, `{"title":"New","items":[{"item":"unit","price":1000,"stock":100}]}`)
	require.Equal(t, http.StatusUnprocessableEntity, whole.status, "a form has no stock: %s", whole.body)
	require.True(t, done(patch(read.Version, `{"title":"New"}`)))
	require.Equal(t, int64(95), s.left(drop))
	stale := patch(read.Version, `{"title":"Stale"}`)
	require.Equal(t, "version_mismatch", stale.code)
	require.Equal(t, http.StatusPreconditionFailed, stale.status)

	restock := func(body string, headers ...string) answer {
		return s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales/"+drop+"/restock", body, headers...)
	}
	require.Equal(t, http.StatusPreconditionRequired, restock(`{"stock":120}`).status, "a total must say what it replaces")
	require.Equal(t, http.StatusPreconditionFailed, restock(`{"stock":120}`, "If-Match", etag(read.Version)).status)
	require.Equal(t, int64(95), s.left(drop))
	require.True(t, done(restock(`{"stock":120}`, "If-Match", etag(read.Version+1))))
	require.Equal(t, int64(115), s.left(drop))
	require.Equal(t, "stock_below_sold", restock(`{"stock":4}`, "If-Match", "*").code)
	require.True(t, done(restock(`{"add":-115}`)))
	require.Zero(t, s.left(drop))
	require.Equal(t, int64(5), s.settled(drop).Stock)
}

// done reports whether a change was made, though a lane may hear of it later.
func done(a answer) bool { return a.status == http.StatusOK || a.status == http.StatusAccepted }

// feedInACrowd changes the stock, by what it finds and by how much, while a crowd buys.
func feedInACrowd(s *site) {
	t := s.t
	drop := s.named(drop)
	s.open(drop, 100, 1)
	var mu sync.Mutex
	accepted := make(map[int64]int64) // total by version
	change := func(i int) {
		r, version := client.Restock{Add: new(int64(i%7 - 3))}, int64(0)
		if i%2 == 0 { // a total, made for what was seen
			seen, err := s.admin().AdminSale(t.Context(), drop)
			if err != nil {
				return
			}
			r, version = client.Restock{Stock: new(seen.Items[0].Stock + int64(i%5) - 2)}, seen.Version
		}
		after, err := s.admin().Restock(t.Context(), drop, version, r)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		accepted[after.Version] = after.Items[0].Stock
	}
	errs := crowd(330, func(i int) error {
		if i%11 == 10 {
			change(i)
			return nil
		}
		_, err := s.attempt(t.Context(), name("u", i), drop, "k", client.Attempt{Quantity: 1})
		return err
	})
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, client.ErrSoldOut)
		}
	}
	require.NotEmpty(t, accepted)
	now, err := s.admin().AdminSale(t.Context(), drop)
	require.NoError(t, err)
	require.Equal(t, now.Version, slices.Max(slices.Collect(maps.Keys(accepted))))
	require.Equal(t, accepted[now.Version], now.Items[0].Stock, "the last total that was accepted")
	s.settled(drop)
	for i := range now.Items[0].Left {
		s.take(name("rest", int(i)), drop, 1)
	}
	require.Equal(t, now.Items[0].Stock, s.settled(drop).Reserved)
}

func etag(version int64) string { return name(`"`, int(version)) + `"` }

// The accident: orders, limits and click marks of a deleted sale act on the new
// one that has its name.
// The right outcome: the new sale is another sale. What comes late for the old
// one never moves the new one's units, and a sale with open holds is not deleted.
func TestC63RecreatedSaleInheritsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	old := make([]sale.Order, 0, 6)
	numbers := make(map[sale.Number]bool)
	for round := range 3 {
		published := s.open(2, 1)
		require.False(t, numbers[published.Number], "numbers are never used again")
		numbers[published.Number] = true
		require.Equal(t, int64(2), s.left())
		for i, before := range old { // late notices and ends of the rounds before
			late := s.pay(notice(before, name("late", 10*round+i)))
			require.Equal(t, sale.OutcomeRefundRequired, late.Outcome)
			_, _ = s.Cancel(t.Context(), before.ID, before.User)
			_, err := s.book.Expire(t.Context(), []sale.OrderID{before.ID})
			require.NoError(t, err)
		}
		require.Equal(t, int64(2), s.left())
		paid, open := s.buy("u", "same-key", 1), s.buy("v", "same-key", 1)
		require.Equal(t, sale.Taken, paid.Verdict, "limits and clicks begin anew")
		require.Equal(t, sale.Taken, open.Verdict)
		s.pay(notice(paid.Order, name("p", round)))
		s.settled()

		s.act(sale.Change{Action: sale.ActionClose})
		_, err := s.ChangeSale(t.Context(), drop, 0, sale.Change{Action: sale.ActionDelete})
		require.ErrorIs(t, err, &sale.Error{Code: sale.CodeIllegalState}, "a hold waits")
		require.Equal(t, 1, s.pass(time.Minute))
		s.act(sale.Change{Action: sale.ActionDelete})
		_, err = s.book.Sale(t.Context(), drop)
		require.ErrorIs(t, err, sale.SaleNotFound())
		require.Equal(t, sale.NoSuchSale, s.buy("w", "k", 1).Verdict)
		old = append(old, paid.Order, open.Order)
	}
	s.open(1, 1)
	s.settled() // of all four
}

// The accident: the same item stands in two sales, or twice in one, and what is
// taken or given back meets the wrong counter.
// The right outcome: one sale lists an item once; the pools of two sales are
// independent, and a unit returns to the sale that it came from.
func TestC64TwoSalesOnOneItem(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one, two := s.at("one"), s.at("two")
	one.open(80, 1)
	two.open(80, 1)
	_, err := s.CreateSale(t.Context(), one.sale())
	require.ErrorIs(t, err, &sale.Error{Code: sale.CodeSaleExists}, "a double click makes one sale")
	twice := one.sale()
	twice.Slug, twice.Items = "twice", append(twice.Items, twice.Items...)
	_, err = s.CreateSale(t.Context(), twice)
	require.ErrorIs(t, err, &sale.Error{Code: sale.CodeInvalid}, "an item is listed once")
	double := crowd(2, func(int) error {
		copied := one.sale()
		copied.Slug = "double"
		_, err := s.CreateSale(context.WithoutCancel(t.Context()), copied)
		return err
	})
	require.NotEqual(t, double[0] == nil, double[1] == nil, "one of two creates is done: %v", double)

	replies := crowd(400, func(i int) reply {
		at := []*shop{one, two}[i%2]
		return at.try(name("u", i/2), "k", 1)
	})
	require.Equal(t, map[sale.Verdict]int{sale.Taken: 160, sale.SoldOut: 240}, verdicts(t, replies))
	given := 0
	for i, r := range replies {
		if i%2 == 0 && r.Verdict == sale.Taken && given < 3 {
			one.cancel(r.Order)
			given++
		}
	}
	require.Equal(t, int64(3), one.left())
	require.Zero(t, two.left())
	one.settled()
	two.settled()
}

// The accident: a wrong field wins: two of them disagree, the price comes from
// the client, or a new price meets an old order.
// The right outcome: contradictions are refused; price and currency are the
// sale's at the time of the attempt and stay with the order.
func TestC56PriceIsTheSalesAndStays(t *testing.T) {
	t.Parallel()
	onBoth(t, priceStays)
}

func priceStays(s *site) {
	t := s.t
	drop := s.named(drop)
	published := s.open(drop, 10, 3)
	for _, body := range []string{
		`{"quantity":1,"attendees":["a","b","c"]}`, `{"quantity":1,"price":1}`, `{"quantity":1,"amount":1}`, `{"quantity":1,"Quantity":3}`,
		`{"quantity":1,"quantity":3}`, `{"quantity":1,"expected_amount":1000}`, `{"quantity":1,"currency":"EUR"}`,
	} {
		a := s.buyBody("u", drop, body)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", body, a.body)
	}
	for _, body := range []string{
		`{"quantity":2,"expected_amount":1000,"currency":"EUR"}`, `{"quantity":1,"expected_amount":1000,"currency":"USD"}`,
		`{"quantity":1,"expected_amount":1,"currency":"EUR"}`,
	} {
		require.Equal(t, "terms_changed", s.buyBody("u", drop, body).code, body)
	}
	require.Equal(t, int64(10), s.left(drop))
	agreed := s.buyBody("u", drop, `{"quantity":2,"expected_amount":2000,"currency":"EUR"}`)
	require.Equal(t, http.StatusCreated, agreed.status, agreed.body)

	before := s.take("before", drop, 1)
	_, err := s.admin().PatchSale(t.Context(), drop, published.Version, client.SalePatch{Items: []client.ItemPatch{{SKU: "unit", Price: new(int64(1500))}}})
	require.NoError(t, err)
	after := s.take("after", drop, 1)
	require.Equal(t, int64(1000), before.Amount)
	require.Equal(t, int64(1500), after.Amount)
	wrong, err := s.admin().Pay(t.Context(), before.ID, client.Payment{ID: "new-price", Status: "succeeded", Amount: 1500, Currency: "EUR"})
	require.NoError(t, err)
	require.Equal(t, "refund_required", wrong.Outcome, "the order costs what it cost")
	require.Equal(t, "paid", s.pay(before).Outcome)
	require.Equal(t, "paid", s.pay(after).Outcome)
	require.Equal(t, "terms_changed", s.buyBody("u", drop, `{"quantity":1,"expected_amount":1000,"currency":"EUR"}`).code)

	_, err = s.as("gone").Cancel(t.Context(), s.take("gone", drop, 1).ID)
	require.NoError(t, err)
	require.Equal(t, int64(1500), s.take("gone", drop, 1).Amount, "who buys again pays the present price")
	s.settled(drop)
}

// buyBody attempts to buy with a body as it is and a key of its own.
func (s *site) buyBody(user, slug, body string) answer {
	s.t.Helper()
	return s.call(s.token(user), http.MethodPost, "/v1/sales/"+slug+"/orders", body, "Idempotency-Key", s.key())
}
