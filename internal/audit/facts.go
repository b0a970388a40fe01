package audit

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Source is what an audit reads: a ledger, or the store below it.
type Source interface {
	ledger.Clock
	// Snapshot calls fn with a reader on which every read sees the same instant.
	Snapshot(ctx context.Context, fn func(ledger.Reader) error) error
}

// pageRows is how many journal rows are held in memory at once.
const pageRows = 1000

// saleFacts is a sale as its row tells it.
type saleFacts struct {
	number sale.Number
	body   ledger.SaleBody
	sold   []int64 // by item
	seq    uint64
	head   [32]byte
	at     time.Time // the ledger's time of the snapshot
}

// sink consumes the facts of one sale, in the order of the methods. Any error
// ends the stream.
type sink interface {
	open(f saleFacts) error
	terms(t ledger.Terms) error
	row(e *ledger.Entry) error
	order(o *sale.Order) error
	refund(r *sale.Refund) error
	payment(p *ledger.PaymentRow) error
	holder(h *ledger.Holder) error
}

// feed streams one sale of a live ledger into a sink.
func feed(ctx context.Context, r ledger.Reader, rec *ledger.Record, at time.Time, out sink) error {
	if err := out.open(factsOf(rec, at)); err != nil {
		return err
	}
	terms, err := r.TermsOf(ctx, rec.Number)
	if err != nil {
		return err
	}
	for _, t := range terms {
		if err := out.terms(t); err != nil {
			return err
		}
	}
	if err := feedRows(ctx, r, rec.Number, out); err != nil {
		return err
	}
	if err := r.EachOrder(ctx, rec.Number, func(o sale.Order) error { return out.order(&o) }); err != nil {
		return err
	}
	if err := r.EachRefund(ctx, rec.Number, func(f sale.Refund) error { return out.refund(&f) }); err != nil {
		return err
	}
	if err := r.EachPayment(ctx, rec.Number, func(p ledger.PaymentRow) error { return out.payment(&p) }); err != nil {
		return err
	}
	return r.EachHolder(ctx, rec.Number, func(h ledger.Holder) error { return out.holder(&h) })
}

var errRowOrder = errors.New("audit: the ledger returned a journal row out of order")

func feedRows(ctx context.Context, r ledger.Reader, n sale.Number, out sink) error {
	for after := uint64(0); ; {
		rows, err := r.Rows(ctx, n, after, pageRows)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		for i := range rows {
			if rows[i].Seq <= after {
				return errRowOrder
			}
			after = rows[i].Seq
			if err := out.row(&rows[i]); err != nil {
				return err
			}
		}
	}
}

func factsOf(rec *ledger.Record, at time.Time) saleFacts {
	f := saleFacts{number: rec.Number, seq: rec.Seq, head: rec.Head, at: at, sold: make([]int64, len(rec.Items))}
	s := &rec.Sale
	f.body = ledger.SaleBody{
		Slug: s.Slug, State: s.State, Version: s.Version, Terms: s.Terms, Path: s.Path, Epoch: s.Epoch, Title: s.Title,
		StartsAt: ledger.Millis(s.StartsAt), EndsAt: ledger.Millis(s.EndsAt), PerUserLimit: s.PerUserLimit, LimitRule: s.LimitRule,
		HoldMS: s.Hold.Milliseconds(), MaxUnpaidHolds: s.MaxUnpaidHolds, CoolDownMS: s.CoolDown.Milliseconds(),
		Currency: s.Currency, Preferred: s.Preferred, Items: make([]ledger.ItemBody, len(s.Items)),
	}
	for i := range s.Items {
		it := &s.Items[i]
		f.body.Items[i] = ledger.ItemBody{SKU: it.SKU, Title: it.Title, Stock: it.Stock, Price: it.Price}
		f.sold[i] = it.Sold
	}
	return f
}
