package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// The calls of this file need an API key with the scope admin.

// SaleQuery selects sales for an operator.
type SaleQuery struct {
	After string // Next of the page before
	Limit int    // most sales of a page; 0 is the server's default
}

// CreateSale enters a sale as a draft. ErrSaleExists if the id is taken. It is
// not repeated when the outcome is unknown: read the sale then.
func (c *Client) CreateSale(ctx context.Context, s NewSale) (AdminSale, error) {
	out, _, err := send[AdminSale](ctx, c, post(once, "v1", "admin", "sales"), s)
	return out, err
}

// AdminSale returns a sale as operators see it, drafts included.
func (c *Client) AdminSale(ctx context.Context, sale string) (AdminSale, error) {
	out, _, err := fetch[AdminSale](ctx, c, get("v1", "admin", "sales", sale))
	return out, err
}

// AdminSales returns a page of all sales that are not deleted.
func (c *Client) AdminSales(ctx context.Context, q SaleQuery) (Page[AdminSale], error) {
	k := get("v1", "admin", "sales")
	k.query = make(url.Values)
	put(k.query, "after", q.After)
	putLimit(k.query, q.Limit)
	page, _, err := fetch[Page[AdminSale]](ctx, c, k)
	return page, err
}

// PatchSale changes rules of the sale as it was at version;
// ErrVersionMismatch if it has moved on. It is not repeated when the outcome is
// unknown: the second try would meet its own change.
func (c *Client) PatchSale(ctx context.Context, sale string, version int64, p SalePatch) (AdminSale, error) {
	k := call{method: http.MethodPatch, path: []string{"v1", "admin", "sales", sale}, safety: once}
	out, _, err := send[AdminSale](ctx, c, k.set("If-Match", etagOf(version)), p)
	return out, err
}

// DeleteSale deletes a draft or closed sale as it was at version. Its rows stay
// for audits; its id becomes free.
func (c *Client) DeleteSale(ctx context.Context, sale string, version int64) error {
	k := call{method: http.MethodDelete, path: []string{"v1", "admin", "sales", sale}, safety: again}
	a, err := c.do(ctx, k.set("If-Match", etagOf(version)))
	if a.unsure && errors.Is(err, ErrSaleNotFound) {
		return nil // an earlier try had deleted it
	}
	return err
}

// Publish opens a draft to buyers; it sells from its start on.
func (c *Client) Publish(ctx context.Context, sale string) (AdminSale, error) {
	return c.act(ctx, sale, "publish", "published")
}

// Pause stops new orders; what is reserved may be paid.
func (c *Client) Pause(ctx context.Context, sale string) (AdminSale, error) {
	return c.act(ctx, sale, "pause", "paused")
}

// Resume lets a paused sale sell again.
func (c *Client) Resume(ctx context.Context, sale string) (AdminSale, error) {
	return c.act(ctx, sale, "resume", "published")
}

// CloseSale ends a sale for good.
func (c *Client) CloseSale(ctx context.Context, sale string) (AdminSale, error) {
	return c.act(ctx, sale, "close", "closed")
}

// Preheat brings a sale that prefers the fast path onto it, and returns when it is
// there. Repeated, it changes nothing. ErrIllegalState if the server has no fast path
// or the sale cannot go there.
func (c *Client) Preheat(ctx context.Context, sale string) (AdminSale, error) {
	out, _, err := fetch[AdminSale](ctx, c, post(again, "v1", "admin", "sales", sale, "preheat"))
	return out, err
}

// SetPath sets the path that the sale prefers, fast or direct, as it was at version
// (0 is any version), and takes a running sale there. With a version it is not
// repeated when the outcome is unknown: the second try would meet its own change.
func (c *Client) SetPath(ctx context.Context, sale string, version int64, path string) (AdminSale, error) {
	k := post(again, "v1", "admin", "sales", sale, "path")
	if version != 0 {
		k.safety = once
		k = k.set("If-Match", etagOf(version))
	}
	out, _, err := send[AdminSale](ctx, c, k, Route{Path: path})
	return out, err
}

// act moves a sale to a state. A try whose answer was lost is repeated; if that
// meets the state which the lost one had brought about, all is well.
func (c *Client) act(ctx context.Context, sale, action, state string) (AdminSale, error) {
	out, a, err := fetch[AdminSale](ctx, c, post(again, "v1", "admin", "sales", sale, action))
	if !a.unsure || !errors.Is(err, ErrIllegalState) {
		return out, err
	}
	now, readErr := c.AdminSale(ctx, sale)
	if readErr != nil || now.State != state {
		return out, err
	}
	return now, nil
}

// Restock changes the stock of one item of the sale as it was at version; 0 is
// any version. A new total for any version is repeated when the outcome is
// unknown; an addition is not, since it would add twice.
func (c *Client) Restock(ctx context.Context, sale string, version int64, r Restock) (AdminSale, error) {
	total := r.Stock != nil && r.Add == nil
	k := post(once, "v1", "admin", "sales", sale, "restock")
	switch {
	case version != 0:
		k = k.set("If-Match", etagOf(version))
	case total:
		k = k.set("If-Match", "*")
		k.safety = again
	}
	out, _, err := send[AdminSale](ctx, c, k, r)
	return out, err
}

// Audit recounts the promises of a sale from its orders, payments and journal.
func (c *Client) Audit(ctx context.Context, sale string) (AuditReport, error) {
	out, _, err := fetch[AuditReport](ctx, c, post(again, "v1", "admin", "sales", sale, "audit"))
	return out, err
}

// Stats returns the stock of every sale and how busy the answering server is.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	out, _, err := fetch[Stats](ctx, c, get("v1", "admin", "stats"))
	return out, err
}

// AdminOrder returns any order that has been judged. AdminOrderOf sees queued ones.
func (c *Client) AdminOrder(ctx context.Context, order string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, get("v1", "admin", "orders", order))
	return o, err
}

// AdminOrderOf returns an order of this buyer, queued ones too; ErrOrderNotFound if
// it is somebody else's.
func (c *Client) AdminOrderOf(ctx context.Context, user, order string) (Order, error) {
	k := get("v1", "admin", "orders", order)
	k.query = url.Values{"user": {user}}
	o, _, err := fetch[Order](ctx, c, k)
	return o, err
}

// AdminCancel ends any reserved order. On a cancelled one it changes nothing. A
// queued one is ended as soon as it is judged; ErrBusy if that takes too long.
func (c *Client) AdminCancel(ctx context.Context, order string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, post(again, "v1", "admin", "orders", order, "cancel"))
	return o, err
}

// AdminOrders returns a page of orders of all buyers, newest first.
func (c *Client) AdminOrders(ctx context.Context, q OrderQuery) (Page[Order], error) {
	k := get("v1", "admin", "orders")
	k.query = q.values("user")
	page, _, err := fetch[Page[Order]](ctx, c, k)
	return page, err
}

// LetterQuery selects dead letters; zero fields select everything.
type LetterQuery struct {
	Sale  string
	State string // open, replayed, dropped
	After string // Next of the page before
	Limit int    // most letters of a page; 0 is the server's default
}

// DeadLetters returns a page of the slips that could not be judged, in the order in
// which they were parked.
func (c *Client) DeadLetters(ctx context.Context, q LetterQuery) (Page[DeadLetter], error) {
	k := get("v1", "admin", "deadletters")
	k.query = make(url.Values)
	put(k.query, "sale", q.Sale)
	put(k.query, "state", q.State)
	put(k.query, "after", q.After)
	putLimit(k.query, q.Limit)
	page, _, err := fetch[Page[DeadLetter]](ctx, c, k)
	return page, err
}

// ReplayLetter has the slip of a dead letter judged now and returns the order, which
// may be a rejected one. Repeated, it returns the same order.
func (c *Client) ReplayLetter(ctx context.Context, letter string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, post(again, "v1", "admin", "deadletters", letter, "replay"))
	return o, err
}

// DropLetter closes a dead letter for good. Repeated, it changes nothing.
func (c *Client) DropLetter(ctx context.Context, letter string) (DeadLetter, error) {
	l, _, err := fetch[DeadLetter](ctx, c, post(again, "v1", "admin", "deadletters", letter, "drop"))
	return l, err
}

func etagOf(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
