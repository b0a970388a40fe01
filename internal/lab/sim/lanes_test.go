package sim

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// level looks at the lanes: what each holds is what it took and did not give back,
// and between them they have all that there is.
func (w *world) level() {
	if w.down {
		return
	}
	at, err := w.mem.ReadAll(straight(), w.lanes)
	if err != nil {
		w.fail("the lanes cannot be read: %v", err)
		return
	}
	w.scarce.look(w, at)
	steps := uint64(0)
	for l := range at {
		steps += at[l].Seq
	}
	if steps == w.seen {
		return
	}
	w.seen = steps
	inForce := true
	for l := range at {
		s := &at[l]
		held := int64(0)
		for i := range s.Stock {
			held += s.Stock[i] + s.Moved[i] - s.Left[i]
		}
		if s.Taken-s.Returned != held {
			w.fail("P6: lane %d took %d, got back %d and holds %d", l, s.Taken, s.Returned, held)
		}
		inForce = inForce && s.State == stock.Open && s.Epoch == at[0].Epoch
	}
	if inForce {
		w.total(at)
	}
}

// total adds up lanes that sell together.
func (w *world) total(at []stock.Standing) {
	held := w.recorded()
	for i := range w.sale.Items {
		units, moved := int64(0), int64(0)
		for l := range at {
			units += at[l].Stock[i]
			moved += at[l].Moved[i]
		}
		left := stock.Left(at, i)
		if w.rough && len(at) > 1 {
			continue // one lane has forgotten what went to another, until somebody notices
		}
		if left > units {
			w.fail("P6: %d left of %d of item %d", left, units, i)
		}
		if w.rough {
			continue
		}
		if left+held[i] != units && at[0].Version == at[len(at)-1].Version {
			w.fail("P1: %d left and %d recorded of %d of item %d", left, held[i], units, i)
		}
		for _, t := range stock.Underway(at) {
			if t.Item == i {
				moved += t.Units
			}
		}
		if moved != 0 {
			w.fail("P1: %d units of item %d have come from no lane", moved, i)
		}
	}
}

// recorded returns what buyers hold by their lanes, by item.
func (w *world) recorded() []int64 {
	held := make([]int64, len(w.sale.Items))
	asked := make(map[string]bool, len(w.stories))
	for _, s := range w.stories {
		if asked[s.user] {
			continue
		}
		asked[s.user] = true
		found, err := w.mem.Records(straight(), w.lanes[stock.Home(s.user, len(w.lanes))], s.user)
		if err != nil {
			w.fail("the records of %s cannot be read: %v", s.user, err)
		}
		for _, r := range found.Orders {
			held[r.Item] += r.Quantity
		}
	}
	return held
}

// scarce remembers when there was last too little of an item.
type scarce struct {
	last [][]time.Time // by item, and by a quantity that could not be had
}

func (s *scarce) begin(items int, most int64) {
	s.last = make([][]time.Time, items)
	for i := range s.last {
		s.last[i] = make([]time.Time, most+1)
	}
}

// look takes note of what is left where the sale sells: in the lanes, or in the
// ledger.
func (s *scarce) look(w *world, at []stock.Standing) {
	now := time.Now()
	for i := range s.last {
		left := stock.Left(at, i)
		if w.books.sale.Path == sale.PathDirect {
			left = w.books.free(i)
		}
		for q := max(1, left+1); q < int64(len(s.last[i])); q++ {
			s.last[i][q] = now
		}
	}
}

// memorySpan is how old what is told from memory may be: a second, and the call
// before it.
const memorySpan = 2 * time.Second

// refusedTruly judges a refusal for want of stock: it must have been true at some
// instant of the call.
func (w *world) refusedTruly(a *action) {
	wanted := a.quantity
	if a.answer.verdict == sale.SoldOut {
		wanted = 1
	} else if left := a.answer.left; a.answer.verdict != sale.Insufficient {
		return
	} else if left < 1 || left >= a.quantity {
		w.fail("P9: %s wants %d, and %d are told to be too few", a.user, a.quantity, left)
	}
	since := a.start
	if a.answer.remembered {
		since = since.Add(-memorySpan)
	}
	if w.scarce.last[a.item][wanted].Before(since) {
		w.fail("P2: %s wants %d of item %d and is told %s, which was at no instant true", a.user, a.quantity, a.item, a.answer.verdict)
	}
}
