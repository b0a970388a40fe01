package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// plan is what a run is made of. Each seed draws its own: some runs have no faults
// of some kind at all, so that what others would hide is seen.
type plan struct {
	rules   sale.Sale
	length  time.Duration
	users   int
	keys    int
	lanes   int
	recount bool // the examiner of ledgers reads all of it at the end
	heated  bool // the sale is on the fast path when the run begins

	actions int
	loss    int      // of 100 calls, those that are dropped, and those that are unheard
	slow    int      // weight of passing time
	deaths  int      // crashes, at most
	faults  int      // of the counter, at most
	kinds   []string // of faults
	mix     []verb   // what is done, and how often
}

func newPlan(rng *rand.Rand) plan {
	pick := func(v ...int) int { return v[rng.IntN(len(v))] }
	p := plan{
		users: 3 + rng.IntN(3), keys: 2, heated: rng.IntN(4) > 0, length: time.Hour,
		actions: 8 + rng.IntN(25), loss: pick(0, 0, 3, 10, 20), slow: pick(1, 2, 5), deaths: pick(0, 0, 1, 1, 2),
		faults: pick(0, 0, 0, 1, 2),
	}
	p.recount = rng.IntN(8) == 0
	s := &p.rules
	s.Title, s.Currency, s.Preferred = "Drop", "EUR", sale.PathFast
	s.PerUserLimit, s.LimitRule = int64(pick(1, 1, 2)), sale.LimitLive
	if rng.IntN(4) == 0 {
		s.LimitRule = sale.LimitEverPaid
	}
	s.Hold = time.Duration(pick(2, 4, 8, 60)) * time.Second
	if rng.IntN(4) == 0 {
		s.MaxUnpaidHolds, s.CoolDown = 2, 3*time.Second
	}
	price := int64(100)
	if rng.IntN(10) == 0 {
		price = 0
	}
	if p.lanes = pick(1, 1, 1, 1, 1, 2, 3); p.lanes > 1 { // more to gather, and more who do
		s.PerUserLimit, p.users = int64(pick(1, 2, 3)), p.users+rng.IntN(3)
	}
	for i := range pick(1, 1, 2) {
		units := pick(1, 1, 2, 3)
		if p.lanes > 1 {
			units += rng.IntN(2)
		}
		s.Items = append(s.Items, sale.Item{SKU: "item" + n(int64(i)), Title: "Item", Stock: int64(units), Price: price})
	}
	for _, kind := range []string{"stale", "wipe", "forget", "down", "clock", "refuse"} {
		if rng.IntN(2) == 0 {
			p.kinds = append(p.kinds, kind)
		}
	}
	p.mix = []verb{{"buy", 12}, {"judge", 6}, {"forward", 6}, {"keep", 3}, {"sweep", 2}}
	for _, name := range []string{"cancel", "pay", "refund", "look", "receipt", "leave", "restock", "pause", "measure", "list"} {
		p.mix = append(p.mix, verb{name, pick(0, 1, 2, 4)})
	}
	if rng.IntN(3) == 0 {
		p.mix = append(p.mix, verb{"route", 2})
	}
	if rng.IntN(10) == 0 {
		p.mix = append(p.mix, verb{"close", 1})
	}
	if rng.IntN(10) == 0 {
		p.length = 8 * time.Second
	}
	if slices.Contains(p.kinds, "refuse") {
		p.mix = append(p.mix, verb{"letters", 3})
	}
	return p
}

// verb is a kind of action, and how often it is done.
type verb struct {
	name   string
	weight int
}
