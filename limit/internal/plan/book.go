package plan

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/doorbuster/doorbuster/limit"
)

const (
	// maxKnown and maxFresh bound a Book.
	maxKnown = 1024
	maxFresh = 512
)

// Book keeps plans of rates that are in use. Two calls with equal rates may get
// different plans: compare their rates. The zero value is an empty book; it is safe
// for concurrent use.
//
// There are two generations. New plans are fresh; when as many calls had to look
// there as there are plans, all that is fresh becomes known, which is never changed
// and read without a lock. When the known ones are too many, those go that nobody
// has used since they came or since the last time. So rates that are seen once pass
// through, the others stay, and no rate costs more than a few steps.
type Book struct {
	known atomic.Pointer[map[limit.Rate]*entry]

	mu     sync.Mutex
	fresh  map[limit.Rate]*entry
	missed int // how many calls have looked into fresh since it was empty
}

type entry struct {
	plan *Plan
	used atomic.Bool
}

// Of returns the plan of a rate, or what is wrong with it.
func (b *Book) Of(r limit.Rate) (*Plan, error) {
	if known := b.known.Load(); known != nil {
		if e := (*known)[r]; e != nil {
			if !e.used.Load() { // written once, so that readers do not disturb each other
				e.used.Store(true)
			}
			return e.plan, nil
		}
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.fresh[r]
	if e == nil {
		e = &entry{plan: New(r)}
		if b.fresh == nil {
			b.fresh = map[limit.Rate]*entry{}
		}
		b.fresh[r] = e
	} else {
		e.used.Store(true)
	}
	b.missed++
	b.turn()
	return e.plan, nil
}

// turn makes what is fresh known, when it is time.
func (b *Book) turn() {
	var known map[limit.Rate]*entry
	if p := b.known.Load(); p != nil {
		known = *p
	}
	if len(b.fresh) < maxFresh && b.missed < len(known)+len(b.fresh) {
		return
	}
	next := make(map[limit.Rate]*entry, min(len(known)+len(b.fresh), maxKnown))
	maps.Copy(next, b.fresh)
	crowded := len(known)+len(b.fresh) > maxKnown
	for r, e := range known {
		if crowded && (!e.used.Swap(false) || len(next) >= maxKnown) {
			continue
		}
		next[r] = e
	}
	b.known.Store(&next)
	b.fresh, b.missed = nil, 0
}
