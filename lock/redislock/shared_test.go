package redislock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/lock"
)

// shared watches the holders of one read-write lock or semaphore: those that are
// alive at the same moment must not hold more than there is.
type shared struct {
	kind  lock.Kind
	limit int64

	mu       sync.Mutex
	held     map[*lock.Lease]int64
	age      int // counts the times at which the store has forgotten
	entries  int
	overlaps int
}

func newShared(kind lock.Kind, limit int64) *shared {
	return &shared{kind: kind, limit: limit, held: map[*lock.Lease]int64{}}
}

// damage runs something that makes the store forget who holds.
func (s *shared) damage(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.age++
	clear(s.held)
}

// now is the age in which a lock is asked for.
func (s *shared) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.age
}

// enter is called by a holder as soon as it holds, leave before it gives back.
func (s *shared) enter(lease *lock.Lease, count int64, age int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries++
	if age != s.age {
		return // it may have been forgotten before it came
	}
	s.held[lease] = count
	var sum int64
	for one, n := range s.held {
		if one.Err() == nil {
			sum += n
		}
	}
	if sum > s.limit && lease.Err() == nil {
		s.overlaps++
	}
}

func (s *shared) leave(lease *lock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, lease)
}

// fight locks, works for a moment, and unlocks.
func (s *shared) fight(ctx context.Context, l *lock.Locker, name string) {
	rw, permits := l.ReadWrite(name), l.Semaphore(name, int(s.limit))
	for ctx.Err() == nil {
		age, count := s.now(), int64(1)
		var lease *lock.Lease
		var err error
		some := rand.IntN(3)
		switch {
		case s.kind == lock.Permits:
			count += int64(some)
			lease, err = permits.Acquire(ctx, int(count), lock.WithLease(soakLease))
		case some == 0:
			count = lock.Everything
			lease, err = rw.Lock(ctx, lock.WithLease(soakLease))
		default:
			lease, err = rw.RLock(ctx, lock.WithLease(soakLease))
		}
		if err != nil {
			continue
		}
		s.enter(lease, count, age)
		wait(lease.Context(), time.Duration(rand.IntN(2000))*time.Microsecond) //nolint:contextcheck // the lease's own ends with ctx
		s.leave(lease)
		_ = lease.Unlock(context.WithoutCancel(ctx))
	}
}
