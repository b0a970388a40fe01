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
	putInt(k.query, "limit", q.Limit)
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

// AdminOrder returns any order.
func (c *Client) AdminOrder(ctx context.Context, order string) (Order, error) {
	o, _, err := fetch[Order](ctx, c, get("v1", "admin", "orders", order))
	return o, err
}

// AdminCancel ends any reserved order. On a cancelled one it changes nothing.
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

func etagOf(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
