package sim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// callTimeout is the deadline that instances give their calls. No sum of it and the
// intervals of the real code meets another: timers of one instant fire in any order.
const callTimeout = 937 * time.Millisecond

// instance is one start of one process: the real parts over ports of its own.
type instance struct {
	world  *world
	name   string
	ctx    context.Context //nolint:containedctx // the life of the instance; a crash ends it
	cancel context.CancelFunc
	dead   bool // wire's lock

	engine   *engine.Engine
	keeper   *handover.Keeper
	workers  []*settle.Worker  // by lane
	couriers []*settle.Courier // by lane
	sweeper  *settle.Sweeper
	letters  *settle.DeadLetters
	desk     ledger.Ledger // where an operator looks for letters

	busy        map[string]bool // parts that do one thing at a time
	buys        int             // under way
	repeats     int             // of them of keys used before
	short       atomic.Bool     // it has seen an item sold out
	looks       atomic.Int64    // at the clock
	ledgerFails int             // calls of the engine's to the ledger that failed
}

// start brings an instance to life with an empty memory. Each has a Book of its own
// over the one store, so it hears of its own commits alone.
func (w *world) start(slot int) {
	w.starts++
	i := &instance{world: w, name: "AB"[slot:slot+1] + n(int64(w.starts)), busy: make(map[string]bool)}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	book := w.mutate.ledger(ledger.New(w.store))
	counter := func(role string) stock.Counter { return &counterPort{w.counter, port{i, role}} }
	books := func(role string) ledger.Ledger { return &ledgerPort{book, port{i, role}} }
	lanes := settle.LaneOptions{
		Consumer: i.name, Clock: time.Now, CallTimeout: callTimeout, Chance: func(d time.Duration) time.Duration { return d / 3 },
	}
	judge := settle.NewJudge(books(".j"), counter(".j"), lanes)
	forwarder := settle.NewForwarder(books(".f"), counter(".f"), lanes)
	for _, l := range w.lanes {
		i.workers = append(i.workers, judge.Worker(l, &w.sale))
		i.couriers = append(i.couriers, forwarder.Courier(l, &w.sale))
	}
	drains := settle.NewJudge(books(".d"), counter(".d"), lanes)
	i.keeper = handover.New(books(".k"), w.mutate.keeper(counter(".k")), handover.Options{
		CallTimeout: callTimeout, Clock: time.Now, Lanes: len(w.lanes), Drain: drains.Drain, MaxQueued: 1000, Observer: &overseer{w},
	})
	i.engine = engine.New(books(".e"), counter(".e"), engine.Options{
		CallTimeout: callTimeout, Clock: i.clock, Trouble: i.keeper.Trouble, Stale: i.keeper.Stale, WhileFrozen: i.keeper.WhileFrozen,
		Clear: i.keeper.Clear,
	})
	i.sweeper = settle.New(books(".s"), settle.Options{CallTimeout: callTimeout})
	i.desk = books(".o")
	i.letters = settle.NewDeadLetters(i.desk)
	w.slots[slot] = i
}

// clock never shows one time twice, so that it can be told from the times of an
// answer who gave it: a call takes time, and memory takes none.
func (i *instance) clock() time.Time { return time.Now().Add(time.Duration(i.looks.Add(1))) }

// overseer watches what keepers do.
type overseer struct{ world *world }

// Built implements handover.Observer. Who finds a loss where nothing was lost has
// either looked wrongly, or a lane was not told of something.
func (o *overseer) Built(_ sale.Number, why handover.Why, _ int, _ time.Duration) {
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	o.world.builds = append(o.world.builds, why)
}

// WentDirect implements handover.Observer.
func (o *overseer) WentDirect(sale.Number, handover.Why) {}

// Failed implements handover.Observer.
func (o *overseer) Failed(sale.Number, handover.Why, error) {}

// kill ends an instance as SIGKILL does. Each of its calls on the way is carried
// out or not; those to the counter may also arrive later.
func (w *world) kill(slot int) {
	i := w.slots[slot]
	w.slots[slot] = nil
	w.trace.add("crash ", i.name)
	w.wire.mu.Lock()
	i.dead = true
	delete(w.wire.heard, i)
	var own []*call
	for _, c := range w.wire.pending {
		if c.from == i {
			own = append(own, c)
		}
	}
	w.wire.mu.Unlock()
	for _, c := range own {
		switch {
		case c.left: // in the network already
		case c.kind == toCounter && w.rng.IntN(3) == 0:
			c.answer <- dropped
			w.wire.leave(c)
			w.trace.add("  stays on its way ", c.key)
		case c.kind != toOwn && c.kind != toHear && w.may(c) && w.rng.IntN(2) == 0:
			w.grant(c, unheard)
		default:
			w.grant(c, dropped)
		}
	}
	w.settle()
	i.cancel()
	w.settle()
	_ = i.engine.Close(context.Background())
	w.settle()
}

// end lets an instance go at the end of a run.
func (i *instance) end() {
	i.cancel()
	_ = i.engine.Close(context.Background())
}
