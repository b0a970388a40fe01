package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const one = `{"quantity":1}`

func TestLifeOfAnOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 3)
	u1 := buyer(t, "u1")

	a := w.buy(t, u1, "drop", "k1", `{"item":"unit","quantity":2,"expected_amount":2000,"currency":"EUR"}`)
	o := want[client.Order](t, http.StatusCreated, a)
	require.Equal(t, "/v1/orders/"+o.ID, a.header.Get("Location"))
	require.Regexp(t, `^gate;dur=\d+\.\d{3}, engine;dur=\d+\.\d{3}, wait;dur=\d+\.\d{3}, ledger;dur=\d+\.\d{3}$`, a.header.Get("Server-Timing"))
	require.Equal(t, "reserved", o.State)
	require.EqualValues(t, 2000, o.Amount)
	require.Equal(t, o.ReservedAt.Add(sale.DefaultHold), *o.ExpiresAt)
	require.Empty(t, o.User, "a buyer is not told who he is")

	a = w.buy(t, u1, "drop", "k1", `{"item":"unit","quantity":2}`)
	require.Equal(t, o, want[client.Order](t, http.StatusOK, a))
	require.Equal(t, "true", a.header.Get("Idempotency-Replayed"))

	own := want[client.Page[client.Order]](t, http.StatusOK, w.call(t, u1, "GET /v1/orders", ""))
	require.Equal(t, []client.Order{o}, own.Data)
	require.Equal(t, o, want[client.Order](t, http.StatusOK, w.call(t, u1, "GET /v1/orders/"+o.ID, "")))

	p := w.buy(t, u1, "drop", "k2", one).requireCode(t, http.StatusConflict, "limit_reached")
	require.Equal(t, []client.Order{o}, p.Orders, "the refusal points to what the buyer has (C68)")

	paid := want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments", `{"payment_id":"p1","status":"succeeded","amount":2000,"currency":"EUR"}`))
	require.Equal(t, "paid", paid.Outcome)
	require.Equal(t, "u1", paid.Order.User, "a shop is told whose order it is")
	require.Equal(t, "p1", paid.Order.PaymentID)
	again := want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments", `{"payment_id":"p1","status":"succeeded","amount":2000,"currency":"EUR"}`))
	require.Equal(t, "already_paid", again.Outcome)
	w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments", `{"payment_id":"p1","status":"succeeded","amount":1,"currency":"EUR"}`).requireCode(t, http.StatusConflict, "payment_mismatch")
	second := want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments", `{"payment_id":"p2","status":"succeeded","amount":2000,"currency":"EUR"}`))
	require.Equal(t, "refund_required", second.Outcome)

	w.call(t, u1, "POST /v1/orders/"+o.ID+"/cancel", "").requireCode(t, http.StatusConflict, "illegal_state")
	refunded := want[client.Order](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/refund", `{"restock":true}`))
	require.Equal(t, "refunded", refunded.State)
	require.NotNil(t, refunded.EndedAt)
	require.EqualValues(t, 3, w.left(t, "drop"))

	refunds := want[client.Page[client.Refund]](t, http.StatusOK, w.call(t, w.shop, "GET /v1/refunds?state=required&limit=1", ""))
	require.Len(t, refunds.Data, 1)
	require.Equal(t, "duplicate", refunds.Data[0].Reason)
	rest := want[client.Page[client.Refund]](t, http.StatusOK, w.call(t, w.shop, "GET /v1/refunds?state=required&after="+refunds.Next, ""))
	require.Len(t, rest.Data, 1)
	require.Empty(t, rest.Next)
	for range 2 {
		done := want[client.Refund](t, http.StatusOK, w.call(t, w.shop, "POST /v1/refunds/"+refunds.Data[0].ID+"/done", ""))
		require.Equal(t, "done", done.State)
		require.NotNil(t, done.DoneAt)
	}
	w.call(t, w.shop, "POST /v1/refunds/rfd_aaaaaaaaaaaaaaaaaaaaaaaaaa/done", "").requireCode(t, http.StatusNotFound, "refund_not_found")
	w.call(t, w.shop, "POST /v1/refunds/x/done", "").requireCode(t, http.StatusNotFound, "refund_not_found")

	report := w.call(t, w.admin, "POST /v1/admin/sales/drop/audit", "")
	require.Equal(t, http.StatusOK, report.status, "%s", report.body)
	require.NotContains(t, string(report.body), `"violations"`)
	w.call(t, w.admin, "POST /v1/admin/sales/none/audit", "").requireCode(t, http.StatusNotFound, "sale_not_found")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 3, func(n *client.NewSale) { n.MaxUnpaidHolds = new(int64(1)) })
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	p := w.buy(t, u2, "drop", "k1", `{"quantity":3}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_quantity")
	require.Equal(t, "send a whole number from 1 to 2", p.Hint)
	o := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k1", one))

	w.buy(t, u1, "drop", "k1", `{"quantity":2}`).requireCode(t, http.StatusConflict, "idempotency_mismatch")
	w.buy(t, u2, "drop", "k1", `{"quantity":1,"expected_amount":999,"currency":"EUR"}`).requireCode(t, http.StatusConflict, "terms_changed")
	w.buy(t, u2, "drop", "k1", `{"quantity":1,"expected_amount":1000,"currency":"USD"}`).requireCode(t, http.StatusConflict, "terms_changed")
	w.buy(t, u2, "drop", "k1", `{"quantity":1,"item":"Unit"}`).requireCode(t, http.StatusUnprocessableEntity, "item_not_found")
	w.buy(t, u2, "none", "k1", one).requireCode(t, http.StatusNotFound, "sale_not_found")
	w.buy(t, u2, "Drop", "k1", one).requireCode(t, http.StatusNotFound, "sale_not_found")

	want[client.Order](t, http.StatusOK, w.call(t, u1, "POST /v1/orders/"+o.ID+"/cancel", ""))
	want[client.Order](t, http.StatusOK, w.call(t, u1, "POST /v1/orders/"+o.ID+"/cancel", ""))
	a := w.buy(t, u1, "drop", "k2", one)
	p = a.requireCode(t, http.StatusConflict, "cool_down")
	require.Equal(t, "600", a.header.Get("Retry-After"))
	require.NotNil(t, p.RetryAt)

	want[client.Order](t, http.StatusCreated, w.buy(t, u2, "drop", "k1", `{"quantity":2}`))
	p = w.buy(t, buyer(t, "u3"), "drop", "k1", `{"quantity":2}`).requireCode(t, http.StatusConflict, "insufficient")
	require.EqualValues(t, 1, *p.Available)
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u3"), "drop", "k1", one))
	for range 3 { // from the ledger first, then from memory
		w.buy(t, buyer(t, "u4"), "drop", "k1", one).requireCode(t, http.StatusConflict, "sold_out")
	}
	want[client.Order](t, http.StatusOK, w.buy(t, u2, "drop", "k1", `{"quantity":2}`))

	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/sales/drop/pause", ""))
	w.buy(t, buyer(t, "u5"), "drop", "k", one).requireCode(t, http.StatusConflict, "paused")
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/sales/drop/resume", `{}`))
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/sales/drop/close", ""))
	w.buy(t, buyer(t, "u5"), "drop", "k", one).requireCode(t, http.StatusGone, "closed")
	want[client.Order](t, http.StatusOK, w.buy(t, u2, "drop", "k1", `{"quantity":2}`))
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "later", 1, func(n *client.NewSale) { n.StartsAt = "2026-11-27T10:00:00+01:00"; n.StartsAt = "2026-11-27T10:30:00Z" })
	p := w.buy(t, buyer(t, "u1"), "later", "k", one).requireCode(t, http.StatusConflict, "not_started")
	require.Equal(t, "2026-11-27T10:30:00Z", p.StartsAt.Format(time.RFC3339))
	w.store.Advance(90 * time.Minute)
	require.Eventually(t, func() bool { return w.buy(t, buyer(t, "u1"), "later", "k", one).status == http.StatusCreated }, 3*time.Second, 10*time.Millisecond,
		"the same key may succeed later")
	w.store.Advance(10 * time.Hour)
	require.Eventually(t, func() bool { return w.buy(t, buyer(t, "u2"), "later", "k", one).status == http.StatusGone }, 3*time.Second, 10*time.Millisecond)
	w.buy(t, buyer(t, "u2"), "later", "k", one).requireCode(t, http.StatusGone, "ended")
}

func TestPriceZeroIsBornPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "gift", 1, func(n *client.NewSale) { n.Items[0].Price = 0 })
	o := want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "gift", "k", one))
	require.Equal(t, "paid", o.State)
	require.Nil(t, o.ExpiresAt)
}

func TestListingOrders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 100, func(n *client.NewSale) { n.PerUserLimit = 50 })
	w.openSale(t, "other", 10)
	u1 := buyer(t, "u1")
	ids := make([]string, 0, 7)
	for i := range 7 {
		ids = append(ids, want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", fmt.Sprint("k", i), one)).ID)
	}
	other := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "other", "k", one))
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u2"), "drop", "k", one))
	want[client.Order](t, http.StatusOK, w.call(t, u1, "POST /v1/orders/"+ids[3]+"/cancel", ""))

	var seen []string
	for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
		return want[client.Page[client.Order]](t, http.StatusOK, w.call(t, u1, "GET /v1/orders?sale=drop&limit=3&after="+after, "")), nil
	}) {
		require.NoError(t, err)
		seen = append(seen, o.ID)
	}
	require.ElementsMatch(t, ids, seen)

	list := func(who, path string) []client.Order {
		return want[client.Page[client.Order]](t, http.StatusOK, w.call(t, who, "GET "+path, "")).Data
	}
	require.Len(t, list(u1, "/v1/orders?state=cancelled"), 1)
	require.Len(t, list(u1, "/v1/orders?sale=other"), 1)
	require.Len(t, list(u1, "/v1/orders"), 8)
	require.Len(t, list(w.shop, "/v1/orders?on_behalf_of=u2"), 1)
	require.Len(t, list(w.admin, "/v1/admin/orders"), 9)
	require.Len(t, list(w.admin, "/v1/admin/orders?user=u1&sale=drop&state=reserved"), 6)
	require.Equal(t, "u1", list(w.admin, "/v1/admin/orders?sale=other")[0].User)
	require.Equal(t, "u1", want[client.Order](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/orders/"+other.ID, "")).User)
	require.Equal(t, "cancelled", want[client.Order](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/orders/"+other.ID+"/cancel", "")).State)

	for path, field := range map[string]string{
		"/v1/orders?stat=paid": "stat", "/v1/orders?state=gone": "state", "/v1/orders?limit=0": "limit", "/v1/orders?limit=501": "limit",
		"/v1/orders?limit=1.0": "limit", "/v1/orders?after=x": "after", "/v1/orders?after=AAAA": "after", "/v1/orders?user=u2": "user",
		"/v1/orders?sale=drop&sale=other": "sale", "/v1/orders?%zz": "query",
	} {
		p := w.call(t, u1, "GET "+path, "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, field, p.Field, path)
	}
	for _, path := range []string{"/v1/refunds?state=paid", "/v1/refunds?after=x", "/v1/refunds?limit=x"} {
		w.call(t, w.shop, "GET "+path, "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	}
	w.call(t, w.admin, "GET /v1/admin/sales?after=x", "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	w.call(t, u1, "GET /v1/orders?sale=none", "").requireCode(t, http.StatusNotFound, "sale_not_found")
	w.call(t, w.admin, "GET /v1/admin/orders?sale=none", "").requireCode(t, http.StatusNotFound, "sale_not_found")
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/v1", "/v1/sale", "/v1/sales/", "/v1//sales", "/v1/./sales", "/v1/sales/../sales", "/v2/sales", "/v1/sales/drop/orders/x/y"} {
		w.call(t, nobody, "GET "+path, "").requireCode(t, http.StatusNotFound, "not_found")
	}
	a := w.call(t, nobody, "DELETE /v1/sales", "")
	a.requireCode(t, http.StatusMethodNotAllowed, "method_not_allowed")
	require.Equal(t, "GET, HEAD, OPTIONS", a.header.Get("Allow"))
	a = w.call(t, nobody, "PUT /v1/admin/sales/x", "{}")
	a.requireCode(t, http.StatusMethodNotAllowed, "method_not_allowed")
	for _, m := range []string{"GET", "HEAD", "PATCH", "DELETE"} {
		require.Contains(t, a.header.Get("Allow"), m)
	}
	w.openSale(t, "drop", 1)
	w.call(t, buyer(t, "u1"), "POST /v1/sales/drop/orders/x", one, "Idempotency-Key", "k").requireCode(t, http.StatusNotFound, "not_found")
	require.Equal(t, http.StatusOK, w.call(t, nobody, "HEAD /v1/sales/drop", "").status)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "X-Request-Id"
	require.Equal(t, "trace-1.A_b", w.call(t, nobody, "GET /v1/sales", "", name, "trace-1.A_b").header.Get(name))
	for _, bad := range []string{"a b", "<script>", strings.Repeat("a", 65), ""} {
		got := w.call(t, nobody, "GET /v1/sales", "", name, bad).header.Get(name)
		require.NotEqual(t, bad, got)
		require.NotEmpty(t, got)
	}
	first, second := w.call(t, nobody, "GET /v1/sales", ""), w.call(t, nobody, "GET /v1/sales", "")
	require.NotEqual(t, first.header.Get(name), second.header.Get(name))
}
