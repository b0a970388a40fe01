package lock

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// EventKind says what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	Acquired    EventKind = iota // Took is the wait
	NotAcquired                  // Took is the wait
	Renewed                      // Took is how long the store needed
	RenewFailed                  // Took is how long the store needed; it is tried again
	Released                     // Took is how long it was held
	Lost                         // Took is how long it was held
	eventKinds
)

func (k EventKind) String() string {
	names := [...]string{"acquired", "not_acquired", "renewed", "renew_failed", "released", "lost"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Event is something that happened to a lock. Re-entries are no events.
type Event struct {
	Kind  EventKind
	Lock  Kind
	Name  string
	Owner Owner
	Fence Fence
	Took  time.Duration
	Err   error // of NotAcquired, RenewFailed and Lost
}

// Stats counts events; its Observe goes into a Config. The zero value is ready
// for use. It is safe for concurrent use and must not be copied.
type Stats struct {
	kinds [eventKinds]distribution
}

// Observe counts an event.
func (s *Stats) Observe(e Event) {
	if e.Kind < eventKinds {
		s.kinds[e.Kind].add(e.Took)
	}
}

// Count returns how many events of a kind there were.
func (s *Stats) Count(kind EventKind) uint64 {
	var n uint64
	for i := range s.kinds[kind].buckets {
		n += s.kinds[kind].buckets[i].Load()
	}
	return n
}

// Total returns the sum of what events of a kind took.
func (s *Stats) Total(kind EventKind) time.Duration {
	return time.Duration(s.kinds[kind].total.Load())
}

// Quantile returns a time that the share q of the events of a kind did not
// exceed, at most an eighth too large. Zero without events.
func (s *Stats) Quantile(kind EventKind, q float64) time.Duration {
	want := uint64(math.Ceil(float64(s.Count(kind)) * q))
	var n uint64
	for i := range s.kinds[kind].buckets {
		if n += s.kinds[kind].buckets[i].Load(); n >= want && n > 0 {
			return bucketEnd(i)
		}
	}
	return 0
}

// distribution has eight buckets for each power of two of a microsecond.
type distribution struct {
	total   atomic.Int64
	buckets [8 * 40]atomic.Uint64
}

const perPower = 8

func (d *distribution) add(took time.Duration) {
	d.total.Add(int64(took))
	d.buckets[min(bucket(took), len(d.buckets)-1)].Add(1)
}

// bucket numbers microseconds: the first eight alone, then by their highest four
// bits.
func bucket(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 0))
	if us < perPower {
		return int(us)
	}
	power := bits.Len64(us) - 4
	return perPower*power + int(us>>power) //nolint:gosec // below 16
}

func bucketEnd(i int) time.Duration {
	if i < 2*perPower {
		return time.Duration(i+1) * time.Microsecond
	}
	power := i/perPower - 1
	return time.Duration(i%perPower+perPower+1) << power * time.Microsecond
}
