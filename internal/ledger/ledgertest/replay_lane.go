package ledgertest

import (
	"reflect"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// steps checks how a row about the sale follows the one before: an act raises the
// version and leaves the way alone, a reroute raises the epoch and nothing else.
func (p *replay) steps(e *ledger.Entry, next *ledger.SaleBody) {
	want := *next
	if e.Kind != ledger.SaleKind(sale.ActionReroute) {
		if next.Version != p.sale.Version+1 {
			p.wrong("journal: row %d takes the sale from version %d to %d", e.Seq, p.sale.Version, next.Version)
		}
		if e.Kind != ledger.SaleKind(sale.ActionCreate) && (next.Path != p.sale.Path || next.Epoch != p.sale.Epoch) {
			p.wrong("journal: row %d, %s, takes the sale to the %s path under epoch %d", e.Seq, e.Kind, next.Path, next.Epoch)
		}
		return
	}
	want.Path, want.Epoch = p.sale.Path, p.sale.Epoch
	if !reflect.DeepEqual(want, p.sale) {
		p.wrong("journal: row %d changes more than the way: %+v to %+v", e.Seq, p.sale, *next)
	}
	if next.Epoch <= p.sale.Epoch {
		p.wrong("journal: row %d takes the sale from epoch %d to %d", e.Seq, p.sale.Epoch, next.Epoch)
	}
}

// bySlip reports whether an order came from the fast counter.
func (p *replay) bySlip(o *sale.Order) bool {
	return p.sale.Path == sale.PathFast || o.Epoch != p.sale.Epoch
}

func (p *replay) inWindow(e *ledger.Entry) {
	at := e.At.UnixMilli()
	if p.sale.State != sale.Published || at < p.sale.StartsAt || at >= p.sale.EndsAt {
		p.wrong("row %d sells while the sale is %s, outside its window or paused", e.Seq, p.sale.State)
	}
}

// priced checks an order's money against its terms.
func (p *replay) priced(e *ledger.Entry, o *sale.Order) (ledger.Terms, bool) {
	t, known := p.terms[o.Terms]
	if !known {
		p.wrong("terms: row %d sells under the unknown terms %d", e.Seq, o.Terms)
		return t, false
	}
	for i, it := range p.sale.Items {
		if it.SKU != o.SKU {
			continue
		}
		if o.Amount != t.Prices[i]*o.Quantity || o.Currency != t.Currency {
			p.wrong("P7 row %d asks %d %s for %d of %s", e.Seq, o.Amount, o.Currency, o.Quantity, o.SKU)
		}
		return t, true
	}
	p.wrong("P7 row %d sells %q, which the sale does not have", e.Seq, o.SKU)
	return t, false
}

// stillborn checks an order that ends as it begins: rejected, or cancelled while
// it was queued.
func (p *replay) stillborn(e *ledger.Entry, o *sale.Order) {
	if (o.State == sale.Rejected) != (o.Reason != "") {
		p.wrong("P5 row %d makes order %v %s for the reason %q", e.Seq, o.ID, o.State, o.Reason)
	}
	if !o.ExpiresAt.IsZero() || o.PaymentID != "" || !o.Replaces.IsZero() || o.Quantity < 1 {
		p.wrong("P5 row %d bears %+v", e.Seq, *o)
	}
	if o.Reason != sale.RejectedSlip {
		p.priced(e, o)
	}
}

// adopted checks that a row which the lane must learn of is followed by the one
// that tells it.
func (p *replay) adopted(e *ledger.Entry) {
	if !p.adopting.IsZero() && (e.Kind != ledger.KindLaneAdopt || e.Order != p.adopting) {
		p.wrong("P2 row %d is about %v; the lane was to adopt %v", e.Seq, e.Order, p.adopting)
	}
	p.adopting = sale.OrderID{}
}

func (p *replay) laneRow(e *ledger.Entry) {
	var b ledger.LaneBody
	if !p.decode(e, &b) {
		return
	}
	o, known := p.orders[e.Order]
	if p.sale.Path != sale.PathFast {
		p.wrong("journal: row %d speaks to a lane on the direct path", e.Seq)
	}
	if b.User == "" || b.TakenAt == 0 || e.Order.Sale() != e.Sale {
		p.wrong("journal: row %d tells the lane of %+v", e.Seq, b)
	}
	if e.Kind == ledger.KindLaneReturn {
		if known && o.State.Live() { // taken as something else, so it is adopted as what it is
			p.adopting = o.ID
		}
		return
	}
	switch {
	case !known || !o.State.Live():
		p.wrong("P6 row %d has the lane adopt order %v, which is %q", e.Seq, e.Order, o.State)
	case b.User != o.User || b.SKU != o.SKU || b.Quantity != o.Quantity:
		p.wrong("P2 row %d has the lane adopt %+v for %+v", e.Seq, b, o)
	}
}

// bodyOf is what a journal row must say about a sale; written here once more,
// so that a member that the ledger forgets is missed.
func bodyOf(s *sale.Sale) ledger.SaleBody {
	b := ledger.SaleBody{
		Slug: s.Slug, State: s.State, Version: s.Version, Terms: s.Terms, Path: s.Path, Epoch: s.Epoch, Title: s.Title,
		StartsAt: s.StartsAt.UnixMilli(), EndsAt: s.EndsAt.UnixMilli(), PerUserLimit: s.PerUserLimit, LimitRule: s.LimitRule,
		HoldMS: int64(s.Hold / time.Millisecond), MaxUnpaidHolds: s.MaxUnpaidHolds, CoolDownMS: int64(s.CoolDown / time.Millisecond),
		Currency: s.Currency, Preferred: s.Preferred,
	}
	for i := range s.Items {
		b.Items = append(b.Items, ledger.ItemBody{SKU: s.Items[i].SKU, Title: s.Items[i].Title, Stock: s.Items[i].Stock, Price: s.Items[i].Price})
	}
	return b
}

func equalBodies(a, b ledger.SaleBody) bool { return reflect.DeepEqual(a, b) }
