package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
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
	frail  *frailStore // over store
	book   *ledger.Book
	engine *engine.Engine
	fast   // empty without a fast path
	door   // empty without a gate
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
	engine  engine.Options
	fast    int                               // lanes of the fast path; 0: none
	counter func(stock.Counter) stock.Counter // between engine and fast counter
	paths   httpapi.Paths
	gate    *gate.Options // what differs from a gate that has no limits; nil: no gate
	limits  []gate.Limit  // of the gate, for gated
	level   slog.Level    // of the log; debug unless set
}

// asServed is the world as a server runs it, for benchmarks.
func asServed() settings {
	return settings{engine: engine.Options{Refresh: time.Second}, level: slog.LevelInfo}
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

func newWorld(tb testing.TB) *world { tb.Helper(); return buildWorld(tb, settings{}) }

func buildWorld(tb testing.TB, s settings) *world {
	tb.Helper()
	w := &world{store: ledgertest.NewMemStore(), spec: loadSpec(tb), log: &logBook{}}
	w.frail = &frailStore{Store: w.store}
	w.book = ledger.New(w.frail)
	var l ledger.Ledger = w.book
	if s.ledger != nil {
		l = s.ledger(l)
	}
	s.engine.Clock = time.Now
	if s.engine.Refresh == 0 {
		s.engine.Refresh, s.level = time.Millisecond, slog.LevelDebug
	}
	if s.fast > 0 {
		w.setUpFast(tb, l, s.fast)
		var c stock.Counter = w.counter
		if s.counter != nil {
			c = s.counter(c)
		}
		s.engine.WhileFrozen = w.keeper.WhileFrozen
		w.engine = engine.New(l, c, s.engine)
	} else {
		w.engine = engine.New(l, nil, s.engine)
	}
	w.feed = event.NewFeed(l, event.Options{})
	feedCtx, stop := context.WithCancel(context.Background()) //nolint:usetesting // ends after the server
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_ = w.feed.Run(feedCtx)
	}()
	key, err := auth.SecretKey("", jwtSecret())
	require.NoError(tb, err)
	tokens, err := auth.NewVerifier(auth.VerifierOptions{Keys: []auth.Key{key}, Issuer: issuer, Audience: audience, Now: time.Now})
	require.NoError(tb, err)
	ring, err := auth.NewKeyRing(l)
	require.NoError(tb, err)
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
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: s.level})), Audit: s.audit, Ready: s.ready,
		Letters: settle.NewDeadLetters(l),
	}
	if w.counter != nil {
		w.deps.Paths, w.deps.Queued = w.keeper, w.countQueued
	}
	if s.paths != nil {
		w.deps.Paths = s.paths
	}
	if s.gate != nil {
		w.setUpGate(tb, *s.gate)
		w.deps.Gate = w.keeping
	}
	w.api, err = httpapi.New(w.deps, s.options)
	require.NoError(tb, err)
	w.server = httptest.NewUnstartedServer(w.api.Public())
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if s.server != nil {
		s.server(w.server.Config)
	}
	w.server.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	w.http = &http.Client{
		Transport:     &checked{t: tb, spec: w.spec, next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	w.shop, w.admin, w.ops = w.key(tb, "shop"), w.key(tb, "admin"), w.key(tb, "ops")
	tb.Cleanup(func() {
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
func (w *world) key(tb testing.TB, scopes ...string) string {
	tb.Helper()
	record, text, err := auth.NewAPIKey("test", scopes)
	require.NoError(tb, err)
	require.NoError(tb, w.book.PutAPIKey(tb.Context(), record))
	return "Bearer " + text
}

// buyer returns the credentials of a buyer.
func buyer(tb testing.TB, user string) string {
	tb.Helper()
	return token(tb, auth.Claims{User: user, Issuer: issuer, Audience: audience, IssuedAt: time.Now(), Expires: time.Now().Add(time.Hour)})
}

func token(tb testing.TB, c auth.Claims) string {
	tb.Helper()
	text, err := auth.Mint(jwtSecret(), c)
	require.NoError(tb, err)
	return "Bearer " + text
}

// answer is an answer that has been read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem(tb testing.TB) client.Problem {
	tb.Helper()
	return read[client.Problem](tb, a)
}

// requireCode fails unless the answer is this problem.
func (a answer) requireCode(tb testing.TB, status int, code string) client.Problem {
	tb.Helper()
	require.Equal(tb, status, a.status, "%s", a.body)
	p := a.problem(tb)
	require.Equal(tb, code, p.Code, "%s", a.body)
	return p
}

func read[T any](tb testing.TB, a answer) T {
	tb.Helper()
	var v T
	require.NoError(tb, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// patience is how long an answer may take before a test fails.
const patience = 20 * time.Second

// call sends a request. line is method and path, headers are pairs of name and
// value.
func (w *world) call(tb testing.TB, who, line, body string, headers ...string) answer {
	tb.Helper()
	a, err := w.try(tb.Context(), who, line, body, headers...)
	require.NoError(tb, err)
	return a
}

func (w *world) try(ctx context.Context, who, line, body string, headers ...string) (answer, error) {
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	method, path, _ := strings.Cut(line, " ")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.server.URL+path, content)
	if err != nil {
		return answer{}, err
	}
	if who != nobody {
		r.Header.Set("Authorization", who)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		if pair[0] == "Content-Type" {
			r.Header.Del(pair[0])
		}
		r.Header[pair[0]] = append(r.Header[pair[0]], pair[1])
	}
	resp, err := w.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: raw}, err
}

// get, post and the like are calls whose success is expected.
func want[T any](tb testing.TB, status int, a answer) T {
	tb.Helper()
	require.Equal(tb, status, a.status, "%s", a.body)
	return read[T](tb, a)
}

// openSale creates and publishes a sale of one item, live in the world's time.
func (w *world) openSale(tb testing.TB, slug string, units int64, change ...func(*client.NewSale)) client.AdminSale {
	tb.Helper()
	n := client.NewSale{
		ID: slug, Title: "Test", StartsAt: "2026-11-27T08:00:00Z", EndsAt: "2026-11-27T20:00:00Z", PerUserLimit: 2, Currency: "EUR",
		Items: []client.NewItem{{SKU: "unit", Price: 1000, Stock: units}},
	}
	for _, c := range change {
		c(&n)
	}
	body, err := json.Marshal(n)
	require.NoError(tb, err)
	want[client.AdminSale](tb, http.StatusCreated, w.call(tb, w.admin, "POST /v1/admin/sales", string(body)))
	return want[client.AdminSale](tb, http.StatusOK, w.call(tb, w.admin, "POST /v1/admin/sales/"+slug+"/publish", ""))
}

func (w *world) buy(tb testing.TB, who, slug, key, body string) answer {
	tb.Helper()
	return w.call(tb, who, "POST /v1/sales/"+slug+"/orders", body, "Idempotency-Key", key)
}

// left returns the stock of a sale that nobody holds, by the ledger itself.
func (w *world) left(tb testing.TB, slug string) int64 {
	tb.Helper()
	s, err := w.book.Sale(tb.Context(), slug)
	require.NoError(tb, err)
	return s.Items[0].Left()
}

// opsGet asks the ops handler of an API.
func (w *world) opsGet(tb testing.TB, a *httpapi.API, path, who string) (int, string) {
	tb.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, http.NoBody)
	if who != nobody {
		r.Header.Set("Authorization", who)
	}
	a.Ops().ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func (w *world) metrics(tb testing.TB) string {
	tb.Helper()
	status, text := w.opsGet(tb, w.api, "/metrics", nobody)
	require.Equal(tb, http.StatusOK, status)
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
func (w *world) plain(tb testing.TB, method, path, who string) int {
	tb.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), method, path, http.NoBody)
	r.Header.Set("Authorization", who)
	w.api.Public().ServeHTTP(rec, r)
	return rec.Code
}
