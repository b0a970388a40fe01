package memlimit

import (
	"strings"
	"sync"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

const (
	shardCount = 64
	// sweep is how many entries are looked at for one that is new, so that what
	// is idle goes about as fast as new ones come.
	sweep = 4
	// search is how many are looked at if there is no room.
	search = 64
)

// shard is a part of the subjects.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
	ring    []*entry // the same, for the hand that looks for idle ones
	hand    int
	room    int
	spill   entry // counts for those who found no room
	_       [64]byte
}

// entry is one subject.
type entry struct {
	subject string
	counts  []count
}

// own returns the count of a rate's name and algorithm, whatever rate it follows, or
// nil.
func (e *entry) own(p *plan.Plan) *count {
	for i := range e.counts {
		c := &e.counts[i]
		if c.plan.Rate.Name == p.Rate.Name && c.plan.Rate.Algorithm == p.Rate.Algorithm {
			return c
		}
	}
	return nil
}

// of returns the count of a rate as it is now: what it would be, if it has followed
// another one. See keep.
func (e *entry) of(p *plan.Plan, now int64) *count {
	if c := e.own(p); c != nil {
		if c.plan != p && c.plan.Rate != p.Rate { // equal rates may have several plans
			c = c.as(p, now)
		}
		c.pass(now)
		return c
	}
	e.drop(now) // names that nobody uses any more do not pile up
	e.counts = append(e.counts, newCount(p, now))
	return &e.counts[len(e.counts)-1]
}

// keep makes a count that of has returned, and that was changed, the one that
// counts.
func (e *entry) keep(c *count) {
	if own := e.own(c.plan); own != nil && own != c {
		*own = *c
	}
}

// drop forgets idle counts of an entry that has many.
func (e *entry) drop(now int64) {
	if len(e.counts) < limit.MaxRates {
		return
	}
	kept := e.counts[:0]
	for i := range e.counts {
		if !e.counts[i].idle(now) {
			kept = append(kept, e.counts[i])
		}
	}
	clear(e.counts[len(kept):])
	e.counts = kept
}

func (e *entry) idle(now int64) bool {
	for i := range e.counts {
		if !e.counts[i].idle(now) {
			return false
		}
	}
	return true
}

// find returns a subject's entry, which is new if there was none, or nil if there
// is no room.
func (s *shard) find(subject string, now int64) *entry {
	if e := s.entries[subject]; e != nil {
		return e
	}
	s.clean(sweep, now)
	if len(s.ring) >= s.room {
		s.clean(search, now)
	}
	if len(s.ring) >= s.room {
		return nil
	}
	e := &entry{subject: strings.Clone(subject)}
	s.entries[e.subject] = e
	s.ring = append(s.ring, e)
	return e
}

// clean looks at n entries and forgets the idle ones.
func (s *shard) clean(n int, now int64) {
	for range min(n, len(s.ring)) {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		if e := s.ring[s.hand]; e.idle(now) {
			s.forget(s.hand)
		} else {
			s.hand++
		}
	}
}

func (s *shard) forget(i int) {
	delete(s.entries, s.ring[i].subject)
	last := len(s.ring) - 1
	s.ring[i], s.ring[last] = s.ring[last], nil
	s.ring = s.ring[:last]
}
