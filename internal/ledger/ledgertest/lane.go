package ledgertest

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// lane is a fast counter with one lane, as small as it can be: it knows stock and
// ids, but no limit and no window, so that the judge has more to put right.
type lane struct {
	epoch   int64
	frozen  int64 // the token of the builder that holds it; 0 for none
	stale   bool  // it has forgotten something, and nobody has noticed yet
	version int64
	terms   int64
	applied uint64 // the last journal row that has reached it
	stock   map[string]int64
	left    map[string]int64
	records map[sale.OrderID]laneRecord
	tray    []ledger.Attempt
	ever    []ledger.Attempt // every slip it ever left: the buyers' receipts
	backup  *lane            // an older state, for a fail-over
	build   ledger.Build     // the last right that was given
	seen    laneReading      // what its holder has read
}

// laneRecord is what a lane remembers of an order; quantity 0 is a tombstone.
type laneRecord struct {
	sku      string
	quantity int64
}

// laneReading is what a builder read of the ledger, and up to which row.
type laneReading struct {
	after   uint64
	records map[sale.OrderID]laneRecord
}

// take decides one attempt and says how.
func (n *lane) take(a ledger.Attempt) string {
	switch _, known := n.records[a.ID]; {
	case n.epoch == 0 || n.frozen != 0:
		return "frozen"
	case known:
		return "replayed"
	case a.Quantity < 1 || n.left[a.SKU] < a.Quantity:
		return "refused"
	}
	n.records[a.ID] = laneRecord{a.SKU, a.Quantity}
	n.left[a.SKU] -= a.Quantity
	n.tray, n.ever = append(n.tray, a), append(n.ever, a)
	return "taken"
}

// give returns what an order holds.
func (n *lane) give(id sale.OrderID) {
	r, known := n.records[id]
	if !known {
		return
	}
	n.left[r.sku] += r.quantity
	n.records[id] = laneRecord{r.sku, 0}
}

func (n *lane) adopt(id sale.OrderID, r laneRecord) {
	if n.records[id].quantity > 0 {
		return
	}
	n.records[id] = r
	n.left[r.sku] -= r.quantity
}

// apply carries out the next rows.
func (n *lane) apply(rows ledger.LaneRows) error {
	for i := range rows.Rows {
		e := &rows.Rows[i]
		switch {
		case e.Kind.OfSale():
			var b ledger.SaleBody
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return err
			}
			n.sync(&b)
		case e.Kind == ledger.KindLaneAdopt:
			var b ledger.LaneBody
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return err
			}
			n.adopt(e.Order, laneRecord{b.SKU, b.Quantity})
		default:
			n.give(e.Order)
		}
	}
	n.applied = rows.Upto
	return nil
}

// sync brings stock and terms of a version; an older one changes nothing.
func (n *lane) sync(b *ledger.SaleBody) {
	if b.Version <= n.version {
		return
	}
	n.version, n.terms = b.Version, b.Terms
	for _, it := range b.Items {
		n.left[it.SKU] += it.Stock - n.stock[it.SKU]
		n.stock[it.SKU] = it.Stock
	}
}

// load replaces what the lane has by what the builder read and what has happened
// since.
func (n *lane) load(now *ledger.Present) error {
	n.records = maps.Clone(n.seen.records)
	for i := range now.Delta {
		e := &now.Delta[i]
		if !e.Kind.OfOrder() {
			continue
		}
		var b ledger.OrderBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		if b.State.Live() {
			n.records[e.Order] = laneRecord{b.SKU, b.Quantity}
		} else {
			delete(n.records, e.Order)
		}
	}
	n.version, n.terms, n.applied = now.Sale.Version, now.Sale.Terms, now.Seq
	n.stock, n.left = make(map[string]int64), make(map[string]int64)
	for i := range now.Sale.Items {
		it := &now.Sale.Items[i]
		n.stock[it.SKU], n.left[it.SKU] = it.Stock, it.Stock-it.Sold
	}
	return nil
}

// save keeps the present state as that of a replica which lags behind.
func (n *lane) save() {
	old := *n
	old.backup = nil
	old.left, old.stock, old.records = maps.Clone(n.left), maps.Clone(n.stock), maps.Clone(n.records)
	old.tray = append([]ledger.Attempt(nil), n.tray...)
	n.backup = &old
}

// relapse goes back to the state of the replica. What the builders and the buyers
// know is not the lane's to forget.
func (n *lane) relapse() {
	if n.backup == nil || n.backup.epoch != n.epoch || n.frozen != 0 {
		return
	}
	old := *n.backup
	old.ever, old.build, old.seen, old.stale = n.ever, n.build, n.seen, true
	*n = old
}

func (n *lane) portrait() string {
	live := 0
	for _, r := range n.records {
		if r.quantity > 0 {
			live++
		}
	}
	return fmt.Sprintf("lane: epoch %d frozen %d stale %v version %d terms %d applied %d left %v, %d of %d live, %d queued\n",
		n.epoch, n.frozen, n.stale, n.version, n.terms, n.applied, n.left, live, len(n.records), len(n.tray))
}

// differs says in what a lane at rest is not the ledger's mirror; orders are all
// of the sale.
func (n *lane) differs(s *sale.Sale, orders []sale.Order) string {
	for i := range s.Items {
		it := &s.Items[i]
		if n.left[it.SKU] != it.Stock-it.Sold {
			return fmt.Sprintf("P2 the lane has %d of %s left, the ledger %d", n.left[it.SKU], it.SKU, it.Stock-it.Sold)
		}
	}
	live := make(map[sale.OrderID]laneRecord)
	for i := range orders {
		if o := &orders[i]; o.State.Live() {
			live[o.ID] = laneRecord{o.SKU, o.Quantity}
		}
	}
	held := maps.Clone(n.records)
	maps.DeleteFunc(held, func(_ sale.OrderID, r laneRecord) bool { return r.quantity == 0 })
	if !maps.Equal(held, live) {
		return fmt.Sprintf("P2 the lane holds %v, the ledger %v", held, live)
	}
	return ""
}
