package engine

import (
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// memory is what an instance may answer on its own for one sale.
type memory struct {
	mu      sync.RWMutex
	skus    map[string]int // item by SKU; the empty SKU stands for an only item
	shelves []shelf        // by item
	buyers  map[uint64]struct{}
	// state of buyers: not asked for, being loaded, complete.
	buyersState loadState
}

func newMemory(items []sale.Item) *memory {
	m := &memory{skus: make(map[string]int, len(items)+1), shelves: make([]shelf, len(items))}
	for i := range items {
		m.skus[items[i].SKU] = i
	}
	if len(items) == 1 {
		m.skus[""] = 0
	}
	return m
}

type loadState uint8

const (
	unloaded loadState = iota
	loading
	complete
)

// shelf is the memory of one item.
type shelf struct {
	known bool  // left holds what the ledger saw
	left  int64 // quantities above it may be refused
	until time.Time
	// generation grows with every message that the item sells again; a reply to
	// a call sent under an older one is not learned.
	generation uint64
	probe      chan struct{} // closed when the probe under way is answered; nil if none
}

// ask answers an attempt of quantity units on an item at now. A second result
// that is not nil says: wait for it, then ask again.
func (m *memory) ask(item int, quantity int64, user string, now time.Time) (answer, <-chan struct{}) {
	hash := sale.UserHash(user)
	m.mu.RLock()
	a, asks := m.look(item, quantity, hash, now)
	m.mu.RUnlock()
	if !asks {
		return a, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, asks = m.look(item, quantity, hash, now); !asks {
		return a, nil
	}
	s := &m.shelves[item]
	if s.probe != nil {
		return answer{}, s.probe
	}
	s.probe = make(chan struct{})
	return answer{probe: s}, nil
}

// look returns what is answered without asking the ledger, or that it must be
// asked because the shortage remembered is too old.
func (m *memory) look(item int, quantity int64, hash uint64, now time.Time) (a answer, asks bool) {
	s := &m.shelves[item]
	if !s.known || quantity <= s.left || m.buyersState != complete {
		return answer{}, false
	}
	if _, buyer := m.buyers[hash]; buyer {
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

// stranger reports whether the user surely has no order, and whether the caller
// must start loading the buyers.
func (m *memory) stranger(user string) (known, load bool) {
	m.mu.RLock()
	state := m.buyersState
	_, buyer := m.buyers[sale.UserHash(user)]
	m.mu.RUnlock()
	if state == complete {
		return !buyer, false
	}
	return false, state == unloaded && m.startLoading()
}

// startLoading reports whether the caller is the one to load.
func (m *memory) startLoading() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buyersState != unloaded {
		return false
	}
	m.buyersState = loading
	if m.buyers == nil {
		m.buyers = make(map[uint64]struct{})
	}
	return true
}

// loaded completes the set of buyers, to which batches have been adding since
// the loading began.
func (m *memory) loaded(hashes []uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.buyersState = unloaded
		return
	}
	for _, h := range hashes {
		m.buyers[h] = struct{}{}
	}
	m.buyersState = complete
}

// generations returns each item's generation before a call is sent.
func (m *memory) generations() []uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	seen := make([]uint64, len(m.shelves))
	for i := range m.shelves {
		seen[i] = m.shelves[i].generation
	}
	return seen
}

// learn takes in the reply to a batch: first who has an order now, then what is
// left. It reports whether the caller must start loading the buyers, which a
// first shortage asks for.
func (m *memory) learn(seen []uint64, attempts []ledger.Attempt, results []ledger.Result, now time.Time) bool {
	m.mu.Lock()
	short := false
	for i := range results {
		r := &results[i]
		if r.Err != nil {
			m.mayHold(attempts[i].User)
			continue
		}
		if r.Verdict == sale.Taken || r.Verdict == sale.Replayed {
			m.mayHold(attempts[i].User)
		}
		if !countsLeft(r.Verdict) {
			continue
		}
		short = short || r.Left == 0 || r.Verdict == sale.Insufficient
		item, found := m.skus[attempts[i].SKU]
		if !found || m.shelves[item].generation != seen[item] {
			continue
		}
		s := &m.shelves[item]
		s.known, s.left, s.until = true, r.Left, now.Add(memoryLife)
	}
	m.mu.Unlock()
	return short && m.startLoading()
}

// doubt takes in that the outcome of a batch is unknown: a commit that failed may
// have been carried out, and then its buyers have orders.
func (m *memory) doubt(attempts []ledger.Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range attempts {
		m.mayHold(attempts[i].User)
	}
}

// mayHold makes a user no stranger; the lock is held. Buyers that are not known
// yet will be read from the ledger.
func (m *memory) mayHold(user string) {
	if m.buyersState != unloaded {
		m.buyers[sale.UserHash(user)] = struct{}{}
	}
}

// countsLeft reports whether a verdict came with the stock of an item on sale. It
// need not be about the stock: a probe that is refused for another reason has
// looked all the same, and those who wait for it need not go themselves. A replay
// comes before the question whether the item is on sale.
func countsLeft(v sale.Verdict) bool {
	switch v {
	case sale.Taken, sale.SoldOut, sale.Insufficient, sale.LimitReached, sale.CoolDown, sale.TermsChanged, sale.BadQuantity:
		return true
	case sale.Replayed, sale.NotStarted, sale.Ended, sale.PausedNow, sale.ClosedNow, sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem:
	}
	return false
}

// sellsAgain forgets every shortage and makes replies under way worthless.
func (m *memory) sellsAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.shelves {
		m.shelves[i].known = false
		m.shelves[i].generation++
	}
}

// forget lets the buyers go, once the sale is over and every attempt is a
// look-up anyway.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buyersState == complete {
		m.buyersState, m.buyers = unloaded, nil
	}
}
