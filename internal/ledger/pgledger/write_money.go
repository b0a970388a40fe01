package pgledger

import (
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func writePayments(c *ledger.Changes) []step {
	type payment = ledger.PaymentRow
	return each(runs(c.Payments, func(p *payment) string { return p.ID }), func(run []payment) []step {
		run = slices.Clone(run)
		slices.SortFunc(run, func(a, b payment) int { return strings.Compare(a.ID, b.ID) }) // payments are nobody's: the lock order
		return []step{{name: "payments_put", want: int64(len(run)), args: []any{
			column(run, func(p *payment) string { return p.ID }),
			column(run, func(p *payment) [16]byte { return p.Order }),
			column(run, func(p *payment) string { return string(p.Status) }),
			column(run, func(p *payment) int64 { return p.Amount }),
			column(run, func(p *payment) string { return p.Currency }),
			column(run, func(p *payment) string { return string(p.Outcome) }),
			column(run, func(p *payment) [16]byte { return p.PaidOrder }),
			column(run, func(p *payment) int64 { return ledger.Millis(p.At) }),
		}}}
	})
}

func writeRefunds(c *ledger.Changes) []step {
	return each(runs(c.Refunds, func(r *sale.Refund) sale.RefundID { return r.ID }), func(run []sale.Refund) []step {
		return []step{inOrder(refundPlaces), {name: "refunds_put", want: int64(len(run)), args: []any{
			column(run, func(r *sale.Refund) [16]byte { return r.ID }),
			column(run, func(r *sale.Refund) string { return r.PaymentID }),
			column(run, func(r *sale.Refund) [16]byte { return r.Order }),
			column(run, func(r *sale.Refund) int64 { return r.Amount }),
			column(run, func(r *sale.Refund) string { return r.Currency }),
			column(run, func(r *sale.Refund) string { return string(r.Reason) }),
			column(run, func(r *sale.Refund) string { return string(r.State) }),
			column(run, func(r *sale.Refund) int64 { return ledger.Millis(r.CreatedAt) }),
			column(run, func(r *sale.Refund) int64 { return ledger.Millis(r.DoneAt) }),
		}}}
	})
}

// letterRow is a dead letter with what an authentic slip was about, or with zeros.
type letterRow struct {
	*ledger.Letter
	about ledger.Attempt
	slip  ledger.Slip
}

func writeLetters(c *ledger.Changes) ([]step, error) {
	rows := make([]letterRow, len(c.Letters))
	for i := range c.Letters {
		l := &c.Letters[i]
		if l.Sale != c.Sale {
			return nil, refused("letter %x is of another sale", l.ID)
		}
		rows[i].Letter = l
		if l.Attempt != nil {
			rows[i].about = *l.Attempt
		}
		if rows[i].about.Slip != nil {
			rows[i].slip = *rows[i].about.Slip
		}
	}
	return each(runs(rows, func(l *letterRow) ledger.LetterID { return l.ID }), func(run []letterRow) []step {
		return []step{inOrder(letterPlaces), {name: "letters_put", want: int64(len(run)), args: []any{
			column(run, func(l *letterRow) [16]byte { return l.ID }),
			int64(c.Sale),
			column(run, func(l *letterRow) []byte { return []byte(l.Place) }),
			column(run, func(l *letterRow) []byte { return []byte(l.Cause) }),
			column(run, func(l *letterRow) []byte { return append([]byte{}, l.Raw...) }), // never NULL
			column(run, func(l *letterRow) [16]byte { return l.about.ID }),
			column(run, func(l *letterRow) []byte { return []byte(l.about.User) }),
			column(run, func(l *letterRow) []byte { return []byte(l.about.SKU) }),
			column(run, func(l *letterRow) int64 { return l.about.Quantity }),
			column(run, func(l *letterRow) int64 { return l.slip.Epoch }),
			column(run, func(l *letterRow) int64 { return l.slip.Terms }),
			column(run, func(l *letterRow) int64 { return ledger.Millis(l.slip.TakenAt) }),
			column(run, func(l *letterRow) bool { return l.slip.Presented }),
			column(run, func(l *letterRow) string { return string(l.State) }),
			column(run, func(l *letterRow) int64 { return ledger.Millis(l.ParkedAt) }),
			column(run, func(l *letterRow) int64 { return ledger.Millis(l.ClosedAt) }),
		}}}
	}), nil
}
