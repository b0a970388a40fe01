package settle

import (
	"encoding/json"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// stretch is what a stretch of the journal means for one lane.
type stretch struct {
	acts []stock.Act
	// revised says that the sale itself has changed.
	revised bool
	// freed says that units may have come back.
	freed bool
	// unreadable are the rows that say nothing. They are passed over: a lane that
	// waited for them would never hear of anything again.
	unreadable []error
}

// actsOf reads journal rows for the lane of s with this index.
func actsOf(rows []ledger.Entry, s *sale.Sale, lane stock.Lane) stretch {
	var out stretch
	for i := range rows {
		e := &rows[i]
		if e.Kind.OfSale() {
			out.revised = true
			continue
		}
		a, err := actOf(e, s)
		if err != nil {
			out.unreadable = append(out.unreadable, fmt.Errorf("row %d of the journal, %s: %w", e.Seq, e.Kind, err))
			continue
		}
		if a.Kind == "" || stock.Home(a.User, max(1, len(s.Salts))) != lane.Index {
			continue
		}
		if err := stock.CheckActs(lane, []stock.Act{a}); err != nil {
			out.unreadable = append(out.unreadable, fmt.Errorf("row %d of the journal, %s: %w", e.Seq, e.Kind, err))
			continue
		}
		out.acts = append(out.acts, a)
		out.freed = out.freed || a.Kind == stock.ActReturn
	}
	return out
}

// actOf returns what a row means for its lane; no kind if nothing.
func actOf(e *ledger.Entry, s *sale.Sale) (stock.Act, error) {
	a := stock.Act{Seq: e.Seq, ID: e.Order, TakenAt: e.At}
	switch e.Kind {
	case ledger.OrderKind(sale.Cancelled), ledger.OrderKind(sale.Expired), ledger.OrderKind(sale.Rejected), ledger.OrderKind(sale.Refunded):
		var b ledger.OrderBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return a, err
		}
		a.Kind, a.User, a.CoolUntil = stock.ActReturn, b.User, ledger.FromMillis(b.CoolUntil)
		if b.State == sale.Refunded && s.LimitRule == sale.LimitEverPaid {
			a.Counted = b.Quantity
		}
	case ledger.KindLaneReturn, ledger.KindLaneAdopt:
		var b ledger.LaneBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return a, err
		}
		a.Kind, a.User, a.TakenAt = stock.ActReturn, b.User, ledger.FromMillis(b.TakenAt)
		if e.Kind == ledger.KindLaneReturn {
			break
		}
		item, err := s.Item(b.SKU)
		if err != nil {
			return a, err
		}
		a.Kind, a.Item, a.Quantity, a.Counted = stock.ActAdopt, item, b.Quantity, b.Quantity
	case ledger.KindRefundRequired, ledger.KindRefundDone: // money, not units
	}
	return a, nil
}
