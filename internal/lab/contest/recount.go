package contest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
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

// measure enters the speed of the rush.
func (r *Row) measure(seen *traffic.Record) {
	r.Accepted = speedOf(seen, traffic.Accepted)
	r.Refused = speedOf(seen, traffic.Refused)
	r.Failed = seen.Abandoned
	for _, class := range []traffic.Class{traffic.TurnedOff, traffic.Failed} {
		r.Failed += seen.Waited[class].TotalCount()
	}
	r.Seconds = last(seen, func(s *traffic.Slot) bool { return s.Verdicts[buyers.Taken] > 0 }).Seconds()
}

func speedOf(seen *traffic.Record, class traffic.Class) Speed {
	s := waits(seen.Waited[class])
	until := last(seen, func(s *traffic.Slot) bool { return s.Answers[class] > 0 })
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

// last returns the end of the last slot of which something is true, zero if of none.
func last(seen *traffic.Record, is func(*traffic.Slot) bool) time.Duration {
	for i := len(seen.Slots) - 1; i >= 0; i-- {
		if is(&seen.Slots[i]) {
			return seen.First + time.Duration(i+1)*seen.Slot
		}
	}
	return 0
}
