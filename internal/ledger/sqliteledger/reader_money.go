package sqliteledger

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Payment implements ledger.Reader.
func (r *reader) Payment(ctx context.Context, id string) (ledger.PaymentRow, bool, error) {
	var found []ledger.PaymentRow
	err := r.get(ctx, "payment_by_id", func(a *args) { a.text(id) }, each(func(p ledger.PaymentRow) error {
		found = append(found, p)
		return nil
	}, decodePayment))
	if err != nil || len(found) == 0 {
		return ledger.PaymentRow{}, false, err
	}
	return found[0], true, nil
}

// EachPayment implements ledger.Reader.
func (r *reader) EachPayment(ctx context.Context, n sale.Number, fn func(ledger.PaymentRow) error) error {
	return r.scan(ctx, "payments_each", within(n), each(fn, decodePayment))
}

// Refund implements ledger.Reader.
func (r *reader) Refund(ctx context.Context, id sale.RefundID) (sale.Refund, error) {
	var found []sale.Refund
	err := r.get(ctx, "refund_by_id", func(a *args) { a.blob(id[:]) }, each(func(f sale.Refund) error {
		found = append(found, f)
		return nil
	}, decodeRefund))
	if err != nil {
		return sale.Refund{}, err
	}
	if len(found) == 0 {
		return sale.Refund{}, sale.RefundNotFound()
	}
	return found[0], nil
}

// ListRefunds implements ledger.Reader. A record that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListRefunds(ctx context.Context, f ledger.RefundFilter) ([]sale.Refund, error) {
	name := "refunds_of_all"
	if f.State != "" {
		name = "refunds_of_state"
	}
	return full(f.Limit, func(limit int, out *[]sale.Refund) (rows int, err error) {
		err = r.scan(ctx, name, func(a *args) {
			if f.State != "" {
				a.text(string(f.State))
			}
			a.blob(f.After[:])
			a.int(int64(limit))
		}, counted(&rows, list(r, out, decodeRefund)))
		return rows, err
	})
}

// EachRefund implements ledger.Reader.
func (r *reader) EachRefund(ctx context.Context, n sale.Number, fn func(sale.Refund) error) error {
	return r.scan(ctx, "refunds_each", within(n), each(fn, decodeRefund))
}
