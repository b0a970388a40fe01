package engine

import (
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// holders is who is known to have an order: more than there are, never fewer than
// there were at the place at. memory's lock guards it.
type holders struct {
	users   map[uint64]struct{} // by sale.UserHash; nil until the first loading begins
	loaded  bool
	loading bool
	failed  bool // the last loading
	at      stamp
	version int64     // of the sale, as it was known when they were loaded
	asked   int64     // the same of the loading under way
	until   time.Time // what changed before does not count yet
	again   time.Time // the next loading is not earlier
	began   time.Time // the loading under way or, once it is done, the last one
	seen    stamp     // of the newest reply
}

// loadInterval keeps a sale whose units come and go from being loaded all the time.
const loadInterval = time.Second

// Holders that were loaded are loaded again after holdersLife, and so much more for each
// of them that it stays cheap, where others sell too. Nothing but a lane whose server
// has gone back in time makes it necessary: there somebody may come to hold a unit at
// a number, and under a generation, that had been seen already.
const (
	holdersLife   = 30 * time.Second
	perHolderLife = 100 * time.Microsecond
)

// A reading may take a call's time, and perHolderLife more for each holder that there
// may be, but no longer than maxReading. One that fails leaves the counter alone for four
// times as long as it took, or for holdersLife if that is less, and in any case for as
// long as it took.
const (
	maxReading   = time.Minute
	failurePause = 4
)

// lockStretch is how many users are looked up, or entered, before whoever wants to ask
// has his turn.
const lockStretch = 1000

// cover reports whether everybody who may hold units of a shelf that was seen
// empty is among the holders.
func (h *holders) cover(s *shelf, now time.Time) bool {
	return h.loaded && (h.reach(s) || s.sealed && now.Before(h.until))
}

func (h *holders) reach(s *shelf) bool {
	return h.at.generation == s.since.generation && h.at.seq >= s.since.seq
}

// old reports whether the holders are to be loaded again though they cover.
func (h *holders) old(now time.Time) bool {
	return h.failed || now.Sub(h.began) >= holdersLife+time.Duration(len(h.users))*perHolderLife
}

func (h *holders) add(users []uint64) {
	if h.users == nil {
		return // they will be found by the loading
	}
	for _, u := range users {
		h.users[u] = struct{}{}
	}
}

// begin reports whether the caller is to load the holders now.
func (h *holders) begin(version int64, now time.Time) bool {
	if h.loading || now.Before(h.again) {
		return false
	}
	h.loading, h.again, h.began, h.asked = true, now.Add(loadInterval), now, version
	if h.users == nil {
		h.users = make(map[uint64]struct{})
	}
	return true
}

// void makes what was loaded, or is being loaded, good for nothing.
func (h *holders) void() {
	h.loaded, h.loading, h.failed, h.again, h.until = false, false, false, time.Time{}, time.Time{}
	h.seen = stamp{}
}

// census is everybody who was found to hold something.
type census struct {
	epoch int64
	users []uint64
	at    stamp
	until time.Time
}

// from returns the place up to which a loading that begins now will be complete,
// as far as replies have told, and the place up to which the last one was; the
// latter is zero if nothing is loaded.
func (m *memory) from() (now, last stamp) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.holders.loaded {
		last = m.holders.at
	}
	return m.holders.seen, last
}

// patience is how long a loading may take.
func (m *memory) patience(v *View, call time.Duration) time.Duration {
	var most int64 // of those who hold something
	for i := range v.Items {
		most += v.Items[i].Stock
	}
	m.mu.RLock()
	most = max(most, int64(len(m.holders.users))) // and of those who did
	m.mu.RUnlock()
	most = min(most, int64(maxReading/perHolderLife))
	return max(call, min(call+time.Duration(most)*perHolderLife, maxReading))
}

// loaded ends a loading.
func (m *memory) loaded(c *census, now time.Time, err error) {
	if err == nil {
		m.meet(c.users)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.holders
	if c.epoch != m.epoch {
		return // another loading may be under way
	}
	h.loading, h.failed = false, err != nil
	if err != nil {
		took := now.Sub(h.began)
		if rest := now.Add(max(took, min(failurePause*took, holdersLife))); rest.After(h.again) {
			h.again = rest
		}
		return
	}
	h.loaded, h.at, h.until, h.version = true, c.at, c.until, h.asked
	for i := range m.shelves {
		s := &m.shelves[i]
		s.sealed = s.empty && (s.sealed || h.reach(s))
	}
}

// meet enters users among the holders, a stretch at a time so that nobody who asks waits
// for all of them. All but a few of those that are loaded again are there already, and
// looking for them keeps only those from going on who would learn something.
func (m *memory) meet(users []uint64) {
	for part := range slices.Chunk(users, lockStretch) {
		m.mu.RLock()
		part = slices.DeleteFunc(part, func(u uint64) bool {
			_, known := m.holders.users[u]
			return known
		})
		m.mu.RUnlock()
		if len(part) == 0 {
			continue
		}
		m.mu.Lock()
		m.holders.add(part)
		m.mu.Unlock()
	}
}

// stranger reports whether the user surely has no order in a sale of this version
// that nobody could buy in since the holders were loaded, and whether the caller
// must load them.
func (m *memory) stranger(v *View, user string, now time.Time) (known, load bool) {
	hash := sale.UserHash(user)
	m.mu.RLock()
	good := m.holders.loaded && m.epoch == v.Epoch && (m.alone || m.holders.version == v.Version)
	_, holds := m.holders.users[hash]
	m.mu.RUnlock()
	if good {
		return !holds, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enter(v.Epoch)
	return false, m.epoch == v.Epoch && m.holders.begin(v.Version, now)
}

// forget lets the holders go, once the sale is over and every attempt is a
// look-up anyway.
func (m *memory) forget() {
	m.mu.RLock()
	idle := m.holders.loaded && !m.holders.loading
	m.mu.RUnlock()
	if !idle {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders.loaded && !m.holders.loading {
		m.holders.void()
		m.holders.users = nil
	}
}
