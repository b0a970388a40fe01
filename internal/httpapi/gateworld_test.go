package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// door is the part of a world that has a gate, which goes by the clock of the ledger.
type door struct {
	keeping *gate.Keeper
	told    *told
}

// told counts, and hands on what the gate has learnt.
type told struct {
	*obs.Gate
	known chan int64
}

func (o *told) Known(version int64, listings int) {
	o.Gate.Known(version, listings)
	select {
	case o.known <- version:
	default:
	}
}

// behindProxy is a world with a gate to which the test's own machine is a trusted
// proxy, so that tests say where a request comes from.
func behindProxy(limits ...gate.Limit) settings {
	return settings{gate: &gate.Options{}, options: httpapi.Options{TrustedProxies: []string{"127.0.0.1"}}}.limited(limits...)
}

// limited returns settings under which the gate has these limits and no others.
func (s settings) limited(limits ...gate.Limit) settings {
	s.limits = append([]gate.Limit{}, limits...)
	return s
}

// gated builds a world and puts its limits in force.
func gated(tb testing.TB, s settings) *world {
	tb.Helper()
	w := buildWorld(tb, s)
	w.tune(tb, func(g *gate.Settings) { g.Limits = s.limits })
	return w
}

func (w *world) setUpGate(tb testing.TB, o gate.Options) {
	tb.Helper()
	memory, err := memlimit.New(memlimit.Options{})
	require.NoError(tb, err)
	w.told = &told{Gate: &w.deps.Metrics.Gate, known: make(chan int64, 1000)}
	w.keeping = w.keeper2(tb, o, memory, w.told)
}

// keeper2 makes a gate over the world's ledger and lets it run.
func (w *world) keeper2(tb testing.TB, o gate.Options, memory *memlimit.Limiter, to gate.Observer) *gate.Keeper {
	tb.Helper()
	if o.Ledger == nil {
		o.Ledger = w.book
	}
	o.Local, o.Observer = memory, to
	if o.Shared == nil {
		o.Shared = memory
	}
	o.Now = func() time.Time {
		now, err := w.store.Now(context.Background()) //nolint:usetesting // the gate has no context
		if err != nil {
			panic(err)
		}
		return now
	}
	k, err := gate.New(tb.Context(), o)
	require.NoError(tb, err)
	ctx, stop := context.WithCancel(context.Background()) //nolint:usetesting // ends after the server
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		require.NoError(tb, <-ended)
	})
	return k
}

// learnt waits until the gate knows this version.
func (w *world) learnt(tb testing.TB, version int64) {
	tb.Helper()
	w.told.learnt(tb, version)
}

func (o *told) learnt(tb testing.TB, version int64) {
	tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case v := <-o.known:
			if v >= version {
				return
			}
		case <-late.C:
			require.Fail(tb, "the gate has not learnt of version "+strconv.FormatInt(version, 10))
		}
	}
}

// tune changes the settings by the admin API.
func (w *world) tune(tb testing.TB, change func(*gate.Settings)) {
	tb.Helper()
	s, _ := w.keeping.Settings()
	change(&s)
	body, err := json.Marshal(s)
	require.NoError(tb, err)
	w.learnt(tb, want[client.GateSettings](tb, http.StatusOK, w.call(tb, w.admin, "PUT /v1/admin/gate", string(body), "If-Match", "*")).Version)
}

// list enters a listing by the admin API.
func (w *world) list(tb testing.TB, kind, value, effect string, until *time.Time) client.Listing {
	tb.Helper()
	body, err := json.Marshal(client.NewListing{Kind: kind, Value: value, Effect: effect, Reason: "a test", ExpiresAt: until})
	require.NoError(tb, err)
	l := want[client.Listing](tb, http.StatusOK, w.call(tb, w.admin, "POST /v1/admin/bans", string(body)))
	w.learnt(tb, l.Version)
	return l
}

// drop takes it back.
func (w *world) dropListing(tb testing.TB, kind, value string) {
	tb.Helper()
	body, err := json.Marshal(client.Subject{Kind: kind, Value: value})
	require.NoError(tb, err)
	w.learnt(tb, want[client.Listing](tb, http.StatusOK, w.call(tb, w.admin, "POST /v1/admin/bans/drop", string(body))).Version)
}

// pass asks for a pass and fails unless there is one.
func (w *world) pass(tb testing.TB, who, slug string, headers ...string) client.Pass {
	tb.Helper()
	return want[client.Pass](tb, http.StatusCreated, w.call(tb, who, "POST /v1/sales/"+slug+"/passes", "", headers...))
}

// use buys with a pass, where the pass says.
func (w *world) use(tb testing.TB, who string, p client.Pass, headers ...string) answer {
	tb.Helper()
	path := cmp.Or(p.Path, "/v1/sales/"+p.Sale+"/orders")
	return w.call(tb, who, "POST "+path, one, append([]string{"Doorbuster-Pass", p.Text}, headers...)...)
}

// proof solves the challenge of an answer.
func proof(tb testing.TB, a answer) string {
	tb.Helper()
	p := a.requireCode(tb, http.StatusForbidden, "challenge_required")
	require.NotNil(tb, p.Challenge)
	solution, err := client.Solve(tb.Context(), *p.Challenge)
	require.NoError(tb, err)
	body, err := json.Marshal(client.PassRequest{Challenge: solution})
	require.NoError(tb, err)
	return string(body)
}

// always asks everybody for a proof.
func always(s *gate.Settings) { s.Challenge.Mode = "always" }

// from says where a request comes from, in a world behindProxy.
func from(ip string) []string { return []string{"X-Forwarded-For", ip} }

// captchaService accepts the response "right", and does not answer to "down".
type captchaService struct {
	mu    sync.Mutex
	asked []gate.Solution
}

func (c *captchaService) Verify(_ context.Context, s gate.Solution, _ time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, s)
	switch s.Response {
	case "right":
		return nil
	case "down":
		return gate.ErrCaptchaDown
	}
	return gate.ErrCaptchaRefused
}

func (c *captchaService) last() gate.Solution {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[len(c.asked)-1]
}

func captchaConfig() *httpapi.Captcha {
	return &httpapi.Captcha{Provider: "turnstile", SiteKey: "site"}
}
