package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/client"
)

// orderCmd shows and ends orders.
type orderCmd struct {
	List   orderListCmd   `cmd:"" help:"List orders, newest first."`
	Show   orderShowCmd   `cmd:"" help:"Show one order."`
	Cancel orderCancelCmd `cmd:"" help:"Cancel a reserved order; its units sell again."`
	Refund orderRefundCmd `cmd:"" help:"Refund a paid order; leaves a refund record for its charge."`
}

type orderListCmd struct {
	jsonFlag
	remote
	Sale  string `placeholder:"SALE" help:"Only orders of this sale."`
	User  string `placeholder:"USER" help:"Only orders of this buyer."`
	State string `placeholder:"STATE" help:"Only orders in this state: reserved, paid, cancelled, expired, rejected or refunded."`
	Limit int    `default:"100" help:"Most orders to list; 0 lists all."`
}

// Run lists.
func (c *orderListCmd) Run(ctx context.Context, s *session) error {
	if c.Limit < 0 {
		return &usageError{message: "--limit: the number is negative", hint: "0 lists all"}
	}
	const page = 500 // the most that the API gives at once
	orders := []client.Order{}
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) error {
		q := client.OrderQuery{Sale: c.Sale, User: c.User, State: c.State, Limit: page}
		if c.Limit > 0 {
			q.Limit = min(page, c.Limit)
		}
		for o, err := range client.All(func(after string) (client.Page[client.Order], error) {
			q.After = after
			return api.AdminOrders(ctx, q)
		}) {
			if err != nil {
				return err
			}
			orders = append(orders, o)
			if len(orders) == c.Limit {
				break
			}
		}
		return nil
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
		rows = append(rows, []string{o.ID, o.Sale, o.SKU, number(o.Quantity), money(o.Amount, o.Currency), o.State, instant(o.ReservedAt), o.User})
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
		{"state", o.State},
		{"user", orDash(o.User)},
		{"reserved at", instant(o.ReservedAt)},
		{"expires at", instantOf(o.ExpiresAt)},
		{"ended at", instantOf(o.EndedAt)},
		{"payment", orDash(o.PaymentID)},
		{"replaces", orDash(o.Replaces)},
		{"replaced by", orDash(o.ReplacedBy)},
	})
}

type orderShowCmd struct{ oneOrder }

// Run shows.
func (c *orderShowCmd) Run(ctx context.Context, s *session) error {
	return c.show(ctx, s, func(ctx context.Context, api *client.Client) (client.Order, error) {
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
