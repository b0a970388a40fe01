package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/client"
)

// orderCmd shows and ends orders.
type orderCmd struct {
	List   orderListCmd   `cmd:"" help:"List orders, newest first."`
	Show   orderShowCmd   `cmd:"" help:"Show one order."`
	Cancel orderCancelCmd `cmd:"" help:"Cancel a reserved order, or a queued one once it is judged; its units sell again."`
	Refund orderRefundCmd `cmd:"" help:"Refund a paid order; leaves a refund record for its charge."`
}

type orderListCmd struct {
	jsonFlag
	remote
	Sale  string `placeholder:"SALE" help:"Only orders of this sale."`
	User  string `placeholder:"USER" help:"Only orders of this buyer."`
	State string `placeholder:"STATE" help:"Only orders in this state: queued, reserved, paid, cancelled, expired, rejected or refunded."`
	Limit int    `default:"100" help:"Most orders to list; 0 lists all."`
}

// Help returns the long help.
func (c *orderListCmd) Help() string {
	return "Orders that are still queued are listed with --user only: nobody but their buyers' lanes know of them yet."
}

// Run lists.
func (c *orderListCmd) Run(ctx context.Context, s *session) error {
	if c.State == client.StateQueued && c.User == "" {
		return &usageError{message: "queued orders are listed with --user only", hint: "nobody but their buyers' lanes know of them yet; GET /v1/admin/stats counts them"}
	}
	q := client.OrderQuery{Sale: c.Sale, User: c.User, State: c.State}
	orders, err := listing(ctx, s, &c.remote, c.Limit, func(ctx context.Context, api *client.Client, after string, limit int) (client.Page[client.Order], error) {
		q.After, q.Limit = after, limit
		return api.AdminOrders(ctx, q)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, orders)
	}
	rows := [][]string{{"ORDER", "SALE", "ITEM", "QUANTITY", "AMOUNT", "STATE", "RESERVED AT", "USER"}}
	for i := range orders {
		o := &orders[i]
		rows = append(rows, []string{o.ID, o.Sale, o.SKU, number(o.Quantity), money(o.Amount, o.Currency), stateOf(o), instant(o.ReservedAt), o.User})
	}
	return table(s.Out, rows)
}

// oneOrder is embedded by commands about one order.
type oneOrder struct {
	jsonFlag
	remote
	Order string `arg:"" help:"Id of the order (ord_...)."`
}

// show calls the server and prints the order as it is afterwards.
func (c *oneOrder) show(ctx context.Context, s *session, work func(context.Context, *client.Client) (client.Order, error)) error {
	var o client.Order
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		o, err = work(ctx, api)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, o)
	}
	return table(s.Out, [][]string{
		{"order", o.ID},
		{"sale", o.Sale},
		{"item", o.SKU},
		{"quantity", number(o.Quantity)},
		{"amount", money(o.Amount, o.Currency)},
		{"state", stateOf(&o)},
		{"user", orDash(o.User)},
		{"taken at", instant(o.TakenAt)},
		{"reserved at", instant(o.ReservedAt)},
		{"expires at", instantOf(o.ExpiresAt)},
		{"ended at", instantOf(o.EndedAt)},
		{"payment", orDash(o.PaymentID)},
		{"replaces", orDash(o.Replaces)},
		{"replaced by", orDash(o.ReplacedBy)},
	})
}

// stateOf says where an order stands, and why it was rejected.
func stateOf(o *client.Order) string {
	if o.Reason == "" {
		return o.State
	}
	return o.State + " (" + o.Reason + ")"
}

type orderShowCmd struct {
	oneOrder
	User string `placeholder:"USER" help:"The buyer; only so an order is shown that is still queued."`
}

// Run shows.
func (c *orderShowCmd) Run(ctx context.Context, s *session) error {
	return c.show(ctx, s, func(ctx context.Context, api *client.Client) (client.Order, error) {
		if c.User != "" {
			return api.AdminOrderOf(ctx, c.User, c.Order)
		}
		return api.AdminOrder(ctx, c.Order)
	})
}

type orderCancelCmd struct{ oneOrder }

// Run cancels.
func (c *orderCancelCmd) Run(ctx context.Context, s *session) error {
	return c.show(ctx, s, func(ctx context.Context, api *client.Client) (client.Order, error) {
		return api.AdminCancel(ctx, c.Order)
	})
}

type orderRefundCmd struct {
	oneOrder
	Restock bool `help:"Put the units up again; without it they leave the stock."`
}

// Run refunds.
func (c *orderRefundCmd) Run(ctx context.Context, s *session) error {
	return c.show(ctx, s, func(ctx context.Context, api *client.Client) (client.Order, error) {
		return api.Refund(ctx, c.Order, client.RefundRequest{Restock: c.Restock})
	})
}
