package ledger

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// book decides what becomes of a notice about an order that exists and stores
// it. A charge that cannot pay exactly this order leaves exactly one refund
// record; a final order never moves, whatever arrives. first is when the charge
// was first heard of.
func (d *desk) book(p sale.Payment, order sale.Order, first time.Time) Paid {
	row := PaymentRow{Payment: p, Outcome: sale.OutcomeRecorded, At: first}
	paid := Paid{Order: order}
	switch {
	case p.Status == sale.PaymentFailed, p.Amount == 0 && order.Amount > 0:
		// Nothing was captured. The hold goes on until its end.
	case p.Amount == 0: // price zero: born paid, and nothing to give back in any currency
		row.Outcome = sale.OutcomeAlreadyPaid
	case p.Amount != order.Amount || p.Currency != order.Currency:
		row.Outcome = d.back(p, sale.ReasonAmount)
	default:
		row.Outcome, paid.Order, row.PaidOrder = d.settle(p, order)
	}
	d.out.Payments = append(d.out.Payments, row)
	paid.Outcome = row.Outcome
	return paid
}

func (d *desk) back(p sale.Payment, why sale.RefundReason) sale.Outcome {
	d.owe(p, why)
	return sale.OutcomeRefundRequired
}

// settle applies a full charge to an order by its state.
func (d *desk) settle(p sale.Payment, order sale.Order) (sale.Outcome, sale.Order, sale.OrderID) {
	switch order.State {
	case sale.Reserved:
		// Also when the hold is over but no sweep has come by: the unit is still
		// held for this buyer, so nobody is robbed.
		d.pay(p.ID, order)
		return sale.OutcomePaid, d.orders[order.ID], order.ID
	case sale.Paid:
		return d.back(p, sale.ReasonDuplicate), order, sale.OrderID{}
	case sale.Cancelled, sale.Expired:
		return d.settleLate(p, order)
	case sale.Queued, sale.Rejected, sale.Refunded:
	}
	return d.back(p, sale.ReasonLate), order, sale.OrderID{}
}

func (d *desk) pay(paymentID string, order sale.Order) {
	h := d.holder(order.User)
	h.Unpaid = 0
	d.setHolder(h)
	order.State, order.PaymentID = sale.Paid, paymentID
	d.move(sale.Reserved, order)
}

// settleLate handles a charge for an order that has ended unpaid: a new order
// takes its place if stock, limit and window allow, under the old terms; the
// old order stays as it is. It happens at most once per order.
func (d *desk) settleLate(p sale.Payment, old sale.Order) (sale.Outcome, sale.Order, sale.OrderID) {
	id := sale.ReplacementID(d.rec.Key, old.User, old.ID)
	if _, done := d.orders[id]; done {
		return d.back(p, sale.ReasonDuplicate), old, sale.OrderID{}
	}
	item, err := d.rec.Item(old.SKU)
	h := d.holder(old.User)
	if err != nil || Shut(&d.rec.Sale, d.now) != "" ||
		h.Counted(d.rec.LimitRule)+old.Quantity > d.rec.PerUserLimit ||
		old.Quantity > d.rec.Items[item].Left() {
		return d.back(p, sale.ReasonLate), old, sale.OrderID{}
	}
	o := old
	o.ID, o.Replaces, o.State, o.PaymentID = id, old.ID, sale.Paid, p.ID
	o.Version, o.Epoch, o.ReservedAt, o.ExpiresAt, o.EndedAt = 0, d.rec.Epoch, d.now, time.Time{}, time.Time{}
	d.bear(o, item)
	d.adopt(&o, d.now)
	return sale.OutcomePaid, d.orders[id], id
}

// replay answers a notice whose charge has been booked before.
func replayed(row *PaymentRow) sale.Outcome {
	if row.Outcome == sale.OutcomePaid {
		return sale.OutcomeAlreadyPaid
	}
	return row.Outcome
}
