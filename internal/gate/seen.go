package gate

import (
	"hash/maphash"
	"sync"
	"time"
)

// seen remembers which users and networks of a subject were counted, for one to two generations.
// Who is forgotten early is counted once more.
type seen struct {
	seed maphash.Seed
	mu   sync.Mutex
	turn time.Time // when the young become old
	now  map[uint64]struct{}
	old  map[uint64]struct{}
}

const (
	seenFor = 5 * time.Minute
	maxSeen = 200_000 // in a generation, 8 bytes each and the map's own
)

func newSeen(now time.Time) *seen {
	return &seen{seed: maphash.MakeSeed(), turn: now.Add(seenFor), now: map[uint64]struct{}{}, old: map[uint64]struct{}{}}
}

// key names one of a subject that a limit counts. Two that collide, one of 2^64, count as
// one.
func (s *seen) key(name, subject, one string) uint64 {
	return maphash.Comparable(s.seed, [3]string{name, subject, one})
}

func (s *seen) has(key uint64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age(now)
	_, young := s.now[key]
	_, old := s.old[key]
	return young || old
}

func (s *seen) add(key uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age(now)
	s.now[key] = struct{}{}
}

func (s *seen) age(now time.Time) {
	if now.Before(s.turn) && len(s.now) < maxSeen {
		return
	}
	s.old, s.now, s.turn = s.now, make(map[uint64]struct{}), now.Add(seenFor)
}
