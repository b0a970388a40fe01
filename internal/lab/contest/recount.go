package contest

import (
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// entry is one order in the books of a house.
type entry struct {
	id, buyer string
	units     int64
	live      bool // it holds its units: neither cancelled, expired nor rejected
}

// recount enters what was sold, from the books of the house, what buyers were told, and
// the stock. demand is how many buyers asked for a unit, of whom each may have one.
func (r *Row) recount(books []entry, told []buyers.Order, stock, demand int64) {
	r.Sold, r.Duplicates, r.Lost = 0, 0, 0
	known := make(map[string]struct{}, len(books))
	has := make(map[string]int64, len(books))
	for _, e := range books {
		known[e.id] = struct{}{}
		if !e.live {
			continue
		}
		r.Sold += e.units
		if has[e.buyer] > 0 {
			r.Duplicates++
		}
		has[e.buyer]++
	}
	r.Oversold = max(0, r.Sold-stock)
	r.Undersold = max(0, min(stock, demand)-r.Sold)
	for i := range told {
		if _, held := known[told[i].ID]; !held && promised(&told[i]) {
			r.Lost++
		}
	}
}

// promised reports whether a buyer may rely on an order: it was said to exist, or to be
// judged, and not said to be rejected.
func promised(o *buyers.Order) bool { return o.Seen&buyers.Rejected == 0 }

// ear is a crowd's script that hears two things as the lab counts them. A click that came
// twice and finds its order is no second acceptance: who sells nothing twice would have
// more of them than who has told each click something else. And a unit is sold when a
// buyer first hears that it is his; one whose order is queued may still be refused.
type ear struct {
	*buyers.Script
	books *buyers.Books
	start time.Time

	mu   sync.Mutex
	sold int64         // orders that were ever told of as reserved
	last time.Duration // when the latest of them was, after the start
}

// Heard judges an answer.
func (e *ear) Heard(s *traffic.Step, a *wire.Answer, err error) traffic.Outcome {
	out := e.Script.Heard(s, a, err)
	if out.Class == traffic.Accepted && out.Verdict == buyers.Replayed {
		out.Class = traffic.Settled
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if sold := e.books.Live().Reserved; sold > e.sold {
		e.sold, e.last = sold, time.Since(e.start)
	}
	return out
}

// lastSale returns when the latest unit was sold, after the start.
func (e *ear) lastSale() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// measure enters the speed of the rush, whose last unit was sold at the given time.
func (r *Row) measure(seen *traffic.Record, sold time.Duration) {
	r.Accepted = speedOf(seen, traffic.Accepted)
	r.Refused = speedOf(seen, traffic.Refused)
	r.Failed = seen.Abandoned
	for _, class := range []traffic.Class{traffic.TurnedOff, traffic.Failed} {
		r.Failed += seen.Waited[class].TotalCount()
	}
	r.Seconds = sold.Seconds()
}

func speedOf(seen *traffic.Record, class traffic.Class) Speed {
	s := waits(seen.Waited[class])
	until := last(seen, class)
	if until > 0 {
		s.PerSecond = float64(s.Answers) / until.Seconds()
	}
	return s
}

// waits returns what a histogram of µs tells, in ms.
func waits(h *hdrhistogram.Histogram) Speed {
	ms := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	return Speed{Answers: h.TotalCount(), P50: ms(50), P99: ms(99)}
}

// last returns the end of the last slot in which there were answers of a class, zero if
// there is none.
func last(seen *traffic.Record, class traffic.Class) time.Duration {
	for i := range slices.Backward(seen.Slots) {
		if seen.Slots[i].Answers[class] > 0 {
			return seen.First + time.Duration(i+1)*seen.Slot
		}
	}
	return 0
}
