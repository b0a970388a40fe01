package audit

import (
	"encoding/json"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func placeOf(e *ledger.Entry) place { return place{order: e.Order, seq: e.Seq} }

// row takes one journal row: chain first, then what it says.
func (r *recount) row(e *ledger.Entry) error {
	r.chain(e)
	r.count(rowBody)
	r.told(e)
	switch {
	case e.Kind.OfOrder():
		r.orderRow(e)
	case e.Kind.OfSale():
		r.saleRow(e)
	case e.Kind == ledger.KindRefundRequired, e.Kind == ledger.KindRefundDone:
		r.refundRow(e)
	case e.Kind == ledger.KindLaneReturn, e.Kind == ledger.KindLaneAdopt:
		r.laneRow(e)
	default:
		r.broke(rowBody, placeOf(e), "the kind %q is unknown", e.Kind)
	}
	r.lastOrder = e.Order
	return nil
}

// chain goes on from what the row itself carries, so that one changed row is
// one violation and not a violation of all that follow.
func (r *recount) chain(e *ledger.Entry) {
	r.count(rowNumbers)
	if e.Seq != r.seq+1 {
		r.broke(rowNumbers, placeOf(e), "row %d follows row %d", e.Seq, r.seq)
	}
	r.count(rowChain)
	if want := e.ChainHash(r.head); e.Hash != want {
		r.broke(rowChain, placeOf(e), "the hash is %x, the row and the one before give %x", e.Hash, want)
	}
	r.seq, r.head, r.lastAt = e.Seq, e.Hash, e.At
	r.rowCount++
	if r.anchor == 0 && e.Hash == r.wanted {
		r.anchor = e.Seq
	}
}

func (r *recount) orderRow(e *ledger.Entry) {
	var b ledger.OrderBody
	if fault := r.readOrderBody(e, &b); fault != "" {
		r.broke(rowBody, placeOf(e), "%s", fault)
		return
	}
	i, known := r.index[e.Order]
	switch {
	case !known:
		i = len(r.pasts)
		r.index[e.Order] = i
		r.pasts = append(r.pasts, past{state: sale.Queued, born: e.At.UnixMilli()})
		r.birth(e, &b)
	case b.From == sale.Queued:
		r.count(onceID)
		r.broke(onceID, placeOf(e), "born a second time; row %d spoke of it before", r.pasts[i].seq)
	default:
		r.step(e, &b, &r.pasts[i])
	}
	r.apply(e, &b, &r.pasts[i])
	r.overStock(e, r.pasts[i].item)
}

// readOrderBody returns what is wrong with the body, or nothing.
func (r *recount) readOrderBody(e *ledger.Entry, b *ledger.OrderBody) string {
	if err := json.Unmarshal(e.Body, b); err != nil {
		return fmt.Sprintf("the body cannot be read: %v", err)
	}
	var ok, okFrom bool
	b.State, ok = canonical(b.State)
	b.From, okFrom = canonical(b.From)
	switch {
	case !ok || !okFrom || b.State == sale.Queued:
		return fmt.Sprintf("the body names states from %q to %q", b.From, b.State)
	case e.Kind != ledger.OrderKind(b.State):
		return fmt.Sprintf("the kind is %s, the body says %s", e.Kind, b.State)
	case e.Order.IsZero():
		return "the row names no order"
	case b.Quantity < 1 || b.Quantity > sale.MaxPerUserLimit:
		return fmt.Sprintf("the quantity is %d", b.Quantity)
	case b.Amount < 0 || b.Amount > sale.MaxInteger:
		return fmt.Sprintf("the amount is %d", b.Amount)
	case sale.CheckUser(b.User) != nil:
		return fmt.Sprintf("the buyer is %q", b.User)
	case (b.State == sale.Rejected) != knownReason(&b.Reason):
		return fmt.Sprintf("%s for the reason %q", b.State, b.Reason)
	case b.Reason == sale.RejectedSlip:
		return "" // what the slip named may be nothing that the sale has
	}
	i, known := r.items[b.SKU]
	if !known || !r.accounts[i].listed {
		return fmt.Sprintf("the sale has no item %q", b.SKU)
	}
	return ""
}

// canonical returns the state's constant, so that decoded texts can be freed.
func canonical(s sale.OrderState) (sale.OrderState, bool) {
	switch s {
	case sale.Queued:
		return sale.Queued, true
	case sale.Reserved:
		return sale.Reserved, true
	case sale.Paid:
		return sale.Paid, true
	case sale.Cancelled:
		return sale.Cancelled, true
	case sale.Expired:
		return sale.Expired, true
	case sale.Rejected:
		return sale.Rejected, true
	case sale.Refunded:
		return sale.Refunded, true
	}
	return s, false
}

// birth checks the first row about an order.
func (r *recount) birth(e *ledger.Entry, b *ledger.OrderBody) {
	r.count(onceID)
	if e.Order.Sale() != r.facts.number {
		r.broke(onceID, placeOf(e), "the id belongs to sale %d, the journal to sale %d", e.Order.Sale(), r.facts.number)
	}
	if b.From != sale.Queued {
		r.broke(phantom, placeOf(e), "comes from %s, but the journal holds no birth", b.From)
		return
	}
	r.count(legalMove)
	switch {
	case !sale.Queued.CanBecome(b.State):
		r.broke(legalMove, placeOf(e), "born %s", b.State)
	case b.State == sale.Paid && b.Amount > 0 && b.Replaces.IsZero():
		r.broke(legalMove, placeOf(e), "born paid, though %d %s were due", b.Amount, b.Currency)
	case !b.State.Live() && (b.ExpiresAt != 0 || b.PaymentID != "" || !b.Replaces.IsZero()):
		r.broke(legalMove, placeOf(e), "born %s, with a hold, a charge or a predecessor", b.State)
	}
	r.bornInEpoch(e, b)
	r.count(versionStep)
	if b.Version != 1 {
		r.broke(versionStep, placeOf(e), "born with version %d", b.Version)
	}
	if b.State.Live() {
		r.withinLimit(e, b)
		r.mustAdopt(e, b)
	}
	if !b.Replaces.IsZero() {
		r.replacement(e, b)
	}
}

func (r *recount) withinLimit(e *ledger.Entry, b *ledger.OrderBody) {
	r.count(limitReplay)
	if r.lastSale == nil {
		return // the missing sale row is reported by P8.sale
	}
	buyer := &r.buyers[r.user(b.User)]
	counted := buyer.live
	if r.lastSale.LimitRule == sale.LimitEverPaid {
		counted += buyer.refunded
	}
	if limit := r.lastSale.PerUserLimit; counted+b.Quantity > limit {
		r.broke(limitReplay, placeOf(e), "buyer %q counted for %d and took %d more; the limit was %d", b.User, counted, b.Quantity, limit)
	}
}

func (r *recount) replacement(e *ledger.Entry, b *ledger.OrderBody) {
	r.count(onceReplaced)
	r.origins[e.Order] = b.Replaces
	i, known := r.index[b.Replaces]
	if !known {
		r.broke(onceReplaced, placeOf(e), "replaces %s, which the journal does not hold", b.Replaces)
		return
	}
	old := &r.pasts[i]
	heir, taken := r.heirs[b.Replaces]
	switch {
	case taken:
		r.broke(onceReplaced, placeOf(e), "replaces %s, which %s has replaced", b.Replaces, heir)
	case old.state != sale.Cancelled && old.state != sale.Expired:
		r.broke(onceReplaced, placeOf(e), "replaces %s, which is %s", b.Replaces, old.state)
	case old.user != r.user(b.User) || old.item != r.item(b.SKU) || old.quantity != b.Quantity:
		r.broke(onceReplaced, placeOf(e), "replaces %s, which had another buyer, item or quantity", b.Replaces)
	}
	r.heirs[b.Replaces] = e.Order
}

// step checks a row about an order that has been born.
func (r *recount) step(e *ledger.Entry, b *ledger.OrderBody, p *past) {
	r.count(legalMove)
	switch {
	case b.From != p.state:
		r.broke(legalMove, placeOf(e), "comes from %s, but was %s since row %d", b.From, p.state, p.seq)
	case !p.state.CanBecome(b.State):
		r.broke(legalMove, placeOf(e), "went from %s to %s", p.state, b.State)
	}
	r.count(versionStep)
	if b.Version != p.version+1 {
		r.broke(versionStep, placeOf(e), "version %d follows version %d", b.Version, p.version)
	}
	r.count(fixedOrder)
	switch {
	case r.user(b.User) != p.user:
		r.broke(fixedOrder, placeOf(e), "the buyer became %q", b.User)
	case r.item(b.SKU) != p.item:
		r.broke(fixedOrder, placeOf(e), "the item became %q, it was %q", b.SKU, r.accounts[p.item].sku)
	case b.Quantity != p.quantity:
		r.broke(fixedOrder, placeOf(e), "the quantity became %d, it was %d", b.Quantity, p.quantity)
	case b.Terms != p.terms || b.Amount != p.amount || b.Currency != p.currency:
		r.broke(fixedOrder, placeOf(e), "terms, amount or currency became %d, %d %s; they were %d, %d %s",
			b.Terms, b.Amount, b.Currency, p.terms, p.amount, p.currency)
	case b.Epoch != p.epoch || b.ExpiresAt != p.expires || b.Replaces != r.origins[e.Order]:
		r.broke(fixedOrder, placeOf(e), "epoch, end of hold or the order replaced has changed")
	case b.State != sale.Paid && b.PaymentID != p.payment:
		r.broke(fixedOrder, placeOf(e), "the charge became %q, it was %q", b.PaymentID, p.payment)
	}
}

// apply moves the units and the limit, and remembers the body.
func (r *recount) apply(e *ledger.Entry, b *ledger.OrderBody, p *past) {
	if p.state.Live() {
		r.accounts[p.item].replay -= p.quantity
		r.buyers[p.user].live -= p.quantity
	}
	user, item := r.user(b.User), r.item(b.SKU)
	if b.State.Live() {
		r.accounts[item].replay += b.Quantity
		r.buyers[user].live += b.Quantity
	}
	if b.State == sale.Refunded {
		r.buyers[user].refunded += b.Quantity
	}
	p.user, p.item, p.state, p.version = user, item, b.State, b.Version
	p.quantity, p.terms, p.amount, p.currency = b.Quantity, b.Terms, b.Amount, r.currency(b.Currency)
	p.epoch, p.expires, p.payment, p.reason, p.seq = b.Epoch, b.ExpiresAt, b.PaymentID, b.Reason, e.Seq
	p.ended = 0
	if b.State.Final() {
		p.ended = e.At.UnixMilli()
	}
}

// overStock is P1 after one row, for an item that the row touched.
func (r *recount) overStock(e *ledger.Entry, item int) {
	r.count(stockJournal)
	if a := &r.accounts[item]; a.replay > a.stock {
		r.broke(stockJournal, placeOf(e), "%d units of %q are live, the stock is %d", a.replay, a.sku, a.stock)
	}
}
