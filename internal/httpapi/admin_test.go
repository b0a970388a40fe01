package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

const office = "/v1/admin/sales"

func TestSaleVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 100)
	a := w.call(t, w.admin, "GET "+office+"/drop", "")
	s := want[client.AdminSale](t, http.StatusOK, a)
	require.EqualValues(t, 2, s.Version)
	require.Equal(t, `"2"`, a.header.Get("ETag"))

	patch := func(body string, headers ...string) answer {
		return w.call(t, w.admin, "PATCH "+office+"/drop", body, headers...)
	}
	patch(`{"title":"x"}`).requireCode(t, http.StatusPreconditionRequired, "precondition_required")
	patch(`{"title":"x"}`, "If-Match", `"1"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	patch(`{"title":"x"}`, "If-Match", `"abc"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	patch(`{"title":"x"}`, "If-Match", `"0"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	patch(`{"title":"x"}`, "If-Match", `W/"2"`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	patch(`{"title":"x"}`, "If-Match", `2`).requireCode(t, http.StatusBadRequest, "invalid_header")
	patch(`{"title":"x"}`, "If-Match", `"2"`, "If-Match", `"2"`).requireCode(t, http.StatusBadRequest, "invalid_header")
	a = patch(`{"title":"x"}`, "If-Match", `"2"`)
	require.Equal(t, "x", want[client.AdminSale](t, http.StatusOK, a).Title)
	require.Equal(t, `"3"`, a.header.Get("ETag"))
	patch(`{"title":"y"}`, "If-Match", `"2"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	require.EqualValues(t, 4, want[client.AdminSale](t, http.StatusOK, patch(`{"title":"y"}`, "If-Match", `*`)).Version)
	s = want[client.AdminSale](t, http.StatusOK, patch(`{"preferred_path":"fast"}`, "If-Match", `"4"`))
	require.Equal(t, []string{"fast", "direct"}, []string{s.PreferredPath, s.Path}, "a wish is not the way")

	act := func(action string, headers ...string) answer {
		return w.call(t, w.admin, "POST "+office+"/drop/"+action, "", headers...)
	}
	act("pause", "If-Match", `"4"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	want[client.AdminSale](t, http.StatusOK, act("pause", "If-Match", `"5"`))
	act("pause").requireCode(t, http.StatusConflict, "illegal_state")

	del := func(headers ...string) answer {
		return w.call(t, w.admin, "DELETE "+office+"/drop", "", headers...)
	}
	del().requireCode(t, http.StatusPreconditionRequired, "precondition_required")
	del("If-Match", "*").requireCode(t, http.StatusConflict, "illegal_state")
	want[client.AdminSale](t, http.StatusOK, act("close"))
	require.Equal(t, http.StatusNoContent, del("If-Match", `"7"`).status)
	del("If-Match", "*").requireCode(t, http.StatusNotFound, "sale_not_found")
	w.call(t, nobody, "GET /v1/sales/drop", "").requireCode(t, http.StatusNotFound, "sale_not_found")
	require.Contains(t, w.log.String(), "action=deleted sale=drop")
}

// C10: an edit of other fields leaves the stock alone, a stale total is refused.
func TestRestock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 100)
	for i := range 5 {
		want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, fmt.Sprint("u", i)), "drop", "k", one))
	}
	restock := func(body string, headers ...string) answer {
		return w.call(t, w.admin, "POST "+office+"/drop/restock", body, headers...)
	}
	s := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "PATCH "+office+"/drop", `{"title":"new"}`, "If-Match", "*"))
	require.EqualValues(t, 95, s.Items[0].Left)
	require.EqualValues(t, 100, s.Items[0].Stock)
	restock(`{"stock":120}`).requireCode(t, http.StatusPreconditionRequired, "precondition_required")
	restock(`{"stock":120}`, "If-Match", `"2"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	s = want[client.AdminSale](t, http.StatusOK, restock(`{"stock":120}`, "If-Match", `"3"`))
	require.EqualValues(t, 115, s.Items[0].Left)
	s = want[client.AdminSale](t, http.StatusOK, restock(`{"item":"unit","add":-10}`))
	require.EqualValues(t, 110, s.Items[0].Stock)
	restock(`{"add":1}`, "If-Match", `"3"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	restock(`{"add":-106}`).requireCode(t, http.StatusConflict, "stock_below_sold")
	restock(`{"item":"none","add":1}`).requireCode(t, http.StatusUnprocessableEntity, "item_not_found")
	// Additions from many hands all count.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { restock(`{"add":1}`) })
	}
	wg.Wait()
	s = want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "GET "+office+"/drop", ""))
	require.EqualValues(t, 130, s.Items[0].Stock)
}

func TestCreatingSales(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := func(id string) string {
		return `{"sale":"` + id + `","starts_at":"2026-10-25T01:30:00","ends_at":"2026-12-01T00:00:00","time_zone":"Europe/Berlin","per_user_limit":3,"currency":"CNY",` +
			`"items":[{"item":"S","price":1,"stock":2},{"item":"s","title":"small","price":0,"stock":0}]}`
	}
	a := w.call(t, w.admin, "POST "+office, body("drop-1"))
	s := want[client.AdminSale](t, http.StatusCreated, a)
	require.Equal(t, "/v1/admin/sales/drop-1", a.header.Get("Location"))
	require.Equal(t, `"1"`, a.header.Get("ETag"))
	require.Equal(t, "draft", s.State)
	require.Equal(t, "live", s.LimitRule)
	require.EqualValues(t, 300, s.HoldSeconds)
	require.EqualValues(t, 2, s.MaxUnpaidHolds)
	require.EqualValues(t, 600, s.CoolDownSeconds)
	require.Equal(t, []string{"direct", "direct"}, []string{s.PreferredPath, s.Path})
	require.Equal(t, "2026-10-24 23:30:00 +0000 UTC", s.StartsAt.String())
	require.Equal(t, "2026-11-30 23:00:00 +0000 UTC", s.EndsAt.String())
	require.Len(t, s.Items, 2, "SKUs are compared byte for byte")

	// C64: a double click makes one sale.
	w.call(t, w.admin, "POST "+office, body("drop-1")).requireCode(t, http.StatusConflict, "sale_exists")
	made := make([]int, 10)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() { made[i] = w.call(t, w.admin, "POST "+office, body("drop-2")).status })
	}
	wg.Wait()
	count := map[int]int{}
	for _, status := range made {
		count[status]++
	}
	require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusConflict: 9}, count)

	// A draft is for operators only.
	w.call(t, nobody, "GET /v1/sales/drop-1", "").requireCode(t, http.StatusNotFound, "sale_not_found")
	w.buy(t, buyer(t, "u1"), "drop-1", "k", `{"quantity":1,"item":"S"}`).requireCode(t, http.StatusNotFound, "sale_not_found")
	require.Empty(t, want[client.Page[client.Sale]](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", "")).Data)
	page := want[client.Page[client.AdminSale]](t, http.StatusOK, w.call(t, w.admin, "GET "+office+"?limit=1", ""))
	require.Equal(t, "drop-1", page.Data[0].ID)
	page = want[client.Page[client.AdminSale]](t, http.StatusOK, w.call(t, w.admin, "GET "+office+"?limit=5&after="+page.Next, ""))
	require.Equal(t, "drop-2", page.Data[0].ID)
	require.Empty(t, page.Next)

	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop-1/publish", ""))
	require.Equal(t, "live", want[client.Sale](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop-1", "")).Status)
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop-1", "k", `{"quantity":1,"item":"S"}`))
	w.buy(t, buyer(t, "u1"), "drop-1", "k2", one).requireCode(t, http.StatusUnprocessableEntity, "item_not_found")

	stats := want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", ""))
	require.Equal(t, []client.SaleStats{{ID: "drop-1", Status: "live", Path: "direct", Epoch: 1, Stock: 2, Sold: 1, Left: 1}}, stats.Sales)
	require.Equal(t, 1, stats.Classes.Admin.InFlight)
}

// C63: what is created again under an old id starts from nothing.
func TestRecreatedSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u1 := buyer(t, "u1")
	seen := map[string]bool{}
	for range 3 {
		s := w.openSale(t, "drop", 1)
		require.EqualValues(t, 1, s.Items[0].Left)
		o := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k", one))
		require.False(t, seen[o.ID], "the same click in another sale is another order")
		seen[o.ID] = true
		want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments",
			`{"payment_id":"p-`+o.ID+`","status":"succeeded","amount":1000,"currency":"EUR"}`))
		want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop/close", ""))
		require.Equal(t, http.StatusNoContent, w.call(t, w.admin, "DELETE "+office+"/drop", "", "If-Match", "*").status)
		require.Equal(t, http.StatusOK, w.call(t, u1, "GET /v1/orders/"+o.ID, "").status, "orders outlive their sale")
	}
}

func TestAuditThatFails(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{audit: func(context.Context, string) ([]byte, error) { return nil, errors.New("select * from secrets") }})
	a := w.call(t, w.admin, "POST "+office+"/drop/audit", "")
	a.requireCode(t, http.StatusServiceUnavailable, "unavailable")
	require.NotContains(t, string(a.body), "secrets", "internals stay inside")
	require.Contains(t, w.log.String(), "secrets", "and are in the log")
}
