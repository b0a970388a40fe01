package engine

import (
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// memory is what an instance may answer on its own for one lane of a sale. What
// it knows is of one epoch; a younger one begins anew.
type memory struct {
	mu      sync.RWMutex
	alone   bool // no other process sells: nothing happens that this one does not see
	epoch   int64
	shelves []shelf // by item
	holders holders
	// news counts messages that the sale sells again; a reply to a call that was
	// sent before the last one says nothing of what is left.
	news uint64
}

func newMemory(items int, alone bool) *memory {
	return &memory{alone: alone, shelves: make([]shelf, items)}
}

// shelf is the memory of one item.
type shelf struct {
	known bool  // left holds what the judge of the attempts saw
	left  int64 // quantities above it may be refused
	until time.Time
	// empty says that nothing was left by the last reply, and since where that was
	// seen first: whoever got some of the item before is among the holders once
	// those are complete up to there.
	empty bool
	since stamp
	// sealed says that they were once complete up to there.
	sealed bool
	probe  chan struct{} // closed when the probe under way is answered; nil if none
}

// stamp is a place in the history of a lane or, on the direct path, of a sale.
// Nobody comes to hold units of an item that is sold out while the generation
// stays. An engine that is alone needs no stamps; they are zero.
type stamp struct {
	generation, seq uint64
}

// question is an attempt as memory sees it.
type question struct {
	epoch    int64
	item     int
	quantity int64
	user     string
}

// answer is what memory says to an attempt: refuse it, or let it pass, perhaps
// as the probe on which others wait.
type answer struct {
	refuse sale.Verdict
	left   int64
	probe  *shelf
}

// ask answers a question at now. A second result that is not nil says: wait for
// it, then ask again.
func (m *memory) ask(q *question, now time.Time) (answer, <-chan struct{}) {
	hash := sale.UserHash(q.user)
	m.mu.RLock()
	a, asks := m.look(q, hash, now)
	m.mu.RUnlock()
	if !asks {
		return a, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, asks = m.look(q, hash, now); !asks {
		return a, nil
	}
	s := &m.shelves[q.item]
	if s.probe != nil {
		return answer{}, s.probe
	}
	s.probe = make(chan struct{})
	return answer{probe: s}, nil
}

// look returns what is answered without asking anybody, or that somebody must be
// asked because the shortage remembered is too old.
func (m *memory) look(q *question, hash uint64, now time.Time) (a answer, asks bool) {
	s := &m.shelves[q.item]
	if m.epoch != q.epoch || !s.known || q.quantity <= s.left || !m.holders.cover(s, now) {
		return answer{}, false
	}
	if _, holds := m.holders.users[hash]; holds {
		return answer{}, false
	}
	if now.Before(s.until) {
		return answer{refuse: shortage(s.left), left: s.left}, false
	}
	return answer{}, true
}

func shortage(left int64) sale.Verdict {
	if left == 0 {
		return sale.SoldOut
	}
	return sale.Insufficient
}

// probed ends a probe, whatever came of it.
func (m *memory) probed(s *shelf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.probe != nil {
		close(s.probe)
		s.probe = nil
	}
}

// heard returns the number of messages so far, before a call is sent.
func (m *memory) heard() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.news
}

// lesson is what a reply teaches.
type lesson struct {
	epoch, version int64
	heard          uint64 // before the call was sent
	stamp          stamp
	holders        []uint64 // who holds something now, or may
	left           []int64  // by item, in this lane; unknown where the reply does not say
	// gone tells the items of which no other lane has any either; nil where there is
	// no other lane.
	gone  []bool
	short bool // somebody was refused for want of stock
	now   time.Time
}

const unknown = -1

// learn takes in a reply: first who holds something now, then what is left. It
// reports whether the caller must load the holders, which a shortage asks for.
func (m *memory) learn(l *lesson) (load bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders.add(l.holders)
	if l.epoch < m.epoch {
		return false
	}
	outdated := m.news != l.heard
	m.enter(l.epoch)
	m.holders.seen = l.stamp
	if outdated {
		return false
	}
	for i, left := range l.left {
		s := &m.shelves[i]
		if left == unknown {
			continue
		}
		if !s.empty || s.since.generation != l.stamp.generation {
			s.since = l.stamp
		}
		s.empty = left == 0
		s.sealed = s.sealed && s.empty
		if s.empty && l.gone != nil && !l.gone[i] {
			continue // what was proved of the other lanes is good until it is too old
		}
		// Where others sell too, any unit that is left may go at any moment.
		s.known = s.empty && (l.gone == nil || l.gone[i]) || m.alone && l.gone == nil
		s.left, s.until = left, l.now.Add(memoryLife)
		good := m.holders.cover(s, l.now) && (m.alone || !m.holders.old(l.now))
		load = load || s.known && (s.empty || l.short) && !good
	}
	return load && m.holders.begin(l.version, l.now)
}

// doubt takes in that the outcome of a batch is unknown: what failed may have been
// carried out, and then its buyers have orders.
func (m *memory) doubt(users []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders.add(users)
}

// sellsAgain forgets every shortage and makes replies under way worthless.
func (m *memory) sellsAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetShortages()
}

func (m *memory) forgetShortages() {
	m.news++
	for i := range m.shelves {
		m.shelves[i].known = false
	}
}

// enter begins a younger epoch; the lock is held. Who was known to hold something
// still is: that only means that others are asked.
func (m *memory) enter(epoch int64) {
	if epoch <= m.epoch {
		return
	}
	m.epoch = epoch
	m.forgetShortages()
	m.holders.void()
	for i := range m.shelves {
		m.shelves[i].empty, m.shelves[i].sealed = false, false
	}
}
