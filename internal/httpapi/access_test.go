package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
)

// C65: the matrix of callers, endpoints and ownership. Each cell is the status
// that the caller must get; everything but 2xx must leave no trace.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50)
	owner, stranger := buyer(t, "u1"), buyer(t, "u2")
	order := want[client.Order](t, http.StatusCreated, w.buy(t, owner, "drop", "k", one))
	revoked, text, err := auth.NewAPIKey("old", []string{"shop", "admin", "ops"})
	require.NoError(t, err)
	require.NoError(t, w.book.PutAPIKey(t.Context(), revoked))
	require.NoError(t, w.book.RevokeAPIKey(t.Context(), revoked.ID))
	expired := token(t, auth.Claims{User: "u1", Issuer: issuer, Audience: audience, Expires: time.Now().Add(-time.Minute)})
	alien := token(t, auth.Claims{User: "u1", Issuer: "https://evil.example", Audience: audience, Expires: time.Now().Add(time.Hour)})

	const (
		ok     = 200
		made   = 201
		noAuth = 401
		no     = 403
		hidden = 404
		input  = 422 // allowed in, but the body is empty or names nobody
	)
	callers := []struct{ name, credentials string }{
		{"nobody", nobody},
		{"garbage", "Bearer x.y.z"},
		{"basic", "Basic dTE6"},
		{"expired", expired},
		{"alien", alien},
		{"revoked", "Bearer " + text},
		{"owner", owner},
		{"stranger", stranger},
		{"shop", w.shop},
		{"admin", w.admin},
		{"ops", w.ops},
	}
	id := order.ID
	// Cells: unauthenticated callers, owner, stranger, shop, admin, ops.
	rows := []struct {
		method, path, body                        string
		outside, owner, stranger, shop, admin, op int
	}{
		{"GET", "/v1/sales", "", ok, ok, ok, ok, ok, ok},
		{"GET", "/v1/sales/drop", "", ok, ok, ok, ok, ok, ok},
		{"GET", "/openapi.yaml", "", ok, ok, ok, ok, ok, ok},
		{"GET", "/v1/orders/" + id, "", noAuth, ok, hidden, ok, no, no},
		{"GET", "/v1/orders/" + id + "?on_behalf_of=u1", "", noAuth, no, no, ok, no, no},
		{"GET", "/v1/orders/" + id + "?on_behalf_of=u2", "", noAuth, no, no, hidden, no, no},
		{"GET", "/v1/orders", "", noAuth, ok, ok, input, no, no},
		{"GET", "/v1/orders?on_behalf_of=u1", "", noAuth, no, no, ok, no, no},
		{"GET", "/v1/orders?user=u1", "", noAuth, input, input, input, no, no},
		{"POST", "/v1/sales/drop/orders", one, noAuth, made, made, input, no, no},
		{"POST", "/v1/sales/drop/orders", `{"quantity":1,"on_behalf_of":"u9"}`, noAuth, no, no, made, no, no},
		{"POST", "/v1/sales/drop/orders", `{"quantity":1,"client_ip":"192.0.2.1"}`, noAuth, no, no, input, no, no},
		{"POST", "/v1/orders/" + id + "/payments", `{"payment_id":"p","status":"failed","amount":1000,"currency":"EUR"}`, noAuth, no, no, ok, no, no},
		{"POST", "/v1/orders/" + id + "/refund", `{}`, noAuth, no, no, input, no, no},
		{"GET", "/v1/refunds", "", noAuth, no, no, ok, no, no},
		{"POST", "/v1/refunds/rfd_aaaaaaaaaaaaaaaaaaaaaaaaaa/done", "", noAuth, no, no, hidden, no, no},
		{"GET", "/v1/admin/sales", "", noAuth, no, no, no, ok, no},
		{"POST", "/v1/admin/sales", `{}`, noAuth, no, no, no, input, no},
		{"GET", "/v1/admin/sales/drop", "", noAuth, no, no, no, ok, no},
		{"PATCH", "/v1/admin/sales/drop", `{"per_user_limit":0}`, noAuth, no, no, no, input, no},
		{"DELETE", "/v1/admin/sales/none", "", noAuth, no, no, no, hidden, no},
		{"POST", "/v1/admin/sales/drop/publish", "", noAuth, no, no, no, 409, no},
		{"POST", "/v1/admin/sales/none/pause", "", noAuth, no, no, no, hidden, no},
		{"POST", "/v1/admin/sales/none/resume", "", noAuth, no, no, no, hidden, no},
		{"POST", "/v1/admin/sales/none/close", "", noAuth, no, no, no, hidden, no},
		{"POST", "/v1/admin/sales/drop/restock", `{}`, noAuth, no, no, no, input, no},
		{"POST", "/v1/admin/sales/drop/audit", "", noAuth, no, no, no, ok, no},
		{"GET", "/v1/admin/orders", "", noAuth, no, no, no, ok, no},
		{"GET", "/v1/admin/orders/" + id, "", noAuth, no, no, no, ok, no},
		{"POST", "/v1/admin/orders/ord_aaaaaaaaaaaaaaaaaaaaaaaaaa/cancel", "", noAuth, no, no, no, hidden, no},
		{"GET", "/v1/admin/stats", "", noAuth, no, no, no, ok, no},
		{"POST", "/v1/sales/drop/passes", "", noAuth, made, made, input, no, no},
		{"POST", "/v1/sales/drop/passes", `{"on_behalf_of":"u1"}`, noAuth, no, no, made, no, no},
		{"POST", "/v1/sales/drop/orders/x", one, noAuth, no, no, input, no, no},
		{"GET", "/v1/admin/bans", "", noAuth, no, no, no, ok, no},
		{"POST", "/v1/admin/bans", `{}`, noAuth, no, no, no, input, no},
		{"POST", "/v1/admin/bans/drop", `{"kind":"user","value":"none"}`, noAuth, no, no, no, hidden, no},
		{"GET", "/v1/admin/gate", "", noAuth, no, no, no, ok, no},
		{"PUT", "/v1/admin/gate", `{"limits":[]}`, noAuth, no, no, no, ok, no},
		{"POST", "/v1/admin/gate/keys", "", noAuth, no, no, no, ok, no},
		// Last, because it succeeds for some.
		{"POST", "/v1/orders/" + id + "/cancel", `{"on_behalf_of":"u2"}`, noAuth, no, no, hidden, no, no},
		{"POST", "/v1/orders/" + id + "/cancel", `{"on_behalf_of":"u1"}`, noAuth, no, no, ok, no, no},
		{"POST", "/v1/orders/" + id + "/cancel", "", noAuth, ok, hidden, ok, no, no},
	}
	for n, row := range rows {
		for _, c := range callers {
			status := map[string]int{"owner": row.owner, "stranger": row.stranger, "shop": row.shop, "admin": row.admin, "ops": row.op}[c.name]
			if status == 0 {
				status = row.outside
			}
			a := w.call(t, c.credentials, row.method+" "+row.path, row.body, "Idempotency-Key", fmt.Sprint(c.name, n), "If-Match", "*")
			require.Equal(t, status, a.status, "%s: %s %s %s: %s", c.name, row.method, row.path, row.body, a.body)
			if status == noAuth {
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
		}
	}
}

// A foreign order and one that never was are answered with the same bytes.
func TestForeignOrdersLookLikeNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 50)
	order := want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	stranger := buyer(t, "u2")
	unknown := "ord_" + strings.Repeat("a", 25) + "q"
	for _, act := range []struct{ method, tail string }{{http.MethodGet, ""}, {http.MethodPost, "/cancel"}} {
		foreign := w.call(t, stranger, act.method+" /v1/orders/"+order.ID+act.tail, "")
		for _, id := range []string{unknown, "ord_x", "x", strings.ToUpper(order.ID), order.ID + "a", "ord_" + strings.Repeat("a", 26)} {
			none := w.call(t, stranger, act.method+" /v1/orders/"+id+act.tail, "")
			none.requireCode(t, http.StatusNotFound, "order_not_found")
			require.Equal(t, string(none.body), string(foreign.body))
			require.Equal(t, none.status, foreign.status)
		}
	}
	w.call(t, w.shop, "POST /v1/orders/"+unknown+"/payments", `{"payment_id":"p","status":"succeeded","amount":1000,"currency":"EUR"}`).
		requireCode(t, http.StatusNotFound, "order_not_found")
	refunds := want[client.Page[client.Refund]](t, http.StatusOK, w.call(t, w.shop, "GET /v1/refunds", ""))
	require.Empty(t, refunds.Data, "a payment for no order stores nothing")
}

// C51, C52: a user is his bytes; nothing is folded or trimmed.
func TestC51UsersAreComparedByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 50, func(n *client.NewSale) { n.PerUserLimit = 1 })
	ids := make(map[string]bool)
	for _, user := range []string{
		"u1", "U1", " u1", "u1 ", "ü1", "u\u03081", "ｕ1", "u１", "u1\u200b", "\u202eu1", "υ1", "u\u00b9", "jo@x.example", "Jo@x.example", "j.o+1@x.example", "jо@x.example",
	} {
		o := want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, user), "drop", "k", one))
		require.False(t, ids[o.ID])
		ids[o.ID] = true
		w.buy(t, buyer(t, user), "drop", "k2", one).requireCode(t, http.StatusConflict, "limit_reached")
	}
	for _, user := range []string{"", "a\u0000b", strings.Repeat("u", 129)} {
		body := fmt.Sprintf(`{"quantity":1,"on_behalf_of":%q}`, user)
		body = strings.ReplaceAll(body, `\x00`, `\u0000`)
		p := w.buy(t, w.shop, "drop", "k", body).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, "on_behalf_of", p.Field)
	}
	w.buy(t, w.shop, "drop", "k", `{"quantity":1,"on_behalf_of":"x","client_ip":"localhost"}`).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	want[client.Order](t, http.StatusCreated, w.buy(t, w.shop, "drop", "k", `{"quantity":1,"on_behalf_of":"x","client_ip":"2001:db8::1"}`))
	require.Contains(t, w.log.String(), "buyer_ip=2001:db8::1")
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 50)
	u1 := buyer(t, "u1")
	want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k", one))
	w.buy(t, u1+"x", "drop", "k", one).requireCode(t, http.StatusUnauthorized, "unauthenticated")
	log := w.log.String()
	require.Contains(t, log, "operation=buy")
	for _, secret := range []string{u1, w.admin, w.shop} {
		require.NotContains(t, log, strings.TrimPrefix(secret, "Bearer "))
		require.NotContains(t, log, secret[len(secret)-20:])
	}
}
