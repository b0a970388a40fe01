package strategy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	currency = "EUR"
	price    = 100
	item     = "unit"
	mostBody = 4 << 10

	lockNotAvailable = "55P03"
)

// handler serves what a crowd needs of Doorbuster's API: buy, cancel, and the sale.
func handler(w *World, shop Shop) http.Handler {
	c := &counter{w: w, shop: shop}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sales/{sale}/orders", c.answer(c.buy))
	mux.HandleFunc("POST /v1/orders/{order}/cancel", c.answer(c.cancel))
	mux.HandleFunc("GET /v1/sales/{sale}", c.answer(c.show))
	return mux
}

type counter struct {
	w    *World
	shop Shop
}

// answer bounds the waiting of a buyer and writes what came of it.
func (c *counter) answer(do func(*http.Request) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		status, body, err := do(r.WithContext(ctx))
		if isCode(err, lockNotAvailable) { // within the patience
			err = sale.Busy()
		}
		kind := "application/json"
		if err != nil {
			p := problemOf(err)
			if p.Status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			kind, status, body = "application/problem+json", p.Status, p
		}
		if o, ok := body.(client.Order); ok && status == http.StatusCreated {
			w.Header().Set("Location", "/v1/orders/"+o.ID)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // a buyer who has gone
	}
}

func (c *counter) buy(r *http.Request) (int, any, error) {
	buyer := buyerOf(r)
	key := r.Header.Get("Idempotency-Key")
	a := client.Attempt{Quantity: 1}
	body, err := io.ReadAll(r.Body)
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &a)
	}
	switch {
	case buyer == "":
		return 0, nil, &sale.Error{Code: sale.CodeUnauthenticated, Message: "there is no token", Hint: "send Authorization: Bearer TOKEN"}
	case key == "":
		return 0, nil, &sale.Error{Code: sale.CodeKeyRequired, Message: "there is no Idempotency-Key", Hint: "send one per click"}
	case err != nil:
		return 0, nil, sale.Invalid("body", "the body is no attempt", `send {"quantity":1}`)
	case a.Quantity != 1:
		return 0, nil, sale.InvalidQuantity(1)
	case r.PathValue("sale") != c.w.sale:
		return 0, nil, sale.SaleNotFound()
	}
	id, err := c.shop.Buy(r.Context(), Click{Buyer: buyer, Key: key})
	return http.StatusCreated, c.order(id, "reserved"), err
}

func (c *counter) cancel(r *http.Request) (int, any, error) {
	id := r.PathValue("order")
	return http.StatusOK, c.order(id, "cancelled"), c.shop.Cancel(r.Context(), id)
}

func (c *counter) show(r *http.Request) (int, any, error) {
	if r.PathValue("sale") != c.w.sale {
		return 0, nil, sale.SaleNotFound()
	}
	left, err := c.w.left(r.Context())
	return http.StatusOK, client.Sale{
		ID: c.w.sale, Title: c.w.Title, Status: "live", PerUserLimit: 1, Currency: currency,
		Items: []client.Item{{SKU: item, Title: item, Price: price, Left: left}},
	}, err
}

func (c *counter) order(id, state string) client.Order {
	now := time.Now().UTC()
	o := client.Order{ID: id, Sale: c.w.sale, SKU: item, Quantity: 1, Amount: price, Currency: currency, State: state, ReservedAt: now}
	if state != "reserved" {
		o.EndedAt = &now
	}
	return o
}

// buyerOf returns the subject of the token, or nothing. It is not verified: the
// strategies are about stock.
func buyerOf(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Subject
}

func problemOf(err error) client.Problem {
	code := sale.CodeOf(err)
	p := client.Problem{Type: "about:blank", Code: string(code), Status: statusOf(code), Detail: err.Error()}
	p.Title = http.StatusText(p.Status)
	return p
}

// statusOf returns the status of a code that a shop may answer with.
func statusOf(code sale.Code) int {
	switch code { //nolint:exhaustive // the others come from no shop
	case sale.CodeSoldOut, sale.CodeLimitReached:
		return http.StatusConflict
	case sale.CodeSaleNotFound, sale.CodeOrderNotFound:
		return http.StatusNotFound
	case sale.CodeUnauthenticated:
		return http.StatusUnauthorized
	case sale.CodeKeyRequired:
		return http.StatusBadRequest
	case sale.CodeInvalid, sale.CodeInvalidQuantity:
		return http.StatusUnprocessableEntity
	default:
		return http.StatusServiceUnavailable
	}
}
