package httpapi

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// guest is what the gate knows of a request.
type guest struct {
	ip     netip.Addr    // where it comes from
	inside bool          // the house itself comes, over its own connection
	key    bool          // it was let by because it claims to bring an API key
	visit  gate.Visit    // of attempts, and of requests for passes
	sale   sale.Number   // of the visit
	asked  time.Duration // how long the engine's questions to the gate took
}

// lookForStrays warns, once for each network, of forwarded headers that are not
// believed: everybody behind an unknown proxy counts as one client.
func (a *API) lookForStrays(ctx context.Context, r *http.Request) {
	stray, ok := a.strays.Look(a.proxies, r)
	if !ok {
		return
	}
	hint := "if this is a proxy of yours, name it in api.trusted_proxies; until then all its clients count as one"
	if stray.Configured {
		hint = "only X-Forwarded-For is believed: let the proxy add to it; until then all its clients count as one"
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "a forwarded header is not believed",
		slog.String("header", stray.Header), slog.String("peer", stray.Peer.String()), slog.String("hint", hint))
}

// enterGate looks at lists, pass and path of an attempt, and has the engine ask for the
// rest where it has to.
func (x *exchange) enterGate(ctx context.Context, r *engine.Request, path string) error {
	keeper, v := x.api.gate, &x.guest.visit
	switch {
	case keeper == nil && v.Pass != "":
		return badHeader(headerPass, "this server issues no passes", "send Idempotency-Key alone")
	case keeper == nil:
		return nil
	case path != "" && v.Pass == "":
		x.api.refused("pass", string(sale.CodePassRequired))
		return &sale.Error{Code: sale.CodePassRequired, Message: "this address belongs to a pass", Hint: "send the pass that it came with in Doorbuster-Pass"}
	}
	view, err := x.api.engine.Sale(ctx, r.Sale)
	if err != nil {
		if v.Pass == "" && sale.CodeOf(err) == sale.CodeSaleNotFound {
			return nil // the engine says so, and counts it
		}
		return err
	}
	x.receive(r.User, view)
	v.Path = path
	key, err := keeper.Enter(v)
	if err != nil {
		return err
	}
	if key != "" {
		r.Key = key
	}
	r.Admit = func(ctx context.Context) error {
		begun := time.Now()
		err := keeper.Admit(ctx, v)
		x.guest.asked += time.Since(begun)
		return err
	}
	return nil
}

// receive completes the visit of a buyer.
func (x *exchange) receive(user string, view *engine.View) gate.Device {
	v := &x.guest.visit
	d := x.api.gate.Recognise(x.deviceToken())
	v.User, v.Device, v.Shop = user, d.ID, x.who.KeyID != ""
	claimed := v.Shop && v.IP.IsValid() // the shop says where the buyer is
	v.Inside = x.guest.inside && !claimed
	v.Load = x.api.classes.buy.load()
	v.At(&view.Sale)
	x.guest.sale = view.Number
	return d
}

// deviceToken returns what the buyer's device shows: a header, or the cookie that the
// gate has set.
func (x *exchange) deviceToken() string {
	h := x.r.Header
	if tokens := h[headerDevice]; len(tokens) > 0 {
		return tokens[0]
	}
	if len(h["Cookie"]) == 0 || x.who.KeyID != "" { // a shop's own cookies are no buyer's
		return ""
	}
	c, err := x.r.Cookie(gate.DeviceCookie(x.transport()))
	if err != nil {
		return ""
	}
	return c.Value
}

// transport says how the request came, here or to a trusted proxy.
func (x *exchange) transport() gate.Transport {
	if x.r.TLS != nil {
		return gate.TLS
	}
	if said := x.r.Header["X-Forwarded-Proto"]; len(said) > 0 && x.api.proxies.Trust(httplimit.PeerIP(x.r)) {
		last := said[len(said)-1]
		if strings.EqualFold(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]), "https") {
			return gate.TLS
		}
	}
	return gate.Plain
}

// jitter is over how many seconds those who are refused at once come back.
const jitter = 3

// refusedAtGate completes the problem and the header of a refusal by the gate.
func (x *exchange) refusedAtGate(p *client.Problem, r *gate.RefusalError) {
	h, code := x.w.Header(), r.Err.Code
	switch {
	case code == sale.CodeRateLimited && r.RetryAfter > 0: // else it is not known, and a guess stands there
		later := time.Duration(rand.IntN(jitter)) * time.Second //nolint:gosec // spreads load, guards nothing
		httplimit.Refuse(h, r.RetryAfter+later, standing(&r.Rate, &r.State))
	case code == sale.CodeBanned && r.RetryAfter > 0:
		h["Retry-After"] = []string{seconds(r.RetryAfter)}
	case r.Challenge != nil:
		c := r.Challenge
		p.Challenge = &client.Challenge{Algorithm: c.Algorithm, Challenge: c.Challenge, MaxNumber: c.MaxNumber, Salt: c.Salt, Signature: c.Signature}
	case code == sale.CodeChallengeRequired && x.api.opts.Captcha != nil:
		c, bound := x.api.opts.Captcha, gate.CaptchaBound(gate.Bound{User: x.guest.visit.User, Sale: x.guest.sale})
		p.Captcha = &client.Captcha{Provider: c.Provider, SiteKey: c.SiteKey, Bound: bound}
	}
}

// tellLimit says how the buyer's own limit stands, if it was asked.
func (x *exchange) tellLimit() {
	if r, s, ok := x.guest.visit.Standing(); ok {
		httplimit.Write(x.w.Header(), standing(&r, &s))
	}
}

// standing is a limit as the header fields tell of it.
func standing(r *limit.Rate, s *limit.State) httplimit.State {
	policy, err := httplimit.NewPolicy(r.Name, r.Quota, r.Window, httplimit.Requests)
	if err != nil { // such a limit has nothing to tell
		return httplimit.State{}
	}
	return httplimit.State{Policy: policy, Remaining: s.Remaining, Reset: max(s.MoreAfter, s.RetryAfter)}
}

// withGate returns the doorkeeper.
func (x *exchange) withGate() (*gate.Keeper, error) {
	if x.api.gate == nil {
		return nil, sale.IllegalState("this server keeps no gate", "set gate.mode to on in its configuration and start it again")
	}
	return x.api.gate, nil
}
