package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func adminListSales(ctx context.Context, x *exchange) error {
	q, err := x.query("after", "limit")
	if err != nil {
		return err
	}
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	var after uint64
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 32); err != nil {
			return sale.Invalid("after", "this is no place in the listing", "send next of the page before")
		}
	}
	found, err := x.api.ledger.ListSales(ctx, sale.Number(after), limit)
	if err != nil {
		return err
	}
	now := x.api.engine.Now()
	out := client.Page[client.AdminSale]{Data: make([]client.AdminSale, len(found))}
	for i := range found {
		out.Data[i] = adminSale(&found[i], now)
	}
	if len(found) == limit { // the next page may turn out empty
		out.Next = strconv.FormatUint(uint64(found[limit-1].Number), 10)
	}
	x.reply(http.StatusOK, typeJSON, render(out))
	return nil
}

func adminCreateSale(ctx context.Context, x *exchange) error {
	var n client.NewSale
	if err := decode(x, &n); err != nil {
		return err
	}
	s, err := x.api.newSale(&n)
	if err != nil {
		return err
	}
	created, err := x.api.engine.CreateSale(ctx, s)
	if err != nil {
		return err
	}
	x.acted(ctx, sale.ActionCreate, &created)
	x.w.Header()["Location"] = []string{"/v1/admin/sales/" + created.Slug}
	x.showSale(http.StatusCreated, &created)
	return nil
}

func adminGetSale(ctx context.Context, x *exchange) error {
	s, err := x.api.ledger.Sale(ctx, x.r.PathValue("sale"))
	if err != nil {
		return err
	}
	x.showSale(http.StatusOK, &s)
	return nil
}

func adminPatchSale(ctx context.Context, x *exchange) error {
	version, err := mustMatch(x.r.Header)
	if err != nil {
		return err
	}
	var p client.SalePatch
	if err = decode(x, &p); err != nil {
		return err
	}
	rules, err := patch(&p)
	if err != nil {
		return err
	}
	return x.change(ctx, version, sale.Change{Action: sale.ActionUpdate, Patch: rules})
}

func adminDeleteSale(ctx context.Context, x *exchange) error {
	version, err := mustMatch(x.r.Header)
	if err != nil {
		return err
	}
	gone, err := x.api.engine.ChangeSale(ctx, x.r.PathValue("sale"), version, sale.Change{Action: sale.ActionDelete})
	if err != nil {
		return err
	}
	x.acted(ctx, sale.ActionDelete, &gone.Sale)
	x.empty(http.StatusNoContent)
	return nil
}

// adminAct returns the handler of an act that needs nothing but its name.
func adminAct(action sale.Action) func(context.Context, *exchange) error {
	return func(ctx context.Context, x *exchange) error {
		if err := x.wantNothing(); err != nil {
			return err
		}
		version, _, err := ifMatch(x.r.Header)
		if err != nil {
			return err
		}
		return x.change(ctx, version, sale.Change{Action: action})
	}
}

// adminRestockSale adds to the stock or sets it. A new total replaces what
// others may have changed, so it must say which version it was made for.
func adminRestockSale(ctx context.Context, x *exchange) error {
	var r client.Restock
	if err := decode(x, &r); err != nil {
		return err
	}
	c := sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: r.SKU, Total: r.Stock}}
	read := mustMatch
	switch {
	case (r.Add == nil) == (r.Stock == nil):
		return sale.Invalid("add", "exactly one of add and stock is needed", "send add to change the stock by a number, or stock to set its total")
	case r.Add != nil:
		c.Restock.Add = *r.Add
		read = func(h http.Header) (int64, error) {
			version, _, err := ifMatch(h)
			return version, err
		}
	}
	version, err := read(x.r.Header)
	if err != nil {
		return err
	}
	return x.change(ctx, version, c)
}

func adminAuditSale(ctx context.Context, x *exchange) error {
	if err := x.wantNothing(); err != nil {
		return err
	}
	report, err := x.api.audit(ctx, x.r.PathValue("sale"))
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, report)
	return nil
}

func adminListOrders(ctx context.Context, x *exchange) error {
	q, err := x.query("sale", "user", "state", "after", "limit")
	if err != nil {
		return err
	}
	f, err := orderFilter(q)
	if err != nil {
		return err
	}
	f.User = q.Get("user")
	if slug := q.Get("sale"); slug != "" {
		s, err := x.api.ledger.Sale(ctx, slug)
		if err != nil {
			return err
		}
		f.Sale = s.Number
	}
	return x.listOrders(ctx, f)
}

func adminGetOrder(ctx context.Context, x *exchange) error {
	q, err := x.query("user")
	if err != nil {
		return err
	}
	return x.showOrder(ctx, q.Get("user"))
}

func adminCancelOrder(ctx context.Context, x *exchange) error {
	if err := x.wantNothing(); err != nil {
		return err
	}
	return x.cancel(ctx, "")
}

// adminGetStats tells what operators watch: the stock of each sale and how busy
// this instance is.
func adminGetStats(ctx context.Context, x *exchange) error {
	views, err := x.api.engine.Sales(ctx)
	if err != nil {
		return err
	}
	now := x.api.engine.Now()
	out := client.Stats{
		Time: now.Truncate(time.Millisecond), Sales: make([]client.SaleStats, len(views)),
		Streams: x.api.streams.open(), Waiters: x.api.waits.caps.count(), Classes: x.api.classes.load(),
	}
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	for i, v := range views {
		s := client.SaleStats{
			ID: v.Slug, Status: string(v.Status(now)), Path: string(v.Path), Epoch: v.Epoch, Queued: x.api.countQueued(counting, &v.Sale),
		}
		for j := range v.Items {
			it := &v.Items[j]
			s.Stock, s.Sold, s.Left = s.Stock+it.Stock, s.Sold+it.Sold, s.Left+it.Left()
		}
		out.Sales[i] = s
	}
	x.reply(http.StatusOK, typeJSON, render(out))
	return nil
}

// countTime bounds how long the look at the stats waits for the fast counter.
const countTime = time.Second

// countQueued returns how many orders of a sale wait for their judgement; nil where
// nobody can tell.
func (a *API) countQueued(ctx context.Context, s *sale.Sale) *int64 {
	if a.queued == nil || s.Path != sale.PathFast {
		return nil
	}
	n, err := a.queued(ctx, s)
	if err != nil { // the other figures are worth showing all the same
		return nil
	}
	return &n
}

// change applies a change and answers with the sale after it: 202 while some lanes
// of the fast path have not confirmed it.
func (x *exchange) change(ctx context.Context, version int64, c sale.Change) error {
	s, err := x.api.engine.ChangeSale(ctx, x.r.PathValue("sale"), version, c)
	if err != nil {
		return err
	}
	x.acted(ctx, c.Action, &s.Sale)
	if len(s.Outstanding) == 0 {
		x.showSale(http.StatusOK, &s.Sale)
		return nil
	}
	x.w.Header()[headerOutstanding] = []string{list(s.Outstanding)}
	w := adminSale(&s.Sale, x.api.engine.Now())
	w.Outstanding = s.Outstanding
	x.showAdminSale(http.StatusAccepted, &w)
	return nil
}

// list writes numbers as a header does.
func list(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

func (x *exchange) showSale(status int, s *sale.Sale) {
	w := adminSale(s, x.api.engine.Now())
	x.showAdminSale(status, &w)
}

func (x *exchange) showAdminSale(status int, w *client.AdminSale) {
	x.w.Header()["Etag"] = []string{`"` + strconv.FormatInt(w.Version, 10) + `"`}
	x.reply(status, typeJSON, render(*w))
}

// acted leaves a line in the log for each thing that an operator did.
func (x *exchange) acted(ctx context.Context, action sale.Action, s *sale.Sale) {
	x.api.log.LogAttrs(ctx, slog.LevelInfo, "an operator changed a sale",
		slog.String("action", string(action)), slog.String("sale", s.Slug), slog.Int64("version", s.Version),
		slog.String("key", x.who.KeyID), slog.String("request", x.id))
}
