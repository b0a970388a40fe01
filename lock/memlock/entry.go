package memlock

import (
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/lock"
)

// entry is one name: who holds it and who waits for it.
type entry struct {
	holders []*holder
	used    int64 // the sum of what they hold
	queue   []waiter
}

type holder struct {
	owner    lock.Owner
	fence    lock.Fence
	count    int64
	end      time.Time
	metadata string
}

type waiter struct {
	owner   lock.Owner
	request lock.Request
	until   time.Time // its place is void after that
}

// expire removes holders whose lease has ended.
func (e *entry) expire(now time.Time) {
	e.holders = slices.DeleteFunc(e.holders, func(h *holder) bool {
		if now.Before(h.end) {
			return false
		}
		e.used -= h.count
		return true
	})
}

func (e *entry) holder(owner lock.Owner) *holder {
	for _, h := range e.holders {
		if h.owner == owner {
			return h
		}
	}
	return nil
}

// soonest returns the holder whose lease ends first.
func (e *entry) soonest() *holder {
	if len(e.holders) == 0 {
		return nil
	}
	return slices.MinFunc(e.holders, func(a, b *holder) int { return a.end.Compare(b.end) })
}

func (e *entry) remove(owner lock.Owner) bool {
	i := slices.IndexFunc(e.holders, func(h *holder) bool { return h.owner == owner })
	if i < 0 {
		return false
	}
	e.used -= e.holders[i].count
	e.holders = slices.Delete(e.holders, i, i+1)
	return true
}

// skipDead removes waiters from the head of the queue that do not ask any more.
func (e *entry) skipDead(now time.Time) {
	for len(e.queue) > 0 && !now.Before(e.queue[0].until) {
		e.queue = e.queue[1:]
	}
}

// enqueue gives a waiter the last place, or refreshes the one it has.
func (e *entry) enqueue(r *lock.Request, until time.Time) {
	i := slices.IndexFunc(e.queue, func(w waiter) bool { return w.owner == r.Owner })
	if i < 0 {
		i = len(e.queue)
		e.queue = append(e.queue, waiter{owner: r.Owner})
	}
	e.queue[i].request, e.queue[i].until = *r, until
}

func (e *entry) leave(owner lock.Owner) bool {
	before := len(e.queue)
	e.queue = slices.DeleteFunc(e.queue, func(w waiter) bool { return w.owner == owner })
	return len(e.queue) < before
}
