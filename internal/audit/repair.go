package audit

import (
	"context"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Repaired is what a repair did.
type Repaired struct {
	// Sales lists the sales whose counters were proved wrong.
	Sales []RepairedSale `json:"sales"`
}

// RepairedSale is what a repair did to one sale.
type RepairedSale struct {
	Number sale.Number `json:"number"`
	Slug   string      `json:"sale"`
	// Refused says why nothing was done; empty if the counters are right now.
	Refused string         `json:"refused,omitempty"`
	Items   []RepairedItem `json:"items,omitempty"`
	// Holders is how many buyers' counts were set.
	Holders int `json:"holders"`
}

// RepairedItem is a corrected counter of units.
type RepairedItem struct {
	SKU string `json:"item"`
	Was int64  `json:"was"`
	Is  int64  `json:"is"`
}

// Repair sets counters that a recount proves wrong: items.sold and the live and
// refunded quantities of holders, both derived from the order rows. It touches
// nothing else: no order, no payment, no journal row. A sale whose order rows
// do not follow from its journal is refused, since a counter derived from wrong
// rows would only hide the fault.
//
// Sales are first read without a lock. Only those found wrong are locked,
// recounted and written in one transaction each, during which nobody can buy;
// repeated, Repair does nothing. Counters are derived, so no journal row tells
// of it, and instances learn of free units within the second that bounds their
// sold-out memory.
func Repair(ctx context.Context, store ledger.Store, o Options) (Repaired, error) {
	var out Repaired
	report, err := Run(ctx, store, o)
	if err != nil {
		return out, err
	}
	for i := range report.Sales {
		if !report.Sales[i].countersBroken() {
			continue
		}
		done, err := repairSale(ctx, store, report.Sales[i].Number, o)
		if err != nil {
			return out, fmt.Errorf("audit: repair sale %d: %w", report.Sales[i].Number, err)
		}
		out.Sales = append(out.Sales, done)
	}
	return out, nil
}

func (s *SaleReport) countersBroken() bool {
	for i := range s.Rules {
		u := &s.Rules[i]
		if u.Broken > 0 && (u.Rule == soldCounter.String() || u.Rule == holderCounter.String()) {
			return true
		}
	}
	return false
}

func repairSale(ctx context.Context, store ledger.Store, n sale.Number, o Options) (RepairedSale, error) {
	var done RepairedSale
	err := store.Update(ctx, func(tx ledger.Tx) error {
		rec, err := tx.LockSale(ctx, n)
		if err != nil {
			return err
		}
		c := newRecount(o)
		if err := feed(ctx, tx, &rec, tx.Now(), c); err != nil {
			return err
		}
		c.finish()
		done = RepairedSale{Number: n, Slug: rec.Slug}
		for _, t := range append(trusted(), stockRows) {
			if c.wrong(t) {
				done.Refused = t.String() + " is broken, so the order rows prove nothing; find the cause first"
				return nil
			}
		}
		changes := c.corrections(&rec)
		for i, delta := range changes.Sold {
			if delta != 0 {
				it := &rec.Items[i]
				done.Items = append(done.Items, RepairedItem{SKU: it.SKU, Was: it.Sold, Is: it.Sold + delta})
			}
		}
		done.Holders = len(changes.Holders)
		if len(done.Items) == 0 && done.Holders == 0 {
			return nil
		}
		return tx.Write(ctx, changes)
	})
	return done, err
}

// corrections returns the change that makes the counters what the rows say.
// The journal stays as it is.
func (r *recount) corrections(rec *ledger.Record) *ledger.Changes {
	c := &ledger.Changes{
		Sale: rec.Number, Sold: make([]int64, len(rec.Items)), Holders: r.fixes,
		FromSeq: rec.Seq, Seq: rec.Seq, Head: rec.Head,
	}
	for i := range rec.Items {
		c.Sold[i] = r.accounts[r.item(rec.Items[i].SKU)].rows - rec.Items[i].Sold
	}
	return c
}
