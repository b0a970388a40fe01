package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// memoryLife is how long an instance may send buyers away without asking.
	memoryLife = time.Second
	// holdersLife is how long it may believe what it has read of who holds something.
	holdersLife = 31 * time.Second
	// lookLimit is how long it waits for the ledger to say what has become of an order.
	lookLimit = time.Second
)

// answers takes in what has been answered since the last step.
func (w *world) answers() {
	w.mu.Lock()
	done, builds := w.done, w.builds
	w.done, w.builds = nil, nil
	w.mu.Unlock()
	for _, why := range builds {
		w.trace.add("built ", string(why))
		if (why == handover.WhyLoss || why == handover.WhyStale) && !w.rough {
			w.fail("P2: a keeper finds a loss, and the counter has lost nothing")
		}
	}
	slices.SortFunc(done, func(a, b *action) int { return cmp.Compare(a.number, b.number) })
	if len(done) > 0 {
		w.booked() // what is answered is in the ledger by now
	}
	for _, a := range done {
		w.running--
		w.current = slices.DeleteFunc(w.current, func(x *action) bool { return x == a })
		if a.part != "" {
			a.at.busy[a.part] = false
		}
		if a.verb == "buy" {
			a.at.buys--
			if a.repeat {
				a.at.repeats--
			}
		}
		w.heard(a)
	}
}

// heard judges one answer.
func (w *world) heard(a *action) {
	r := &a.answer
	if a.gone {
		w.trace.add("answer ", n(int64(a.number)), " reaches nobody")
		return
	}
	code := sale.Code("")
	if r.err != nil {
		code = sale.CodeOf(r.err)
	}
	w.trace.add("answer ", n(int64(a.number)), " ", a.verb, " ", a.user, " ", string(r.verdict), " ", string(r.order.State), " ", string(code))
	if r.err != nil {
		w.trace.remark(r.err.Error)
	}
	if a.at.dead {
		return // nobody has heard it
	}
	if a.part == "" && r.err != nil && !business(r.err) {
		w.fail("P9: %s answers %v, which has no code", a.verb, r.err)
	}
	s := w.stories[a.id]
	if s == nil {
		return
	}
	if r.found {
		w.told1(a, s)
		return
	}
	if a.verb == "buy" && r.err == nil && r.verdict == sale.NoSuchSale {
		if !w.gone() {
			w.fail("P9: %s is told that there is no such sale", a.user)
		}
		return // its name is free; who has an order knows its id
	}
	if a.verb == "buy" && r.err == nil && !w.rough {
		w.refusedTruly(a)
	}
	told := s.told != "" && s.since < a.began
	if a.at.short.Load() && a.start.Sub(s.last) < memoryLife {
		told = false // memory may refuse for a second whom another instance has served
	}
	if a.verb == "buy" && r.err == nil && told && !w.rough && r.verdict != sale.KeyMismatch {
		w.fail("P4: %s is told %s for a key whose order was %s", a.user, r.verdict, s.told)
	}
	if code == sale.CodeOrderNotFound && told && !w.rough && a.verb != "pay" && a.verb != "refund" {
		w.fail("P4: %s is told by %s that there is no order; it was %s", a.user, a.verb, s.told)
	}
}

// told1 judges an answer with an order in it.
func (w *world) told1(a *action, s *story) {
	o := &a.answer.order
	if o.ID != a.id && (a.verb != "pay" || o.Replaces != a.id) || o.User != a.user {
		w.fail("P4: %s asked by %s for %s and got %s of %s", a.user, a.verb, a.id, o.ID, o.User)
		return
	}
	truth, held := w.books.orders[o.ID]
	if !held && o.State == sale.Rejected && w.parked(o.ID) {
		return // until an operator decides otherwise
	}
	switch {
	case o.State != sale.Queued && (!held || !reaches(o.State, truth.State)):
		w.fail("P5: %s is told %s by %s; the ledger says %q", a.user, o.State, a.verb, truth.State)
	case o.State != sale.Queued && (o.SKU != truth.SKU || o.Quantity != truth.Quantity || o.Amount != truth.Amount):
		w.fail("P4: %s is told %+v; the ledger has %+v", a.user, *o, truth)
	case a.verb == "buy" && !w.rough && (o.SKU != w.sale.Items[a.item].SKU || o.Quantity != a.quantity):
		w.fail("P4: %s bought %d of item %d and is told %+v", a.user, a.quantity, a.item, *o)
	}
	if o.ID != a.id {
		return
	}
	if s.told != "" && s.since < a.began && !reaches(s.told, o.State) && !w.excused(a, o) {
		w.fail("P4: %s is told %s by %s, after %s", a.user, o.State, a.verb, s.told)
	}
	if a.answer.verdict == sale.Taken {
		if s.taken++; s.taken > 1 && !w.rough {
			w.fail("P4: %s is told for the second time that the order of one key was taken", a.user)
		}
	}
	if s.told == "" || reaches(s.told, o.State) {
		if s.told != o.State {
			s.told, s.since = o.State, w.tick
		}
		s.last = time.Now()
	}
	if a.answer.receipt != "" {
		s.receipt = a.answer.receipt
	}
}

// excused reports whether an order may be called queued though it was judged: the
// ledger did not answer the call, or not in time, or the counter has forgotten.
func (w *world) excused(a *action, o *sale.Order) bool {
	return o.State == sale.Queued && (w.rough || a.at.ledgerFails != a.fails || time.Since(a.start) >= lookLimit)
}

// watch looks at a change before it is booked.
func (w *world) watch(c *ledger.Changes) {
	for i := range c.Orders {
		o := &c.Orders[i].After
		w.trace.add("  ", o.User, " ", string(c.Orders[i].From), " -> ", string(o.State), " ", string(o.Reason))
		if !o.Replaces.IsZero() {
			w.replaced = true
		}
		if o.State == sale.Rejected && o.Reason == sale.RejectedSoldOut && !w.rough && !w.replaced && !w.cut {
			w.fail("P2: %s was queued and is robbed, without any fault of the counter's", o.User)
		}
	}
	if c.Revised == nil {
		return
	}
	for i := range w.books.sale.Items {
		fewer := c.Revised.Items[i].Stock < w.books.sale.Items[i].Stock
		w.cut = w.cut || fewer && (len(w.lanes) == 1 || len(c.Orders) > 0) // by a refund
	}
	w.trace.remark(func() string {
		return "sale " + string(c.Revised.State) + " v" + n(c.Revised.Version) + " " + string(c.Revised.Path) + " e" + n(c.Revised.Epoch) + " t" + n(c.Revised.BuildToken)
	})
	if c.Revised.State == sale.Deleted && !w.rough && (!w.cleared() || w.queued() > 0) {
		w.fail("P5: the sale is put away, and its lanes are still there")
	}
	if w.books.sale.Path == sale.PathFast && c.Revised.Path == sale.PathDirect && w.troubled && !w.drained() {
		w.rough = true // a counter that does not answer is left as it is
	}
}

// cleared reports whether the counter has nothing of the sale. A late call of a builder
// may have frozen what was not there any more.
func (w *world) cleared() bool {
	at, err := w.mem.ReadAll(context.Background(), w.lanes)
	return err == nil && !slices.ContainsFunc(at, func(s stock.Standing) bool { return s.Epoch != 0 })
}

// drained reports whether nobody can be queued in a lane any more.
func (w *world) drained() bool {
	at, err := w.mem.ReadAll(context.Background(), w.lanes)
	open := slices.ContainsFunc(at, func(s stock.Standing) bool { return s.State == stock.Open })
	return err == nil && !open && w.queued() == 0
}

// queued returns the entries in the trays.
func (w *world) queued() (entries int) {
	if w.down {
		return 1
	}
	for _, l := range w.lanes {
		found, _ := w.mem.Look(straight(), l, "", 100)
		entries += len(found)
	}
	return entries
}
