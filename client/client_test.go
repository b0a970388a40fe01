package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// seen is one request as it reached the fake server.
type seen struct {
	Method, URI, Key, Auth, Match, None, Agent, Body string
}

// door is a server whose answers are written down before: one step a request,
// the last one for all that follow.
type door struct {
	mu    sync.Mutex
	got   []seen
	steps []http.HandlerFunc
}

func open(t *testing.T, steps ...http.HandlerFunc) (*door, *client.Client) {
	t.Helper()
	d := &door{steps: steps}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Options{URL: srv.URL, Token: "tok", Retry: quick()})
	require.NoError(t, err)
	return d, c
}

func quick() client.Retry {
	return client.Retry{Pause: time.Millisecond, MaxPause: 20 * time.Millisecond, TryTimeout: 2 * time.Second}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	step := d.steps[min(len(d.got), len(d.steps)-1)]
	d.got = append(d.got, seen{
		Method: r.Method, URI: r.RequestURI, Key: r.Header.Get("Idempotency-Key"), Auth: r.Header.Get("Authorization"),
		Match: r.Header.Get("If-Match"), None: r.Header.Get("If-None-Match"), Agent: r.UserAgent(), Body: string(body),
	})
	d.mu.Unlock()
	step(w, r)
}

func (d *door) seen() []seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]seen(nil), d.got...)
}

func reply(status int, body any, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		if body != nil {
			_ = json.NewEncoder(w).Encode(body)
		}
	}
}

func problem(status int, code string, headers ...string) http.HandlerFunc {
	headers = append(headers, "Content-Type", "application/problem+json")
	return reply(status, client.Problem{Type: "about:blank", Title: "no", Status: status, Code: code, Detail: "the detail", Hint: "the hint"}, headers...)
}

// lose carries the request out and hangs up before answering.
func lose(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// hang answers nothing until the caller has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func garbage(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "<html>welcome</html>")
}

func TestEveryMethodSpeaksItsEndpoint(t *testing.T) {
	t.Parallel()
	one := int64(1)
	page := client.Page[client.Order]{}
	tests := []struct {
		name   string
		answer any
		call   func(ctx context.Context, c *client.Client) error
		want   seen
	}{
		{"sales", client.Page[client.Sale]{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Sales(ctx)
			return err
		}, seen{Method: "GET", URI: "/v1/sales"}},
		{"sale", client.Sale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Sale(ctx, "a-b", `"7"`)
			return err
		}, seen{Method: "GET", URI: "/v1/sales/a-b", None: `"7"`}},
		{"buy", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Buy(ctx, "s", "click-1", client.Attempt{SKU: "x", Quantity: 2})
			return err
		}, seen{Method: "POST", URI: "/v1/sales/s/orders", Key: "click-1", Body: `{"item":"x","quantity":2}`}},
		{"order", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Order(ctx, "ord_1")
			return err
		}, seen{Method: "GET", URI: "/v1/orders/ord_1"}},
		{"orders", page, func(ctx context.Context, c *client.Client) error {
			_, err := c.Orders(ctx, client.OrderQuery{Sale: "s", State: "paid", After: "n", Limit: 5})
			return err
		}, seen{Method: "GET", URI: "/v1/orders?after=n&limit=5&sale=s&state=paid"}},
		{"cancel", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Cancel(ctx, "ord_1")
			return err
		}, seen{Method: "POST", URI: "/v1/orders/ord_1/cancel"}},
		{"pay", client.PaymentResult{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Pay(ctx, "ord_1", client.Payment{ID: "p", Status: "succeeded", Amount: 3, Currency: "EUR"})
			return err
		}, seen{Method: "POST", URI: "/v1/orders/ord_1/payments", Body: `{"payment_id":"p","status":"succeeded","amount":3,"currency":"EUR"}`}},
		{"refund", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Refund(ctx, "ord_1", client.RefundRequest{Restock: true})
			return err
		}, seen{Method: "POST", URI: "/v1/orders/ord_1/refund", Body: `{"restock":true}`}},
		{"refunds", client.Page[client.Refund]{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Refunds(ctx, client.RefundQuery{State: "required"})
			return err
		}, seen{Method: "GET", URI: "/v1/refunds?state=required"}},
		{"refund done", client.Refund{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.RefundDone(ctx, "rfd_1")
			return err
		}, seen{Method: "POST", URI: "/v1/refunds/rfd_1/done"}},
		{"create", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateSale(ctx, client.NewSale{ID: "s", StartsAt: "a", EndsAt: "b", PerUserLimit: 1, Currency: "EUR"})
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales", Body: `{"sale":"s","starts_at":"a","ends_at":"b","per_user_limit":1,"currency":"EUR","items":null}`}},
		{"admin sale", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminSale(ctx, "s")
			return err
		}, seen{Method: "GET", URI: "/v1/admin/sales/s"}},
		{"admin sales", client.Page[client.AdminSale]{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminSales(ctx, client.SaleQuery{Limit: 2})
			return err
		}, seen{Method: "GET", URI: "/v1/admin/sales?limit=2"}},
		{"patch", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchSale(ctx, "s", 4, client.SalePatch{PerUserLimit: &one})
			return err
		}, seen{Method: "PATCH", URI: "/v1/admin/sales/s", Match: `"4"`, Body: `{"per_user_limit":1}`}},
		{"delete", nil, func(ctx context.Context, c *client.Client) error {
			return c.DeleteSale(ctx, "s", 4)
		}, seen{Method: "DELETE", URI: "/v1/admin/sales/s", Match: `"4"`}},
		{"restock", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 0, client.Restock{Add: &one})
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/restock", Body: `{"add":1}`}},
		{"admin orders", page, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminOrders(ctx, client.OrderQuery{User: "u v"})
			return err
		}, seen{Method: "GET", URI: "/v1/admin/orders?user=u+v"}},
		{"set stock", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 0, client.Restock{Stock: &one})
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/restock", Match: "*", Body: `{"stock":1}`}},
		{"set stock of a version", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Restock(ctx, "s", 3, client.Restock{Stock: &one})
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/restock", Match: `"3"`, Body: `{"stock":1}`}},
		{"audit", client.AuditReport{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Audit(ctx, "s")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/audit"}},
		{"admin order", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminOrder(ctx, "ord_1")
			return err
		}, seen{Method: "GET", URI: "/v1/admin/orders/ord_1"}},
		{"admin cancel", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminCancel(ctx, "ord_1")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/orders/ord_1/cancel"}},
		{"orders of a buyer", page, func(ctx context.Context, c *client.Client) error {
			_, err := c.Orders(ctx, client.OrderQuery{User: "u"})
			return err
		}, seen{Method: "GET", URI: "/v1/orders?on_behalf_of=u"}},
		{"preheat", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Preheat(ctx, "s")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/preheat"}},
		{"set path", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.SetPath(ctx, "s", 0, "fast")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/path", Body: `{"path":"fast"}`}},
		{"set path of a version", client.AdminSale{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.SetPath(ctx, "s", 7, "direct")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/sales/s/path", Match: `"7"`, Body: `{"path":"direct"}`}},
		{"dead letters", client.Page[client.DeadLetter]{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.DeadLetters(ctx, client.LetterQuery{Sale: "s", State: "open", After: "dlq_1", Limit: 2})
			return err
		}, seen{Method: "GET", URI: "/v1/admin/deadletters?after=dlq_1&limit=2&sale=s&state=open"}},
		{"replay a letter", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.ReplayLetter(ctx, "dlq_1")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/deadletters/dlq_1/replay"}},
		{"drop a letter", client.DeadLetter{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.DropLetter(ctx, "dlq_1")
			return err
		}, seen{Method: "POST", URI: "/v1/admin/deadletters/dlq_1/drop"}},
		{"admin order of a buyer", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.AdminOrderOf(ctx, "u", "ord_1")
			return err
		}, seen{Method: "GET", URI: "/v1/admin/orders/ord_1?user=u"}},
		{"order with options", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.OrderWith(ctx, "ord_1", client.OrderOptions{User: "u"})
			return err
		}, seen{Method: "GET", URI: "/v1/orders/ord_1?on_behalf_of=u"}},
		{"stats", client.Stats{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Stats(ctx)
			return err
		}, seen{Method: "GET", URI: "/v1/admin/stats"}},
		{"order of a buyer", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.OrderOf(ctx, "u", "ord_1")
			return err
		}, seen{Method: "GET", URI: "/v1/orders/ord_1?on_behalf_of=u"}},
		{"cancel for a buyer", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.CancelOf(ctx, "u", "ord_1")
			return err
		}, seen{Method: "POST", URI: "/v1/orders/ord_1/cancel", Body: `{"on_behalf_of":"u"}`}},
		{"escaped id", client.Order{}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Order(ctx, "a/b?c")
			return err
		}, seen{Method: "GET", URI: "/v1/orders/a%2Fb%3Fc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, c := open(t, reply(http.StatusOK, tt.answer))
			require.NoError(t, tt.call(t.Context(), c))
			tt.want.Auth, tt.want.Agent = "Bearer tok", "doorbuster-go"
			require.Equal(t, []seen{tt.want}, d.seen())
		})
	}
}

func TestSaleAnswer(t *testing.T) {
	t.Parallel()
	d, c := open(t,
		reply(http.StatusOK, client.Sale{ID: "s", Status: "live"}, "ETag", `"9"`, "Doorbuster-Time", "1700000000123"),
		reply(http.StatusNotModified, nil, "ETag", `"9"`, "Doorbuster-Time", "1700000000456"))
	first, err := c.Sale(t.Context(), "s", "")
	require.NoError(t, err)
	require.Equal(t, "live", first.Sale.Status)
	require.Equal(t, time.UnixMilli(1700000000123).UTC(), first.Time)
	require.False(t, first.NotModified)
	second, err := c.Sale(t.Context(), "s", first.ETag)
	require.NoError(t, err)
	require.True(t, second.NotModified)
	require.Equal(t, `"9"`, second.ETag)
	require.Equal(t, time.UnixMilli(1700000000456).UTC(), second.Time, "time travels with a 304 too")
	require.Equal(t, `"9"`, d.seen()[1].None)
}

func TestAsUsesAnotherToken(t *testing.T) {
	t.Parallel()
	d, c := open(t, reply(http.StatusOK, client.Order{}))
	_, err := c.As("other").Order(t.Context(), "ord_1")
	require.NoError(t, err)
	_, err = c.As("").Order(t.Context(), "ord_1")
	require.NoError(t, err)
	_, err = c.Order(t.Context(), "ord_1")
	require.NoError(t, err)
	got := d.seen()
	require.Equal(t, []string{"Bearer other", "", "Bearer tok"}, []string{got[0].Auth, got[1].Auth, got[2].Auth})
}

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?a=b", "http://x/#f", ":", "http://[::1"} {
		_, err := client.New(client.Options{URL: bad})
		require.ErrorIs(t, err, client.ErrInvalid, bad)
	}
	_, err := client.New(client.Options{URL: "https://x/shop/"})
	require.NoError(t, err)
}

func TestBasePathIsKept(t *testing.T) {
	t.Parallel()
	d := &door{steps: []http.HandlerFunc{reply(http.StatusOK, client.Order{})}}
	srv := httptest.NewServer(d)
	defer srv.Close()
	c, err := client.New(client.Options{URL: srv.URL + "/shop%2Fone/", UserAgent: "me"})
	require.NoError(t, err)
	_, err = c.Order(t.Context(), "o/1")
	require.NoError(t, err)
	require.Equal(t, "/shop%2Fone/v1/orders/o%2F1", d.seen()[0].URI)
	require.Equal(t, "me", d.seen()[0].Agent)
}

func TestDotsAndEmptyIDsNeverReachTheServer(t *testing.T) {
	t.Parallel()
	d, c := open(t, reply(http.StatusOK, client.Order{}))
	for _, id := range []string{"", ".", ".."} {
		_, err := c.Order(t.Context(), id)
		require.ErrorIs(t, err, client.ErrInvalid)
	}
	require.Empty(t, d.seen())
}

func TestAllWalksPages(t *testing.T) {
	t.Parallel()
	d, c := open(t,
		reply(http.StatusOK, client.Page[client.Order]{Data: []client.Order{{ID: "1"}, {ID: "2"}}, Next: "n1"}),
		reply(http.StatusOK, client.Page[client.Order]{Data: []client.Order{{ID: "3"}}}))
	var ids []string
	for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
		return c.Orders(t.Context(), client.OrderQuery{After: after})
	}) {
		require.NoError(t, err)
		ids = append(ids, o.ID)
	}
	require.Equal(t, []string{"1", "2", "3"}, ids)
	require.Equal(t, "/v1/orders?after=n1", d.seen()[1].URI)
}

func TestAllEndsAtTheFirstError(t *testing.T) {
	t.Parallel()
	_, c := open(t,
		reply(http.StatusOK, client.Page[client.Order]{Data: []client.Order{{ID: "1"}}, Next: "n1"}),
		problem(http.StatusForbidden, "forbidden"))
	var failed error
	n := 0
	for _, err := range client.All(func(after string) (client.Page[client.Order], error) {
		return c.Orders(t.Context(), client.OrderQuery{After: after})
	}) {
		n++
		failed = err
	}
	require.Equal(t, 2, n)
	require.ErrorIs(t, failed, client.ErrForbidden)
}
