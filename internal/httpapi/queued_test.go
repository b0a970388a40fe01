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

func onFast() settings { return settings{fast: 1} }

func TestLifeOfAQueuedOrder(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 3)
	u1 := buyer(t, "u1")

	a := w.buy(t, u1, "drop", "k1", one)
	o := want[client.Order](t, http.StatusAccepted, a)
	require.Equal(t, "queued", o.State)
	require.EqualValues(t, 1000, o.Amount)
	require.Zero(t, o.ReservedAt)
	require.Nil(t, o.ExpiresAt)
	require.NotContains(t, string(a.body), "reserved_at")
	require.Equal(t, "/v1/orders/"+o.ID, a.header.Get("Location"))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Empty(t, a.header.Get("Idempotency-Replayed"))
	require.Empty(t, a.header.Get("Preference-Applied"), "nobody asked to wait")
	require.Regexp(t, `^gate;dur=\d+\.\d{3}, engine;dur=\d+\.\d{3}, wait;dur=\d+\.\d{3}, stock;dur=\d+\.\d{3}$`, a.header.Get("Server-Timing"))
	receipt := a.header.Get("Doorbuster-Receipt")
	require.NotEmpty(t, receipt)

	again := w.buy(t, u1, "drop", "k1", one)
	require.Equal(t, o, want[client.Order](t, http.StatusAccepted, again))
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	again = w.call(t, u1, "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k1", "Doorbuster-Receipt", receipt)
	require.Equal(t, o, want[client.Order](t, http.StatusAccepted, again))
	require.Equal(t, receipt, again.header.Get("Doorbuster-Receipt"))
	w.buy(t, u1, "drop", "k1", `{"quantity":2}`).requireCode(t, http.StatusConflict, "idempotency_mismatch")

	shown := w.call(t, u1, "GET /v1/orders/"+o.ID, "")
	require.Equal(t, o, want[client.Order](t, http.StatusOK, shown))
	require.Equal(t, "1", shown.header.Get("Retry-After"))
	w.call(t, buyer(t, "u2"), "GET /v1/orders/"+o.ID, "").requireCode(t, http.StatusNotFound, "order_not_found")
	w.call(t, w.shop, "GET /v1/orders/"+o.ID, "").requireCode(t, http.StatusNotFound, "order_not_found")
	require.Equal(t, "u1", want[client.Order](t, http.StatusOK, w.call(t, w.shop, "GET /v1/orders/"+o.ID+"?on_behalf_of=u1", "")).User)
	require.Equal(t, "queued", want[client.Order](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/orders/"+o.ID+"?user=u1", "")).State)
	w.call(t, w.admin, "GET /v1/admin/orders/"+o.ID+"?buyer=u1", "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")

	stats := want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", ""))
	require.Equal(t, []client.SaleStats{{ID: "drop", Status: "live", Path: "fast", Epoch: stats.Sales[0].Epoch, Stock: 3, Left: 3, Queued: new(int64(1))}}, stats.Sales)

	w.judge(t, "drop")
	again = w.buy(t, u1, "drop", "k1", one)
	judged := want[client.Order](t, http.StatusOK, again)
	require.Equal(t, "reserved", judged.State)
	require.Equal(t, judged.ReservedAt.Add(sale.DefaultHold), *judged.ExpiresAt)
	require.Empty(t, again.header.Get("Doorbuster-Receipt"))
	require.Empty(t, again.header.Get("Retry-After"))
	shown = w.call(t, u1, "GET /v1/orders/"+o.ID, "")
	require.Equal(t, judged, want[client.Order](t, http.StatusOK, shown))
	require.Empty(t, shown.header.Get("Retry-After"))
	paid := want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+o.ID+"/payments", `{"payment_id":"p1","status":"succeeded","amount":1000,"currency":"EUR"}`))
	require.Equal(t, "paid", paid.Outcome)
}

func TestQueuedOrdersLeadTheList(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 9)
	w.openSale(t, "plain", 9)
	u1 := buyer(t, "u1")
	judged := make([]string, 0, 2)
	for _, key := range []string{"k1", "k2"} {
		judged = append(judged, want[client.Order](t, http.StatusCreated, w.buy(t, u1, "plain", key, one)).ID)
		w.store.Advance(1000)
	}
	queued := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k", one))
	list := func(who, path string) client.Page[client.Order] {
		return want[client.Page[client.Order]](t, http.StatusOK, w.call(t, who, "GET "+path, ""))
	}
	first := list(u1, "/v1/orders?limit=1")
	require.Len(t, first.Data, 2)
	require.Equal(t, queued, first.Data[0], "it does not count among the limit")
	rest := list(u1, "/v1/orders?limit=1&after="+first.Next)
	require.ElementsMatch(t, judged, []string{first.Data[1].ID, rest.Data[0].ID})
	require.Len(t, rest.Data, 1)
	require.Empty(t, rest.Next)
	require.Equal(t, []client.Order{queued}, list(u1, "/v1/orders?state=queued").Data)
	require.Empty(t, list(u1, "/v1/orders?state=queued&sale=plain").Data)
	require.Len(t, list(u1, "/v1/orders?state=reserved").Data, 2)
	require.Len(t, list(w.admin, "/v1/admin/orders?user=u1").Data, 3)
	require.Len(t, list(w.admin, "/v1/admin/orders").Data, 2)

	p := w.buy(t, u1, "drop", "k2", `{"quantity":2}`).requireCode(t, http.StatusConflict, "limit_reached")
	require.Equal(t, []client.Order{queued}, p.Orders, "what the buyer has may still be queued")
}

func TestCancellingAQueuedOrder(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 3)
	u1 := buyer(t, "u1")
	first := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k1", one)).ID
	second := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k2", one)).ID
	w.call(t, buyer(t, "u2"), "POST /v1/orders/"+first+"/cancel", "").requireCode(t, http.StatusNotFound, "order_not_found")
	for range 2 {
		require.Equal(t, "cancelled", want[client.Order](t, http.StatusOK, w.call(t, u1, "POST /v1/orders/"+first+"/cancel", "")).State)
	}
	require.Equal(t, "cancelled", want[client.Order](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+second+"/cancel", `{"on_behalf_of":"u1"}`)).State)
	w.judge(t, "drop")
	require.Equal(t, "cancelled", want[client.Order](t, http.StatusOK, w.buy(t, u1, "drop", "k1", one)).State, "the slip comes too late")
	require.EqualValues(t, 3, w.left(t, "drop"))
}

// What was refunded before counts by the limit rule that a running sale is given.
func TestLimitRuleOfARunningFastSale(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2} {
		w := buildWorld(t, settings{fast: lanes})
		w.openFast(t, "drop", 4)
		u1 := buyer(t, "u1")
		id := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k1", `{"quantity":2}`)).ID
		w.judge(t, "drop")
		want[client.PaymentResult](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+id+"/payments", `{"payment_id":"p1","status":"succeeded","amount":2000,"currency":"EUR"}`))
		want[client.Order](t, http.StatusOK, w.call(t, w.shop, "POST /v1/orders/"+id+"/refund", `{"restock":true}`))
		s := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "PATCH "+office+"/drop", `{"limit_rule":"ever_paid"}`, "If-Match", "*"))
		require.Equal(t, "fast", s.Path)
		require.Equal(t, "ever_paid", s.LimitRule)
		w.buy(t, u1, "drop", "k2", one).requireCode(t, http.StatusConflict, "limit_reached")
		want[client.Order](t, http.StatusAccepted, w.buy(t, buyer(t, "u2"), "drop", "k1", one))
		want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "PATCH "+office+"/drop", `{"limit_rule":"live"}`, "If-Match", "*"))
		want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k2", one))
	}
}

// cut takes units away from a sale, a moment later.
func (w *world) cut(t *testing.T, slug string, units int64) {
	t.Helper()
	w.store.Advance(time.Millisecond)
	want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/"+slug+"/restock", fmt.Sprintf(`{"add":%d}`, -units)))
}

// An order that the fast counter has lost is honoured for who can prove it.
func TestReceipt(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 3)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	lost := w.buy(t, u1, "drop", "k1", one)
	proof := []string{"Doorbuster-Receipt", lost.header.Get("Doorbuster-Receipt")}
	path := "GET /v1/orders/" + want[client.Order](t, http.StatusAccepted, lost).ID
	w.counter.Wipe()
	w.call(t, u1, path, "").requireCode(t, http.StatusNotFound, "order_not_found")
	w.call(t, u2, path, "", proof...).requireCode(t, http.StatusNotFound, "order_not_found")
	w.call(t, u1, path, "", "Doorbuster-Receipt", "forged").requireCode(t, http.StatusNotFound, "order_not_found")
	for _, bad := range []string{"a b", "ä", strings.Repeat("a", 1025)} {
		p := w.call(t, u1, path, "", "Doorbuster-Receipt", bad).requireCode(t, http.StatusBadRequest, "invalid_header")
		require.Equal(t, "Doorbuster-Receipt", p.Field)
	}
	w.call(t, u1, path, "", append(proof, proof...)...).requireCode(t, http.StatusBadRequest, "invalid_header")
	w.call(t, u1, "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k1", "Doorbuster-Receipt", "a b").requireCode(t, http.StatusBadRequest, "invalid_header")
	require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, w.call(t, u1, path, "", proof...)).State)
	require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, w.call(t, u1, path, "")).State)
	require.EqualValues(t, 2, w.left(t, "drop"))

	// A repeated buy with its receipt is answered by it, though the counter is down.
	other := want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, "POST "+office+"/drop/preheat", ""))
	require.Equal(t, "fast", other.Path)
	lost = w.buy(t, u2, "drop", "k1", one)
	want[client.Order](t, http.StatusAccepted, lost)
	w.counter.Wipe()
	got := w.call(t, u2, "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k1", "Doorbuster-Receipt", lost.header.Get("Doorbuster-Receipt"))
	require.Equal(t, "reserved", want[client.Order](t, http.StatusOK, got).State)
	require.Equal(t, "true", got.header.Get("Idempotency-Replayed"))
}

func TestStreamTellsOfJudgements(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, onFast())
	w.openFast(t, "drop", 2)
	u1 := buyer(t, "u1")
	first := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k1", one))
	l := w.listen(t, u1, "drop")
	l.next(t, "sale")
	w.judge(t, "drop")
	var o client.Order
	w.sse(t, l.next(t, "order"), &o)
	require.Equal(t, first.ID, o.ID)
	require.Equal(t, "reserved", o.State)

	second := want[client.Order](t, http.StatusAccepted, w.buy(t, u1, "drop", "k2", one))
	w.cut(t, "drop", 1)
	w.judge(t, "drop")
	m := l.next(t, "order")
	o = client.Order{}
	w.sse(t, m, &o)
	require.Equal(t, second.ID, o.ID)
	require.Equal(t, "rejected", o.State)
	require.Equal(t, "stock_reduced", o.Reason)
	require.NotEmpty(t, m.id)
	got := w.buy(t, u1, "drop", "k2", one)
	require.Equal(t, o, want[client.Order](t, http.StatusOK, got), "a rejection is final: its key shows it")
	require.Equal(t, "true", got.header.Get("Idempotency-Replayed"))
}
