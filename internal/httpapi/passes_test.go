package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
)

// months lets a sale go on for longer than any key verifies.
func months(n *client.NewSale) { n.EndsAt = "2028-01-01T00:00:00Z" }

// C59: a pass is one order at most, is the same until then, and its buyer's alone.
func TestC59Passes(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50, months)
	w.openSale(t, "other", 50)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	p := w.pass(t, u1, "drop")
	require.Equal(t, "drop", p.Sale)
	require.Empty(t, p.Path)
	for range 10 {
		require.Equal(t, p, w.pass(t, u1, "drop"), "asking again gives the same")
	}
	require.NotEqual(t, p.Text, w.pass(t, u2, "drop").Text)

	// Foreign and forged ones open nothing and tell nothing.
	for name, a := range map[string]answer{
		"another user":  w.use(t, u2, p),
		"another sale":  w.use(t, u1, client.Pass{Text: p.Text, Sale: "other"}),
		"made up":       w.use(t, u1, client.Pass{Text: "pass", Sale: "drop"}),
		"empty":         w.use(t, u1, client.Pass{Sale: "drop"}),
		"bent":          w.use(t, u1, client.Pass{Text: p.Text[:90] + "AA", Sale: "drop"}),
		"of a shop key": w.call(t, w.shop, "POST /v1/sales/drop/orders", `{"quantity":1,"on_behalf_of":"u2"}`, "Doorbuster-Pass", p.Text),
	} {
		if name == "empty" {
			a.requireCode(t, http.StatusBadRequest, "idempotency_key_required")
			continue
		}
		problem := a.requireCode(t, http.StatusForbidden, "pass_invalid")
		require.Empty(t, problem.Orders)
	}
	require.Equal(t, int64(50), w.left(t, "drop"))
	require.Contains(t, w.metrics(t), `doorbuster_gate_strikes_total{why="foreign_user"}`)

	w.use(t, u1, p, "Idempotency-Key", "k").requireCode(t, http.StatusBadRequest, "invalid_header")
	w.use(t, u1, p, "Doorbuster-Pass", p.Text).requireCode(t, http.StatusBadRequest, "invalid_header")
	w.use(t, u1, client.Pass{Text: p.Text, Sale: "none"}).requireCode(t, http.StatusNotFound, "sale_not_found")

	// Fifty at once are one order.
	answers := make([]answer, 50)
	var wg sync.WaitGroup
	for n := range answers {
		wg.Go(func() {
			var err error
			answers[n], err = w.try(t.Context(), u1, "POST /v1/sales/drop/orders", one, "Doorbuster-Pass", p.Text)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ids, made := map[string]bool{}, 0
	for _, a := range answers {
		require.Contains(t, []int{http.StatusCreated, http.StatusOK}, a.status, "%s", a.body)
		ids[read[client.Order](t, a).ID] = true
		if a.status == http.StatusCreated {
			made++
		}
	}
	require.Len(t, ids, 1)
	require.Equal(t, 1, made)
	require.Equal(t, int64(49), w.left(t, "drop"))

	next := w.pass(t, u1, "drop")
	require.NotEqual(t, p.Text, next.Text, "there is an order under the first")
	require.Equal(t, http.StatusCreated, w.use(t, u1, next).status)
	require.Equal(t, http.StatusOK, w.use(t, u1, p).status)
	third := w.pass(t, u1, "drop")
	w.use(t, u1, third).requireCode(t, http.StatusConflict, "limit_reached")
	require.Equal(t, third, w.pass(t, u1, "drop"), "a refusal uses no pass up")

	// A shop gets passes for its buyers; they are theirs.
	shops := want[client.Pass](t, http.StatusCreated, w.call(t, w.shop, "POST /v1/sales/drop/passes", `{"on_behalf_of":"u2","client_ip":"198.51.100.9"}`))
	require.Equal(t, http.StatusCreated, w.use(t, u2, shops).status)
	w.call(t, w.shop, "POST /v1/sales/drop/passes", "{}").requireCode(t, http.StatusUnprocessableEntity, "invalid_request")
	w.call(t, u1, "POST /v1/sales/drop/passes", `{"on_behalf_of":"u2"}`).requireCode(t, http.StatusForbidden, "forbidden")
	w.call(t, u1, "POST /v1/sales/drop/passes", `{"client_ip":"198.51.100.9"}`).requireCode(t, http.StatusForbidden, "forbidden")
}

// C59: a pass ends; the order that came of it is shown for ever. Keys rotate.
func TestPassesAndKeysEnd(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50, months)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	used, unused := w.pass(t, u1, "drop"), w.pass(t, u2, "drop")
	o := want[client.Order](t, http.StatusCreated, w.use(t, u1, used))

	key := want[client.GateKey](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/gate/keys", ""))
	require.Equal(t, uint32(2), key.ID)
	w.learnt(t, 1)
	w.store.Advance(time.Minute)
	require.NotEqual(t, unused.Text, w.pass(t, u2, "drop").Text, "the new key signs")
	require.Equal(t, http.StatusCreated, w.use(t, u2, unused).status, "the old one still opens")

	third := w.pass(t, u2, "drop")
	w.store.Advance(time.Hour)
	w.use(t, u2, third).requireCode(t, http.StatusForbidden, "pass_invalid")
	again := want[client.Order](t, http.StatusOK, w.use(t, u1, used))
	require.Equal(t, o.ID, again.ID)
	renewed := w.pass(t, u2, "drop", "Doorbuster-Pass", third.Text)
	require.True(t, renewed.ExpiresAt.After(third.ExpiresAt))
	require.Equal(t, http.StatusCreated, w.use(t, u2, renewed).status)

	w.store.Advance(gate.DeviceLife + time.Hour)
	w.use(t, u1, used).requireCode(t, http.StatusForbidden, "pass_invalid")
	require.Contains(t, w.metrics(t), `doorbuster_gate_refused_total{code="pass_invalid",layer="pass"}`)
	require.Contains(t, w.log.String(), "an operator rotated the gate's key")
}

// A pass is given out while a buy could succeed, and refused as a buy is.
func TestPassesAtTheWrongTime(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 5)
	w.openSale(t, "later", 5, func(n *client.NewSale) { n.StartsAt = "2026-11-27T19:00:00Z" })
	u1 := buyer(t, "u1")
	ask := func(slug string) answer { return w.call(t, u1, "POST /v1/sales/"+slug+"/passes", "{}") }
	ask("none").requireCode(t, http.StatusNotFound, "sale_not_found")
	require.NotNil(t, ask("later").requireCode(t, http.StatusConflict, "not_started").StartsAt)
	w.call(t, w.admin, "POST /v1/admin/sales/drop/pause", "")
	require.Eventually(t, func() bool { return ask("drop").problem(t).Code == "paused" }, patience, time.Millisecond)
	w.call(t, w.admin, "POST /v1/admin/sales/drop/close", "")
	require.Eventually(t, func() bool { return ask("drop").problem(t).Code == "closed" }, patience, time.Millisecond)
	w.store.Advance(12 * time.Hour)
	require.Eventually(t, func() bool { return ask("later").problem(t).Code == "ended" }, patience, time.Millisecond)
	w.call(t, nobody, "POST /v1/sales/drop/passes", "").requireCode(t, http.StatusUnauthorized, "unauthenticated")
}

// A sale may sell with passes only, and under their own addresses only.
func TestSalesThatDemandPasses(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50)
	w.openSale(t, "hidden", 50)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	before := want[client.Order](t, http.StatusCreated, w.buy(t, u1, "drop", "k", one))
	w.tune(t, func(s *gate.Settings) {
		s.Sales = map[string]gate.SaleRules{"drop": {Pass: true}, "hidden": {HiddenPath: true}}
	})
	w.buy(t, u1, "drop", "new", one).requireCode(t, http.StatusForbidden, "pass_required")
	require.Equal(t, before.ID, want[client.Order](t, http.StatusOK, w.buy(t, u1, "drop", "k", one)).ID, "he has it already")
	require.Equal(t, http.StatusCreated, w.use(t, u1, w.pass(t, u1, "drop")).status)
	require.Equal(t, http.StatusCreated, w.buy(t, w.shop, "drop", "k", `{"quantity":1,"on_behalf_of":"u3"}`).status, "a shop has a door of its own")

	w.buy(t, u1, "hidden", "k", one).requireCode(t, http.StatusForbidden, "pass_required")
	p, q := w.pass(t, u1, "hidden"), w.pass(t, u2, "hidden")
	require.Regexp(t, `^/v1/sales/hidden/orders/[0-9a-f]{32}$`, p.Path)
	require.NotEqual(t, p.Path, q.Path)
	usual, foreign := p, p
	usual.Path, foreign.Path = "", q.Path
	w.use(t, u1, usual).requireCode(t, http.StatusForbidden, "pass_required")
	w.use(t, u1, foreign).requireCode(t, http.StatusForbidden, "pass_required")
	counted := regexp.MustCompile(`refused_total\{code="pass_required",layer="pass"\} \d+`)
	earlier := counted.FindString(w.metrics(t))
	w.call(t, u1, "POST "+p.Path, one, "Idempotency-Key", "k").requireCode(t, http.StatusForbidden, "pass_required")
	require.NotEqual(t, earlier, counted.FindString(w.metrics(t)), "every refusal is counted")
	require.Equal(t, int64(50), w.left(t, "hidden"))
	o := want[client.Order](t, http.StatusCreated, w.use(t, u1, p))
	require.Equal(t, o.ID, want[client.Order](t, http.StatusOK, w.use(t, u1, p)).ID)
	require.Equal(t, o.ID, want[client.Order](t, http.StatusOK, w.use(t, u1, usual)).ID, "he has it already")
	w.call(t, u1, "GET "+p.Path, "").requireCode(t, http.StatusMethodNotAllowed, "method_not_allowed")
}

// A challenge is solved once, by whom it was asked of, in time.
func TestChallenges(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy())
	w.openSale(t, "drop", 50)
	w.openSale(t, "other", 50)
	w.tune(t, always)
	u1, u2 := buyer(t, "u1"), buyer(t, "u2")
	refused := w.buy(t, u1, "drop", "k", one)
	require.Equal(t, int64(50), w.left(t, "drop"))
	body := proof(t, refused)
	ask := func(who, slug, body string) answer { return w.call(t, who, "POST /v1/sales/"+slug+"/passes", body) }
	for name, a := range map[string]answer{
		"another user": ask(u2, "drop", body), "another sale": ask(u1, "other", body),
		"nothing": ask(u1, "drop", ""), "rubbish": ask(u1, "drop", `{"challenge":"x"}`), "no captcha here": ask(u1, "drop", `{"captcha":"x"}`),
	} {
		p := a.requireCode(t, http.StatusForbidden, "challenge_required")
		require.NotNil(t, p.Challenge, name)
		require.NotEqual(t, refused.problem(t).Challenge, p.Challenge, name)
	}
	p := want[client.Pass](t, http.StatusCreated, ask(u1, "drop", body))
	ask(u1, "drop", body).requireCode(t, http.StatusForbidden, "challenge_required")
	require.Contains(t, w.metrics(t), `doorbuster_gate_solutions_total{outcome="used"} 1`)
	require.Equal(t, http.StatusCreated, w.use(t, u1, p).status, "who has a pass is asked for no other proof")
	require.Equal(t, http.StatusOK, w.use(t, u1, p).status)
	w.buy(t, u1, "drop", "k2", one).requireCode(t, http.StatusForbidden, "challenge_required")
	require.Equal(t, http.StatusCreated, w.buy(t, w.shop, "drop", "k", `{"quantity":1,"on_behalf_of":"u3"}`).status, "a shop is asked for none")

	late := proof(t, w.buy(t, u2, "drop", "k", one))
	w.store.Advance(time.Hour)
	ask(u2, "drop", late).requireCode(t, http.StatusForbidden, "challenge_required")
	require.Contains(t, w.metrics(t), `doorbuster_gate_solutions_total{outcome="expired"} 1`)

	c, err := client.New(client.Options{URL: w.server.URL, Token: strings.TrimPrefix(u2, "Bearer ")})
	require.NoError(t, err)
	got, err := c.BuyProving(t.Context(), "drop", client.BuyOptions{}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.NotNil(t, got.Pass)
	again, err := c.BuyProving(t.Context(), "drop", client.BuyOptions{Pass: got.Pass}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, got.Order, again.Order)
}

// A device is known by the token that the gate gave it, never by what it says.
func TestDevices(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy(gate.Limit{Name: "device", By: gate.ByDevice, Quota: 2, Window: hour}))
	w.openSale(t, "drop", 50)
	u1 := buyer(t, "u1")
	first := w.call(t, u1, "POST /v1/sales/drop/passes", "")
	token := first.header.Get("Doorbuster-Device")
	require.Len(t, token, 56)
	require.Equal(t, "doorbuster-device="+token+"; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax", first.header.Get("Set-Cookie"))
	secure := w.call(t, u1, "POST /v1/sales/drop/passes", "", "X-Forwarded-For", "198.51.100.1", "X-Forwarded-Proto", "https")
	require.Regexp(t, `^__Host-doorbuster-device=.*; Secure$`, secure.header.Get("Set-Cookie"))
	require.NotEqual(t, token, secure.header.Get("Doorbuster-Device"), "it is another device")

	// The first pass was asked for by this device, so it has one request left.
	cookie := []string{"Cookie", "a=b; doorbuster-device=" + token}
	again := w.call(t, u1, "POST /v1/sales/drop/passes", "", cookie...)
	require.Equal(t, http.StatusCreated, again.status)
	require.Empty(t, again.header.Get("Set-Cookie"), "it has a good one")
	require.Empty(t, again.header.Get("Doorbuster-Device"))
	requireLimited(t, w.call(t, buyer(t, "u2"), "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k", "Doorbuster-Device", token), "device", 2)
	requireLimited(t, w.call(t, buyer(t, "u2"), "POST /v1/sales/drop/passes", "", cookie...), "device", 2)
	forged := token[:50] + "AAAAAA"
	require.Equal(t, http.StatusCreated, w.call(t, buyer(t, "u2"), "POST /v1/sales/drop/orders", one, "Idempotency-Key", "k", "Doorbuster-Device", forged).status,
		"a made-up token is no device")
	require.NotEmpty(t, w.call(t, u1, "POST /v1/sales/drop/passes", "", "Doorbuster-Device", forged).header.Get("Set-Cookie"))

	shops := w.call(t, w.shop, "POST /v1/sales/drop/passes", `{"on_behalf_of":"u3"}`, "Cookie", "doorbuster-device="+token)
	require.Len(t, shops.header.Get("Doorbuster-Device"), 56)
	require.Empty(t, shops.header.Get("Set-Cookie"), "a shop keeps it for its buyer")

	w.store.Advance(gate.DeviceLife * 2 / 3)
	w.openSale(t, "next", 50, months)
	old := w.call(t, u1, "POST /v1/sales/next/passes", "", "Doorbuster-Device", secure.header.Get("Doorbuster-Device"))
	renewed := old.header.Get("Doorbuster-Device")
	require.Len(t, renewed, 56, "past half of its life it is renewed")
	require.NotEqual(t, secure.header.Get("Doorbuster-Device"), renewed)
	require.NotEmpty(t, old.header.Get("Set-Cookie"))
}

// A hosted captcha asks in the place of the proof of work, where there is one.
func TestHostedCaptcha(t *testing.T) {
	t.Parallel()
	asked := &captchaService{}
	s := behindProxy()
	s.gate.Captcha, s.options.Captcha = asked, captchaConfig()
	w := gated(t, s)
	w.openSale(t, "drop", 50)
	w.tune(t, func(g *gate.Settings) { g.Challenge.Mode, g.Challenge.Captcha = "always", true })
	u1 := buyer(t, "u1")
	p := w.buy(t, u1, "drop", "k", one).requireCode(t, http.StatusForbidden, "challenge_required")
	require.Nil(t, p.Challenge)
	require.Equal(t, "turnstile", p.Captcha.Provider)
	require.Equal(t, "site", p.Captcha.SiteKey)
	ask := func(response string) answer {
		body, err := json.Marshal(client.PassRequest{Captcha: response})
		require.NoError(t, err)
		return w.call(t, u1, "POST /v1/sales/drop/passes", string(body), from("198.51.100.1")...)
	}
	require.NotNil(t, ask("wrong").requireCode(t, http.StatusForbidden, "challenge_required").Captcha)
	require.NotNil(t, ask("down").requireCode(t, http.StatusForbidden, "challenge_required").Challenge, "while the service is down, work is the proof")
	pass := want[client.Pass](t, http.StatusCreated, ask("right"))
	require.Equal(t, gate.Solution{Response: "right", IP: asked.last().IP, Bound: p.Captcha.Bound}, asked.last(), "the page hands the bound on")
	require.Equal(t, "198.51.100.1", asked.last().IP.String())
	ask("right").requireCode(t, http.StatusForbidden, "challenge_required")
	require.Equal(t, http.StatusCreated, w.use(t, u1, pass).status)
}
