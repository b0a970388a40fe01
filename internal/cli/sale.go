package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/client"
)

// saleCmd manages sales.
type saleCmd struct {
	Apply   saleApplyCmd   `cmd:"" help:"Create the sale that a file describes or, if it exists, change what differs."`
	List    saleListCmd    `cmd:"" help:"List sales, drafts included."`
	Show    saleShowCmd    `cmd:"" help:"Show one sale."`
	Publish salePublishCmd `cmd:"" help:"Open a draft to buyers; it sells from its start on."`
	Preheat salePreheatCmd `cmd:"" help:"Bring a sale that prefers the fast path onto it now."`
	Pause   salePauseCmd   `cmd:"" help:"Stop new orders; what is reserved may be paid."`
	Resume  saleResumeCmd  `cmd:"" help:"Let a paused sale sell again."`
	Close   saleCloseCmd   `cmd:"" help:"End a sale for good."`
	Restock saleRestockCmd `cmd:"" help:"Change the stock of an item."`
	Path    salePathCmd    `cmd:"" help:"Set the path that a sale prefers, and take it there."`
	Delete  saleDeleteCmd  `cmd:"" help:"Delete a draft or closed sale; its orders stay for audits, its id becomes free."`
}

type saleListCmd struct {
	jsonFlag
	remote
}

// Run lists.
func (c *saleListCmd) Run(ctx context.Context, s *session) error {
	sales := []client.AdminSale{}
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) error {
		for one, err := range client.All(func(after string) (client.Page[client.AdminSale], error) {
			return api.AdminSales(ctx, client.SaleQuery{After: after})
		}) {
			if err != nil {
				return err
			}
			sales = append(sales, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, sales)
	}
	rows := [][]string{{"SALE", "STATUS", "STARTS AT", "ENDS AT", "STOCK", "SOLD", "LEFT", "TITLE"}}
	for i := range sales {
		one := &sales[i]
		var stock, sold, left int64
		for _, it := range one.Items {
			stock, sold, left = stock+it.Stock, sold+it.Sold, left+it.Left
		}
		rows = append(rows, []string{one.ID, one.Status, instant(one.StartsAt), instant(one.EndsAt), number(stock), number(sold), number(left), orDash(one.Title)})
	}
	return table(s.Out, rows)
}

// oneSale is embedded by commands about one sale.
type oneSale struct {
	jsonFlag
	remote
	Sale string `arg:"" help:"Id of the sale."`
}

// act calls the server and tells what became of the sale.
func (c *oneSale) act(ctx context.Context, s *session, done string, work func(context.Context, *client.Client) (client.AdminSale, error)) error {
	var after client.AdminSale
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		after, err = work(ctx, api)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, after)
	}
	if err := say(s.Out, "%s sale %s (status %s, version %d)", done, after.ID, after.Status, after.Version); err != nil {
		return err
	}
	if len(after.Outstanding) == 0 {
		return nil
	}
	return say(s.Out, "lanes %v of the fast path have not confirmed it and sell by the old rules for a moment more", after.Outstanding)
}

type saleShowCmd struct{ oneSale }

// Run shows.
func (c *saleShowCmd) Run(ctx context.Context, s *session) error {
	var found client.AdminSale
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		found, err = api.AdminSale(ctx, c.Sale)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, found)
	}
	return showSale(s, &found)
}

func showSale(s *session, v *client.AdminSale) error {
	holds := number(v.MaxUnpaidHolds) + ", then a cool-down of " + seconds(v.CoolDownSeconds)
	if v.MaxUnpaidHolds == 0 {
		holds = "no cap"
	}
	err := table(s.Out, [][]string{
		{"sale", v.ID},
		{"number", number(int64(v.Number))}, // which logs and the keys in Redis bear
		{"title", orDash(v.Title)},
		{"status", v.Status},
		{"version", number(v.Version)},
		{"starts at", instant(v.StartsAt)},
		{"ends at", instant(v.EndsAt)},
		{"limit per user", number(v.PerUserLimit) + " (" + v.LimitRule + ")"},
		{"hold", seconds(v.HoldSeconds)},
		{"unpaid holds", holds},
		{"path", v.Path + " (preferred: " + v.PreferredPath + ")"},
	})
	if err != nil {
		return err
	}
	rows := [][]string{{"ITEM", "PRICE", "STOCK", "SOLD", "LEFT", "TITLE"}}
	for _, it := range v.Items {
		rows = append(rows, []string{it.SKU, money(it.Price, v.Currency), number(it.Stock), number(it.Sold), number(it.Left), orDash(it.Title)})
	}
	if err := say(s.Out, ""); err != nil {
		return err
	}
	return table(s.Out, rows)
}

type salePublishCmd struct{ oneSale }

// Run publishes.
func (c *salePublishCmd) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, "published", func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.Publish(ctx, c.Sale)
	})
}

type salePreheatCmd struct{ oneSale }

// Run preheats.
func (c *salePreheatCmd) Run(ctx context.Context, s *session) error {
	return c.move(ctx, s, func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.Preheat(ctx, c.Sale)
	})
}

type salePathCmd struct {
	oneSale
	Path string `arg:"" enum:"fast,direct" help:"fast (Redis in front, the ledger judges) or direct (the ledger alone)."`
}

// Run sets the path.
func (c *salePathCmd) Run(ctx context.Context, s *session) error {
	return c.move(ctx, s, func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.SetPath(ctx, c.Sale, 0, c.Path)
	})
}

// move calls the server and tells on which path the sale is then.
func (c *oneSale) move(ctx context.Context, s *session, work func(context.Context, *client.Client) (client.AdminSale, error)) error {
	var after client.AdminSale
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		after, err = work(ctx, api)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, after)
	}
	return say(s.Out, "sale %s is on the %s path (preferred: %s, epoch %d)", after.ID, after.Path, after.PreferredPath, after.Epoch)
}

type salePauseCmd struct{ oneSale }

// Run pauses.
func (c *salePauseCmd) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, "paused", func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.Pause(ctx, c.Sale)
	})
}

type saleResumeCmd struct{ oneSale }

// Run resumes.
func (c *saleResumeCmd) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, "resumed", func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.Resume(ctx, c.Sale)
	})
}

type saleCloseCmd struct{ oneSale }

// Run closes.
func (c *saleCloseCmd) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, "closed", func(ctx context.Context, api *client.Client) (client.AdminSale, error) {
		return api.CloseSale(ctx, c.Sale)
	})
}

type saleRestockCmd struct {
	oneSale
	Item  string `placeholder:"SKU" help:"The item; may be left out where the sale has one."`
	Add   *int64 `xor:"amount" required:"" placeholder:"N" help:"Add this many units; --add=-5 takes five away."`
	Stock *int64 `xor:"amount" required:"" placeholder:"N" help:"Set the total number of units, sold ones included."`
}

// Run restocks.
func (c *saleRestockCmd) Run(ctx context.Context, s *session) error {
	var after client.AdminSale
	err := c.act(ctx, s, "restocked", func(ctx context.Context, api *client.Client) (_ client.AdminSale, err error) {
		after, err = api.Restock(ctx, c.Sale, 0, client.Restock{SKU: c.Item, Add: c.Add, Stock: c.Stock})
		return after, err
	})
	if err != nil || c.JSON {
		return err
	}
	for _, it := range after.Items {
		if c.Item != "" && c.Item != it.SKU {
			continue
		}
		if err := say(s.Out, "%s has %d units: %d sold, %d left", it.SKU, it.Stock, it.Sold, it.Left); err != nil {
			return err
		}
	}
	return nil
}

type saleDeleteCmd struct{ oneSale }

// deleted is the result of a deletion in JSON.
type deleted struct {
	ID      string `json:"sale"`
	Deleted bool   `json:"deleted"`
}

// Run deletes the sale as it is now.
func (c *saleDeleteCmd) Run(ctx context.Context, s *session) error {
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) error {
		now, err := api.AdminSale(ctx, c.Sale)
		if err != nil {
			return err
		}
		return api.DeleteSale(ctx, c.Sale, now.Version)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, deleted{ID: c.Sale, Deleted: true})
	}
	return say(s.Out, "deleted sale %s", c.Sale)
}
