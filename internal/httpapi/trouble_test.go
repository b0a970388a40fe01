package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stuck is a ledger whose Reserve waits for a word.
type stuck struct {
	ledger.Ledger
	entered chan struct{} // one token per call
	release chan struct{} // closed to let calls go on
}

func newStuck() *stuck {
	return &stuck{entered: make(chan struct{}, 1000), release: make(chan struct{})}
}

func (s *stuck) over(l ledger.Ledger) ledger.Ledger { s.Ledger = l; return s }

func (s *stuck) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	s.entered <- struct{}{}
	select {
	case <-s.release:
	case <-ctx.Done():
		return ledger.Batched{}, ctx.Err()
	}
	return s.Ledger.Reserve(ctx, b)
}

// While buys fill their class to the brim, everything else goes on, and the buys
// beyond it are told so at once.
func TestClassesDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	s := newStuck()
	w := buildWorld(t, settings{
		ledger:  s.over,
		options: httpapi.Options{Buy: httpapi.Limit{InFlight: 4, Queue: 4, Wait: time.Minute}},
	})
	w.openSale(t, "drop", 100)
	w.openSale(t, "other", 100)
	var wg sync.WaitGroup
	statuses := make(chan int, 8)
	for i := range 8 {
		wg.Go(func() { statuses <- w.buy(t, buyer(t, fmt.Sprint("u", i)), "drop", "k", one).status })
	}
	require.Eventually(t, func() bool { return w.api.Waiting("buy") == 4 }, 5*time.Second, time.Millisecond)
	for range 3 {
		a := w.buy(t, buyer(t, "u9"), "drop", "k", one)
		a.requireCode(t, http.StatusServiceUnavailable, "busy")
		require.Regexp(t, "^[1-9]$", a.header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "").status)
	require.Equal(t, http.StatusOK, w.call(t, buyer(t, "u1"), "GET /v1/orders", "").status)
	w.call(t, w.shop, "POST /v1/orders/ord_aaaaaaaaaaaaaaaaaaaaaaaaae/payments", `{"payment_id":"p","status":"succeeded","amount":1,"currency":"EUR"}`).
		requireCode(t, http.StatusNotFound, "order_not_found")
	stats := want[client.Stats](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", ""))
	require.Equal(t, client.ClassLoad{InFlight: 4, Waiting: 4}, stats.Classes.Buy)
	close(s.release)
	wg.Wait()
	for range 8 {
		require.Equal(t, http.StatusCreated, <-statuses)
	}
}

func TestEachClassIsBounded(t *testing.T) {
	t.Parallel()
	tight := httpapi.Limit{InFlight: 1, Queue: 1, Wait: 20 * time.Millisecond}
	w := buildWorld(t, settings{options: httpapi.Options{Buy: tight, Read: tight, Pay: tight, Admin: tight}})
	w.openSale(t, "drop", 5)
	u1 := buyer(t, "u1")
	id := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k", one)).ID
	calls := map[string]func() answer{
		"buy":   func() answer { return w.buy(t, u1, "drop", "k", one) },
		"read":  func() answer { return w.call(t, nobody, "GET /v1/sales/drop", "") },
		"pay":   func() answer { return w.call(t, u1, "POST /v1/orders/"+id+"/cancel", "") },
		"admin": func() answer { return w.call(t, w.admin, "GET "+office, "") },
	}
	for full := range calls {
		leave := w.api.Occupy(full)
		for class, call := range calls {
			a := call()
			if class == full {
				a.requireCode(t, http.StatusServiceUnavailable, "busy")
				require.NotEmpty(t, a.header.Get("Retry-After"))
			} else {
				require.Equal(t, http.StatusOK, a.status, "%s while %s is full: %s", class, full, a.body)
			}
		}
		leave()
		require.Equal(t, http.StatusOK, calls[full]().status)
	}
}

// P9: when the ledger is gone, nothing gets a business answer, and no 5xx but
// 503 with Retry-After is sent.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	u1 := buyer(t, "u1")
	id := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k", one)).ID
	require.NoError(t, w.store.Close())
	key := "Bearer dbk_" + strings.Repeat("a", 16) + "_" + strings.Repeat("a", 52)
	calls := []struct{ who, method, path, body string }{
		{key, "GET", "/v1/admin/sales", ""},
		{key, "GET", "/v1/admin/sales/drop", ""},
		{key, "GET", "/v1/admin/orders", ""},
		{key, "GET", "/v1/admin/stats", ""},
		{key, "GET", "/v1/refunds", ""},
		{u1, "POST", "/v1/sales/drop/orders", one},
		{u1, "POST", "/v1/sales/unknown/orders", one},
		{u1, "GET", "/v1/orders", ""},
		{u1, "GET", "/v1/orders/" + id, ""},
		{u1, "POST", "/v1/orders/" + id + "/cancel", ""},
		{u1, "GET", "/v1/sales/drop/events", ""},
		{nobody, "GET", "/v1/sales/unknown", ""},
	}
	for _, c := range calls {
		a := w.call(t, c.who, c.method+" "+c.path, c.body, "Idempotency-Key", "k2")
		a.requireCode(t, http.StatusServiceUnavailable, "unavailable")
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.NotContains(t, string(a.body), "ledgertest")
	}
	require.Contains(t, w.log.String(), "the store is closed", "the cause is in the log")
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{audit: func(context.Context, string) ([]byte, error) { panic("boom") }})
	a := w.call(t, w.admin, "POST "+office+"/drop/audit", "", "X-Request-Id", "the-one")
	a.requireCode(t, http.StatusServiceUnavailable, "unavailable")
	require.NotContains(t, string(a.body), "boom")
	log := w.log.String()
	require.Contains(t, log, "panic=boom")
	require.Contains(t, log, "request=the-one")
	require.Contains(t, log, "trouble_test.go")
	require.Equal(t, http.StatusOK, w.call(t, w.admin, "GET "+office, "").status, "its place was given back")
	for range 40 { // more than the class has places
		w.call(t, w.admin, "POST "+office+"/drop/audit", "").requireCode(t, http.StatusServiceUnavailable, "unavailable")
	}
	require.Contains(t, w.metrics(t), "doorbuster_http_panics_total 41\n")
}

// C67: a shutdown answers what was accepted.
func TestShutdownAnswersWhatItAccepted(t *testing.T) {
	t.Parallel()
	s := newStuck()
	w := buildWorld(t, settings{ledger: s.over})
	w.openSale(t, "drop", 100)
	u1 := buyer(t, "u1")
	var a answer
	var buying sync.WaitGroup
	buying.Go(func() { a = w.buy(t, u1, "drop", "k", one) })
	<-s.entered
	stopped := make(chan error, 1)
	go func() { stopped <- w.server.Config.Shutdown(t.Context()) }()
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.server.Listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 5*time.Second, time.Millisecond)
	close(s.release)
	buying.Wait()
	require.Equal(t, http.StatusCreated, a.status)
	require.NoError(t, <-stopped)
}

// C67: a buyer who hangs up costs no unit: his click is found by its key.
func TestHangUp(t *testing.T) {
	t.Parallel()
	s := newStuck()
	w := buildWorld(t, settings{ledger: s.over})
	w.openSale(t, "drop", 10)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/sales/drop/orders", strings.NewReader(one))
	require.NoError(t, err)
	r.Header = http.Header{"Authorization": {buyer(t, "u1")}, "Idempotency-Key": {"k"}, "Content-Type": {"application/json"}}
	gone := make(chan error, 1)
	go func() {
		resp, err := w.http.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	<-s.entered
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	close(s.release)
	require.Eventually(t, func() bool { return w.left(t, "drop") == 9 }, 5*time.Second, time.Millisecond)
	o := want[client.Order](t, http.StatusOK, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	require.Equal(t, "reserved", o.State)
	require.EqualValues(t, 9, w.left(t, "drop"))
}

// raw sends bytes and returns what comes back until the server closes.
func (w *world) raw(t *testing.T, parts ...string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, p := range parts {
		_, err = conn.Write([]byte(p))
		require.NoError(t, err)
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		require.NotContains(t, err.Error(), "timeout", "the server must end it")
	}
	return string(got)
}

func TestSlowAndHugeRequests(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{server: func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout, s.MaxHeaderBytes = 200*time.Millisecond, 400*time.Millisecond, 4096
	}})
	w.openSale(t, "drop", 5)
	head := "POST /v1/sales/drop/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nAuthorization: " + buyer(t, "u1") + "\r\n"
	got := w.raw(t, head+"Content-Length: 14\r\n\r\n", `{"quanti`)
	require.Contains(t, got, "HTTP/1.1 408 ")
	require.Contains(t, got, `"code":"request_timeout"`)
	require.Contains(t, got, "Connection: close")
	require.Empty(t, w.raw(t, "POST /v1/sales/drop/orders HTTP/1.1\r\nHost:"), "a header that never ends is cut off")
	require.Contains(t, w.raw(t, head+"X-Long: "+strings.Repeat("x", 10_000)+"\r\n\r\n"), "431 ")
	require.Contains(t, w.raw(t, head+"Content-Length: 99999999\r\n\r\n"), `"code":"body_too_large"`)
	chunked := fmt.Sprintf("%x\r\n%s\r\n", 17<<10, strings.Repeat(" ", 17<<10))
	require.Contains(t, w.raw(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunked), `"code":"body_too_large"`)
	require.EqualValues(t, 5, w.left(t, "drop"))
}

func TestOps(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lacking error
	w := buildWorld(t, settings{ready: func(context.Context) error { mu.Lock(); defer mu.Unlock(); return lacking }})
	w.openSale(t, "drop", 5)
	want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, "u1"), "drop", "k", one))
	status, body := w.opsGet(t, w.api, "/healthz", nobody)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ok"}`, body)
	status, body = w.opsGet(t, w.api, "/readyz", nobody)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ready"}`, body)
	mu.Lock()
	lacking = errors.New("the ledger does not answer")
	mu.Unlock()
	status, body = w.opsGet(t, w.api, "/readyz", nobody)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"status":"not ready","cause":"the ledger does not answer"}`, body)

	metrics := w.metrics(t)
	for _, line := range []string{`doorbuster_http_requests_total{operation="buy",status="201"} 1`, `doorbuster_http_request_seconds_count{class="buy"} 1`, `go_goroutines`} {
		require.Contains(t, metrics, line)
	}
	status, body = w.opsGet(t, w.api, "/debug/pprof/goroutine?debug=1", nobody)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "goroutine profile")
	require.Equal(t, http.StatusNotFound, w.call(t, nobody, "GET /metrics", "").status, "not on the public listener")

	guarded, err := httpapi.New(w.fresh(), httpapi.Options{OpsKeys: true})
	require.NoError(t, err)
	for who, expected := range map[string]int{nobody: 401, buyer(t, "u1"): 403, w.admin: 403, w.ops: 200} {
		for _, path := range []string{"/metrics", "/debug/pprof/"} {
			status, _ = w.opsGet(t, guarded, path, who)
			require.Equal(t, expected, status, path)
		}
		status, _ = w.opsGet(t, guarded, "/healthz", who)
		require.Equal(t, http.StatusOK, status)
	}
	status, body = w.opsGet(t, guarded, "/readyz", nobody)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"status":"not ready"}`, body, "the cause is not for everybody")
	require.Contains(t, w.log.String(), "the ledger does not answer")
}

// A revoked key and a ledger that is out are told apart on every instance.
func TestRevokedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys, err := w.book.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.call(t, w.shop, "GET /v1/refunds", "").status)
	for _, k := range keys {
		require.NoError(t, w.book.RevokeAPIKey(t.Context(), k.ID))
	}
	require.Eventually(t, func() bool {
		return w.call(t, w.shop, "GET /v1/refunds", "").status == http.StatusUnauthorized
	},
		2*time.Second, 20*time.Millisecond, "a revocation takes effect within two seconds")
}

func TestUnknownCodesAreTrouble(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{audit: func(context.Context, string) ([]byte, error) {
		return nil, &sale.Error{Code: "brand_new", Message: "x"}
	}})
	resp := w.plain(t, http.MethodPost, office+"/drop/audit", w.admin)
	require.Equal(t, http.StatusServiceUnavailable, resp)
}
