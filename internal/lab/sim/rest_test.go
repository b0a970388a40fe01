package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// tickTime is how often the parts of an instance look for themselves.
	tickTime = 500 * time.Millisecond
	// restTicks is within how many of them everything must have come to rest.
	restTicks = 60
	// tidyTicks is the same for lanes of a sale that has left them: keepers that have seen
	// them gone look again after a minute, if a server has them again.
	tidyTicks = 130
	// sellTicks is how long a unit that is free may not be sold: two seconds.
	sellTicks = 4
)

// rest ends the faults, gives everything time, and demands that nothing is left
// over: no slip, no difference between lane and ledger, no unit that cannot be sold.
func (w *world) rest() {
	w.trace.add("quiet")
	w.plan.loss = 0
	w.comeUp()
	w.skew = 0
	if w.rng.IntN(2) == 0 {
		w.store.refuses = ""
	}
	w.arrive()
	for slot := range w.slots {
		if w.slots[slot] == nil {
			w.start(slot)
			w.settle()
		}
	}
	if w.books.sale.State == sale.Paused {
		w.operate(sale.Change{Action: sale.ActionResume})
	}
	w.even()
	w.present()
	w.even()
	if w.wanted() {
		w.sellOut()
	}
	if w.rng.IntN(3) == 0 && !w.gone() {
		w.again()
	}
	w.recount()
}

// arrive carries out what is on its way until every action has ended.
func (w *world) arrive() {
	for range maxSteps * len(w.lanes) {
		if w.failure != "" {
			return
		}
		w.tick++
		switch ready := w.ready(); {
		case len(ready) > 0:
			w.decide(ready[w.rng.IntN(len(ready))])
		case w.running > 0:
			w.trace.add("time")
			w.pass(tickTime)
			w.settle()
			w.expire()
		default:
			return
		}
		w.settle()
		w.look()
	}
	w.fail("the calls do not end")
}

func (w *world) operate(c sale.Change) {
	if _, err := ledger.New(w.store).ChangeSale(context.Background(), slug, 0, c); err != nil {
		w.fail("the operator's %s is refused: %v", c.Action, err)
	}
	w.booked()
}

// round has every part of every instance look once.
func (w *world) round() {
	ctx := straight()
	w.rounds++
	for _, i := range w.slots {
		for l := range w.lanes {
			_ = i.workers[l].Step(ctx)
			if w.rounds%4 == 0 {
				_ = i.couriers[l].Measure(ctx)
			}
			i.couriers[l].Step(ctx)
		}
		i.keeper.Look(ctx)
		i.sweeper.Sweep(ctx, time.Now())
		w.settle()
		w.look()
	}
	w.arrive()
}

// even lets time pass until ledger and counter agree.
func (w *world) even() {
	why := ""
	for tick := range tidyTicks {
		if w.failure != "" {
			return
		}
		w.round()
		if why = w.uneven(); why == "" {
			return
		}
		if tick >= restTicks && !strings.HasSuffix(why, leftBehind) {
			break
		}
		w.trace.remark(func() string { return "not yet: " + why })
		w.trace.add("time")
		w.pass(tickTime)
	}
	w.fail("P2: no rest: %s", why)
}

// uneven says in what lane and ledger differ.
func (w *world) uneven() string {
	s := &w.books.sale
	at, err := w.mem.ReadAll(context.Background(), w.lanes)
	if err != nil {
		return err.Error()
	}
	if n := w.queued(); n > 0 {
		return fmt.Sprintf("%d entries in the trays", n)
	}
	if s.Path == sale.PathDirect && s.Preferred == sale.PathFast && w.wanted() {
		return "the sale is not on the fast path"
	}
	for l := range at {
		if why := w.behind(&at[l]); why != "" {
			return fmt.Sprintf("lane %d %s", l, why)
		}
	}
	if s.Path == sale.PathDirect {
		return ""
	}
	if under := stock.Underway(at); len(under) > 0 {
		return fmt.Sprintf("%d units are on their way from lane %d to lane %d", under[0].Units, under[0].From, under[0].To)
	}
	for i := range w.sale.Items {
		if left := stock.Left(at, i); left != w.books.free(i) {
			return fmt.Sprintf("the lanes have %d left of item %d, the ledger %d", left, i, w.books.free(i))
		}
		for l := range at {
			if at[l].Left[i] < 0 {
				return fmt.Sprintf("lane %d owes %d units of item %d", l, -at[l].Left[i], i)
			}
		}
	}
	return w.records()
}

// leftBehind is what behind says of a lane that its sale has left.
const leftBehind = "is still there"

// behind says in what one lane differs from the sale.
func (w *world) behind(at *stock.Standing) string {
	s := &w.books.sale
	switch {
	case w.gone() && (w.rough || at.Epoch == 0): // nobody looks after what a server that went back in time has again
		return ""
	case s.Path == sale.PathDirect && at.State != stock.Cold:
		return leftBehind
	case s.Path == sale.PathDirect:
		return ""
	case at.State != stock.Open || at.Epoch != s.Epoch:
		return fmt.Sprintf("is %s in epoch %d, the sale in %d", at.State, at.Epoch, s.Epoch)
	case at.Version != s.Version:
		return fmt.Sprintf("has version %d, the sale %d", at.Version, s.Version)
	case at.Applied < w.books.last:
		return fmt.Sprintf("knows the journal to %d of %d", at.Applied, w.books.last)
	}
	return ""
}

// records compares what the lanes have recorded with the orders.
func (w *world) records() string {
	want := make(map[sale.OrderID]int64)
	users := make(map[string]bool)
	for id, o := range w.books.orders {
		users[o.User] = true
		if o.State.Live() {
			want[id] = o.Quantity
		}
	}
	for _, s := range w.stories {
		users[s.user] = true
	}
	for user := range users {
		for _, l := range w.lanes {
			found, err := w.mem.Records(context.Background(), l, user)
			if err != nil {
				return err.Error()
			}
			for _, r := range found.Orders {
				if r.Quantity == 0 {
					continue
				}
				if want[r.ID] != r.Quantity || l.Index != stock.Home(user, len(w.lanes)) {
					return fmt.Sprintf("lane %d has recorded %d for an order of %s that holds %d", l.Index, r.Quantity, user, want[r.ID])
				}
				delete(want, r.ID)
			}
		}
	}
	if len(want) > 0 {
		return fmt.Sprintf("the lanes lack %d orders", len(want))
	}
	return ""
}

// present demands that what was taken has become an order, and has buyers bring the
// receipts of what the counter has lost.
func (w *world) present() {
	for _, id := range w.told {
		s := w.stories[id]
		if _, held := w.books.orders[id]; held || s.taken == 0 || w.failure != "" || w.parked(id) {
			continue
		}
		if !w.rough {
			w.fail("P5: what %s was told to be taken never became an order", s.user)
			return
		}
		if s.receipt == "" || s.user == w.store.refuses {
			continue
		}
		i := w.slots[len(s.user)%2]
		a := &action{verb: "receipt", at: i, id: id, user: s.user, item: s.item}
		w.begin(a, func(ctx context.Context) answer {
			o, err := i.engine.OrderByReceipt(ctx, id, s.user, s.receipt)
			return answer{order: o, found: err == nil, err: err}
		})
		w.settle()
		w.arrive()
		if w.failure == "" && !a.answer.found {
			w.fail("P5: the receipt of %s is not honoured: %v", s.user, a.answer.err)
		}
	}
}

// gone reports whether the sale was put away.
func (w *world) gone() bool { return w.books.sale.State == sale.Deleted }

// wanted reports whether the sale still sells.
func (w *world) wanted() bool {
	return w.books.sale.State != sale.Closed && !w.gone() && w.store.now().Before(w.books.sale.EndsAt)
}

// again has buyers repeat what they got orders for: each gets the same again,
// whatever has become of the sale.
func (w *world) again() {
	w.pass(memoryLife) // until memory knows of buyers whom the other instance has served
	w.round()
	for _, id := range w.told {
		o, held := w.books.orders[id]
		s := w.stories[id]
		if !held || w.failure != "" || w.rough && !o.State.Live() {
			continue // what a lane has forgotten, it learns again of orders that live
		}
		ask := engine.Request{Sale: slug, User: s.user, Key: s.key, SKU: o.SKU, Quantity: o.Quantity}
		slot := w.rng.IntN(2)
		r := w.ask(slot, ask)
		for try := 0; try < sellTicks && r.err != nil; try++ {
			w.pass(tickTime)
			w.round()
			slot = try % 2
			r = w.ask(slot, ask)
		}
		if w.rough && r.err == nil && r.verdict == sale.SoldOut {
			if r = w.renewed(slot, ask); !w.books.orders[id].State.Live() {
				continue
			}
		}
		if now := w.books.orders[id]; w.failure == "" && (r.verdict != sale.Replayed || r.order.State != now.State) {
			w.fail("P4: %s repeats what is %s and is told %s %s %v", s.user, now.State, r.verdict, r.order.State, r.err)
		}
	}
}

// renewed asks an instance that could not notice that the lane went back, once it has
// read anew who holds something. Strangers ask before, each second, so that it is
// memory that answers.
func (w *world) renewed(slot int, r engine.Request) (a answer) {
	probe := r
	for second := 0; second <= int(holdersLife/memoryLife); second++ {
		w.pass(memoryLife)
		w.round()
		for number := second; ; number++ {
			if probe.User = w.stranger(number); stock.Home(probe.User, len(w.lanes)) == stock.Home(r.User, len(w.lanes)) {
				break
			}
		}
		probe.Key = "probe" + n(int64(second))
		item, _ := w.sale.Item(r.SKU)
		w.stories[w.sale.OrderID(probe.User, probe.Key)] = &story{user: probe.User, key: probe.Key, item: item}
		w.ask(slot, probe)
	}
	return w.ask(slot, r)
}

// ask has one buyer ask, and waits for the answer.
func (w *world) ask(slot int, r engine.Request) answer {
	i := w.slots[slot]
	item, _ := w.sale.Item(r.SKU)
	a := &action{verb: "buy", at: i, id: w.sale.OrderID(r.User, r.Key), user: r.User, item: item, quantity: r.Quantity}
	i.buys++
	w.begin(a, i.buying(r))
	w.settle()
	w.arrive()
	return a.answer
}

// parked reports whether a slip is a dead letter, whose order is told to be rejected.
func (w *world) parked(id sale.OrderID) bool {
	o, err := ledger.New(w.store).Order(context.Background(), id)
	return err == nil && o.State == sale.Rejected
}

// sellOut has buyers come until nothing is left. All must be sold, none twice, and
// nobody may be sent away for longer than two seconds while a unit is free.
func (w *world) sellOut() {
	refused := 0
	for buyer := 0; w.failure == ""; buyer++ {
		item := slices.IndexFunc(w.sale.Items, func(it sale.Item) bool {
			i, _ := w.sale.Item(it.SKU)
			return w.books.free(i) > 0
		})
		if item < 0 || !w.wanted() {
			break
		}
		if buyer > 40 {
			w.fail("P2: the sale cannot be sold out")
			return
		}
		user, old := w.buyer(buyer)
		want := w.basket(user, item)
		r := w.shop(buyer, item, want)
		switch {
		case w.failure != "" || !w.wanted():
			return
		case r.err == nil && r.verdict == sale.Taken:
			refused = 0
			w.even()
			continue
		case r.err == nil && r.verdict == sale.LimitReached && old:
			w.round() // an attempt that he gave up waiting for may have come before this one
			if w.counted(user)+want.quantity <= w.sale.PerUserLimit {
				w.fail("P3: %s is told that the limit is reached, and it is not", user)
			}
			continue
		case r.err == nil && r.verdict == sale.CoolDown && old && w.sale.MaxUnpaidHolds > 0:
			continue
		}
		if w.leased() { // a builder is gone, and others wait until they can know it
			refused = 0
		}
		if refused++; refused > 2*sellTicks {
			w.fail("P2: for two seconds buyers are told %s %v while %d units are free", r.verdict, r.err, w.books.free(item))
		}
		w.pass(tickTime / 2)
		w.round()
	}
	if w.failure != "" {
		return
	}
	if r := w.shop(99, 0, basket{"last", 1}); r.err == nil && r.verdict == sale.Taken {
		w.even()
		if o := w.books.orders[w.sale.OrderID("last", "last99")]; o.State.Live() {
			return // a hold was over just then
		}
	}
}

// leased reports whether a build has begun that keeps others away.
func (w *world) leased() bool {
	s := &w.books.sale
	return s.BuildToken > s.Epoch && w.store.now().Before(s.BuildAt.Add(ledger.BuildLease))
}

// buyer returns who comes next: somebody who was there before and may buy again,
// then strangers.
func (w *world) buyer(number int) (user string, old bool) {
	if number < w.plan.users {
		if name := userName(number); w.counted(name) < w.sale.PerUserLimit {
			return name, true
		}
	}
	return w.stranger(number), false
}

// stranger names somebody who was never there, each from the next lane.
func (w *world) stranger(number int) string {
	for try := int64(0); ; try++ {
		name := "z" + n(int64(number)) + n(try)
		if stock.Home(name, len(w.lanes)) == number%len(w.lanes) {
			return name
		}
	}
}

// counted is what counts against a user's limit.
func (w *world) counted(user string) int64 {
	u := w.books.user(user)
	if w.sale.LimitRule == sale.LimitEverPaid {
		return u.live + u.refunded
	}
	return u.live
}

// basket is what one of the last buyers wants.
type basket struct {
	user     string
	quantity int64
}

// basket draws how much a buyer takes of what is free and his limit leaves him.
func (w *world) basket(user string, item int) basket {
	most := min(w.sale.PerUserLimit-w.counted(user), w.books.free(item))
	if len(w.lanes) == 1 || most < 2 {
		return basket{user, 1}
	}
	return basket{user, 1 + w.rng.Int64N(most)}
}

func (w *world) shop(number, item int, b basket) answer {
	key := "last" + n(int64(number))
	w.stories[w.sale.OrderID(b.user, key)] = &story{user: b.user, key: key, item: item}
	return w.ask(number%2, engine.Request{Sale: slug, User: b.user, Key: key, SKU: w.sale.Items[item].SKU, Quantity: b.quantity})
}

// recount has the examiner of ledgers go through everything that is stored.
func (w *world) recount() {
	if w.failure != "" || !w.plan.recount {
		return
	}
	ctx := context.Background()
	err := w.store.Snapshot(ctx, func(r ledger.Reader) error {
		wrong, err := ledgertest.Recount(ctx, r, w.sale.Number)
		if len(wrong) > 0 {
			w.fail("%s", wrong[0])
		}
		return err
	})
	if err != nil {
		w.fail("the ledger cannot be recounted: %v", err)
	}
}
