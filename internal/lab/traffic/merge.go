package traffic

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// live returns what all books hold, but for what was offered.
func (b *books) live() Live {
	var l Live
	for _, h := range b.shards {
		sent := h.sent.Load()
		l.Sent += sent
		h.mu.Lock()
		// A step that left in between has no answer here yet.
		l.InFlight += sent + h.unsent
		for class, n := range h.answers {
			l.Answers[class] += n
			l.InFlight -= n
		}
		h.mu.Unlock()
	}
	l.InFlight = max(0, l.InFlight)
	return l
}

// record puts the books together, when nobody writes in them any more.
func (b *books) record() *Record {
	r := &Record{Slot: b.slot, First: b.first, Late: newHistogram(), Stages: make(map[string]*hdrhistogram.Histogram)}
	for kind := range r.Verdicts {
		r.Verdicts[kind] = make(map[string]int64)
	}
	for class := range r.Waited {
		r.Waited[class], r.Served[class] = newHistogram(), newHistogram()
	}
	for _, h := range b.shards {
		h.addTo(r)
	}
	return r
}

func (h *shard) addTo(r *Record) {
	for kind, counts := range h.counts {
		for i, n := range counts {
			if n > 0 {
				r.Verdicts[kind][h.verdicts.list[i]] += n
			}
		}
	}
	for class := range r.Waited {
		merge(r.Waited[class], h.waited[class])
		merge(r.Served[class], h.served[class])
	}
	merge(r.Late, h.late)
	for i, spent := range h.spent {
		name := h.stages.list[i]
		if r.Stages[name] == nil {
			r.Stages[name] = newHistogram()
		}
		merge(r.Stages[name], spent)
	}
	for i, g := range h.slots {
		if g != nil {
			h.addSlot(r.slot(i), g)
		}
	}
}

func merge(into, from *hdrhistogram.Histogram) {
	if from != nil {
		into.Merge(from)
	}
}

// slot returns a slot of the record, which grows.
func (r *Record) slot(i int) *Slot {
	for len(r.Slots) <= i {
		r.Slots = append(r.Slots, Slot{
			Verdicts: make(map[string]int64), Waits: make([]int64, len(WaitBuckets())), Stages: make(map[string]StageSum),
		})
	}
	return &r.Slots[i]
}

func (h *shard) addSlot(s *Slot, g *grain) {
	s.Sent += g.sent
	for class, n := range g.answers {
		s.Answers[class] += n
	}
	for i, n := range g.verdicts {
		if n > 0 {
			s.Verdicts[h.verdicts.list[i]] += n
		}
	}
	for i, n := range g.waits {
		s.Waits[i] += n
	}
	for i, sum := range g.stages {
		if sum.Count > 0 {
			all := s.Stages[h.stages.list[i]]
			s.Stages[h.stages.list[i]] = StageSum{Count: all.Count + sum.Count, Sum: all.Sum + sum.Sum}
		}
	}
}

// offered enters the visits that were due.
func (r *Record) offered(plan []Visit) {
	for i := range plan {
		r.slot(int((plan[i].At-r.First)/r.Slot)).Offered++
	}
}
