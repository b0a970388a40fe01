package memlock

import (
	"context"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/lock"
)

// Store is a lock.Store in memory. Names that are free and have no waiters are
// forgotten, up to who released them last, for the last thousand. It is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	fence lock.Fence // the last one, of all names
	names map[key]*entry
	ears  map[string]map[int]func(lock.Owner)
	heard int
	past  past
}

// New returns an empty store.
func New() *Store {
	return &Store{names: map[key]*entry{}, ears: map[string]map[int]func(lock.Owner){}, past: past{last: map[key]release{}}}
}

type key struct {
	kind lock.Kind
	name string
}

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, err
	}
	now := time.Now()
	k := key{r.Kind, r.Name}
	e := s.names[k]
	if e == nil {
		e = &entry{}
		s.names[k] = e
	}
	defer s.tidy(k, e)
	e.expire(now)
	if h := e.holder(r.Owner); h != nil {
		if r.Count > h.count {
			return lock.Grant{Refused: true}, nil
		}
		h.end = now.Add(r.Lease)
		return lock.Grant{Fence: h.fence}, nil
	}
	if r.From != "" {
		h := e.holder(r.From)
		if h == nil {
			return lock.Grant{}, nil
		}
		e.leave(r.Owner)
		h.owner, h.fence, h.end, h.metadata = r.Owner, s.next(now), now.Add(r.Lease), r.Metadata
		return lock.Grant{Fence: h.fence}, nil
	}
	e.skipDead(now)
	first := len(e.queue) == 0 || e.queue[0].owner == r.Owner
	if (first || r.Barging) && e.used+r.Count <= r.Limit {
		e.leave(r.Owner)
		grant := lock.Grant{Fence: s.grant(e, r, now.Add(r.Lease), now)}
		s.wake(s.handOut(e, now, "")) // what waits behind may fit, too
		return grant, nil
	}
	if r.Queue > 0 {
		e.enqueue(r, now.Add(r.Queue))
	}
	out := lock.Grant{Waiters: len(e.queue), First: r.Queue > 0 && e.queue[0].owner == r.Owner}
	if h := e.soonest(); h != nil {
		out.Holder, out.Left = h.owner, h.end.Sub(now)
	}
	return out, nil
}

// Renew implements lock.Store.
func (s *Store) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	e := s.names[key{r.Kind, r.Name}]
	if e == nil {
		return false, nil
	}
	now := time.Now()
	e.expire(now)
	h := e.holder(r.Owner)
	if h == nil {
		return false, nil
	}
	h.end = now.Add(r.Lease)
	if r.Count < h.count {
		e.used -= h.count - r.Count
		h.count = r.Count
		s.wake(s.handOut(e, now, ""))
	}
	return true, nil
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return lock.Outcome{}, err
	}
	k := key{r.Kind, r.Name}
	e := s.names[k]
	if e == nil {
		return lock.Outcome{Released: s.past.is(k, r)}, nil
	}
	defer s.tidy(k, e)
	now := time.Now()
	e.expire(now)
	out := lock.Outcome{Released: e.remove(r.Owner)}
	switch {
	case out.Released:
		s.past.add(k, r)
	case !e.leave(r.Owner):
		out.Released = s.past.is(k, r)
		return out, nil
	}
	if r.Barging {
		if e.skipDead(now); len(e.queue) > 0 {
			s.wake([]lock.Handoff{{Owner: e.queue[0].owner}})
		}
		return out, nil
	}
	for _, g := range s.handOut(e, now, r.By) {
		if g.Owner.Locker() == r.By {
			out.Next = append(out.Next, g)
		} else {
			s.wake([]lock.Handoff{g})
		}
	}
	return out, nil
}

// claim is how long a grant waits for an owner in another Locker, who may have
// died, to hear of it.
const claim = 2 * time.Second

// handOut grants what is free to the first in the queue, as far as it goes.
// Waiters of the Locker named learn of it at once, and have their whole lease.
func (s *Store) handOut(e *entry, now time.Time, here string) []lock.Handoff {
	var out []lock.Handoff
	for e.skipDead(now); len(e.queue) > 0; e.skipDead(now) {
		r := e.queue[0].request
		if e.used+r.Count > r.Limit {
			break
		}
		e.queue = e.queue[1:]
		lease := r.Lease
		if r.Owner.Locker() != here {
			lease = min(lease, claim)
		}
		out = append(out, lock.Handoff{Owner: r.Owner, Fence: s.grant(e, &r, now.Add(lease), now)})
	}
	return out
}

func (s *Store) grant(e *entry, r *lock.Request, end, now time.Time) lock.Fence {
	h := &holder{owner: r.Owner, fence: s.next(now), count: r.Count, end: end, metadata: r.Metadata}
	e.holders = append(e.holders, h)
	e.used += r.Count
	return h.fence
}

// next returns a fence: the time in microseconds, or more where that has been
// given.
func (s *Store) next(now time.Time) lock.Fence {
	s.fence = max(s.fence+1, lock.Fence(max(now.UnixMicro(), 0)))
	return s.fence
}

// tidy forgets a name that nobody holds or wants.
func (s *Store) tidy(k key, e *entry) {
	if len(e.holders) == 0 && len(e.queue) == 0 {
		delete(s.names, k)
	}
}

// Inspect implements lock.Store.
func (s *Store) Inspect(_ context.Context, kind lock.Kind, name string) (lock.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{kind, name}
	e := s.names[k]
	if e == nil {
		return lock.Info{}, nil
	}
	defer s.tidy(k, e)
	now := time.Now()
	e.expire(now)
	out := lock.Info{Waiters: len(e.queue)}
	for _, h := range e.holders {
		out.Holders = append(out.Holders, lock.Holder{
			Owner: h.owner, Fence: h.fence, Count: h.count, Left: h.end.Sub(now), Metadata: h.metadata,
		})
		out.Fence = max(out.Fence, h.fence)
	}
	return out, nil
}

// Topic implements lock.Store: one for each Locker.
func (s *Store) Topic(r *lock.Request) string { return r.Owner.Locker() }

// Subscribe implements lock.Store.
func (s *Store) Subscribe(ctx context.Context, topic string, ready func(), wake func(lock.Owner)) error {
	s.mu.Lock()
	id := s.heard
	s.heard++
	if s.ears[topic] == nil {
		s.ears[topic] = map[int]func(lock.Owner){}
	}
	s.ears[topic][id] = wake
	s.mu.Unlock()
	ready()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.ears[topic], id); len(s.ears[topic]) == 0 {
		delete(s.ears, topic)
	}
	return ctx.Err()
}

// wake tells owners that they should ask.
func (s *Store) wake(grants []lock.Handoff) {
	for _, g := range grants {
		for _, ear := range s.ears[g.Owner.Locker()] {
			ear(g.Owner)
		}
	}
}
