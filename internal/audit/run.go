package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Run recounts the promises of the chosen sales on one snapshot of the ledger.
// A broken promise is a line of the report, not an error; an error means that
// the ledger could not be read, and says nothing about promises.
func Run(ctx context.Context, src Source, o Options) (Report, error) {
	now, err := src.Now(ctx) // before the snapshot, so no hold looks older than it is
	if err != nil {
		return Report{}, fmt.Errorf("audit: read the ledger's time: %w", err)
	}
	out := Report{At: now, Sales: []SaleReport{}}
	err = src.Snapshot(ctx, func(r ledger.Reader) error {
		numbers, failed := o.numbers(ctx, r)
		if failed != nil {
			return failed
		}
		for _, n := range numbers {
			report, failed := o.run(ctx, r, n, now)
			if failed != nil {
				return fmt.Errorf("sale %d: %w", n, failed)
			}
			out.Sales = append(out.Sales, report)
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	return out, nil
}

func (o Options) numbers(ctx context.Context, r ledger.Reader) ([]sale.Number, error) {
	if len(o.Sales) > 0 {
		return o.Sales, nil
	}
	return r.SaleNumbers(ctx)
}

func (o Options) run(ctx context.Context, r ledger.Reader, n sale.Number, now time.Time) (SaleReport, error) {
	rec, err := r.SaleByNumber(ctx, n)
	if err != nil {
		return SaleReport{}, err
	}
	c := newRecount(o)
	if err := feed(ctx, r, &rec, now, c); err != nil {
		return SaleReport{}, err
	}
	c.finish()
	return c.report(ledgerRules()), nil
}
