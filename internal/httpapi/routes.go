package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// scope says who may call a route.
type scope uint8

const (
	anybody     scope = iota
	maybeBuyer        // anybody; a token, if there is one, must be good
	buyerOrShop       // a buyer for himself, or a shop key
	shop
	admin
)

// route is one line of the table.
type route struct {
	method    string
	pattern   string
	operation string // operationId in the OpenAPI document
	class     *class // of the request; nil for what is served from memory or has caps of its own
	scope     scope
	body      int64 // most bytes of the request's body; 0 for none
	handle    func(context.Context, *exchange) error

	counted *obs.Operation
}

// routes is the whole API: every path there is, and who may call it.
func (a *API) routes() []route {
	g, body, big := &a.classes, a.opts.MaxBody, a.opts.MaxBody*adminFactor
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

		sales, oneSale   = "/v1/sales", "/v1/sales/{sale}"
		orders, oneOrder = "/v1/orders", "/v1/orders/{order}"
		office, oneDesk  = "/v1/admin/sales", "/v1/admin/sales/{sale}"
		letters          = "/v1/admin/deadletters"
		bans, gateDesk   = "/v1/admin/bans", "/v1/admin/gate"
	)
	return []route{
		{get, "/openapi.yaml", "getOpenAPI", nil, anybody, 0, getOpenAPI, nil},

		{get, sales, "listSales", g.read, anybody, 0, listSales, nil},
		{get, oneSale, "getSale", g.read, anybody, 0, getSale, nil},
		{get, oneSale + "/events", "streamSale", nil, maybeBuyer, 0, streamSale, nil},

		{post, oneSale + "/orders", "buy", g.buy, buyerOrShop, body, buy, nil},
		{post, oneSale + "/orders/{path}", "buyHidden", g.buy, buyerOrShop, body, buyHidden, nil},
		{post, oneSale + "/passes", "getPass", g.buy, buyerOrShop, body, getPass, nil},
		{get, orders, "listOrders", g.read, buyerOrShop, 0, listOrders, nil},
		{get, oneOrder, "getOrder", g.read, buyerOrShop, 0, getOrder, nil},
		{post, oneOrder + "/cancel", "cancelOrder", g.pay, buyerOrShop, body, cancelOrder, nil},

		{post, oneOrder + "/payments", "payOrder", g.pay, shop, body, payOrder, nil},
		{post, oneOrder + "/refund", "refundOrder", g.pay, shop, body, refundOrder, nil},
		{get, "/v1/refunds", "listRefunds", g.read, shop, 0, listRefunds, nil},
		{post, "/v1/refunds/{refund}/done", "finishRefund", g.pay, shop, body, finishRefund, nil},

		{get, office, "adminListSales", g.admin, admin, 0, adminListSales, nil},
		{post, office, "adminCreateSale", g.admin, admin, big, adminCreateSale, nil},
		{get, oneDesk, "adminGetSale", g.admin, admin, 0, adminGetSale, nil},
		{patch, oneDesk, "adminPatchSale", g.admin, admin, big, adminPatchSale, nil},
		{del, oneDesk, "adminDeleteSale", g.admin, admin, 0, adminDeleteSale, nil},
		{post, oneDesk + "/publish", "adminPublishSale", g.admin, admin, body, adminAct(sale.ActionPublish), nil},
		{post, oneDesk + "/pause", "adminPauseSale", g.admin, admin, body, adminAct(sale.ActionPause), nil},
		{post, oneDesk + "/resume", "adminResumeSale", g.admin, admin, body, adminAct(sale.ActionResume), nil},
		{post, oneDesk + "/close", "adminCloseSale", g.admin, admin, body, adminAct(sale.ActionClose), nil},
		{post, oneDesk + "/restock", "adminRestockSale", g.admin, admin, body, adminRestockSale, nil},
		{post, oneDesk + "/preheat", "adminPreheatSale", g.admin, admin, body, adminPreheatSale, nil},
		{post, oneDesk + "/path", "adminRouteSale", g.admin, admin, body, adminRouteSale, nil},
		{post, oneDesk + "/audit", "adminAuditSale", g.admin, admin, body, adminAuditSale, nil},
		{get, "/v1/admin/orders", "adminListOrders", g.admin, admin, 0, adminListOrders, nil},
		{get, "/v1/admin/orders/{order}", "adminGetOrder", g.admin, admin, 0, adminGetOrder, nil},
		{post, "/v1/admin/orders/{order}/cancel", "adminCancelOrder", g.admin, admin, body, adminCancelOrder, nil},
		{get, letters, "adminListDeadLetters", g.admin, admin, 0, adminListLetters, nil},
		{post, letters + "/{letter}/replay", "adminReplayDeadLetter", g.admin, admin, body, adminReplayLetter, nil},
		{post, letters + "/{letter}/drop", "adminDropDeadLetter", g.admin, admin, body, adminDropLetter, nil},
		{get, bans, "adminListBans", g.admin, admin, 0, adminListBans, nil},
		{post, bans, "adminPutBan", g.admin, admin, body, adminPutBan, nil},
		{post, bans + "/drop", "adminDropBan", g.admin, admin, body, adminDropBan, nil},
		{get, gateDesk, "adminGetGate", g.admin, admin, 0, adminGetGate, nil},
		{put, gateDesk, "adminPutGate", g.admin, admin, big, adminPutGate, nil},
		{post, gateDesk + "/keys", "adminRotateGateKey", g.admin, admin, body, adminRotateGateKey, nil},
		{get, "/v1/admin/stats", "adminGetStats", g.admin, admin, 0, adminGetStats, nil},
	}
}

// authenticate finds out who is calling and whether the route is for them.
func (x *exchange) authenticate(ctx context.Context) error {
	credentials := x.r.Header["Authorization"]
	switch x.route.scope {
	case anybody:
		return nil
	case maybeBuyer:
		if len(credentials) == 0 {
			return nil
		}
		who, err := x.api.auth.Buyer(ctx, credentials)
		x.who = who
		return err
	case buyerOrShop, shop, admin:
	}
	who, err := x.api.auth.Authenticate(ctx, credentials)
	if err != nil {
		return err
	}
	x.who = who
	allowed, needs := false, ""
	switch x.route.scope {
	case anybody, maybeBuyer: // answered above
	case buyerOrShop:
		allowed, needs = who.User != "" || who.Has(auth.ScopeShop), "this needs a buyer's token or an API key with scope shop"
	case shop:
		allowed, needs = who.Has(auth.ScopeShop), "this needs an API key with scope shop"
	case admin:
		allowed, needs = who.Has(auth.ScopeAdmin), "this needs an API key with scope admin"
	}
	if !allowed {
		return auth.Forbidden(needs)
	}
	return nil
}

func wrongMethod(allowed []string) func(context.Context, *exchange) error {
	value := []string{strings.Join(append(allowed, http.MethodOptions), ", ")}
	return func(_ context.Context, x *exchange) error {
		x.w.Header()["Allow"] = value
		return &sale.Error{Code: codeNoMethod, Message: "this path does not take this method", Hint: "Allow lists the methods"}
	}
}

func noRoute(context.Context, *exchange) error {
	return &sale.Error{Code: codeNoRoute, Message: "there is no such path", Hint: "see /openapi.yaml"}
}
