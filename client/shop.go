package client

import (
	"context"
	"net/url"
)

// The calls of this file need an API key with the scope shop.

// Pay tells the outcome of a charge. It may be repeated at will: the payment id
// is its key. A stored notice is never an error; see PaymentResult.Outcome.
func (c *Client) Pay(ctx context.Context, order string, p Payment) (PaymentResult, error) {
	r, _, err := send[PaymentResult](ctx, c, post(again, "v1", "orders", order, "payments"), p)
	return r, err
}

// OrderOf returns an order, queued ones too, if it is this buyer's, else ErrOrderNotFound.
func (c *Client) OrderOf(ctx context.Context, user, order string) (Order, error) {
	k := get("v1", "orders", order)
	k.query = url.Values{"on_behalf_of": {user}}
	o, _, err := fetch[Order](ctx, c, k)
	return o, err
}

// CancelOf ends a reserved or queued order if it is this buyer's, else ErrOrderNotFound.
// On a cancelled one it changes nothing.
func (c *Client) CancelOf(ctx context.Context, user, order string) (Order, error) {
	o, _, err := send[Order](ctx, c, post(again, "v1", "orders", order, "cancel"), CancelRequest{OnBehalfOf: user})
	return o, err
}

// Refund ends a paid order and leaves a refund record for its charge. On a
// refunded order it changes nothing, whatever r says.
func (c *Client) Refund(ctx context.Context, order string, r RefundRequest) (Order, error) {
	o, _, err := send[Order](ctx, c, post(again, "v1", "orders", order, "refund"), r)
	return o, err
}

// RefundQuery selects refund records; zero fields select everything.
type RefundQuery struct {
	State string // required, done
	After string // Next of the page before
	Limit int    // most records of a page; 0 is the server's default
}

// Refunds returns a page of refund records in the order they came to be.
func (c *Client) Refunds(ctx context.Context, q RefundQuery) (Page[Refund], error) {
	k := get("v1", "refunds")
	k.query = make(url.Values)
	put(k.query, "state", q.State)
	put(k.query, "after", q.After)
	putLimit(k.query, q.Limit)
	page, _, err := fetch[Page[Refund]](ctx, c, k)
	return page, err
}

// RefundDone says that the money has gone back. Repeated, it changes nothing.
func (c *Client) RefundDone(ctx context.Context, refund string) (Refund, error) {
	r, _, err := fetch[Refund](ctx, c, post(again, "v1", "refunds", refund, "done"))
	return r, err
}
