package traffic

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the longest time that is told from longer ones.
	longest = 10 * time.Minute
	digits  = 3
	// mostShards bounds how many books are kept side by side.
	mostShards = 8
	// mostSlots bounds the record: an hour in grains of 100 ms.
	mostSlots = 36_000
	// mostNames bounds what a server or a script can make a book grow to.
	mostNames = 64
	otherName = "other"
)

// WaitBuckets returns the upper bounds of the buckets of Slot.Waits: √2 apart, from
// 0.1 ms to about a minute. What is above the last counts in it.
func WaitBuckets() []time.Duration {
	bounds := make([]time.Duration, 0, 2*20)
	for low := 100 * time.Microsecond; low < time.Minute; low *= 2 {
		bounds = append(bounds, low, low*1414/1000)
	}
	return bounds
}

// books are what all connections enter their answers into. A histogram is large and
// bears one writer, so there are a few books, each shared by some connections.
type books struct {
	slot   time.Duration
	first  time.Duration
	shards []*shard
}

func newBooks(slot time.Duration) *books {
	b := &books{slot: slot, shards: make([]*shard, min(mostShards, runtime.GOMAXPROCS(0)))}
	for i := range b.shards {
		b.shards[i] = &shard{books: b, bounds: WaitBuckets()}
	}
	return b
}

// firstSlot returns where the first slot begins.
func firstSlot(plan []Visit, o *Options) (time.Duration, error) {
	first := min(0, plan[0].At)
	first -= (first%o.Slot + o.Slot) % o.Slot
	if slots := (plan[len(plan)-1].At - first + o.Timeout + o.Drain) / o.Slot; slots > mostSlots {
		return 0, fmt.Errorf("the record would have %d slots of %v, at most %d; choose a longer slot", slots, o.Slot, mostSlots)
	}
	return first, nil
}

// shard is one book.
type shard struct {
	books *books
	sent  atomic.Int64 // steps that left

	mu       sync.Mutex
	bounds   []time.Duration
	answers  [Classes]int64
	unsent   int64 // answers without a step that left
	verdicts names
	counts   [Kinds][]int64 // by verdict
	waited   [Classes]*hdrhistogram.Histogram
	served   [Classes]*hdrhistogram.Histogram
	late     *hdrhistogram.Histogram
	stages   names
	spent    []*hdrhistogram.Histogram // by stage
	slots    []*grain
}

// grain is a slot whose verdicts and stages are numbered.
type grain struct {
	sent     int64
	answers  [Classes]int64
	verdicts []int64
	waits    []int64
	stages   []StageSum
}

// entry is one step as it went.
type entry struct {
	step        *Step
	outcome     *Outcome
	sent, heard time.Duration // after the start; sent is unsent where there was no connection
	timing      []byte        // Server-Timing
	followed    bool          // it was no visit of the plan
}

const unsent = time.Duration(-1 << 63)

func (h *shard) enter(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	class := e.outcome.Class
	h.answers[class]++
	verdict := h.verdicts.number(e.outcome.Verdict)
	bump(&h.counts[e.step.Kind], verdict)
	waited := e.heard - e.step.Since()
	if class == TurnedOff || class == Failed {
		waited = e.heard - e.step.Due // that was no answer yet: each try counts by itself
	}
	note(&h.waited[class], waited)
	if e.sent == unsent {
		h.unsent++
	} else {
		h.at(e.sent).sent++
		note(&h.served[class], e.heard-e.sent)
		if !e.followed {
			note(&h.late, e.sent-e.step.Due)
		}
	}
	g := h.at(e.heard)
	g.answers[class]++
	if e.step.Kind == Buy {
		bump(&g.verdicts, verdict)
		if g.waits == nil {
			g.waits = make([]int64, len(h.bounds))
		}
		g.waits[bucket(h.bounds, waited)]++
		h.time(g, e.timing)
	}
}

// time enters the stages of a buy.
func (h *shard) time(g *grain, timing []byte) {
	for len(timing) > 0 {
		var s stage
		if s, timing = nextStage(timing); !s.told {
			continue
		}
		i := h.stages.numberBytes(s.name)
		for len(h.spent) <= i {
			h.spent = append(h.spent, nil)
		}
		note(&h.spent[i], s.spent)
		for len(g.stages) <= i {
			g.stages = append(g.stages, StageSum{})
		}
		g.stages[i].Count++
		g.stages[i].Sum += s.spent
	}
}

// at returns the slot of an instant.
func (h *shard) at(t time.Duration) *grain {
	i := min(mostSlots-1, max(0, int((t-h.books.first)/h.books.slot)))
	for len(h.slots) <= i {
		h.slots = append(h.slots, nil)
	}
	if h.slots[i] == nil {
		h.slots[i] = &grain{}
	}
	return h.slots[i]
}

// bump counts one in a list that grows.
func bump(counts *[]int64, i int) {
	for len(*counts) <= i {
		*counts = append(*counts, 0)
	}
	(*counts)[i]++
}

// note enters a time in a histogram, which is made when it is needed.
func note(into **hdrhistogram.Histogram, d time.Duration) {
	if *into == nil {
		*into = newHistogram()
	}
	// In range by construction, so it cannot fail.
	_ = (*into).RecordValue(min(max(1, d.Microseconds()), longest.Microseconds()))
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), digits)
}

// bucket returns the bucket of a wait.
func bucket(bounds []time.Duration, wait time.Duration) int {
	low, high := 0, len(bounds)-1
	for low < high {
		if middle := (low + high) / 2; bounds[middle] < wait {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// names numbers names in the order in which they come.
type names struct {
	numbers map[string]int
	list    []string
}

func (n *names) number(name string) int {
	i, known := n.numbers[name]
	if !known {
		i = n.add(name)
	}
	return i
}

// numberBytes is number without a copy of a known name.
func (n *names) numberBytes(name []byte) int {
	i, known := n.numbers[string(name)]
	if !known {
		i = n.add(string(name))
	}
	return i
}

func (n *names) add(name string) int {
	if n.numbers == nil {
		n.numbers = make(map[string]int)
	}
	if len(n.list) >= mostNames-1 && name != otherName {
		return n.number(otherName)
	}
	n.numbers[name] = len(n.list)
	n.list = append(n.list, name)
	return len(n.list) - 1
}
