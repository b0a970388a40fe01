package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// auditCmd recounts the promises on the ledger.
type auditCmd struct {
	jsonFlag
	settings
	Sale   []string `placeholder:"SALE" help:"Only this sale: its id, or # and its number for a deleted one. May be repeated; without it every sale there ever was."`
	Repair bool     `help:"Set counters that the recount proves wrong. No server may run meanwhile; no order, payment or journal row is touched."`
	Export string   `placeholder:"FILE" help:"Write one sale as a file for doorbuster verify; - is standard output. It holds the ids of buyers."`
}

// Help returns the long help.
func (c *auditCmd) Help() string {
	return "Counts again from orders, payments and journal, never from the counters that it checks, and may run beside a server. " +
		"Exit code 3 means that a promise is broken."
}

// audited is the result in JSON.
type audited struct {
	audit.Report
	Broken   bool            `json:"broken"`
	Repaired *audit.Repaired `json:"repaired,omitempty"`
	Exported *audit.Exported `json:"exported,omitempty"`
}

// Run audits.
func (c *auditCmd) Run(ctx context.Context, s *session) error {
	if c.Export == "-" && !c.JSON {
		// The report would stand in the middle of the file.
		return c.onLedger(ctx, s, app.Look, func(b *app.Book) error {
			n, err := c.one(ctx, b)
			if err != nil {
				return err
			}
			_, err = audit.Export(ctx, b, n, s.Out)
			return err
		})
	}
	access := app.Look
	if c.Repair {
		access = app.Own
	}
	var out audited
	err := c.onLedger(ctx, s, access, func(b *app.Book) error { return c.run(ctx, b, &out) })
	if err != nil {
		return err
	}
	if err := c.print(s, &out); err != nil {
		return err
	}
	if out.Broken {
		return brokenError{}
	}
	return nil
}

func (c *auditCmd) run(ctx context.Context, b *app.Book, out *audited) error {
	if c.Export == "-" {
		return &usageError{message: "--export - and --json both write to standard output", hint: "name a file after --export"}
	}
	numbers, err := c.numbers(ctx, b)
	if err != nil {
		return err
	}
	o := audit.Options{Sales: numbers}
	if c.Repair {
		repaired, repairErr := audit.Repair(ctx, b.Store, o)
		if repairErr != nil {
			return repairErr
		}
		out.Repaired = &repaired
	}
	if out.Report, err = audit.Run(ctx, b, o); err != nil {
		return err
	}
	out.Broken = out.Report.Broken()
	if c.Export == "" {
		return nil
	}
	n, err := c.one(ctx, b)
	if err != nil {
		return err
	}
	exported, err := export(ctx, b, n, c.Export)
	out.Exported = &exported
	return err
}

func (c *auditCmd) numbers(ctx context.Context, b *app.Book) ([]sale.Number, error) {
	var out []sale.Number
	for _, name := range c.Sale {
		n, err := numberOf(ctx, b, name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// numberOf returns the number of a sale named by its id, or by # and number.
func numberOf(ctx context.Context, b *app.Book, name string) (sale.Number, error) {
	if text, ok := strings.CutPrefix(name, "#"); ok {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, &usageError{message: "--sale: " + plain(name) + " is no number of a sale", hint: "write it like #12"}
		}
		found, err := b.SaleByNumber(ctx, sale.Number(n))
		return found.Number, err
	}
	found, err := b.Sale(ctx, name)
	return found.Number, err
}

// one returns the one sale to export.
func (c *auditCmd) one(ctx context.Context, b *app.Book) (sale.Number, error) {
	if len(c.Sale) == 1 {
		return numberOf(ctx, b, c.Sale[0])
	}
	if len(c.Sale) == 0 {
		found, err := b.ListSales(ctx, 0, 2)
		if err != nil {
			return 0, err
		}
		if len(found) == 1 {
			return found[0].Number, nil
		}
	}
	return 0, &usageError{message: "--export writes one sale", hint: "name it with --sale"}
}

// export writes the file beside its place and moves it there when it is whole.
func export(ctx context.Context, b *app.Book, n sale.Number, path string) (out audit.Exported, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return out, err
	}
	out, err = audit.Export(ctx, b, n, temp)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return out, errors.Join(err, os.Remove(temp.Name()))
	}
	return out, nil
}

func (c *auditCmd) print(s *session, out *audited) error {
	if c.JSON {
		return writeJSON(s.Out, out)
	}
	if out.Repaired != nil {
		if err := sayRepaired(s, out.Repaired); err != nil {
			return err
		}
	}
	if err := out.WriteText(s.Out); err != nil {
		return err
	}
	if e := out.Exported; e != nil {
		return say(s.Out, "exported sale %s: %d journal rows to %s\n  head %s\n  publish the head now: a file that was changed later cannot contain it (doorbuster verify --head)", e.Slug, e.Seq, c.Export, e.Head)
	}
	return nil
}

func sayRepaired(s *session, r *audit.Repaired) error {
	if len(r.Sales) == 0 {
		return say(s.Out, "nothing to repair\n")
	}
	for _, one := range r.Sales {
		if one.Refused != "" {
			if err := say(s.Out, "not repaired: sale %s: %s", one.Slug, one.Refused); err != nil {
				return err
			}
			continue
		}
		parts := []string{fmt.Sprintf("counts of %d buyers", one.Holders)}
		for _, it := range one.Items {
			parts = append(parts, fmt.Sprintf("sold units of %s from %d to %d", it.SKU, it.Was, it.Is))
		}
		if err := say(s.Out, "repaired sale %s: %s", one.Slug, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	return say(s.Out, "")
}
