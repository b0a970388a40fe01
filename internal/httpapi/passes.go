package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// getPass gives a buyer his pass, which is the same until an order has come of it.
func getPass(ctx context.Context, x *exchange) error {
	keeper, err := x.withGate()
	if err != nil {
		return err
	}
	var r client.PassRequest
	if len(x.body) > 0 {
		if err = decode(x, &r); err != nil {
			return err
		}
	}
	user, err := x.buyer(r.OnBehalfOf)
	if err != nil {
		return err
	}
	if x.guest.visit.IP, err = x.buyersIP(r.ClientIP); err != nil {
		return err
	}
	if passes := x.r.Header[headerPass]; len(passes) > 0 { // one to be renewed
		x.guest.visit.Pass = passes[0]
	}
	view, err := x.api.engine.Sale(ctx, x.r.PathValue("sale"))
	if err != nil {
		return err
	}
	if verdict := ledger.Shut(&view.Sale, x.api.engine.Now()); verdict != "" {
		return x.refuse(ctx, &engine.Decision{Verdict: verdict, View: view}, user)
	}
	if err = x.greet(x.receive(user, view)); err != nil {
		return err
	}
	pass, err := keeper.Issue(ctx, &x.guest.visit, gate.Proof{Challenge: r.Challenge, Captcha: r.Captcha}, func(ctx context.Context, nonce string) (bool, error) {
		return x.became(ctx, view, user, nonce)
	})
	x.tellLimit()
	if sale.CodeOf(err) == sale.CodeLimitReached { // so many passes have become orders
		return x.refuse(ctx, &engine.Decision{Verdict: sale.LimitReached, View: view}, user)
	}
	if err != nil {
		return err
	}
	out := client.Pass{Text: pass.Text, Sale: view.Slug, NotBefore: pass.NotBefore.Truncate(time.Millisecond), ExpiresAt: pass.Expires.Truncate(time.Millisecond)}
	if pass.Path != "" {
		out.Path = "/v1/sales/" + view.Slug + "/orders/" + pass.Path
	}
	x.reply(http.StatusCreated, typeJSON, render(out))
	return nil
}

// became reports whether an order has come of a pass, queued ones too.
func (x *exchange) became(ctx context.Context, v *engine.View, user, nonce string) (bool, error) {
	_, err := x.api.engine.Order(ctx, v.OrderID(user, nonce), user)
	switch {
	case err == nil:
		return true, nil
	case sale.CodeOf(err) == sale.CodeOrderNotFound:
		return false, nil
	}
	return false, err
}

// greet names the buyer's device, if the gate does not know it, and renews what it
// shows. A shop keeps the token for its buyer; a browser does so by itself.
func (x *exchange) greet(d gate.Device) error {
	known, token, err := x.api.gate.Greet(d)
	if err != nil || token == "" {
		return err
	}
	x.guest.visit.Device = known.ID
	h := x.w.Header()
	h[headerDevice] = []string{token}
	if x.who.KeyID == "" {
		h["Set-Cookie"] = []string{gate.SetDeviceCookie(token, gate.DeviceLife, x.transport())}
	}
	return nil
}
