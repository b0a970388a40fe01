package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The states of an order.
const (
	StateQueued    = "queued" // taken and not judged yet: no promise
	StateReserved  = "reserved"
	StatePaid      = "paid"
	StateCancelled = "cancelled"
	StateExpired   = "expired"
	StateRejected  = "rejected"
	StateRefunded  = "refunded"
)

const (
	headerReceipt = "Doorbuster-Receipt"
	// maxWait is the longest that a server waits for the judge.
	maxWait = 20 * time.Second
	// followLimit is longer than any order stays queued while its ledger can be
	// reached.
	followLimit = 15 * time.Minute
)

// BuyOptions say how to buy. The zero value is a new click that waits for nothing.
type BuyOptions struct {
	// Key is the idempotency key of the click, 1–128 visible ASCII characters;
	// empty draws one.
	Key string
	// Wait is how long the server shall wait for the judge of a queued order, in
	// whole seconds (rounded up), 20 s at most. It may grant less. Zero: not at all.
	Wait time.Duration
	// Receipt is what an earlier answer to the same click carried.
	Receipt string
	// Pass, if set, stands in the place of Key: one pass is one click.
	Pass *Pass
	// Device is the token that the gate has given this buyer's device; see Client.Pass.
	Device string
}

// BuyWith attempts to buy as Buy does, with options. Every try of the call carries
// the same key, so at most one order comes of it.
func (c *Client) BuyWith(ctx context.Context, sale string, o BuyOptions, a Attempt) (Bought, error) {
	k := post(again, "v1", "sales", sale, "orders").waiting(o.Wait).proving(o.Receipt).from(o.Device)
	switch {
	case o.Pass != nil:
		o.Key = ""
		k = k.passing(o.Pass)
	case o.Key == "":
		o.Key = rand.Text()
		fallthrough
	default:
		k = k.set(headerKey, o.Key)
	}
	order, ans, err := send[Order](ctx, c, k, a)
	b := Bought{
		Order: order, Replayed: ans.header.Get("Idempotency-Replayed") == "true", Key: o.Key,
		Receipt: ans.header.Get(headerReceipt), Pass: o.Pass,
	}
	if err != nil {
		b.Order, _ = Rejection(err)
		return b, err
	}
	if b.Receipt == "" && order.State == StateQueued {
		b.Receipt = o.Receipt
	}
	return b, rejected(&order)
}

// OrderOptions say how to look at an order.
type OrderOptions struct {
	// User is the buyer; API keys only, which see queued orders in no other way.
	User string
	// Wait is how long the server shall wait for the judge of a queued order, as in
	// BuyOptions.
	Wait time.Duration
	// Receipt is what the answer to the buy carried: with it an order is found, or
	// judged, even where the server has lost what it had queued.
	Receipt string
}

// OrderWith returns an order as Order does, with options.
func (c *Client) OrderWith(ctx context.Context, order string, o OrderOptions) (Order, error) {
	found, _, err := c.look(ctx, order, o)
	return found, err
}

func (c *Client) look(ctx context.Context, order string, o OrderOptions) (Order, answer, error) {
	k := get("v1", "orders", order).waiting(o.Wait).proving(o.Receipt)
	if o.User != "" {
		k.query = url.Values{"on_behalf_of": {o.User}}
	}
	return fetch[Order](ctx, c, k)
}

// Follow waits until the order of a buy is judged, and returns it as it is then.
// An order that is not queued is returned at once. One that was rejected is returned
// with the error that Buy gives for it; see Rejection.
//
// The server is asked again and again, with the receipt, and waits for the judge each
// time; pauses are those that it asks for. Passing trouble does not end it. The end
// of ctx does, and so do 15 minutes: then the error is ErrStillQueued.
func (c *Client) Follow(ctx context.Context, b Bought) (Order, error) {
	if b.Order.State != StateQueued {
		return b.Order, rejected(&b.Order)
	}
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	o := OrderOptions{User: b.Order.User, Wait: maxWait, Receipt: b.Receipt}
	for try := 1; ; try++ {
		found, ans, err := c.look(ctx, b.Order.ID, o)
		if err == nil && found.State != StateQueued {
			return found, rejected(&found)
		}
		asked := retryAfter(ans.header)
		if e, failed := errors.AsType[*Error](err); failed {
			if ctx.Err() == nil && !e.mayPass() {
				return b.Order, err
			}
			asked = e.RetryAfter
		}
		if !wait(ctx, max(asked, c.pause(min(try, maxDoublings), 0))) {
			return b.Order, stillQueued(ctx, err)
		}
	}
}

// stillQueued is the error of a Follow that is over before its order was judged.
func stillQueued(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = context.DeadlineExceeded // the pause would have reached past it
	}
	return own(ErrStillQueued, "the order is not judged yet", "follow it again; queued is no promise", errors.Join(cause, last))
}

// mayPass reports whether the same reading may succeed later.
func (e *Error) mayPass() bool {
	code := CodeError(e.Code)
	return code == ErrUnreachable || code == ErrNoAnswer || code == ErrBusy || code == ErrRateLimited || passing(e.Status)
}

// Rejection returns the order that was taken and then rejected by the judge, if that
// is what err tells, whichever way it was learned. Such an order is final: its key
// is used up, and a new attempt needs a new one. The codes are those of the
// refusals at the door (ErrSoldOut, ErrLimitReached, ErrCoolDown), or ErrRejected.
func Rejection(err error) (Order, bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Orders) != 1 || e.Orders[0].State != StateRejected {
		return Order{}, false
	}
	return e.Orders[0], true
}

// rejected returns the error for an order that was rejected, else nil.
func rejected(o *Order) error {
	if o.State != StateRejected {
		return nil
	}
	code := ErrRejected
	switch o.Reason {
	case "sold_out", "stock_reduced":
		code = ErrSoldOut
	case "limit_reached":
		code = ErrLimitReached
	case "cool_down":
		code = ErrCoolDown
	}
	e := own(code, "the order was taken and then rejected: "+o.Reason, "the order is final, and its key stands for it: use a new key for a new click", nil)
	e.Status, e.Title, e.Orders = http.StatusConflict, http.StatusText(http.StatusConflict), []Order{*o}
	return e
}

// waiting returns the call with the wish that the server wait for the judge, and
// with the time for it.
func (k call) waiting(d time.Duration) call {
	if d <= 0 {
		return k
	}
	k.patience = min((d + time.Second - 1).Truncate(time.Second), maxWait)
	return k.set("Prefer", "wait="+strconv.Itoa(int(k.patience/time.Second)))
}

// proving returns the call with a receipt.
func (k call) proving(receipt string) call {
	if receipt == "" {
		return k
	}
	return k.set(headerReceipt, receipt)
}
