package httpapi

import (
	"cmp"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// instantPtr returns nil for the zero time.
func instantPtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func idText(id sale.OrderID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// ownOrder is an order as its buyer sees it.
func ownOrder(o *sale.Order) client.Order {
	return client.Order{
		ID: o.ID.String(), Sale: o.Slug, SKU: o.SKU, Quantity: o.Quantity, Amount: o.Amount, Currency: o.Currency,
		State: string(o.State), Reason: string(o.Reason), TakenAt: o.TakenAt, ReservedAt: o.ReservedAt, ExpiresAt: instantPtr(o.ExpiresAt), EndedAt: instantPtr(o.EndedAt),
		Replaces: idText(o.Replaces), ReplacedBy: idText(o.ReplacedBy),
	}
}

// keyOrder is an order as an API key sees it.
func keyOrder(o *sale.Order) client.Order {
	w := ownOrder(o)
	w.User, w.PaymentID = o.User, o.PaymentID
	return w
}

// order is an order as the caller may see it.
func (x *exchange) order(o *sale.Order) client.Order {
	if x.who.KeyID != "" {
		return keyOrder(o)
	}
	return ownOrder(o)
}

func publicSale(s *sale.Sale, status sale.Status) client.Sale {
	w := client.Sale{
		ID: s.Slug, Title: s.Title, Status: string(status), StartsAt: s.StartsAt, EndsAt: s.EndsAt,
		PerUserLimit: s.PerUserLimit, HoldSeconds: int64(s.Hold / time.Second), Currency: s.Currency,
		Items: make([]client.Item, len(s.Items)),
	}
	for i := range s.Items {
		it := &s.Items[i]
		w.Items[i] = client.Item{SKU: it.SKU, Title: it.Title, Price: it.Price, Left: it.Left()}
	}
	return w
}

func adminSale(s *sale.Sale, now time.Time) client.AdminSale {
	w := client.AdminSale{
		ID: s.Slug, Number: uint32(s.Number), Version: s.Version, State: string(s.State), Status: string(s.Status(now)), Title: s.Title,
		StartsAt: s.StartsAt, EndsAt: s.EndsAt, PerUserLimit: s.PerUserLimit, LimitRule: string(s.LimitRule),
		HoldSeconds: int64(s.Hold / time.Second), MaxUnpaidHolds: s.MaxUnpaidHolds, CoolDownSeconds: int64(s.CoolDown / time.Second),
		Currency: s.Currency, PreferredPath: string(s.Preferred), Terms: s.Terms, Path: string(s.Path), Epoch: s.Epoch,
		Items: make([]client.AdminItem, len(s.Items)), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	for i := range s.Items {
		it := &s.Items[i]
		w.Items[i] = client.AdminItem{SKU: it.SKU, Title: it.Title, Price: it.Price, Stock: it.Stock, Sold: it.Sold, Left: it.Left()}
	}
	return w
}

func wireRefund(r *sale.Refund) client.Refund {
	return client.Refund{
		ID: r.ID.String(), PaymentID: r.PaymentID, Order: r.Order.String(), Amount: r.Amount, Currency: r.Currency,
		Reason: string(r.Reason), State: string(r.State), CreatedAt: r.CreatedAt, DoneAt: instantPtr(r.DoneAt),
	}
}

// newSale reads a sale to be created and fills in the documented defaults.
func (a *API) newSale(n *client.NewSale) (sale.Sale, error) {
	s := sale.Sale{Slug: n.ID, Rules: sale.Rules{
		Title: n.Title, PerUserLimit: n.PerUserLimit, LimitRule: sale.LimitLive, Hold: sale.DefaultHold,
		MaxUnpaidHolds: sale.DefaultMaxUnpaidHolds, CoolDown: sale.DefaultCoolDown, Currency: n.Currency,
		Preferred: sale.Path(cmp.Or(n.PreferredPath, string(a.opts.DefaultPath))),
	}}
	var err error
	if s.StartsAt, err = ParseTime("starts_at", n.StartsAt, n.TimeZone); err != nil {
		return s, err
	}
	if s.EndsAt, err = ParseTime("ends_at", n.EndsAt, n.TimeZone); err != nil {
		return s, err
	}
	if n.LimitRule != "" {
		s.LimitRule = sale.LimitRule(n.LimitRule)
	}
	if n.MaxUnpaidHolds != nil {
		s.MaxUnpaidHolds = *n.MaxUnpaidHolds
	}
	if err := putSeconds(&s.Hold, "hold_seconds", n.HoldSeconds); err != nil {
		return s, err
	}
	if err := putSeconds(&s.CoolDown, "cool_down_seconds", n.CoolDownSeconds); err != nil {
		return s, err
	}
	for _, it := range n.Items {
		s.Items = append(s.Items, sale.Item{SKU: it.SKU, Title: it.Title, Price: it.Price, Stock: it.Stock})
	}
	return s, nil
}

// maxSeconds keeps a number of seconds within a time.Duration; the rules have
// tighter bounds.
const maxSeconds = 1 << 31

func putSeconds(to *time.Duration, field string, n *int64) error {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > maxSeconds {
		return sale.Invalid(field, "the number of seconds is out of range", "send whole seconds")
	}
	*to = time.Duration(*n) * time.Second
	return nil
}

// patch reads a change of rules.
func patch(p *client.SalePatch) (sale.Patch, error) {
	out := sale.Patch{Title: p.Title, PerUserLimit: p.PerUserLimit, MaxUnpaidHolds: p.MaxUnpaidHolds, Currency: p.Currency}
	zone := ""
	if p.TimeZone != nil {
		zone = *p.TimeZone
	}
	var err error
	if out.StartsAt, err = patchTime("starts_at", p.StartsAt, zone); err != nil {
		return out, err
	}
	if out.EndsAt, err = patchTime("ends_at", p.EndsAt, zone); err != nil {
		return out, err
	}
	if p.LimitRule != nil {
		rule := sale.LimitRule(*p.LimitRule)
		out.LimitRule = &rule
	}
	if p.PreferredPath != nil {
		path := sale.Path(*p.PreferredPath)
		out.Preferred = &path
	}
	if p.HoldSeconds != nil {
		out.Hold = new(time.Duration)
	}
	if p.CoolDownSeconds != nil {
		out.CoolDown = new(time.Duration)
	}
	if err := putSeconds(out.Hold, "hold_seconds", p.HoldSeconds); err != nil {
		return out, err
	}
	if err := putSeconds(out.CoolDown, "cool_down_seconds", p.CoolDownSeconds); err != nil {
		return out, err
	}
	for _, it := range p.Items {
		out.Items = append(out.Items, sale.ItemPatch{SKU: it.SKU, Title: it.Title, Price: it.Price})
	}
	return out, nil
}

func patchTime(field string, text *string, zone string) (*time.Time, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // nil leaves the time as it is
	}
	at, err := ParseTime(field, *text, zone)
	return &at, err
}
