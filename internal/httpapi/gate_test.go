package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// An hour is longer than any test: what is spent stays spent.
const hour = gate.Duration(time.Hour)

// twice admits two requests of an address.
func twice() gate.Limit {
	return gate.Limit{Name: "network", By: gate.ByNetwork, Quota: 2, Window: hour, On: []gate.Class{gate.Buy, gate.Read}}
}

// requireLimited fails unless an answer refuses by a limit and says how it stands.
func requireLimited(t *testing.T, a answer, name string, quota int) {
	t.Helper()
	a.requireCode(t, http.StatusTooManyRequests, "rate_limited")
	require.Equal(t, fmt.Sprintf(`"%s";q=%d;w=3600`, name, quota), a.header.Get("RateLimit-Policy"))
	state := a.header.Get("RateLimit")
	require.Regexp(t, `^"`+name+`";r=0;t=\d+$`, state)
	_, reset, _ := strings.Cut(state, ";t=")
	least, err := strconv.Atoi(reset)
	require.NoError(t, err)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, wait, least, "nobody is told to come back too early")
	require.LessOrEqual(t, wait, least+3, "jitter is small")
}

// C47: from an untrusted peer no header says where a request comes from.
func TestC47ForwardedHeadersAreNotBelieved(t *testing.T) {
	t.Parallel()
	w := gated(t, settings{gate: &gate.Options{}}.limited(twice()))
	for n, headers := range [][]string{
		{"X-Forwarded-For", "198.51.100.1"},
		{"X-Real-Ip", "198.51.100.2", "Forwarded", "for=198.51.100.2"},
		{"X-Forwarded-For", "198.51.100.3, 203.0.113.1"},
		{"Cf-Connecting-Ip", "198.51.100.4"},
		{"True-Client-Ip", "10.0.0.1"},
		{"X-Forwarded-For", "rubbish"},
		{"X-Forwarded-For", strings.Repeat("9", 8000)},
		{"X-Forwarded-For", "[::1]:80", "X-Forwarded-For", "127.0.0.1"},
	} {
		a := w.call(t, nobody, "GET /v1/sales", "", headers...)
		if n < 2 {
			require.Equal(t, http.StatusOK, a.status)
			continue
		}
		requireLimited(t, a, "network", 2)
	}
	require.Equal(t, 1, strings.Count(w.log.String(), "a forwarded header is not believed"), "C48: a network is warned of once")
	require.Contains(t, w.log.String(), "api.trusted_proxies")
	require.Contains(t, w.metrics(t), `doorbuster_gate_refused_total{code="rate_limited",layer="network"} 6`)
}

// C47, C48: behind a trusted proxy the right-most hop that is none counts, and each
// client has a budget of its own.
func TestC48ClientsBehindAProxy(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy(twice()))
	for n := range 50 {
		ip := fmt.Sprintf("198.51.100.%d", n)
		for range 2 {
			require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", "", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, %s", n, ip)).status)
		}
		requireLimited(t, w.call(t, nobody, "GET /v1/sales", "", from(ip)...), "network", 2)
	}
	for _, same := range []string{"::ffff:198.51.100.1", "192.0.2.1,198.51.100.1", "198.51.100.1:4711", "  198.51.100.1 "} {
		requireLimited(t, w.call(t, nobody, "GET /v1/sales", "", from(same)...), "network", 2)
	}
	// Rubbish is the word of the last hop that can be read, here the proxy itself.
	for n, rubbish := range []string{"unknown", "198.51.100.77, x", "for=1", "", "198.51.100.77,"} {
		a := w.call(t, nobody, "GET /v1/sales", "", from(rubbish)...)
		if n < 2 {
			require.Equal(t, http.StatusOK, a.status, rubbish)
			continue
		}
		requireLimited(t, a, "network", 2)
	}
	requireLimited(t, w.call(t, nobody, "GET /v1/sales", ""), "network", 2)
	require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", "", from("198.51.100.77")...).status, "it was never counted")
	require.NotContains(t, w.log.String(), "a forwarded header is not believed")
}

// The gate is asked before the body is read and before anybody's place is taken.
func TestArrivalComesFirst(t *testing.T) {
	t.Parallel()
	w := gated(t, settings{gate: &gate.Options{}}.limited(twice()))
	u1 := buyer(t, "u1")
	for range 2 {
		w.call(t, u1, "POST /v1/sales/drop/orders", "nonsense", "Idempotency-Key", "k").requireCode(t, http.StatusBadRequest, "malformed_json")
	}
	requireLimited(t, w.call(t, u1, "POST /v1/sales/drop/orders", strings.Repeat("x", 20_000), "Idempotency-Key", "k"), "network", 2)
	release := w.api.Occupy("buy")
	defer release()
	requireLimited(t, w.call(t, nobody, "POST /v1/sales/drop/orders", one), "network", 2)
	// Classes are counted apart where it is the service that is counted, not here.
	requireLimited(t, w.call(t, nobody, "GET /v1/sales", ""), "network", 2)
	require.Equal(t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/stats", "").status, "no limit was set on it")
}

// A shop's servers share an address; inventing API keys is no way around.
func TestAPIKeysPassTheLimitsOfAddresses(t *testing.T) {
	t.Parallel()
	w := gated(t, settings{gate: &gate.Options{}}.limited(twice()))
	w.openSale(t, "drop", 50)
	for n := range 5 {
		want[client.Order](t, http.StatusCreated, w.buy(t, w.shop, "drop", strconv.Itoa(n), fmt.Sprintf(`{"quantity":1,"on_behalf_of":"u%d"}`, n)))
	}
	invented := w.shop[:len(w.shop)-5] + "aaaaa"
	for range 2 {
		w.buy(t, invented, "drop", "k", one).requireCode(t, http.StatusUnauthorized, "unauthenticated")
	}
	requireLimited(t, w.buy(t, invented, "drop", "k", one), "network", 2)
}

// The limits that need to know who comes are asked after the engine has looked.
func TestLimitsOfUsers(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy(gate.Limit{Name: "user", By: gate.ByUser, Quota: 2, Window: hour, Shared: true}))
	w.openSale(t, "drop", 50)
	u1 := buyer(t, "u1")
	first := w.buy(t, u1, "drop", "a", one)
	o := want[client.Order](t, http.StatusCreated, first)
	require.Equal(t, `"user";q=2;w=3600`, first.header.Get("RateLimit-Policy"))
	require.Regexp(t, `^"user";r=1;t=\d+$`, first.header.Get("RateLimit"))
	require.Regexp(t, `^gate;dur=\d+\.\d{3}, engine;dur=\d+\.\d{3}`, first.header.Get("Server-Timing"))
	require.Equal(t, http.StatusCreated, w.buy(t, u1, "drop", "b", one).status)
	requireLimited(t, w.buy(t, u1, "drop", "c", one), "user", 2)
	requireLimited(t, w.buy(t, u1, "drop", "a", one), "user", 2) // the one refusal that comes before a replay
	require.Equal(t, o.ID, want[client.Order](t, http.StatusOK, w.call(t, u1, "GET /v1/orders/"+o.ID, "")).ID, "reading is another class")
	require.Equal(t, http.StatusCreated, w.buy(t, buyer(t, "u2"), "drop", "a", one).status, "the limit is u1's")
	require.Equal(t, int64(47), w.left(t, "drop"), "a refusal costs nothing")
}

// slow is a limiter that takes its time.
type slow struct {
	limit.Limiter
	takes time.Duration
}

func (s *slow) AllowAll(ctx context.Context, checks []limit.Check) ([]limit.Decision, error) {
	<-time.NewTimer(s.takes).C
	return s.Limiter.AllowAll(ctx, checks)
}

// What the engine asks the gate is the gate's time in Server-Timing.
func TestTimeAtTheGate(t *testing.T) {
	t.Parallel()
	memory, err := memlimit.New(memlimit.Options{})
	require.NoError(t, err)
	s := behindProxy(gate.Limit{Name: "user", By: gate.ByUser, Quota: 2, Window: hour, Shared: true})
	s.gate.Shared = &slow{Limiter: memory, takes: 30 * time.Millisecond}
	w := gated(t, s)
	w.openSale(t, "drop", 50)
	a := w.buy(t, buyer(t, "u1"), "drop", "a", one)
	require.Equal(t, http.StatusCreated, a.status)
	_, text, _ := strings.Cut(a.header.Get("Server-Timing"), "gate;dur=")
	text, _, _ = strings.Cut(text, ",")
	ms, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, ms, 30.0)
}

// A listed buyer gets what he has, and nothing else.
func TestBans(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	o := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "a", one))
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	until := now.Add(time.Hour)
	l := w.list(t, "user", "u1", "deny", &until)
	require.Len(t, l.Author, 16, "the author is the key that did it")

	require.Equal(t, o.ID, want[client.Order](t, http.StatusOK, w.buy(t, u1, "drop", "a", one)).ID)
	a := w.buy(t, u1, "drop", "b", one)
	a.requireCode(t, http.StatusForbidden, "banned")
	require.Equal(t, "3600", a.header.Get("Retry-After"))
	w.call(t, u1, "POST /v1/sales/drop/passes", "").requireCode(t, http.StatusForbidden, "banned")
	// C51: the listing is of these bytes.
	for _, other := range []string{"U1", "u1 ", "ｕ1", "u1\u200b"} {
		require.Equal(t, http.StatusCreated, w.buy(t, buyer(t, other), "drop", "a", one).status, other)
	}

	w.list(t, "network", "203.0.113.0/24", "deny", nil)
	b := w.call(t, u2, "POST /v1/sales/drop/orders", one, append(from("203.0.113.7"), "Idempotency-Key", "a")...)
	b.requireCode(t, http.StatusForbidden, "banned")
	require.Empty(t, b.header.Get("Retry-After"), "it has no end")
	body := `{"quantity":1,"on_behalf_of":"u3","client_ip":"203.0.113.8"}`
	w.buy(t, w.shop, "drop", "a", body).requireCode(t, http.StatusForbidden, "banned")
	require.Equal(t, http.StatusCreated, w.buy(t, w.shop, "drop", "a", strings.Replace(body, "203.0.113.8", "203.0.112.8", 1)).status)
	require.Equal(t, http.StatusCreated, w.buy(t, u2, "drop", "a", one).status, "from elsewhere")
	w.list(t, "user", "u4", "allow", nil)
	require.Equal(t, http.StatusCreated, w.call(t, buyer(t, "u4"), "POST /v1/sales/drop/orders", one, append(from("203.0.113.7"), "Idempotency-Key", "a")...).status,
		"the user's listing is nearer than the network's")

	w.dropListing(t, "user", "u1")
	require.Equal(t, http.StatusCreated, w.buy(t, u1, "drop", "b", one).status)
	require.Contains(t, w.log.String(), "an operator changed the gate's lists")
}

func TestAdminBans(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	bans := func(query string) []string {
		page := want[client.Page[client.Listing]](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/bans"+query, ""))
		out := make([]string, 0, len(page.Data))
		for i := range page.Data {
			out = append(out, page.Data[i].Effect+" "+page.Data[i].Kind+" "+page.Data[i].Value)
		}
		return out
	}
	require.Empty(t, bans(""))
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	soon := now.Add(time.Minute)
	w.list(t, "user", "a/b ü:x", "deny", nil)
	w.list(t, "network", "::ffff:198.51.100.0/120", "challenge", nil)
	w.list(t, "network", "198.51.100.7", "allow", &soon)
	w.list(t, "device", "abc", "deny", nil)
	all := []string{"deny user a/b ü:x", "challenge network 198.51.100.0/24", "allow network 198.51.100.7/32", "deny device abc"}
	require.Equal(t, all, bans(""))
	require.Equal(t, all[1:3], bans("?subject=network:198.51.100.7"), "networks that hold it")
	require.Equal(t, all[1:2], bans("?subject=network:198.51.100.0/25"))
	require.Equal(t, all[:1], bans("?subject=user:a%2Fb%20%C3%BC:x"))
	require.Equal(t, all[3:], bans("?effect=deny&subject=device:abc"))
	require.Equal(t, []string{all[0], all[3]}, bans("?effect=deny"))
	page := want[client.Page[client.Listing]](t, http.StatusOK, w.call(t, w.admin, "GET /v1/admin/bans?limit=3", ""))
	require.Len(t, page.Data, 3)
	require.Equal(t, all[3:], bans("?limit=3&after="+page.Next))
	w.store.Advance(time.Hour)
	require.NotContains(t, bans(""), all[2], "it is over")

	for _, bad := range []string{"?effect=x", "?subject=x", "?subject=user:", "?subject=network:x", "?after=x", "?after=-1", "?limit=0", "?kind=user"} {
		w.call(t, w.admin, "GET /v1/admin/bans"+bad, "").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	}
	for body, field := range map[string]string{
		`{"kind":"user","value":"u1"}`:                                                             "effect",
		`{"kind":"user","value":"u1","effect":"shoot"}`:                                            "effect",
		`{"kind":"shoe","value":"u1","effect":"deny"}`:                                             "kind",
		`{"kind":"network","value":"198.51.100.7/24","effect":"deny"}`:                             "value",
		`{"kind":"user","value":"u\u0000","effect":"deny"}`:                                        "user",
		`{"kind":"user","value":"u1","effect":"deny","expires_at":"2020-01-01T00:00:00Z"}`:         "expires_at",
		`{"kind":"user","value":"u1","effect":"deny","expires_at":"tomorrow"}`:                     "expires_at",
		`{"kind":"user","value":"u1","effect":"deny","reason":"` + strings.Repeat("x", 201) + `"}`: "reason",
		`{"kind":"user","value":"u1","effect":"deny","author":"gate"}`:                             "author",
	} {
		p := w.call(t, w.admin, "POST /v1/admin/bans", body).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
		require.Equal(t, field, p.Field, body)
	}
	w.call(t, w.admin, "POST /v1/admin/bans/drop", `{"kind":"user","value":"nobody"}`).requireCode(t, http.StatusNotFound, "listing_not_found")
}

func TestAdminGateSettings(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{gate: &gate.Options{}})
	read := func() (client.GateSettings, string) {
		a := w.call(t, w.admin, "GET /v1/admin/gate", "")
		return want[client.GateSettings](t, http.StatusOK, a), a.header.Get("ETag")
	}
	first, etag := read()
	require.Equal(t, `"0"`, etag)
	require.Equal(t, "default", first.From)
	require.True(t, first.InForce)
	defaults, err := json.Marshal(gate.DefaultSettings())
	require.NoError(t, err)
	require.JSONEq(t, string(defaults), string(first.Settings))

	put := func(body string, headers ...string) answer {
		return w.call(t, w.admin, "PUT /v1/admin/gate", body, headers...)
	}
	put(`{}`).requireCode(t, http.StatusPreconditionRequired, "precondition_required")
	put(`{}`, "If-Match", "x").requireCode(t, http.StatusBadRequest, "invalid_header")
	made := want[client.GateSettings](t, http.StatusOK, put(`{"pass":{"life":"10s"}}`, "If-Match", etag))
	require.Equal(t, "ledger", made.From)
	require.Contains(t, string(made.Settings), `"life":"10s"`)
	require.Contains(t, string(made.Settings), `"name":"network_users"`, "what is left out takes its default")
	put(`{}`, "If-Match", etag).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	put(`{}`, "If-Match", `"999"`).requireCode(t, http.StatusPreconditionFailed, "version_mismatch")
	w.learnt(t, made.Version)
	second, etag := read()
	require.True(t, second.InForce)
	require.JSONEq(t, string(made.Settings), string(second.Settings))
	require.Equal(t, made.Version, second.Version)
	for _, bad := range []string{
		`{"limits":[{"name":"a","by":"moon","quota":1,"window":"1s"}]}`, `{"challenge":{"mode":"sometimes"}}`, `{"pass":{"life":"1"}}`, `{"Pass":{}}`,
		`{"pass":{},"pass":{}}`, `{"paths":{}}`, `[]`, `{"limits":[{"name":"a","by":"user","quota":1,"window":"1s"},{"name":"a","by":"user","quota":1,"window":"1s"}]}`,
	} {
		put(bad, "If-Match", etag).requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	}
	require.Contains(t, w.log.String(), "an operator changed the gate's settings")

	none := newWorld(t)
	for _, line := range []string{"GET /v1/admin/gate", "POST /v1/sales/drop/passes"} {
		who := none.admin
		if strings.HasPrefix(line, "POST") {
			who = buyer(t, "u1")
		}
		none.call(t, who, line, "").requireCode(t, http.StatusConflict, "illegal_state")
	}
}
