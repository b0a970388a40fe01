package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// maxSteps bounds the part of a run in which things go wrong.
const maxSteps = 400

// live is the part of a run in which the scheduler decides what happens.
func (w *world) live() {
	for w.failure == "" && w.tick < maxSteps {
		w.step()
		if w.actions >= w.plan.actions && (w.running == 0 || w.rng.IntN(20) == 0) {
			return
		}
	}
}

// step lets one thing happen and looks at what came of it.
func (w *world) step() {
	w.tick++
	ready := w.ready()
	grants := min(len(ready), 1) * 14
	starts := 0
	if w.actions < w.plan.actions {
		starts = 6
	}
	deaths := 0
	if w.crashes < w.plan.deaths && w.actions > 1 {
		deaths = 1
	}
	faults := 0
	if w.faults < w.plan.faults && len(w.plan.kinds) > 0 && w.actions > 1 {
		faults = 1
	}
	mends := 0
	if w.down || len(w.cutOff) > 0 || w.store.refuses != "" || w.slots[0] == nil || w.slots[1] == nil {
		mends = 2
	}
	slow := w.plan.slow
	if grants+starts == 0 {
		slow += 5
	}
	switch n := w.rng.IntN(grants + starts + deaths + faults + mends + slow); {
	case n < grants:
		w.decide(ready[w.rng.IntN(len(ready))])
	case n < grants+starts:
		w.something()
	case n < grants+starts+deaths:
		w.die()
	case n < grants+starts+deaths+faults:
		w.wreck()
	case n < grants+starts+deaths+faults+mends:
		w.mend()
	default:
		w.wait()
	}
	w.settle()
	w.look()
}

// ready returns the calls whose fate can be decided now, in order of key.
func (w *world) ready() []*call {
	w.wire.mu.Lock()
	all := slices.Clone(w.wire.pending)
	w.wire.mu.Unlock()
	out := all[:0]
	for _, c := range all {
		if w.may(c) {
			out = append(out, c)
		}
	}
	if w.trace.keep {
		names := make([]string, len(out))
		for i, c := range out {
			names[i] = c.key
		}
		w.trace.lines = append(w.trace.lines, "    on the way: "+strings.Join(names, ", "))
	}
	return out
}

func (w *world) decide(c *call) {
	if c.left { // late
		if w.rng.IntN(3) == 0 {
			w.grant(c, dropped)
		} else {
			w.grant(c, arrives)
		}
		return
	}
	f := arrives
	switch n := w.rng.IntN(100); {
	case n < w.plan.loss:
		f = dropped
	case n < 2*w.plan.loss:
		f = unheard
	}
	w.grant(c, f)
}

// wait lets time pass, a little more often than much.
func (w *world) wait() {
	ms := [...]int{1, 1, 5, 20, 120, 300, 501, 1001, 2100, 5100}
	most := len(ms)
	if w.rng.IntN(3) > 0 {
		most = 6
	}
	d := time.Duration(ms[w.rng.IntN(most)]) * time.Millisecond
	w.trace.add("time ", d.String())
	// Each is a little longer than the one before, so that the timers of what began at
	// different times do not end together: those of one instant fire in any order.
	w.waits++
	w.pass(d + time.Duration(w.waits)*1009*time.Nanosecond)
	w.settle()
	w.expire()
}

// expire decides the transactions whose callers have stopped waiting: their commit
// was on its way, or they are rolled back. Calls to the counter stay in the network.
func (w *world) expire() {
	w.wire.mu.Lock()
	all := slices.Clone(w.wire.pending)
	w.wire.mu.Unlock()
	for _, c := range all {
		if c.left {
			w.noteFailure(c)
		}
		if !c.left || c.kind == toCounter || c.kind == toHear {
			continue
		}
		if c.kind == toWrite && w.may(c) && w.rng.IntN(3) == 0 {
			w.grant(c, unheard)
		} else {
			w.grant(c, dropped)
		}
	}
}

func (w *world) die() {
	slot := w.rng.IntN(2)
	if w.slots[slot] == nil {
		return
	}
	w.crashes++
	w.kill(slot)
	if w.rng.IntN(2) == 0 {
		w.start(slot)
		w.trace.add("start ", w.slots[slot].name)
	}
}

// wreck does something to the counter.
func (w *world) wreck() {
	w.faults++
	kind := w.plan.kinds[w.rng.IntN(len(w.plan.kinds))]
	w.trace.add("fault ", kind)
	w.rough = w.rough || kind != "clock" && kind != "refuse"
	switch kind {
	case "clock":
		w.skew = time.Duration(w.rng.IntN(6001)-3000) * time.Millisecond
	case "refuse":
		w.store.refuses = userName(w.rng.IntN(w.plan.users))
	case "stale":
		if w.saved != nil {
			w.mem.Restore(*w.saved, w.struck()...)
		}
		w.pass(time.Millisecond) // ids of entries do not come twice
	case "wipe":
		w.mem.Wipe(w.struck()...)
		w.pass(time.Millisecond)
	case "forget":
		w.mem.Forget(w.lanes[w.someLane()])
	case "down":
		if only := w.struck(); len(only) > 0 {
			w.cutOff[only[0].Index] = true
		} else {
			w.goDown()
		}
	}
}

// struck draws whose server a fault hits: one lane's, or that of all of them (none).
func (w *world) struck() []stock.Lane {
	if len(w.lanes) == 1 || w.rng.IntN(2) == 0 {
		return nil
	}
	l := w.someLane()
	w.trace.add("  lane ", n(int64(l)))
	return w.lanes[l : l+1]
}

// away reports whether the server of a lane does not answer.
func (w *world) away(lane int) bool { return w.cutOff[lane] }

func (w *world) goDown() {
	w.down = true
	w.mem.Down()
}

func (w *world) comeUp() {
	w.down = false
	clear(w.cutOff)
	w.mem.Up()
}

// mend brings back what is away.
func (w *world) mend() {
	if (w.down || len(w.cutOff) > 0) && w.rng.IntN(2) == 0 {
		w.trace.add("counter up")
		w.comeUp()
		return
	}
	for slot := range w.slots {
		if w.slots[slot] == nil {
			w.start(slot)
			w.trace.add("start ", w.slots[slot].name)
			return
		}
	}
	if w.rng.IntN(4) == 0 {
		w.store.refuses = ""
	}
}

// look checks everything that must hold at every moment.
func (w *world) look() {
	w.booked()
	w.level()
	w.answers()
	if w.saved == nil && w.plan.faults > 0 || w.plan.faults > 0 && w.rng.IntN(12) == 0 {
		w.saved = new(stocktest.Snapshot)
		*w.saved = w.mem.Save()
	}
}

// booked writes the books and looks at them.
func (w *world) booked() {
	if len(w.store.committed) == 0 {
		return
	}
	fresh := w.store.committed
	w.store.committed = nil
	for _, c := range fresh {
		w.watch(c)
		w.books.commit(c)
	}
	w.trace.add("journal ", n(int64(w.books.seq))) //nolint:gosec // small
	if w.books.wrong != "" {
		w.fail("%s", w.books.wrong)
	}
}
