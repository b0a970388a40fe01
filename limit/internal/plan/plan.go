// Package plan has the numbers that implementations of limits compute with, worked
// out once for each rate.
package plan

import "github.com/doorbuster/doorbuster/limit"

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
