package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SaleAnswer is a sale as it was when the server answered.
type SaleAnswer struct {
	Sale        Sale      // zero if NotModified
	ETag        string    // pass it to the next call
	Time        time.Time // the server's clock; zero if it did not say
	NotModified bool      // the sale is still as it was under the ETag passed
}

// Sales returns the sales that buyers may know of.
func (c *Client) Sales(ctx context.Context) ([]Sale, error) {
	page, _, err := fetch[Page[Sale]](ctx, c, get("v1", "sales"))
	return page.Data, err
}

// Sale returns one sale. etag is the ETag of an earlier answer: if the sale has
// not changed since, the answer is NotModified and costs no body. Empty reads it.
func (c *Client) Sale(ctx context.Context, sale, etag string) (SaleAnswer, error) {
	k := get("v1", "sales", sale)
	if etag != "" {
		k = k.set("If-None-Match", etag)
	}
	s, a, err := fetch[Sale](ctx, c, k)
	if err != nil {
		return SaleAnswer{}, err
	}
	out := SaleAnswer{Sale: s, ETag: a.header.Get("ETag"), NotModified: a.status == http.StatusNotModified}
	if ms, err := strconv.ParseInt(a.header.Get(headerTime), 10, 64); err == nil {
		out.Time = time.UnixMilli(ms).UTC()
	}
	if out.NotModified && out.ETag == "" {
		out.ETag = etag
	}
	return out, nil
}

// Bought is the answer to a Buy.
type Bought struct {
	// Order is what the click stands for: reserved (or paid, at price zero), or
	// queued, which Follow follows to its end. It is set on a rejection too.
	Order Order
	// Replayed says that an earlier attempt with the same key had made the
	// order, which is shown as it is now.
	Replayed bool
	// Key is the idempotency key of the attempt. It is set on errors too:
	// repeating Buy with it is the same click.
	Key string
	// Pass is the pass that was bought with, in the place of Key; nil without one.
	Pass *Pass
	// Receipt is the proof of a queued order. It may be empty where the order was
	// replayed.
	Receipt string
}

// Buy attempts to buy. key is the idempotency key of the click, 1–128 visible
// ASCII characters; empty draws one. Every try of the call carries the same
// key, so at most one order comes of it. An order that was taken and then rejected
// is an error; see Rejection.
func (c *Client) Buy(ctx context.Context, sale, key string, a Attempt) (Bought, error) {
	return c.BuyWith(ctx, sale, BuyOptions{Key: key}, a)
}

// Order returns one order of the buyer, or any to an API key.
func (c *Client) Order(ctx context.Context, order string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, get("v1", "orders", order))
	return o, err
}

// OrderQuery selects orders; zero fields select everything that the credential
// may see.
type OrderQuery struct {
	Sale  string
	State string // queued, reserved, paid, cancelled, expired, rejected, refunded
	User  string // the buyer; API keys only
	After string // Next of the page before
	Limit int    // most orders of a page; 0 is the server's default
}

func (q OrderQuery) values(user string) url.Values {
	v := make(url.Values)
	put(v, "sale", q.Sale)
	put(v, "state", q.State)
	put(v, user, q.User)
	put(v, "after", q.After)
	putLimit(v, q.Limit)
	return v
}

// Orders returns a page of the buyer's orders, newest first; queued ones lead the
// first page, beyond its limit. A shop's key names the buyer in q.User.
func (c *Client) Orders(ctx context.Context, q OrderQuery) (Page[Order], error) {
	k := get("v1", "orders")
	k.query = q.values("on_behalf_of")
	page, _, err := fetch[Page[Order]](ctx, c, k)
	return page, err
}

// Cancel ends a reserved or queued order. On a cancelled one it changes nothing.
func (c *Client) Cancel(ctx context.Context, order string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, post(again, "v1", "orders", order, "cancel"))
	return o, err
}

// All walks the pages of a listing: fetch is called with an empty after first,
// then with the Next of each page. The walk ends at the first error.
func All[T any](fetch func(after string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		after := ""
		for {
			page, err := fetch(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range page.Data {
				if !yield(v, nil) {
					return
				}
			}
			if page.Next == "" || page.Next == after {
				return
			}
			after = page.Next
		}
	}
}

func put(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func putLimit(v url.Values, limit int) {
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
}
