package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const paramBehalf = "on_behalf_of"

// orderID returns the order named in the path. A text that is no id is answered
// like an id that nobody has.
func (x *exchange) orderID() (sale.OrderID, error) { return sale.ParseOrderID(x.r.PathValue("order")) }

// owner returns whose orders the caller may touch by id: a buyer his own, a shop
// those of the buyer it names, or, naming none, all.
func (x *exchange) owner(onBehalfOf string) (string, error) {
	if x.who.KeyID != "" && onBehalfOf == "" {
		return "", nil
	}
	return x.buyer(onBehalfOf)
}

func listOrders(ctx context.Context, x *exchange) error {
	q, err := x.query("sale", "state", "after", "limit", paramBehalf)
	if err != nil {
		return err
	}
	f, err := orderFilter(q)
	if err != nil {
		return err
	}
	if f.User, err = x.buyer(q.Get(paramBehalf)); err != nil {
		return err
	}
	if slug := q.Get("sale"); slug != "" {
		v, err := x.api.engine.Sale(ctx, slug)
		if err != nil {
			return err
		}
		f.Sale = v.Number
	}
	return x.listOrders(ctx, f)
}

// listOrders answers with one page of orders.
func (x *exchange) listOrders(ctx context.Context, f ledger.OrderFilter) error {
	limit := f.Limit
	f.Limit++ // one more tells whether there is a next page
	found, err := x.api.engine.Orders(ctx, f)
	if err != nil {
		return err
	}
	queued, judged := split(found)
	more := len(judged) > limit
	judged = judged[:min(limit, len(judged))]
	out := client.Page[client.Order]{Data: make([]client.Order, 0, len(queued)+len(judged))}
	for _, part := range [][]sale.Order{queued, judged} {
		for i := range part {
			out.Data = append(out.Data, x.order(&part[i]))
		}
	}
	if more {
		out.Next = cursorText(&judged[limit-1])
	}
	x.reply(http.StatusOK, typeJSON, render(out))
	return nil
}

// split parts a listing into the queued orders, which lead it, and those of the
// ledger. What was judged while the list was made is not shown as queued too.
func split(found []sale.Order) (queued, judged []sale.Order) {
	n := slices.IndexFunc(found, func(o sale.Order) bool { return o.State != sale.Queued })
	if n < 0 {
		return found, nil
	}
	judged = found[n:]
	queued = slices.DeleteFunc(found[:n:n], func(q sale.Order) bool {
		return slices.ContainsFunc(judged, func(o sale.Order) bool { return o.ID == q.ID })
	})
	return queued, judged
}

func getOrder(ctx context.Context, x *exchange) error {
	q, err := x.query(paramBehalf)
	if err != nil {
		return err
	}
	user, err := x.owner(q.Get(paramBehalf))
	if err != nil {
		return err
	}
	return x.showOrder(ctx, user)
}

// showOrder answers with an order as it is, or as it is after it was waited for. An
// order that only its receipt proves is judged by that.
func (x *exchange) showOrder(ctx context.Context, user string) error {
	id, err := x.orderID()
	if err != nil {
		return err
	}
	receipt, err := receiptOf(x.r.Header)
	if err != nil {
		return err
	}
	o, err := x.awaited(ctx, id, user)
	if receipt != "" && err != nil && sale.CodeOf(err) == sale.CodeOrderNotFound {
		o, err = x.api.engine.OrderByReceipt(ctx, id, user, receipt)
	}
	if err != nil {
		return err
	}
	if o.State == sale.Queued {
		x.w.Header()["Retry-After"] = x.api.fixed.soon
	}
	x.reply(http.StatusOK, typeJSON, render(x.order(&o)))
	return nil
}

// awaited returns an order, and waits for its judgement where the caller prefers to.
func (x *exchange) awaited(ctx context.Context, id sale.OrderID, user string) (o sale.Order, err error) {
	wait, said := x.granted()
	if wait == 0 || user == "" { // who names no buyer sees judged orders only
		if said {
			x.applied(0)
		}
		return x.api.engine.Order(ctx, id, user)
	}
	err = x.waiting(ctx, user, wait, func(ctx context.Context, wait time.Duration) (err error) {
		if wait == 0 {
			o, err = x.api.engine.Order(ctx, id, user)
		} else {
			o, err = x.api.engine.Await(ctx, id, user, wait)
		}
		return err
	})
	return o, err
}

func cancelOrder(ctx context.Context, x *exchange) error {
	var c client.CancelRequest
	if len(x.body) > 0 {
		if err := decode(x, &c); err != nil {
			return err
		}
	}
	user, err := x.owner(c.OnBehalfOf)
	if err != nil {
		return err
	}
	return x.cancel(ctx, user)
}

func (x *exchange) cancel(ctx context.Context, user string) error {
	id, err := x.orderID()
	if err != nil {
		return err
	}
	o, err := x.api.engine.Cancel(ctx, id, user)
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(x.order(&o)))
	return nil
}

func payOrder(ctx context.Context, x *exchange) error {
	var p client.Payment
	if err := decode(x, &p); err != nil {
		return err
	}
	id, err := x.orderID()
	if err != nil {
		return err
	}
	paid, err := x.api.engine.Pay(ctx, sale.Payment{
		ID: p.ID, Order: id, Status: sale.PaymentStatus(p.Status), Amount: p.Amount, Currency: p.Currency,
	})
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(client.PaymentResult{Outcome: string(paid.Outcome), Order: x.order(&paid.Order)}))
	return nil
}

func refundOrder(ctx context.Context, x *exchange) error {
	var r client.RefundRequest
	if err := decode(x, &r); err != nil {
		return err
	}
	id, err := x.orderID()
	if err != nil {
		return err
	}
	o, err := x.api.engine.Refund(ctx, id, r.Restock)
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(x.order(&o)))
	return nil
}

func listRefunds(ctx context.Context, x *exchange) error {
	q, err := x.query("state", "after", "limit")
	if err != nil {
		return err
	}
	f, err := refundFilter(q)
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++
	found, err := x.api.ledger.ListRefunds(ctx, f)
	if err != nil {
		return err
	}
	more := len(found) > limit
	found = found[:min(limit, len(found))]
	out := client.Page[client.Refund]{Data: make([]client.Refund, len(found))}
	for i := range found {
		out.Data[i] = wireRefund(&found[i])
	}
	if more {
		out.Next = found[limit-1].ID.String()
	}
	x.reply(http.StatusOK, typeJSON, render(out))
	return nil
}

func refundFilter(q url.Values) (ledger.RefundFilter, error) {
	f := ledger.RefundFilter{State: sale.RefundState(q.Get("state"))}
	switch f.State {
	case "", sale.RefundRequired, sale.RefundDone:
	default:
		return f, sale.Invalid("state", "the state is unknown", "use required or done")
	}
	var err error
	if f.Limit, err = limitOf(q); err != nil {
		return f, err
	}
	if text := q.Get("after"); text != "" {
		if f.After, err = sale.ParseRefundID(text); err != nil {
			return f, sale.Invalid("after", "this is no place in the listing", "send next of the page before")
		}
	}
	return f, nil
}

func finishRefund(ctx context.Context, x *exchange) error {
	if err := x.wantNothing(); err != nil {
		return err
	}
	id, err := sale.ParseRefundID(x.r.PathValue("refund"))
	if err != nil {
		return err
	}
	r, err := x.api.ledger.RefundDone(ctx, id)
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(wireRefund(&r)))
	return nil
}

// wantNothing refuses a body where none has a meaning, but for an empty object.
func (x *exchange) wantNothing() error {
	if len(x.body) == 0 {
		return nil
	}
	var none struct{}
	return decode(x, &none)
}
