package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// Deps is what the API works with. Everything is required but Gate, Paths and Queued.
type Deps struct {
	Engine   *engine.Engine
	Feed     *event.Feed // closing it ends the event streams
	Auth     *auth.Auth
	Metrics  *obs.Metrics
	Gatherer prometheus.Gatherer // what /metrics serves
	Logger   *slog.Logger
	// Gate keeps the door; nil where everybody may come in.
	Gate *gate.Keeper
	// Audit recounts one sale and returns the report as JSON; CodeSaleNotFound.
	Audit func(ctx context.Context, slug string) ([]byte, error)
	// Ready returns nil while this instance can sell, else what it lacks. It is
	// asked at every look at /readyz.
	Ready   func(ctx context.Context) error
	Letters Letters
	// Paths moves sales between paths; nil where nobody does.
	Paths Paths
	// Queued counts the slips of a fast sale that are not judged yet; nil where there
	// is no fast counter.
	Queued func(ctx context.Context, s *sale.Sale) (int64, error)
}

// Letters decides about dead letters. Errors: CodeLetterNotFound, CodeIllegalState.
type Letters interface {
	// Replay has the slip of a letter judged now.
	Replay(ctx context.Context, id ledger.LetterID) (sale.Order, error)
	// Drop closes a letter for good and returns it.
	Drop(ctx context.Context, id ledger.LetterID) (ledger.Letter, error)
}

// Paths moves sales between the direct and the fast path. Errors:
// CodeSaleNotFound, CodeIllegalState, CodeVersionMismatch.
type Paths interface {
	// Preheat brings a sale that prefers the fast path onto it.
	Preheat(ctx context.Context, slug string) (sale.Sale, error)
	// Route sets the preferred path under the version that the caller has seen (0
	// for any) and takes a running sale there.
	Route(ctx context.Context, slug string, version int64, to sale.Path) (sale.Sale, error)
}

// Options of the API. Zero values take the defaults.
type Options struct {
	// Origins lists the web origins whose pages may call the API, each of the
	// form https://host[:port]; "*" allows every one. Default: none.
	Origins []string
	// TrustedProxies lists addresses and networks whose X-Forwarded-For is
	// believed. Default: none.
	TrustedProxies []string
	// MaxBody bounds a request's body in bytes; default 16 KiB. Bodies of
	// operators may have 16 times as many.
	MaxBody int64
	// Timeout bounds the work on one request, waiting included; default 10 s.
	// Streams have no end.
	Timeout time.Duration
	// MaxWait bounds how long a request may wait for the judge of a queued order;
	// default 20 s, which is also the most. Timeout bounds it too.
	MaxWait time.Duration
	// Captcha is the hosted captcha that the gate verifies; nil without one.
	Captcha *Captcha
	// DefaultPath is what a new sale prefers that does not say; default PathDirect.
	DefaultPath sale.Path
	// The limits of the classes. Defaults: see defaultLimits.
	Buy, Read, Pay, Admin Limit
	Streams               StreamLimits
	Waiters               WaiterLimits
	// OpsKeys asks for an API key with scope ops on the ops listener, health
	// checks excepted. To be set where it is not on a loopback address.
	OpsKeys bool
}

// Captcha is what a page needs to show a hosted captcha.
type Captcha struct {
	Provider string // turnstile, hcaptcha or geetest
	SiteKey  string
}

// Limit bounds the requests of one class.
type Limit struct {
	InFlight int           // worked on at once
	Queue    int           // waiting for a place; beyond it 503 at once
	Wait     time.Duration // longest wait for a place, then 503
}

// StreamLimits bounds open event streams.
type StreamLimits struct {
	Total   int // default 10,000
	PerIP   int // per IPv4 address or IPv6 /64; default 64
	PerUser int // default 8
	// Heartbeat is the time between two signs of life; default 15 s.
	Heartbeat time.Duration
	// Write is how long one message may take before a slow reader is cut off;
	// default 10 s.
	Write time.Duration
}

// WaiterLimits bounds the requests that wait for the judge. Who is beyond them is
// answered without waiting.
type WaiterLimits struct {
	Total   int // default 10,000
	PerIP   int // per IPv4 address or IPv6 /64, API keys excepted; default 256
	PerUser int // default 8
}

const (
	defaultMaxBody = 16 << 10
	adminFactor    = 16
	defaultTimeout = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxWait <= 0 || o.MaxWait > maxWait {
		o.MaxWait = maxWait
	}
	if o.DefaultPath == "" {
		o.DefaultPath = sale.PathDirect
	}
	o.Buy = o.Buy.or(Limit{InFlight: 256, Queue: 16384, Wait: 2 * time.Second})
	o.Read = o.Read.or(Limit{InFlight: 512, Queue: 4096, Wait: 2 * time.Second})
	o.Pay = o.Pay.or(Limit{InFlight: 128, Queue: 4096, Wait: 5 * time.Second})
	o.Admin = o.Admin.or(Limit{InFlight: 32, Queue: 256, Wait: 2 * time.Second})
	o.Streams.Total = positive(o.Streams.Total, 10_000)
	o.Streams.PerIP = positive(o.Streams.PerIP, 64)
	o.Streams.PerUser = positive(o.Streams.PerUser, 8)
	o.Streams.Heartbeat = positive(o.Streams.Heartbeat, 15*time.Second)
	o.Streams.Write = positive(o.Streams.Write, 10*time.Second)
	o.Waiters.Total = positive(o.Waiters.Total, 10_000)
	o.Waiters.PerIP = positive(o.Waiters.PerIP, 256)
	o.Waiters.PerUser = positive(o.Waiters.PerUser, 8)
	return o
}

func (l Limit) or(d Limit) Limit {
	return Limit{InFlight: positive(l.InFlight, d.InFlight), Queue: positive(l.Queue, d.Queue), Wait: positive(l.Wait, d.Wait)}
}

func positive[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// API answers HTTP requests. Make it with New.
type API struct {
	engine   *engine.Engine
	ledger   ledger.Ledger
	auth     *auth.Auth
	metrics  *obs.HTTP
	gatherer prometheus.Gatherer
	log      *slog.Logger
	audit    func(context.Context, string) ([]byte, error)
	ready    func(context.Context) error
	letters  Letters
	gate     *gate.Keeper // nil: no gate
	refused  func(layer, code string)
	paths    Paths // nil: nobody moves sales
	queued   func(context.Context, *sale.Sale) (int64, error)
	opts     Options

	cors      *cors
	proxies   httplimit.Proxies
	strays    *httplimit.Watch
	shops     *shops
	classes   classes
	pages     pages
	streams   *streams
	waits     *waits
	exchanges sync.Pool
	fixed     fixed
	refusals  refusals
	retry     retryTimes
	challenge []string
	idPrefix  string
	lastID    atomic.Uint64
	public    http.Handler
}

// classes holds each class of requests.
type classes struct{ buy, read, pay, admin *class }

// fixed is header values that every answer shares.
type fixed struct {
	nosniff, csp, noStore, brief, json, problem, replayed, soon []string
}

// New returns the API over d.
func New(d Deps, o Options) (*API, error) {
	if d.Engine == nil || d.Feed == nil || d.Auth == nil || d.Metrics == nil || d.Gatherer == nil || d.Logger == nil || d.Audit == nil || d.Ready == nil || d.Letters == nil {
		return nil, errors.New("httpapi: something of Deps is missing")
	}
	o = o.withDefaults()
	allowed, err := newCORS(o.Origins)
	if err != nil {
		return nil, err
	}
	trusted, err := parseProxies(o.TrustedProxies)
	if err != nil {
		return nil, err
	}
	h := &d.Metrics.HTTP
	a := &API{
		engine: d.Engine, ledger: d.Engine.Ledger(), auth: d.Auth, metrics: h, gatherer: d.Gatherer,
		log: d.Logger, audit: d.Audit, ready: d.Ready, letters: d.Letters, gate: d.Gate, refused: d.Metrics.Gate.Refused, paths: d.Paths, queued: d.Queued, opts: o,
		cors: allowed, proxies: trusted, strays: httplimit.NewWatch(0), shops: newShops(),
		classes: classes{
			buy: newClass(gate.Buy, o.Buy, h), read: newClass(gate.Read, o.Read, h),
			pay: newClass(gate.Pay, o.Pay, h), admin: newClass(gate.Admin, o.Admin, h),
		},
		fixed: fixed{
			nosniff: []string{"nosniff"}, csp: []string{"default-src 'none'; frame-ancestors 'none'"}, noStore: []string{"no-store"}, brief: []string{"public, max-age=1"},
			json: []string{typeJSON}, problem: []string{typeProblem}, replayed: []string{"true"}, soon: []string{"1"},
		},
		refusals: newRefusals(), retry: newRetryTimes(), challenge: []string{"Bearer"}, idPrefix: newIDPrefix(),
	}
	a.streams, a.waits = newStreams(a, d.Feed, o.Streams), newWaits(o.Waiters, h)
	a.public = a.mux()
	return a, nil
}

// newIDPrefix tells the requests of this process from those of others.
func newIDPrefix() string {
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never fails since Go 1.24
	return hex.EncodeToString(raw[:]) + "-"
}

// Public returns the handler of the API's own listener.
func (a *API) Public() http.Handler { return a.public }

// mux serves the table of routes. A path that exists answers 405 to other
// methods and to OPTIONS what it allows; paths that do not exist are 404.
func (a *API) mux() http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string)
	for _, rt := range a.routes() {
		rt.counted = a.metrics.Operation(rt.operation)
		mux.HandleFunc(rt.method+" "+rt.pattern, a.handler(&rt))
		methods[rt.pattern] = append(methods[rt.pattern], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.pattern] = append(methods[rt.pattern], http.MethodHead)
		}
	}
	for pattern, allowed := range methods {
		wrong := &route{operation: "wrong_method", counted: a.metrics.Operation("wrong_method"), handle: wrongMethod(allowed)}
		answer := a.handler(wrong)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodOptions {
				a.cors.preflight(w, r, allowed)
				return
			}
			answer(w, r)
		})
	}
	nowhere := a.handler(&route{operation: "no_route", counted: a.metrics.Operation("no_route"), handle: noRoute})
	mux.HandleFunc("/", nowhere)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect such paths to what they mean; here they mean nothing.
		if strings.Contains(r.URL.Path, "//") || strings.Contains(r.URL.Path, "/.") {
			nowhere(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
