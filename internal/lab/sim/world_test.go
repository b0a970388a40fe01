package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

const slug = "drop"

// world is one run.
type world struct {
	rng     *rand.Rand
	plan    plan
	mutate  mutant
	trace   trace
	wire    wire
	store   *store
	mem     *stocktest.Mem
	counter stock.Counter // mem, or what a planted mistake makes of it
	books   *books
	sale    sale.Sale // as it was published
	lanes   []stock.Lane
	starts  int
	slots   [2]*instance

	tick    int
	waits   int // how often time has passed
	rounds  int // of the time after the faults
	running int
	mu      sync.Mutex
	done    []*action
	builds  []handover.Why // by keepers, since they were looked at
	current []*action      // under way
	told    []sale.OrderID // the keys of stories, in order
	actions int            // started
	stories map[sale.OrderID]*story
	charges []sale.Payment

	down    bool          // the counter does not answer
	cutOff  map[int]bool  // lanes whose servers do not answer
	skew    time.Duration // of the counter's clock
	saved   *stocktest.Snapshot
	crashes int
	faults  int

	scarce scarce
	seen   uint64 // sequence numbers of the lanes when they were looked at, added up

	rough    bool // the counter has lost something, so queued buyers may lose their place
	troubled bool // a call of a keeper's to the counter has failed
	replaced bool // a late payment has taken a unit past the lane
	cut      bool // the stock was cut; whoever was queued beyond it is rejected
	failure  string
}

// result is what came of a run.
type result struct {
	hash    uint64
	failure string
	lines   []string
	steps   int
}

// run leads one life, in a bubble of its own.
func run(t *testing.T, seed uint64, m mutant, keep bool) (out result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, m, keep)
		w.live()
		w.rest()
		w.close()
		out = result{hash: w.trace.sum.Sum64(), failure: w.failure, lines: w.trace.lines, steps: w.tick}
	})
	return out
}

func newWorld(seed uint64, m mutant, keep bool) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 0x0d00f_b0573f)), trace: newTrace(keep), mutate: m.orNone(),
		books: newBooks(), stories: make(map[sale.OrderID]*story), cutOff: make(map[int]bool),
	}
	w.wire.heard = make(map[*instance][]func(stock.Message))
	w.store = &store{MemStore: ledgertest.NewMemStore()}
	for i := 0; i < len(w.store.key); i += 8 {
		binary.BigEndian.PutUint64(w.store.key[i:], w.rng.Uint64())
	}
	w.mem = stocktest.NewMem(func() time.Time { return w.store.now().Add(w.skew) })
	w.counter = w.mutate.counter(w, w.mem)
	w.plan = newPlan(w.rng)
	w.mutate.plan(&w.plan)
	w.publish()
	for i := range w.plan.lanes {
		w.lanes = append(w.lanes, stock.Lane{Sale: w.sale.Number, Index: i, Salt: stock.FirstLane(&w.sale).Salt})
	}
	w.scarce.begin(len(w.sale.Items), w.sale.PerUserLimit)
	w.start(0)
	w.start(1)
	w.settle()
	if w.plan.heated {
		w.slots[0].keeper.Look(straight())
	}
	w.booked()
	return w
}

// straight returns the context of work that is done in one piece.
func straight() context.Context { return context.WithValue(context.Background(), expressKey{}, true) }

// publish enters the sale, with an operator's own book.
func (w *world) publish() {
	book := ledger.New(w.store)
	ctx := context.Background()
	now := w.store.now()
	s := w.plan.rules
	s.Slug, s.StartsAt, s.EndsAt = slug, now, now.Add(w.plan.length)
	_, err := book.CreateSale(ctx, s)
	if err == nil {
		w.sale, err = book.ChangeSale(ctx, slug, 0, sale.Change{Action: sale.ActionPublish})
	}
	if err != nil {
		w.fail("the sale cannot be published: %v", err)
	}
}

// fail notes the first thing that is wrong.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.trace.add("WRONG ", w.failure)
	}
}

// settle waits until every part is waiting for the scheduler, for time, or for
// nothing.
func (w *world) settle() { synctest.Wait() }

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}

// spread sends a piece of news to every instance.
func (w *world) spread(m stock.Message) {
	for _, i := range w.slots {
		if i == nil {
			continue
		}
		w.wire.mu.Lock()
		ears := slices.Clone(w.wire.heard[i])
		w.wire.mu.Unlock()
		w.wire.add(&call{
			from: i, role: ".news", name: string(m.Kind), kind: toHear, key: i.name + ".news." + string(m.Kind), answer: make(chan fate, 1), left: true,
			perform: func() {
				for _, fn := range ears {
					fn(m)
				}
			},
			show: func() string { return "" },
		})
	}
}

// grant decides the fate of a call.
func (w *world) grant(c *call, f fate) {
	w.wire.take(c)
	w.trace.add(c.key, " ", f.String())
	if f != dropped {
		c.perform()
		if c.kind == toWrite {
			w.settle() // whom the commit has woken goes before whom the answer wakes
		}
		w.trace.remark(c.show)
	}
	if f != arrives || c.left {
		w.noteFailure(c)
	}
	if !c.left {
		c.answer <- f
	}
}

func (w *world) noteFailure(c *call) {
	if c.kind == toCounter && (c.role == ".k" || c.role == ".d") {
		w.troubled = true
	}
	if c.role == ".e" && c.kind != toCounter && c.kind != toHear {
		c.from.ledgerFails++
	}
}

// may reports whether a call can be carried out now.
func (w *world) may(c *call) bool {
	return !w.wire.writing.Load() || c.kind != toWrite && c.kind != toOwn
}

// close ends the run. Nothing of it may stay behind in the bubble.
func (w *world) close() {
	for _, i := range w.slots {
		if i == nil {
			continue
		}
		w.wire.mu.Lock()
		i.dead = true
		pending := w.wire.pending
		w.wire.pending = nil
		w.wire.mu.Unlock()
		for _, c := range pending {
			if !c.left {
				c.answer <- dropped
			}
		}
		i.end()
		w.settle()
	}
}
