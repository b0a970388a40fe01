package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// refusals holds the bodies of refusals that are always the same.
type refusals map[sale.Verdict][]byte

func newRefusals() refusals {
	r := make(refusals)
	for _, v := range []sale.Verdict{sale.SoldOut, sale.Ended, sale.PausedNow, sale.ClosedNow, sale.TermsChanged, sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem} {
		r[v] = render(problemOf(refusal(v)))
	}
	return r
}

// buy is the hot path: whatever can be made before is made before.
func buy(ctx context.Context, x *exchange) error { return x.buy(ctx, "") }

// buyHidden buys at the address that came with a pass.
func buyHidden(ctx context.Context, x *exchange) error {
	if x.api.gate == nil {
		return noRoute(ctx, x)
	}
	return x.buy(ctx, x.r.PathValue("path"))
}

func (x *exchange) buy(ctx context.Context, path string) error {
	if err := x.wantJSON(); err != nil {
		return err
	}
	a := &x.attempt
	if err := DecodeAttempt(x.body, a); err != nil {
		return err
	}
	request, err := x.request(a)
	if err != nil {
		return err
	}
	if err = x.enterGate(ctx, &request, path); err != nil {
		return err
	}
	gated := time.Now()
	d, err := x.attemptToBuy(ctx, &request)
	if err != nil {
		return err
	}
	x.tellTimes(gated, &d)
	x.tellLimit()
	if d.Verdict != sale.Taken && d.Verdict != sale.Replayed {
		return x.refuse(ctx, &d, request.User)
	}
	x.sell(&d)
	return nil
}

// attemptToBuy asks the engine, and waits for the judge where the buyer prefers to.
// On the direct path every answer is the judge's own, so that the preference is
// always met.
func (x *exchange) attemptToBuy(ctx context.Context, r *engine.Request) (engine.Decision, error) {
	wait, said := x.granted()
	if !said {
		return x.api.engine.Buy(ctx, *r)
	}
	if v, err := x.api.engine.Sale(ctx, r.Sale); wait == 0 || err != nil || v.Path != sale.PathFast {
		x.applied(wait)
		return x.api.engine.Buy(ctx, *r)
	}
	var d engine.Decision
	err := x.waiting(ctx, r.User, wait, func(ctx context.Context, wait time.Duration) (err error) {
		r.Wait = wait
		d, err = x.api.engine.Buy(ctx, *r)
		return err
	})
	return d, err
}

// sell answers with an order that was taken, now or before. A repeated request gets
// the order as it is, also a rejected one. To a new one a rejection is a refusal.
func (x *exchange) sell(d *engine.Decision) {
	h, o := x.w.Header(), &d.Order
	status := http.StatusCreated
	if d.Verdict == sale.Replayed {
		status = http.StatusOK
		h[headerReplayed] = x.api.fixed.replayed
	}
	switch {
	case o.State == sale.Queued:
		status = http.StatusAccepted
		h["Retry-After"] = x.api.fixed.soon
		if d.Receipt != "" {
			h[headerReceipt] = []string{d.Receipt}
		}
	case o.State == sale.Rejected && d.Verdict == sale.Taken:
		p := problemOf(rejection(o.Reason))
		p.Orders = []client.Order{x.order(o)}
		x.problem(p)
		return
	}
	h["Location"] = []string{"/v1/orders/" + o.ID.String()}
	x.reply(status, typeJSON, render(x.order(o)))
}

// request puts together what the engine is asked.
func (x *exchange) request(a *client.Attempt) (engine.Request, error) {
	r := engine.Request{Sale: x.r.PathValue("sale"), SKU: a.SKU, Quantity: a.Quantity}
	var err error
	if r.Key, x.guest.visit.Pass, err = clickOf(x.r.Header); err != nil {
		return r, err
	}
	if r.Receipt, err = receiptOf(x.r.Header); err != nil {
		return r, err
	}
	if r.User, err = x.buyer(a.OnBehalfOf); err != nil {
		return r, err
	}
	if x.guest.visit.IP, err = x.buyersIP(a.ClientIP); err != nil {
		return r, err
	}
	if a.ExpectedAmount != nil {
		if *a.ExpectedAmount < 0 || *a.ExpectedAmount > sale.MaxInteger {
			return r, sale.Invalid("expected_amount", "the amount is out of range", "send minor units from 0 to 9007199254740991")
		}
		if err := sale.CheckCurrency(a.Currency); err != nil {
			return r, err
		}
		r.Expected = &ledger.Money{Amount: *a.ExpectedAmount, Currency: a.Currency}
	} else if a.Currency != "" {
		return r, sale.Invalid("currency", "a currency goes with an expected amount", "send expected_amount too, or neither")
	}
	return r, nil
}

// buyer returns for whom the request is: the buyer himself, or the one that a
// shop names.
func (x *exchange) buyer(onBehalfOf string) (string, error) {
	if x.who.KeyID == "" {
		if onBehalfOf != "" {
			return "", forShopsOnly("on_behalf_of")
		}
		return x.who.User, nil
	}
	if err := sale.CheckUser(onBehalfOf); err != nil {
		e := *coded(err)
		e.Field = "on_behalf_of"
		return "", &e
	}
	return onBehalfOf, nil
}

// buyersIP returns where the buyer is: where the request comes from, or what a shop
// says; the zero address if it says nothing.
func (x *exchange) buyersIP(said string) (netip.Addr, error) {
	switch {
	case x.who.KeyID == "" && said != "":
		return netip.Addr{}, forShopsOnly("client_ip")
	case x.who.KeyID == "":
		return x.guest.ip, nil
	case said == "":
		return netip.Addr{}, nil
	}
	ip, err := netip.ParseAddr(said)
	if err != nil {
		return ip, sale.Invalid("client_ip", "this is not an IP address", "send the buyer's address, or leave it out")
	}
	return ip.Unmap().WithZone(""), nil
}

func forShopsOnly(field string) error {
	e := auth.Forbidden("only API keys with scope shop may send it")
	e.Field = field
	return e
}

// refuse answers with a verdict that refuses.
func (x *exchange) refuse(ctx context.Context, d *engine.Decision, user string) error {
	if ready, ok := x.api.refusals[d.Verdict]; ok {
		x.reply(statusOf(sale.Code(d.Verdict)), typeProblem, ready)
		return nil
	}
	p := problemOf(refusal(d.Verdict))
	switch d.Verdict {
	case sale.Insufficient:
		p.Available = &d.Left
	case sale.NotStarted:
		if d.View != nil {
			p.StartsAt = &d.View.StartsAt
		}
	case sale.CoolDown:
		p.RetryAt = &d.RetryAt
		x.w.Header()["Retry-After"] = []string{seconds(d.RetryAt.Sub(x.api.engine.Now()))}
	case sale.BadQuantity:
		if d.View != nil {
			p = problemOf(sale.InvalidQuantity(d.View.PerUserLimit))
		}
	case sale.LimitReached:
		orders, err := x.ordersIn(ctx, d.View, user)
		if err != nil {
			return err
		}
		p.Orders = orders
	case sale.Taken, sale.Replayed, sale.SoldOut, sale.Ended, sale.PausedNow, sale.ClosedNow, sale.TermsChanged,
		sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem:
	}
	x.problem(p)
	return nil
}

// ordersIn returns what a buyer has in one sale.
func (x *exchange) ordersIn(ctx context.Context, v *engine.View, user string) ([]client.Order, error) {
	if v == nil {
		return nil, nil
	}
	found, err := x.api.engine.Orders(ctx, ledger.OrderFilter{Sale: v.Number, User: user, Limit: pageLimit})
	if err != nil {
		return nil, err
	}
	out := make([]client.Order, len(found))
	for i := range found {
		out[i] = x.order(&found[i])
	}
	return out, nil
}

// tellTimes says in Server-Timing (ms) how long the stages took: gate is
// everything before the engine and what the engine asks the gate, engine what it took
// without the others, stock and ledger the calls, wait the line before them and the judge behind.
func (x *exchange) tellTimes(gated time.Time, d *engine.Decision) {
	b := appendStage(x.timing[:0], "gate;dur=", gated.Sub(x.begun)+x.guest.asked)
	t := &d.Times
	b = appendStage(append(b, ", "...), "engine;dur=", max(0, time.Since(gated)-x.guest.asked-t.Queue-t.Stock-t.Ledger-t.Wait))
	if t.Stock > 0 || t.Ledger > 0 {
		b = appendStage(append(b, ", "...), "wait;dur=", t.Queue+t.Wait)
	}
	if t.Stock > 0 {
		b = appendStage(append(b, ", "...), "stock;dur=", t.Stock)
	}
	if t.Ledger > 0 {
		b = appendStage(append(b, ", "...), "ledger;dur=", t.Ledger)
	}
	x.timing = b
	x.w.Header()["Server-Timing"] = []string{string(b)}
}

func appendStage(b []byte, name string, d time.Duration) []byte {
	const micros = 1000
	us := d.Microseconds()
	b = strconv.AppendInt(append(b, name...), us/micros, 10)
	rest := us % micros
	return append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
