// Package plan has the numbers that implementations of limits compute with, worked
// out once for each rate.
package plan

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/doorbuster/doorbuster/limit"
)

// Cells is how many cells a sliding window is cut into; one more is counted.
const Cells = 16

// Plan is a valid rate in numbers. Times are in microseconds.
type Plan struct {
	Rate  limit.Rate
	Limit int64 // the largest cost that fits
	Span  int64 // the window
	Cell  int64 // the length of a cell, rounded up
	Gain  int64 // what a bucket gains in a microsecond
	Unit  int64 // what one token is in these units
}

// New works out a valid rate.
func New(r limit.Rate) *Plan {
	p := &Plan{Rate: r, Limit: r.Capacity(), Span: r.Window.Microseconds()}
	p.Cell = (p.Span + Cells - 1) / Cells
	p.Gain, p.Unit = r.Pace()
	return p
}

// Top is the largest debt that a bucket may have: of a leaky one, that of a full
// queue and the largest call behind it. Other algorithms have none.
func (p *Plan) Top() int64 {
	switch p.Rate.Algorithm {
	case limit.TokenBucket:
		return p.Limit * p.Unit
	case limit.LeakyBucket:
		return 2 * p.Limit * p.Unit
	case limit.FixedWindow, limit.SlidingWindow, limit.Concurrency:
	}
	return 0
}

// maxPlans bounds a Book; rates beyond it are worked out each time.
const maxPlans = 1024

// Book keeps plans. The zero value is an empty one; it is safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	plans atomic.Pointer[map[limit.Rate]*Plan]
}

// Of returns the plan of a rate, or what is wrong with it.
func (b *Book) Of(r limit.Rate) (*Plan, error) {
	if known := b.plans.Load(); known != nil {
		if p := (*known)[r]; p != nil {
			return p, nil
		}
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	p := New(r)
	b.keep(p)
	return p, nil
}

func (b *Book) keep(p *Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[limit.Rate]*Plan{}
	if known := b.plans.Load(); known != nil {
		if len(*known) >= maxPlans {
			return
		}
		next = maps.Clone(*known)
	}
	next[p.Rate] = p
	b.plans.Store(&next)
}
