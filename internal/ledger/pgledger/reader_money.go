package pgledger

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Payment implements ledger.Reader.
func (r *reader) Payment(ctx context.Context, id string) (ledger.PaymentRow, bool, error) {
	if !storable(id) {
		return ledger.PaymentRow{}, false, nil
	}
	return one(ctx, r, step{name: "payment_by_id", args: []any{id}}, decodePayment)
}

// EachPayment implements ledger.Reader.
func (r *reader) EachPayment(ctx context.Context, n sale.Number, fn func(ledger.PaymentRow) error) error {
	before, end := saleRange(n)
	after := ""
	return every(ctx, r.source, question[ledger.PaymentRow]{name: "payments_each", decode: decodePayment, args: func(last *ledger.PaymentRow) []any {
		if last != nil {
			before, after = last.Order, last.ID
		}
		return []any{before, after, end}
	}}, fn)
}

// Refund implements ledger.Reader.
func (r *reader) Refund(ctx context.Context, id sale.RefundID) (sale.Refund, error) {
	f, found, err := one(ctx, r, step{name: "refund_by_id", args: []any{[16]byte(id)}}, decodeRefund)
	if err == nil && !found {
		err = sale.RefundNotFound()
	}
	return f, err
}

// ListRefunds implements ledger.Reader. A record that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListRefunds(ctx context.Context, f ledger.RefundFilter) ([]sale.Refund, error) {
	return full(f.Limit, func(limit int, out *[]sale.Refund) (rows int, err error) {
		name, args := "refunds_of_all", []any{[16]byte(f.After), limit}
		if f.State != "" {
			name, args = "refunds_of_state", []any{string(f.State), [16]byte(f.After), limit}
		}
		err = r.query(ctx, name, args, counted(&rows, list(r, out, decodeRefund)))
		return rows, err
	})
}

// EachRefund implements ledger.Reader. The records of one sale are few.
func (r *reader) EachRefund(ctx context.Context, n sale.Number, fn func(sale.Refund) error) error {
	before, end := saleRange(n)
	var found []sale.Refund
	if err := r.query(ctx, "refunds_each", []any{before, end}, all(&found, decodeRefund)); err != nil {
		return err
	}
	for i := range found {
		if err := fn(found[i]); err != nil {
			return err
		}
	}
	return nil
}

// Letter implements ledger.Reader.
func (r *reader) Letter(ctx context.Context, id ledger.LetterID) (ledger.Letter, error) {
	l, found, err := one(ctx, r, step{name: "letter_by_id", args: []any{[16]byte(id)}}, decodeLetter)
	if err == nil && !found {
		err = sale.LetterNotFound()
	}
	return l, err
}

// LetterOf implements ledger.Reader.
func (r *reader) LetterOf(ctx context.Context, id sale.OrderID) (ledger.Letter, bool, error) {
	return one(ctx, r, step{name: "letter_of_order", args: []any{[16]byte(id)}}, decodeLetter)
}

// ListLetters implements ledger.Reader. A letter that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListLetters(ctx context.Context, f ledger.LetterFilter) ([]ledger.Letter, error) {
	return full(f.Limit, func(limit int, out *[]ledger.Letter) (rows int, err error) {
		f.Limit = limit
		name, args := lettersOf(f)
		err = r.query(ctx, name, args, counted(&rows, list(r, out, decodeLetter)))
		return rows, err
	})
}

// lettersOf picks the statement that finds a page of dead letters along an index.
func lettersOf(f ledger.LetterFilter) (name string, args []any) {
	after := [16]byte(f.After)
	switch {
	case f.Sale != 0:
		return "letters_of_sale", []any{int64(f.Sale), after, string(f.State), f.Limit}
	case f.State != "":
		return "letters_of_state", []any{string(f.State), after, f.Limit}
	}
	return "letters_of_all", []any{after, f.Limit}
}
