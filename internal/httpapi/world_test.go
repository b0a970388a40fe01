package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://shop.example"
	audience = "doorbuster"
	nobody   = ""
)

func jwtSecret() []byte { return []byte(strings.Repeat("k", auth.MinSecretLen)) }

// world is the API over real HTTP with a real book on the reference store.
// Every answer is checked against the document.
type world struct {
	store  *ledgertest.MemStore
	book   *ledger.Book
	engine *engine.Engine
	feed   *event.Feed
	deps   httpapi.Deps
	api    *httpapi.API
	server *httptest.Server
	spec   *spec
	http   *http.Client
	log    *logBook

	shop, admin, ops string // credentials
}

// settings of a world that tests vary.
type settings struct {
	options httpapi.Options
	ledger  func(ledger.Ledger) ledger.Ledger
	server  func(*http.Server)
	audit   func(context.Context, string) ([]byte, error)
	ready   func(context.Context) error
}

// logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t testing.TB) *world { t.Helper(); return buildWorld(t, settings{}) }

func buildWorld(t testing.TB, s settings) *world {
	t.Helper()
	w := &world{store: ledgertest.NewMemStore(), spec: loadSpec(t), log: &logBook{}}
	w.book = ledger.New(w.store)
	var l ledger.Ledger = w.book
	if s.ledger != nil {
		l = s.ledger(l)
	}
	w.engine = engine.New(l, engine.Options{Clock: time.Now, Refresh: time.Millisecond})
	w.feed = event.NewFeed(l, event.Options{})
	feedCtx, stop := context.WithCancel(context.Background()) //nolint:usetesting // ends after the server
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_ = w.feed.Run(feedCtx)
	}()
	key, err := auth.SecretKey("", jwtSecret())
	require.NoError(t, err)
	tokens, err := auth.NewVerifier(auth.VerifierOptions{Keys: []auth.Key{key}, Issuer: issuer, Audience: audience, Now: time.Now})
	require.NoError(t, err)
	ring, err := auth.NewKeyRing(l)
	require.NoError(t, err)
	who := auth.New(tokens, ring)
	registry := prometheus.NewRegistry()
	if s.audit == nil {
		s.audit = w.recount
	}
	if s.ready == nil {
		s.ready = func(context.Context) error { return nil }
	}
	w.deps = httpapi.Deps{
		Engine: w.engine, Feed: w.feed, Auth: who, Metrics: obs.New(registry, "test"), Gatherer: registry,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Audit: s.audit, Ready: s.ready,
	}
	w.api, err = httpapi.New(w.deps, s.options)
	require.NoError(t, err)
	w.server = httptest.NewUnstartedServer(w.api.Public())
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if s.server != nil {
		s.server(w.server.Config)
	}
	w.server.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	w.http = &http.Client{
		Transport:     &checked{t: t, spec: w.spec, next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	w.shop, w.admin, w.ops = w.key(t, "shop"), w.key(t, "admin"), w.key(t, "ops")
	t.Cleanup(func() {
		w.feed.Close()
		transport.CloseIdleConnections()
		w.server.Close()
		stop()
		<-fed
		_ = w.engine.Close(context.Background()) //nolint:usetesting // the test's own has ended
		who.Close()
	})
	return w
}

func (w *world) recount(ctx context.Context, slug string) ([]byte, error) {
	s, err := w.book.Sale(ctx, slug)
	if err != nil {
		return nil, err
	}
	report, err := audit.Run(ctx, w.book, audit.Options{Sales: []sale.Number{s.Number}})
	if err != nil {
		return nil, err
	}
	return json.Marshal(report)
}

// key returns the credentials of a new API key.
func (w *world) key(t testing.TB, scopes ...string) string {
	t.Helper()
	record, text, err := auth.NewAPIKey("test", scopes)
	require.NoError(t, err)
	require.NoError(t, w.book.PutAPIKey(t.Context(), record))
	return "Bearer " + text
}

// buyer returns the credentials of a buyer.
func buyer(t testing.TB, user string) string {
	t.Helper()
	return token(t, auth.Claims{User: user, Issuer: issuer, Audience: audience, IssuedAt: time.Now(), Expires: time.Now().Add(time.Hour)})
}

func token(t testing.TB, c auth.Claims) string {
	t.Helper()
	text, err := auth.Mint(jwtSecret(), c)
	require.NoError(t, err)
	return "Bearer " + text
}

// answer is an answer that has been read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem(t testing.TB) client.Problem {
	t.Helper()
	return read[client.Problem](t, a)
}

// requireCode fails unless the answer is this problem.
func (a answer) requireCode(t testing.TB, status int, code string) client.Problem {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	p := a.problem(t)
	require.Equal(t, code, p.Code, "%s", a.body)
	return p
}

func read[T any](t testing.TB, a answer) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// call sends a request. headers are pairs of name and value.
func (w *world) call(t testing.TB, who, method, path, body string, headers ...string) answer {
	t.Helper()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, content)
	require.NoError(t, err)
	if who != nobody {
		r.Header.Set("Authorization", who)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
		if headers[i] == "Content-Type" {
			r.Header["Content-Type"] = []string{headers[i+1]}
		}
	}
	resp, err := w.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: raw}
}

// get, post and the like are calls whose success is expected.
func want[T any](t testing.TB, status int, a answer) T {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	return read[T](t, a)
}

// openSale creates and publishes a sale of one item, live in the world's time.
func (w *world) openSale(t testing.TB, slug string, stock int64, change ...func(*client.NewSale)) client.AdminSale {
	t.Helper()
	n := client.NewSale{
		ID: slug, Title: "Test", StartsAt: "2026-11-27T08:00:00Z", EndsAt: "2026-11-27T20:00:00Z", PerUserLimit: 2, Currency: "EUR",
		Items: []client.NewItem{{SKU: "unit", Price: 1000, Stock: stock}},
	}
	for _, c := range change {
		c(&n)
	}
	body, err := json.Marshal(n)
	require.NoError(t, err)
	want[client.AdminSale](t, http.StatusCreated, w.call(t, w.admin, http.MethodPost, "/v1/admin/sales", string(body)))
	return want[client.AdminSale](t, http.StatusOK, w.call(t, w.admin, http.MethodPost, "/v1/admin/sales/"+slug+"/publish", ""))
}

func (w *world) buy(t testing.TB, who, slug, key, body string) answer {
	t.Helper()
	return w.call(t, who, http.MethodPost, "/v1/sales/"+slug+"/orders", body, "Idempotency-Key", key)
}

// left returns the stock of a sale that nobody holds, by the ledger itself.
func (w *world) left(t testing.TB, slug string) int64 {
	t.Helper()
	s, err := w.book.Sale(t.Context(), slug)
	require.NoError(t, err)
	return s.Items[0].Left()
}

// opsGet asks the ops handler of an API.
func (w *world) opsGet(t testing.TB, a *httpapi.API, path, who string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if who != nobody {
		r.Header.Set("Authorization", who)
	}
	a.Ops().ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func (w *world) metrics(t testing.TB) string {
	t.Helper()
	status, text := w.opsGet(t, w.api, "/metrics", nobody)
	require.Equal(t, http.StatusOK, status)
	return text
}

// fresh returns what another API over the same parts needs.
func (w *world) fresh() httpapi.Deps {
	d := w.deps
	registry := prometheus.NewRegistry()
	d.Metrics, d.Gatherer = obs.New(registry, "test"), registry
	return d
}

// plain calls past the checks and returns the status.
func (w *world) plain(t testing.TB, method, path, who string) int {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	r.Header.Set("Authorization", who)
	w.api.Public().ServeHTTP(rec, r)
	return rec.Code
}
