package cases_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// The accident: an id is written without regard to case and read with it, so
// that stock is taken from another row than the one shown.
// The right outcome: SKUs are compared byte for byte everywhere, ids of sales
// have one spelling; what differs is another item, or unknown.
func TestC52SpellingsAreDifferentEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	named := func(skus ...string) func(*client.NewSale) {
		return func(n *client.NewSale) {
			n.Items = nil
			for _, sku := range skus {
				n.Items = append(n.Items, client.NewItem{SKU: sku, Price: price, Stock: 3})
			}
		}
	}
	s.open("first", 0, 3, named("Sku-1"))
	s.open("second", 0, 3, named("SKU-1"))
	s.open("both", 0, 3, named("Sku-1", "sku-1", "sku-1%20"))
	buy := func(slug, sku string) answer {
		return s.call(s.token("u"), http.MethodPost, "/v1/sales/"+slug+"/orders", attemptFor(t, sku, "quantity"), "Idempotency-Key", name("k", int(s.keys.Add(1))))
	}
	for _, sku := range []string{"sku-1", "SKU-1", " Sku-1", "Sku-1 ", "Sku-1%20", "Sku-1\x00", "Ｓku-1"} {
		a := buy("first", sku)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%q: %s", sku, a.body)
		restock := s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales/first/restock", attemptFor(t, sku, "add"))
		require.Equal(t, http.StatusUnprocessableEntity, restock.status, "%q: %s", sku, restock.body)
	}
	left := func(slug string) []int64 {
		found, err := s.admin().AdminSale(t.Context(), slug)
		require.NoError(t, err)
		out := make([]int64, 0, len(found.Items))
		for _, it := range found.Items {
			require.Equal(t, it.Stock-it.Sold, it.Left)
			out = append(out, it.Left)
		}
		return out
	}
	require.Equal(t, []int64{3}, left("first"))
	got := buy("first", "Sku-1")
	require.Contains(t, got.body, `"item":"Sku-1"`)
	require.Equal(t, [][]int64{{2}, {3}}, [][]int64{left("first"), left("second")})
	require.Contains(t, buy("both", "sku-1").body, `"item":"sku-1"`)
	require.Equal(t, []int64{3, 2, 3}, left("both"), "the stock of the item that the order shows")
	require.Contains(t, buy("both", "sku-1%20").body, `"item":"sku-1%20"`)
	require.Equal(t, []int64{3, 2, 2}, left("both"))

	for _, slug := range []string{"First", "FIRST", "first%20", "first%2F", "%66irst%00"} {
		require.Equal(t, http.StatusNotFound, s.call("", http.MethodGet, "/v1/sales/"+slug, "").status, slug)
		require.Equal(t, http.StatusNotFound, buy(slug, "Sku-1").status, slug)
	}
	for _, slug := range []string{"First", "first ", "für", "first_", "-first", ""} {
		a := s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales", fmt.Sprintf(
			`{"sale":%q,"starts_at":"2026-11-27T10:00:00Z","ends_at":"2026-11-27T11:00:00Z","per_user_limit":1,"currency":"EUR","items":[{"item":"unit","price":1,"stock":1}]}`, slug))
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%q: %s", slug, a.body)
	}
	for _, slug := range []string{"first", "second", "both"} {
		s.settled(slug)
	}
}

// attemptFor is a body that names an item and one unit of something.
func attemptFor(t *testing.T, sku, what string) string {
	t.Helper()
	raw, err := json.Marshal(sku)
	require.NoError(t, err)
	return `{"item":` + string(raw) + `,"` + what + `":1}`
}

// numbers is every place of the API that takes a number.
func numbers() map[string]struct{ method, path, body string } {
	const newSale = `{"sale":"made","starts_at":"2026-11-27T10:00:00Z","ends_at":"2026-11-27T11:00:00Z","currency":"EUR"`
	const rest = `,"per_user_limit":1,"items":[{"item":"unit","price":1,"stock":1}]}`
	return map[string]struct{ method, path, body string }{
		"quantity":          {http.MethodPost, "/v1/sales/drop/orders", `{"quantity":N,"on_behalf_of":"u"}`},
		"expected_amount":   {http.MethodPost, "/v1/sales/drop/orders", `{"quantity":1,"on_behalf_of":"u","expected_amount":N,"currency":"EUR"}`},
		"add":               {http.MethodPost, "/v1/admin/sales/drop/restock", `{"add":N}`},
		"stock":             {http.MethodPost, "/v1/admin/sales/drop/restock", `{"stock":N}`},
		"amount":            {http.MethodPost, "/v1/orders/ORDER/payments", `{"payment_id":"p","status":"succeeded","amount":N,"currency":"EUR"}`},
		"new price":         {http.MethodPost, "/v1/admin/sales", newSale + `,"per_user_limit":1,"items":[{"item":"unit","price":N,"stock":1}]}`},
		"new stock":         {http.MethodPost, "/v1/admin/sales", newSale + `,"per_user_limit":1,"items":[{"item":"unit","price":1,"stock":N}]}`},
		"new limit":         {http.MethodPost, "/v1/admin/sales", newSale + `,"per_user_limit":N,"items":[{"item":"unit","price":1,"stock":1}]}`},
		"hold_seconds":      {http.MethodPost, "/v1/admin/sales", newSale + `,"hold_seconds":N` + rest},
		"max_unpaid_holds":  {http.MethodPost, "/v1/admin/sales", newSale + `,"max_unpaid_holds":N` + rest},
		"cool_down_seconds": {http.MethodPost, "/v1/admin/sales", newSale + `,"cool_down_seconds":N` + rest},
		"patched limit":     {http.MethodPatch, "/v1/admin/sales/drop", `{"per_user_limit":N}`},
		"patched hold":      {http.MethodPatch, "/v1/admin/sales/drop", `{"hold_seconds":N}`},
		"patched price":     {http.MethodPatch, "/v1/admin/sales/drop", `{"items":[{"item":"unit","price":N}]}`},
	}
}

// refuseNumbers sends each number to each place of the API, but for those that
// may have it, and requires that all are refused by name and nothing changes.
func refuseNumbers(t *testing.T, odd []string, allowed func(place, number string) bool) {
	t.Helper()
	s := newSite(t)
	s.open(drop, 10, 3)
	o := s.take("holder", drop, 1)
	before := s.settled(drop)
	for place, e := range numbers() {
		for _, number := range odd {
			if allowed(place, number) {
				continue
			}
			a := s.call(s.AdminKey(), e.method, strings.ReplaceAll(e.path, "ORDER", o.ID), strings.Replace(e.body, "N", number, 1),
				"If-Match", "*", "Idempotency-Key", "k")
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status, "%s: %s: %s", place, number, a.body)
			if a.code != "malformed_json" {
				require.Contains(t, a.body, `"field"`, "%s: %s", place, number)
			}
		}
	}
	after := s.settled(drop)
	require.Equal(t, before, after, "nothing has changed")
	_, err := s.admin().AdminSale(t.Context(), "made")
	require.ErrorIs(t, err, client.ErrSaleNotFound)
}

// The accident: only the upper bound is checked, so that a negative quantity
// raises the stock or lowers the total.
// The right outcome: negative, empty and missing numbers are refused by name at
// every door, and nothing changes; zero is allowed where it means something.
func TestC54NegativeAndZeroNumbers(t *testing.T) {
	t.Parallel()
	refuseNumbers(t, []string{"-5", "-1", "0", "-0", "null", `""`, "true", "{}", "[]", `"1"`}, func(place, number string) bool {
		switch place {
		case "expected_amount", "max_unpaid_holds", "cool_down_seconds", "patched limit", "patched hold", "patched price":
			if number == "null" { // the same as leaving it out
				return true
			}
		case "hold_seconds":
			return number == "null"
		}
		switch place {
		case "expected_amount": // an attempt that expects nothing to pay is answered terms_changed
			return number == "0" || number == "-0"
		case "stock": // judged against what is held
			return number == "0" || number == "-0"
		case "amount", "new price", "new stock", "max_unpaid_holds", "cool_down_seconds", "patched price": // free, empty, no cap
			return number == "0" || number == "-0"
		case "add": // an explicit decrease has its own rules
			return number == "0" || number == "-0" || number == "-1" || number == "-5"
		}
		return false
	})
	s := newSite(t)
	s.open(drop, 10, 3)
	s.take("holder", drop, 3)
	restock := func(body string) answer {
		return s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales/drop/restock", body, "If-Match", "*")
	}
	require.Equal(t, "stock_below_sold", restock(`{"add":-8}`).code)
	require.Equal(t, "stock_below_sold", restock(`{"stock":0}`).code)
	require.Equal(t, "invalid_request", restock(`{"add":-11}`).code)
	require.Equal(t, http.StatusOK, restock(`{"add":-7}`).status)
	require.Zero(t, s.left(drop))
	for _, body := range []string{`{}`, `{"add":1,"stock":1}`, `{"item":"unit"}`} {
		require.Equal(t, http.StatusUnprocessableEntity, restock(body).status, body)
	}
	require.Equal(t, int64(3), s.settled(drop).Stock)
}

// The accident: a big number wraps, a fraction is rounded, a text is taken for a
// number, and what is stored is not what was sent.
// The right outcome: refused, or exact to the digit within documented bounds.
func TestC55HugeFractionalAndOddNumbers(t *testing.T) {
	t.Parallel()
	refuseNumbers(t, []string{
		"9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551617",
		"1e400", "1e3", "1E0", "0x10", "1.5", "2.0", "1_000", "01", "+1", "NaN", "Infinity", `"3"`, strings.Repeat("9", 400),
	}, func(string, string) bool { return false })

	s := newSite(t)
	const most = int64(1)<<53 - 1
	s.open("big", most, 1, func(n *client.NewSale) { n.Items[0].Price = most })
	o := s.take("u", "big", 1)
	require.Equal(t, most, o.Amount, "to the digit")
	require.Equal(t, most-1, s.left("big"))
	raw := s.call(s.AdminKey(), http.MethodGet, "/v1/admin/sales/big", "")
	require.Contains(t, raw.body, `"stock":9007199254740991`)
	require.Equal(t, "paid", s.pay(o).Outcome)
	require.Equal(t, http.StatusUnprocessableEntity, s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales/big/restock", `{"add":1}`).status)
	_, err := s.admin().Refund(t.Context(), o.ID, refundToStock())
	require.NoError(t, err)
	require.Equal(t, most, s.left("big"))
	require.Equal(t, most, s.settled("big").Stock)

	limit := int64(1_000_000)
	s.open("many", most, limit, func(n *client.NewSale) { n.Items[0].Price = most / limit })
	require.Equal(t, most/limit*limit, s.take("u", "many", limit).Amount)
	_, err = s.buy("v", "many", limit+1)
	require.ErrorIs(t, err, client.ErrInvalidQuantity)
	_, err = s.buy("u", "many", 1)
	require.ErrorIs(t, err, client.ErrLimitReached)
	over := s.call(s.AdminKey(), http.MethodPost, "/v1/admin/sales", fmt.Sprintf(
		`{"sale":"over","starts_at":"2026-11-27T10:00:00Z","ends_at":"2026-11-27T11:00:00Z","per_user_limit":%d,"currency":"EUR","items":[{"item":"unit","price":%d,"stock":1}]}`, limit, most/limit+1))
	require.Equal(t, http.StatusUnprocessableEntity, over.status, "price times limit must fit")
	s.settled("many")
}
