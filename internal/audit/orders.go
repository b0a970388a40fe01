package audit

import (
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// order takes one order row. Rows come in order of id.
func (r *recount) order(o *sale.Order) error {
	at := place{order: o.ID}
	r.figures.Orders++
	r.count(onceID)
	switch {
	case o.ID.Sale() != r.facts.number:
		r.broke(onceID, at, "the id belongs to sale %d", o.ID.Sale())
	case r.figures.Orders > 1 && string(o.ID[:]) <= string(r.lastID[:]):
		r.broke(onceID, at, "the row is there twice, or out of order")
	}
	r.lastID = o.ID

	r.count(phantom)
	if i, known := r.index[o.ID]; known {
		p := &r.pasts[i]
		p.seen = true
		if o.State != p.state {
			r.broke(phantom, place{order: o.ID, seq: p.seq}, "the order is %s, the journal says %s", o.State, p.state)
		}
		r.count(orderTrace)
		if field := r.orderDiffers(o, p); field != "" {
			r.broke(orderTrace, place{order: o.ID, seq: p.seq}, "%s is not what the journal says", field)
		}
		if o.PaymentID == p.payment {
			o.PaymentID = p.payment // one copy of the text is enough
		}
	} else {
		r.broke(phantom, at, "the order is %s, but no row of the journal speaks of it", o.State)
	}
	r.add(o)
	r.promised(o)
	if o.State == sale.Reserved {
		r.overdue(o)
	}
	r.paidBy(o)
	return nil
}

// orderDiffers returns the first field, beside the state, in which the order
// row is not what the journal says.
func (r *recount) orderDiffers(o *sale.Order, p *past) string {
	user, known := r.users[o.User]
	switch {
	case !known || user != p.user:
		return "the buyer"
	case o.SKU != r.accounts[p.item].sku:
		return "the item"
	case o.Quantity != p.quantity:
		return "the quantity"
	case o.Terms != p.terms:
		return "the number of the terms"
	case o.Amount != p.amount || o.Currency != p.currency:
		return "the amount"
	case o.Epoch != p.epoch:
		return "the epoch"
	case o.Version != p.version:
		return "the version"
	case o.PaymentID != p.payment:
		return "the charge"
	case o.Reason != p.reason:
		return "the reason"
	case o.Replaces != r.origins[o.ID]:
		return "the order replaced"
	case ledger.Millis(o.ReservedAt) != p.born:
		return "the time of birth"
	case ledger.Millis(o.ExpiresAt) != p.expires:
		return "the end of the hold"
	case ledger.Millis(o.EndedAt) != p.ended:
		return "the time of the end"
	}
	return ""
}

// add counts the order's units into the recount.
func (r *recount) add(o *sale.Order) {
	q := o.Quantity
	if q < 1 || q > sale.MaxPerUserLimit {
		return // no such quantity in the journal either, so P5 or P8.order has reported it
	}
	item, b := &r.accounts[r.item(o.SKU)], &r.buyers[r.user(o.User)]
	if o.State.Live() {
		item.rows += q
		b.rowLive += q
	}
	f := &r.figures
	switch o.State {
	case sale.Reserved:
		f.Reserved += q
	case sale.Paid:
		f.Paid += q
	case sale.Cancelled:
		f.Cancelled += q
	case sale.Expired:
		f.Expired += q
	case sale.Rejected:
		f.Rejected += q
	case sale.Refunded:
		f.Refunded += q
		b.rowRefunded += q
	case sale.Queued: // has no row
	}
}

// promised compares amount, currency and hold with the order's terms.
func (r *recount) promised(o *sale.Order) {
	r.count(orderTerms)
	at := place{order: o.ID}
	if o.Reason == sale.RejectedSlip {
		if o.Amount != 0 {
			r.broke(orderTerms, at, "the amount is %d for what could not be judged", o.Amount)
		}
		return
	}
	t, known := r.termsRows[o.Terms]
	if !known {
		r.broke(orderTerms, at, "terms %d do not exist", o.Terms)
		return
	}
	price, found := r.price(&t, o.SKU)
	switch {
	case !found:
		r.broke(orderTerms, at, "terms %d have no price for %q", o.Terms, o.SKU)
	case o.Quantity < 1 || price < 0 || price > sale.MaxInteger/o.Quantity || o.Amount != price*o.Quantity:
		r.broke(orderTerms, at, "the amount is %d, terms %d make %d units at %d", o.Amount, o.Terms, o.Quantity, price)
	case o.Currency != t.Currency:
		r.broke(orderTerms, at, "the currency is %q, terms %d say %q", o.Currency, o.Terms, t.Currency)
	case !o.ExpiresAt.IsZero() && o.ExpiresAt.Sub(o.ReservedAt) != t.Hold:
		r.broke(orderTerms, at, "the hold is %v, terms %d say %v", o.ExpiresAt.Sub(o.ReservedAt), o.Terms, t.Hold)
	}
}

func (r *recount) price(t *ledger.Terms, sku string) (int64, bool) {
	for i := range r.facts.body.Items {
		if r.facts.body.Items[i].SKU == sku && i < len(t.Prices) {
			return t.Prices[i], true
		}
	}
	return 0, false
}

func (r *recount) overdue(o *sale.Order) {
	r.count(overdueHold)
	if r.overdueAfter < 0 || o.ExpiresAt.IsZero() {
		return
	}
	at := r.lastAt
	if r.running {
		at = r.facts.at
	}
	if late := at.Sub(o.ExpiresAt); late > r.overdueAfter {
		r.broke(overdueHold, place{order: o.ID}, "the hold was kept for %v after its end", late)
	}
}

// finishOrders reports orders that only the journal knows.
func (r *recount) finishOrders() {
	if int64(len(r.pasts)) == r.figures.Orders && !r.wrong(phantom) {
		return
	}
	for id, i := range r.index {
		if p := &r.pasts[i]; !p.seen {
			r.count(phantom)
			r.broke(phantom, place{order: id, seq: p.seq}, "the journal says %s, but there is no such order", p.state)
		}
	}
}

// holder takes one holder row.
func (r *recount) holder(h *ledger.Holder) error {
	r.count(holderCounter)
	b := &r.buyers[r.user(h.User)]
	b.seen = true
	if h.Live == b.rowLive && h.Refunded == b.rowRefunded {
		return nil
	}
	r.broke(holderCounter, place{}, "buyer %q counts for %d live and %d refunded, his orders make %d and %d",
		h.User, h.Live, h.Refunded, b.rowLive, b.rowRefunded)
	fixed := *h
	fixed.Live, fixed.Refunded, fixed.Cap = b.rowLive, b.rowRefunded, max(h.Cap, b.rowLive)
	r.fixes = append(r.fixes, fixed)
	return nil
}

// finishHolders reports buyers whose row is missing.
func (r *recount) finishHolders() {
	for user, i := range r.users {
		b := &r.buyers[i]
		if b.seen || b.rowLive == 0 && b.rowRefunded == 0 {
			continue
		}
		r.count(holderCounter)
		r.broke(holderCounter, place{}, "buyer %q has no count, his orders make %d live and %d refunded", user, b.rowLive, b.rowRefunded)
		r.fixes = append(r.fixes, ledger.Holder{
			User: user, Live: b.rowLive, Refunded: b.rowRefunded, Cap: max(b.rowLive, r.facts.body.PerUserLimit),
		})
	}
	r.figures.Buyers = int64(len(r.users))
}
