package strategy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stub answers as it is told to, and remembers who asked.
type stub struct {
	err   error
	click Click
}

func (s *stub) Buy(_ context.Context, c Click) (string, error) {
	s.click = c
	return "ord_1", s.err
}

func (s *stub) Cancel(context.Context, string) error { return s.err }

// token is one of a buyer called ann, signed by nobody.
const token = "Bearer e30.eyJzdWIiOiJhbm4ifQ.c2ln" //nolint:gosec // it opens nothing

func ask(t *testing.T, shop Shop, r *http.Request) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	handler(&World{sale: "s"}, shop).ServeHTTP(w, r)
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return w, body
}

func click(t *testing.T, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sales/s/orders", strings.NewReader(body))
	r.Header.Set("Authorization", token)
	r.Header.Set("Idempotency-Key", "k")
	return r
}

func TestShopAnswersInTheWordsOfDoorbuster(t *testing.T) {
	t.Parallel()
	shop := &stub{}
	w, body := ask(t, shop, click(t, `{"quantity":1}`))
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "/v1/orders/ord_1", w.Header().Get("Location"))
	require.Equal(t, "ord_1", body["order"])
	require.Equal(t, "reserved", body["state"])
	require.InDelta(t, 1, body["quantity"], 0)
	require.Equal(t, Click{Buyer: "ann", Key: "k"}, shop.click)

	w, body = ask(t, shop, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/orders/ord_1/cancel", http.NoBody))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "cancelled", body["state"])
}

func TestShopRefusesInTheWordsOfDoorbuster(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		err    error
		status int
	}{
		"sold_out":        {soldOut(), http.StatusConflict},
		"limit_reached":   {limitReached(), http.StatusConflict},
		"busy":            {sale.Busy(), http.StatusServiceUnavailable},
		"order_not_found": {sale.OrderNotFound(), http.StatusNotFound},
		"unavailable":     {errors.New("the connection broke"), http.StatusServiceUnavailable},
	} {
		w, body := ask(t, &stub{err: c.err}, click(t, ""))
		require.Equal(t, c.status, w.Code, code)
		require.Equal(t, code, body["code"])
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Equal(t, c.status == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "", code)
	}
}

func TestShopRefusesWhatIsNoClick(t *testing.T) {
	t.Parallel()
	change := func(of func(*http.Request)) *http.Request {
		r := click(t, "{}")
		of(r)
		return r
	}
	for _, c := range []struct {
		request *http.Request
		code    sale.Code
	}{
		{change(func(r *http.Request) { r.Header.Del("Authorization") }), sale.CodeUnauthenticated},
		{change(func(r *http.Request) { r.Header.Set("Authorization", "Bearer a.%.c") }), sale.CodeUnauthenticated},
		{change(func(r *http.Request) { r.Header.Set("Authorization", "Bearer a.e30.c") }), sale.CodeUnauthenticated},
		{change(func(r *http.Request) { r.Header.Del("Idempotency-Key") }), sale.CodeKeyRequired},
		{change(func(r *http.Request) { r.URL.Path = "/v1/sales/other/orders" }), sale.CodeSaleNotFound},
		{click(t, `{"quantity":2}`), sale.CodeInvalidQuantity},
		{click(t, `{`), sale.CodeInvalid},
		{click(t, strings.Repeat(" ", mostBody+1)), sale.CodeInvalid},
		{httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/sales/other", http.NoBody), sale.CodeSaleNotFound},
	} {
		shop := &stub{}
		w, body := ask(t, shop, c.request)
		require.Equal(t, string(c.code), body["code"])
		require.GreaterOrEqual(t, w.Code, http.StatusBadRequest)
		require.Empty(t, shop.click)
	}
}

// What the crowd and the server share is one set of types.
func TestOrderHasTheFieldsOfTheAPI(t *testing.T) {
	t.Parallel()
	o := (&counter{w: &World{sale: "s"}}).order("ord_1", "cancelled")
	require.Equal(t, client.Order{
		ID: "ord_1", Sale: "s", SKU: item, Quantity: 1, Amount: price, Currency: currency, State: "cancelled",
		ReservedAt: o.ReservedAt, EndedAt: o.EndedAt,
	}, o)
	require.NotNil(t, o.EndedAt)
}
