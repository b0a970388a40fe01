package ledger

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// StartBuild implements Handover.
func (b *Book) StartBuild(ctx context.Context, n sale.Number, epoch int64) (Build, error) {
	var build Build
	err := b.onSale(ctx, byNumber(ctx, n), func(_ Tx, d *desk) error {
		if d.rec.Epoch != epoch {
			return ErrWrongEpoch
		}
		if d.building() {
			return ErrBuilding
		}
		if !d.rec.Visible() {
			return errUnsaleable(d.rec.State)
		}
		next := d.rec.Clone()
		// One epoch in between is left for the direct path while the build goes on.
		next.BuildToken = max(next.BuildToken, next.Epoch) + 2
		next.BuildAt = d.now
		d.out.Revised = &next
		build = Build{Sale: next, Token: next.BuildToken}
		return nil
	})
	return build, err
}

// building reports whether an unfinished build is younger than BuildLease. One
// from the future, after the clock was set back, is not waited for.
func (d *desk) building() bool {
	age := d.now.Sub(d.rec.BuildAt)
	return d.rec.BuildToken > d.rec.Epoch && age >= 0 && age < BuildLease
}

// errUnsaleable is why a sale has no use for a fast counter.
func errUnsaleable(s sale.State) error {
	if s == sale.Deleted {
		return sale.SaleNotFound()
	}
	return sale.IllegalState("a "+string(s)+" sale has no fast counter", "publish it first")
}

// FinishBuild implements Handover.
func (b *Book) FinishBuild(ctx context.Context, f Finish) (sale.Sale, error) {
	var after sale.Sale
	err := b.onSale(ctx, byNumber(ctx, f.Sale.Number), func(tx Tx, d *desk) error {
		if d.rec.Epoch == f.Token && d.rec.Path == sale.PathFast { // a repetition after a lost reply
			after = d.rec.Sale
			return nil
		}
		if d.rec.BuildToken != f.Token || d.rec.Epoch >= f.Token { // the latter: finished, and left again
			return ErrSuperseded
		}
		if !d.rec.Visible() {
			return errUnsaleable(d.rec.State)
		}
		delta, err := delta(ctx, tx, d.rec.Number, f.After)
		if err != nil {
			return err
		}
		next := d.rec.Clone()
		next.Path, next.Epoch, next.Salts = sale.PathFast, f.Token, f.Salts
		d.revise(&next, sale.ActionReroute)
		after = next
		return f.Load(ctx, Present{Sale: next, Delta: delta, Seq: d.out.Seq})
	})
	if err != nil {
		return sale.Sale{}, err
	}
	return after, nil
}

// delta returns every row after a number.
func delta(ctx context.Context, r Reader, n sale.Number, after uint64) ([]Entry, error) {
	var out []Entry
	for {
		rows, err := r.Rows(ctx, n, after, maxPage)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		if len(rows) < maxPage {
			return out, nil
		}
		after = rows[len(rows)-1].Seq
	}
}

// GoDirect implements Handover.
func (b *Book) GoDirect(ctx context.Context, n sale.Number, from, to int64) (sale.Sale, error) {
	var after sale.Sale
	err := b.onSale(ctx, byNumber(ctx, n), func(_ Tx, d *desk) error {
		after = d.rec.Sale
		if d.rec.Path == sale.PathDirect {
			return nil
		}
		if d.rec.Epoch != from || to <= from {
			return ErrWrongEpoch
		}
		next := d.rec.Clone()
		next.Path, next.Epoch = sale.PathDirect, to
		d.revise(&next, sale.ActionReroute)
		after = next
		return nil
	})
	return after, err
}

// LaneRows implements Journal.
func (b *Book) LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) (LaneRows, error) {
	r := b.store.Read()
	rec, err := r.SaleByNumber(ctx, n) // first: what is written meanwhile is above its number
	if err != nil {
		return LaneRows{}, err
	}
	limit = page(limit)
	rows, err := r.LaneRows(ctx, n, after, limit)
	if err != nil {
		return LaneRows{}, err
	}
	upto := max(after, rec.Seq)
	if len(rows) > 0 {
		last := rows[len(rows)-1].Seq
		if len(rows) == limit {
			return LaneRows{Rows: rows, Upto: last}, nil
		}
		upto = max(upto, last)
	}
	return LaneRows{Rows: rows, Upto: upto}, nil
}
