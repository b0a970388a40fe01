package audit

import (
	"encoding/json"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// versioned checks the number of a sale's version: an act raises it by one, a
// change of the way leaves it.
func (r *recount) versioned(e *ledger.Entry, b *ledger.SaleBody) {
	var before int64
	if r.lastSale != nil {
		before = r.lastSale.Version
	}
	want := before + 1
	if e.Kind == ledger.SaleKind(sale.ActionReroute) {
		want = before
	}
	if b.Version != want {
		r.broke(saleTrace, placeOf(e), "version %d follows version %d", b.Version, before)
	}
}

// rerouted checks path and epoch of a row about the sale.
func (r *recount) rerouted(e *ledger.Entry, b *ledger.SaleBody) {
	r.count(wayTrace)
	r.epochs[b.Epoch] = true
	last := r.lastSale
	switch {
	case b.Path != sale.PathDirect && b.Path != sale.PathFast:
		r.broke(wayTrace, placeOf(e), "the path is %q", b.Path)
	case last == nil:
	case e.Kind != ledger.SaleKind(sale.ActionReroute):
		if b.Path != last.Path || b.Epoch != last.Epoch {
			r.broke(wayTrace, placeOf(e), "the way became %s under epoch %d, it was %s under %d", b.Path, b.Epoch, last.Path, last.Epoch)
		}
	case b.Epoch <= last.Epoch:
		r.broke(wayTrace, placeOf(e), "epoch %d follows epoch %d", b.Epoch, last.Epoch)
	default:
		before := *last
		before.Path, before.Epoch = b.Path, b.Epoch
		if field := differingField(&before, b); field != "" {
			r.broke(wayTrace, placeOf(e), "%s changes with the way", field)
		}
	}
}

// bornInEpoch checks that an order was taken under an epoch that the sale had been
// in: on the direct path by the sale itself, else by the fast counter.
func (r *recount) bornInEpoch(e *ledger.Entry, b *ledger.OrderBody) {
	r.count(wayTrace)
	if !r.epochs[b.Epoch] && r.lastSale != nil {
		r.broke(wayTrace, placeOf(e), "born under epoch %d, in which the sale never was", b.Epoch)
	}
}

// mustAdopt notes a birth that the lane in force had no part in, so that the next
// row must tell it.
func (r *recount) mustAdopt(e *ledger.Entry, b *ledger.OrderBody) {
	if r.lastSale == nil || r.lastSale.Path != sale.PathFast {
		return
	}
	if !b.Replaces.IsZero() || b.Epoch != r.lastSale.Epoch {
		r.adopting = e.Order
	}
}

// told checks that the lane is told of an order where it must be.
func (r *recount) told(e *ledger.Entry) {
	if r.adopting.IsZero() {
		return
	}
	r.count(laneTold)
	if e.Kind != ledger.KindLaneAdopt || e.Order != r.adopting {
		r.broke(laneTold, place{order: r.adopting, seq: e.Seq}, "the lane was not told of the order")
	}
	r.adopting = sale.OrderID{}
}

func (r *recount) finishLane() {
	if r.adopting.IsZero() {
		return
	}
	r.count(laneTold)
	r.broke(laneTold, place{order: r.adopting, seq: r.seq}, "the journal ends before the lane was told of the order")
}

// laneRow takes a row that is for the lane alone.
func (r *recount) laneRow(e *ledger.Entry) {
	var b ledger.LaneBody
	if fault := readLaneBody(e, &b); fault != "" {
		r.broke(rowBody, placeOf(e), "%s", fault)
		return
	}
	r.count(laneTold)
	if r.lastSale != nil && r.lastSale.Path != sale.PathFast {
		r.broke(laneTold, placeOf(e), "the row speaks to a lane on the %s path", r.lastSale.Path)
		return
	}
	var p *past // nil where the order is none: its slip is a dead letter
	if i, known := r.index[e.Order]; known {
		p = &r.pasts[i]
	}
	live := p != nil && p.state.Live()
	switch {
	case e.Kind == ledger.KindLaneReturn && live:
		r.adopting = e.Order // taken as something else; the next row says as what it is held
	case e.Kind == ledger.KindLaneReturn:
	case !live:
		r.broke(laneTold, placeOf(e), "the lane adopts an order that is not live")
	case r.lastOrder != e.Order:
		r.broke(laneTold, placeOf(e), "the lane adopts an order of which the row before does not speak")
	case r.user(b.User) != p.user || b.SKU != r.accounts[p.item].sku || b.Quantity != p.quantity:
		r.broke(laneTold, placeOf(e), "the lane adopts %d of %q for %q, which is not the order", b.Quantity, b.SKU, b.User)
	}
}

// readLaneBody returns what is wrong with the body, or nothing.
func readLaneBody(e *ledger.Entry, b *ledger.LaneBody) string {
	if err := json.Unmarshal(e.Body, b); err != nil {
		return fmt.Sprintf("the body cannot be read: %v", err)
	}
	switch {
	case e.Order.IsZero() || e.Order.Sale() != e.Sale:
		return "the row names no order of this sale"
	case sale.CheckUser(b.User) != nil:
		return fmt.Sprintf("the buyer is %q", b.User)
	}
	return ""
}

// knownReason reports whether an order was rejected for a reason there is, and
// makes it the constant, so that the decoded text can be freed.
func knownReason(why *sale.RejectReason) bool {
	for _, known := range [...]sale.RejectReason{
		sale.RejectedSoldOut, sale.RejectedStock, sale.RejectedLimit, sale.RejectedCoolDown,
		sale.RejectedLate, sale.RejectedSale, sale.RejectedSlip,
	} {
		if *why == known {
			*why = known
			return true
		}
	}
	return false
}
