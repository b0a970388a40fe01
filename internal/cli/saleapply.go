package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// saleApplyCmd makes a sale what a file says.
type saleApplyCmd struct {
	jsonFlag
	remote
	File  string `short:"f" required:"" placeholder:"FILE" help:"YAML or JSON description of the sale; - is standard input."`
	Stock bool   `help:"Set the stock of each item to what the file says. Without it the stock of an existing sale is left alone, so that an old file cannot undo a restock."`
}

// Help returns the long help.
func (c *saleApplyCmd) Help() string {
	return "What the file leaves out stays as it is, or takes its default in a new sale. " +
		"Applying the same file again changes nothing. A new sale is a draft: open it with doorbuster sale publish."
}

// applied is the result in JSON.
type applied struct {
	Sale    string           `json:"sale"`
	Action  string           `json:"action"` // created, changed, unchanged
	Changed []string         `json:"changed"`
	Ignored []string         `json:"ignored"` // stock that differs and was left alone
	Now     client.AdminSale `json:"now"`
}

// Run applies.
func (c *saleApplyCmd) Run(ctx context.Context, s *session) error {
	want, err := readSale(s, c.File)
	if err != nil {
		return err
	}
	var done applied
	err = c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		done, err = c.apply(ctx, api, &want)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, done)
	}
	return done.say(s)
}

func (a *applied) say(s *session) error {
	switch a.Action {
	case "created":
		return say(s.Out, "created sale %s as a draft; open it with: doorbuster sale publish %s", a.Sale, a.Sale)
	case "changed":
		if err := say(s.Out, "changed sale %s: %s (version %d)", a.Sale, strings.Join(a.Changed, ", "), a.Now.Version); err != nil {
			return err
		}
	default:
		if err := say(s.Out, "sale %s is as the file says (version %d)", a.Sale, a.Now.Version); err != nil {
			return err
		}
	}
	for _, line := range a.Ignored {
		if err := say(s.Out, "left alone: %s; --stock sets it", line); err != nil {
			return err
		}
	}
	return nil
}

// raceTries is how often a change is tried against a sale that others change.
const raceTries = 5

func (c *saleApplyCmd) apply(ctx context.Context, api *client.Client, want *client.NewSale) (applied, error) {
	var err error
	for range raceTries {
		var now client.AdminSale
		now, err = api.AdminSale(ctx, want.ID)
		switch {
		case errors.Is(err, client.ErrSaleNotFound):
			now, err = api.CreateSale(ctx, *want)
			if err == nil {
				return applied{Sale: want.ID, Action: "created", Changed: []string{}, Ignored: []string{}, Now: now}, nil
			}
			if !errors.Is(err, client.ErrSaleExists) {
				return applied{}, err
			}
		case err != nil:
			return applied{}, err
		default:
			var done applied
			done, err = c.change(ctx, api, now, want)
			if !errors.Is(err, client.ErrVersionMismatch) {
				return done, err
			}
		}
	}
	return applied{}, err
}

// change brings an existing sale to what the file says.
func (c *saleApplyCmd) change(ctx context.Context, api *client.Client, now client.AdminSale, want *client.NewSale) (applied, error) {
	out := applied{Sale: want.ID, Action: "unchanged", Changed: []string{}, Ignored: []string{}, Now: now}
	if err := sameItems(&now, want); err != nil {
		return out, err
	}
	patch, changed := compare(&now, want)
	if len(changed) > 0 {
		after, err := api.PatchSale(ctx, want.ID, now.Version, patch)
		if err != nil {
			return out, err
		}
		out.Action, out.Changed, out.Now = "changed", changed, after
	}
	for _, item := range want.Items {
		have := itemOf(&out.Now, item.SKU)
		if have.Stock == item.Stock {
			continue
		}
		difference := fmt.Sprintf("stock of %s is %d, the file says %d", item.SKU, have.Stock, item.Stock)
		if !c.Stock {
			out.Ignored = append(out.Ignored, difference)
			continue
		}
		after, err := api.Restock(ctx, want.ID, out.Now.Version, client.Restock{SKU: item.SKU, Stock: &item.Stock})
		if err != nil {
			return out, err
		}
		out.Action, out.Now = "changed", after
		out.Changed = append(out.Changed, "items."+item.SKU+".stock")
	}
	return out, nil
}

// sameItems refuses a file whose items are not those of the sale: a sale keeps
// its items for ever.
func sameItems(now *client.AdminSale, want *client.NewSale) error {
	have, asked := make([]string, len(now.Items)), make([]string, len(want.Items))
	for i := range now.Items {
		have[i] = now.Items[i].SKU
	}
	for i := range want.Items {
		asked[i] = want.Items[i].SKU
	}
	slices.Sort(have)
	slices.Sort(asked)
	if len(asked) == 0 || slices.Equal(have, asked) {
		return nil
	}
	return &usageError{
		message: fmt.Sprintf("the file lists the items %s, the sale has %s", strings.Join(asked, ", "), strings.Join(have, ", ")),
		hint:    "the items of a sale stay what they are; create another sale for other items",
	}
}

func itemOf(s *client.AdminSale, sku string) client.AdminItem {
	for _, it := range s.Items {
		if it.SKU == sku {
			return it
		}
	}
	return client.AdminItem{}
}

// compare returns the patch that makes the rules of a sale those of the file,
// and the names of what it changes. What the file leaves out stays.
func compare(now *client.AdminSale, want *client.NewSale) (client.SalePatch, []string) {
	var changed []string
	p := client.SalePatch{
		Title:           pick(&changed, "title", said(&want.Title), now.Title),
		StartsAt:        pickInstant(&changed, "starts_at", want, want.StartsAt, now.StartsAt),
		EndsAt:          pickInstant(&changed, "ends_at", want, want.EndsAt, now.EndsAt),
		PerUserLimit:    pick(&changed, "per_user_limit", said(&want.PerUserLimit), now.PerUserLimit),
		LimitRule:       pick(&changed, "limit_rule", said(&want.LimitRule), now.LimitRule),
		HoldSeconds:     pick(&changed, "hold_seconds", want.HoldSeconds, now.HoldSeconds),
		MaxUnpaidHolds:  pick(&changed, "max_unpaid_holds", want.MaxUnpaidHolds, now.MaxUnpaidHolds),
		CoolDownSeconds: pick(&changed, "cool_down_seconds", want.CoolDownSeconds, now.CoolDownSeconds),
		Currency:        pick(&changed, "currency", said(&want.Currency), now.Currency),
		PreferredPath:   pick(&changed, "preferred_path", said(&want.PreferredPath), now.PreferredPath),
	}
	if p.StartsAt != nil || p.EndsAt != nil {
		p.TimeZone = said(&want.TimeZone)
	}
	for i := range want.Items {
		item, have := &want.Items[i], itemOf(now, want.Items[i].SKU)
		ip := client.ItemPatch{
			SKU:   item.SKU,
			Title: pick(&changed, "items."+item.SKU+".title", said(&item.Title), have.Title),
			Price: pick(&changed, "items."+item.SKU+".price", &item.Price, have.Price),
		}
		if ip.Title != nil || ip.Price != nil {
			p.Items = append(p.Items, ip)
		}
	}
	return p, changed
}

// pick returns what is wanted if it is not what there is, and notes its name.
func pick[T comparable](changed *[]string, name string, want *T, have T) *T {
	if want == nil || *want == have {
		return nil
	}
	*changed = append(*changed, name)
	return want
}

func pickInstant(changed *[]string, name string, want *client.NewSale, text string, have time.Time) *string {
	if text == "" || sameInstant(text, want.TimeZone, have) {
		return nil
	}
	*changed = append(*changed, name)
	return &text
}

// said returns nil for a member that the file leaves out.
func said[T comparable](v *T) *T {
	var nothing T
	if *v == nothing {
		return nil
	}
	return v
}

// sameInstant reports whether the text of a file names an instant. What cannot
// be read here is not the same: the server reads it, or says what is wrong.
func sameInstant(text, zone string, at time.Time) bool {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil && zone != "" {
		loc, zoneErr := time.LoadLocation(zone)
		if zoneErr != nil {
			return false
		}
		t, err = time.ParseInLocation("2006-01-02T15:04:05", text, loc)
	}
	return err == nil && t.Equal(at)
}
