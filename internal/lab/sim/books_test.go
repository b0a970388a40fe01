package sim

import (
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// books is the sale recounted, row by row, from what the ledger has committed.
// Nothing in it comes from a counter of the ledger's.
type books struct {
	sale   sale.Sale // the rules in force; its counters are not looked at
	live   []int64   // by item
	orders map[sale.OrderID]sale.Order
	seq    uint64
	head   [32]byte
	last   uint64 // number of the last row that lanes must learn of
	users  map[string]*tally
	wrong  string // the first thing that is
}

// tally is what a user counts for.
type tally struct {
	live, refunded int64
}

func newBooks() *books {
	return &books{orders: make(map[sale.OrderID]sale.Order), users: make(map[string]*tally)}
}

func (b *books) broken(format string, args ...any) {
	if b.wrong == "" {
		b.wrong = fmt.Sprintf(format, args...)
	}
}

func (b *books) user(name string) *tally {
	if b.users[name] == nil {
		b.users[name] = &tally{}
	}
	return b.users[name]
}

// commit books one transaction.
func (b *books) commit(c *ledger.Changes) {
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Seq != b.seq+1 || e.Hash != e.ChainHash(b.head) {
			b.broken("journal: row %d does not follow row %d", e.Seq, b.seq)
		}
		b.seq, b.head = e.Seq, e.Hash
		if e.Kind.ForLane() {
			b.last = e.Seq
		}
	}
	for i := range c.Orders {
		b.move(&c.Orders[i])
	}
	if c.Revised != nil {
		b.revise(c.Revised)
	}
	for i := range b.sale.Items {
		if it := &b.sale.Items[i]; b.live[i] > it.Stock || b.live[i] < 0 {
			b.broken("P1: after row %d item %s has %d live of %d", b.seq, it.SKU, b.live[i], it.Stock)
		}
	}
}

func (b *books) revise(next *sale.Sale) {
	if b.live == nil {
		b.live = make([]int64, len(next.Items))
	}
	if next.Epoch < b.sale.Epoch || next.Version < b.sale.Version || next.BuildToken < b.sale.BuildToken {
		b.broken("journal: after row %d epoch %d, version %d, token %d follow %d, %d, %d", b.seq, next.Epoch, next.Version, next.BuildToken,
			b.sale.Epoch, b.sale.Version, b.sale.BuildToken)
	}
	b.sale = next.Clone()
}

func (b *books) move(c *ledger.OrderChange) {
	o := c.After
	old, known := b.orders[o.ID]
	from := sale.Queued
	if known {
		from = old.State
	}
	switch {
	case c.From != from || !from.CanBecome(o.State):
		b.broken("P6: row %d moves order %s of %s, which is %s, from %s to %s", b.seq, o.ID, o.User, from, c.From, o.State)
	case o.Version != old.Version+1:
		b.broken("P6: row %d takes order %s from version %d to %d", b.seq, o.ID, old.Version, o.Version)
	case known && (old.User != o.User || old.SKU != o.SKU || old.Quantity != o.Quantity || old.Amount != o.Amount):
		b.broken("P4: row %d makes %+v of %+v", b.seq, o, old)
	}
	item, err := b.sale.Item(o.SKU)
	if err != nil {
		b.broken("P4: row %d is about item %q", b.seq, o.SKU)
		return
	}
	u := b.user(o.User)
	if o.State.Live() && !from.Live() {
		counted := u.live
		if b.sale.LimitRule == sale.LimitEverPaid {
			counted += u.refunded
		}
		if counted+o.Quantity > b.sale.PerUserLimit {
			b.broken("P3: row %d gives %d to %s, who counts for %d of %d", b.seq, o.Quantity, o.User, counted, b.sale.PerUserLimit)
		}
		b.live[item] += o.Quantity
		u.live += o.Quantity
	}
	if from.Live() && !o.State.Live() {
		b.live[item] -= o.Quantity
		u.live -= o.Quantity
	}
	if o.State == sale.Refunded {
		u.refunded += o.Quantity
	}
	b.orders[o.ID] = o
}

// free returns the units of an item that nobody holds.
func (b *books) free(item int) int64 { return b.sale.Items[item].Stock - b.live[item] }

// reaches reports whether an order may get from one state to another, or is there.
func reaches(from, to sale.OrderState) bool {
	if from == to {
		return true
	}
	for _, next := range sale.OrderStates() {
		if from.CanBecome(next) && reaches(next, to) {
			return true
		}
	}
	return false
}
