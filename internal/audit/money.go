package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// payer is an order that names a charge.
type payer struct {
	order    sale.OrderID
	amount   int64
	currency string
	paid     bool // else refunded
	found    bool // its captured charge has been met
}

// owed is a refund record: what the journal announced, then what is kept.
type owed struct {
	said   ledger.RefundBody
	order  sale.OrderID
	seq    uint64 // of the last row about it
	kept   bool
	amount int64 // of the record
	money  string
	owner  sale.OrderID
	found  bool // its captured charge has been met
}

// currency returns one copy of a currency's name.
func (r *recount) currency(name string) string { return r.purse(name).Currency }

func (r *recount) purse(currency string) *Money {
	m, known := r.money[currency]
	if !known {
		m = &Money{Currency: currency}
		r.money[currency] = m
	}
	return m
}

// addMoney adds without wrapping: at the end of the range it stays there.
func addMoney(sum *int64, amount int64) {
	if amount > 0 && *sum > math.MaxInt64-amount {
		*sum = math.MaxInt64
		return
	}
	*sum += max(0, amount)
}

// refundRow takes a journal row about a refund record.
func (r *recount) refundRow(e *ledger.Entry) {
	var b ledger.RefundBody
	if err := json.Unmarshal(e.Body, &b); err != nil {
		r.broke(rowBody, placeOf(e), "the body cannot be read: %v", err)
		return
	}
	want := sale.RefundRequired
	if e.Kind == ledger.KindRefundDone {
		want = sale.RefundDone
	}
	if b.State != want || b.ID != sale.DeriveRefundID(b.PaymentID).String() {
		r.broke(rowBody, placeOf(e), "the kind is %s, the body says %q of %q", e.Kind, b.State, b.ID)
		return
	}
	before, known := r.owed[b.PaymentID]
	same := known && before.said.Amount == b.Amount && before.said.Currency == b.Currency && before.said.Reason == b.Reason && before.order == e.Order
	r.count(refundTrace)
	switch {
	case want == sale.RefundRequired && known:
		r.broke(refundTrace, placeOf(e), "the charge %q is owed a second time; row %d said so before", b.PaymentID, before.seq)
	case want == sale.RefundDone && !same:
		r.broke(refundTrace, placeOf(e), "the refund of %q is done, but was not required like this", b.PaymentID)
	case want == sale.RefundDone && before.said.State == sale.RefundDone:
		r.broke(refundTrace, placeOf(e), "the refund of %q is done a second time", b.PaymentID)
	}
	if !known {
		before = &owed{}
		r.owed[b.PaymentID] = before
	}
	before.said, before.order, before.seq = b, e.Order, e.Seq
}

// refund takes one refund record.
func (r *recount) refund(f *sale.Refund) error {
	r.count(refundTrace)
	r.count(chargeFound)
	at := place{order: f.Order}
	o, known := r.owed[f.PaymentID]
	if !known {
		o = &owed{}
		r.owed[f.PaymentID] = o
		r.broke(refundTrace, at, "the record of charge %q is in no row of the journal", f.PaymentID)
	} else if o.order != f.Order || o.said.State != f.State || o.said.Reason != f.Reason ||
		o.said.Amount != f.Amount || o.said.Currency != f.Currency || f.ID != sale.DeriveRefundID(f.PaymentID) {
		r.broke(refundTrace, place{order: f.Order, seq: o.seq}, "the record of charge %q is not what the journal says", f.PaymentID)
	}
	if o.kept {
		r.broke(chargeHome, at, "the charge %q has two refund records", f.PaymentID)
	}
	o.kept, o.amount, o.money, o.owner = true, f.Amount, f.Currency, f.Order
	if m := r.purse(f.Currency); f.State == sale.RefundDone {
		addMoney(&m.Returned, f.Amount)
	} else {
		addMoney(&m.ToReturn, f.Amount)
	}
	return nil
}

// paidBy notes the charge that an order row names.
func (r *recount) paidBy(o *sale.Order) {
	if o.State != sale.Paid && o.State != sale.Refunded || o.Amount == 0 && o.PaymentID == "" {
		return
	}
	r.count(chargeFound)
	at := place{order: o.ID}
	if o.PaymentID == "" {
		r.broke(chargeFound, at, "the order is %s without a charge", o.State)
		return
	}
	if other, taken := r.payers[o.PaymentID]; taken {
		r.broke(chargeHome, at, "the charge %q pays this order and %s", o.PaymentID, other.order)
		return
	}
	r.payers[o.PaymentID] = &payer{order: o.ID, amount: o.Amount, currency: r.currency(o.Currency), paid: o.State == sale.Paid}
}

// payment takes one stored payment notice.
func (r *recount) payment(p *ledger.PaymentRow) error {
	r.count(chargeOutcome)
	at := place{order: p.Order}
	if p.Status != sale.PaymentSucceeded || p.Amount <= 0 {
		if p.Outcome != sale.OutcomeRecorded && p.Outcome != sale.OutcomeAlreadyPaid || !p.PaidOrder.IsZero() {
			r.broke(chargeOutcome, at, "nothing was captured by %q, its outcome is %q", p.ID, p.Outcome)
		}
		return nil
	}
	r.figures.Charges++
	by, record := r.payers[p.ID], r.owed[p.ID]
	if record != nil && !record.kept {
		record = nil
	}
	r.home(p, by, record)
	r.amounts(p, by, record)
	if fault := r.outcome(p, by, record); fault != "" {
		r.broke(chargeOutcome, at, "the charge %q says %q, but %s", p.ID, p.Outcome, fault)
	}
	return nil
}

// home is P7 itself: one paid order or one refund record.
func (r *recount) home(p *ledger.PaymentRow, by *payer, record *owed) {
	r.count(chargeHome)
	at := place{order: p.Order}
	switch paid := by != nil && by.paid; {
	case p.Order.Sale() != r.facts.number:
		r.broke(chargeHome, at, "the charge %q is for an order of sale %d", p.ID, p.Order.Sale())
	case by != nil && by.found || record != nil && record.found:
		r.broke(chargeHome, at, "the charge %q is there twice", p.ID)
	case paid && record != nil:
		r.broke(chargeHome, at, "the charge %q pays %s and is to go back as well", p.ID, by.order)
	case !paid && record == nil:
		r.broke(chargeHome, at, "the charge %q of %d %s pays no order and has no refund record", p.ID, p.Amount, safe(p.Currency))
	}
	if by != nil {
		by.found = true
		if by.paid {
			addMoney(&r.purse(p.Currency).Paid, p.Amount)
		}
	}
	if record != nil {
		record.found = true
	}
}

func (r *recount) amounts(p *ledger.PaymentRow, by *payer, record *owed) {
	r.count(chargeAmount)
	at := place{order: p.Order}
	switch {
	case by != nil && (by.amount != p.Amount || by.currency != p.Currency):
		r.broke(chargeAmount, at, "the charge %q is %d %s, order %s is %d %s",
			p.ID, p.Amount, safe(p.Currency), by.order, by.amount, safe(by.currency))
	case record != nil && (record.amount != p.Amount || record.money != p.Currency):
		r.broke(chargeAmount, at, "the charge %q is %d %s, its refund record %d %s",
			p.ID, p.Amount, safe(p.Currency), record.amount, safe(record.money))
	}
}

// outcome returns in what the payment lies about itself, or nothing.
func (r *recount) outcome(p *ledger.PaymentRow, by *payer, record *owed) string {
	switch {
	case by != nil && (p.Outcome != sale.OutcomePaid || p.PaidOrder != by.order):
		return fmt.Sprintf("it paid %s", by.order)
	case by != nil && by.order != p.Order && r.origins[by.order] != p.Order:
		return fmt.Sprintf("it was for %s and paid %s, which does not replace it", p.Order, by.order)
	case by == nil && record != nil && (p.Outcome != sale.OutcomeRefundRequired || !p.PaidOrder.IsZero()):
		return "it is to go back"
	case record != nil && record.owner != p.Order && (by == nil || record.owner != by.order):
		return fmt.Sprintf("its refund record belongs to %s", record.owner)
	}
	return ""
}

// finishMoney reports orders and records whose charge was never captured.
func (r *recount) finishMoney() {
	for id, by := range r.payers {
		if !by.found {
			r.broke(chargeFound, place{order: by.order}, "the charge %q was never captured", id)
		}
	}
	for id, o := range r.owed {
		if o.kept && !o.found {
			r.broke(chargeFound, place{order: o.owner}, "the refund record names charge %q, which was never captured", id)
		}
		if !o.kept {
			r.broke(refundTrace, place{order: o.order, seq: o.seq}, "the journal owes charge %q, but there is no record", id)
		}
	}
	for _, currency := range slices.Sorted(maps.Keys(r.money)) {
		r.figures.Money = append(r.figures.Money, *r.money[currency])
	}
}
