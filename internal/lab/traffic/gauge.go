package traffic

import (
	"sort"
	"sync/atomic"
	"time"
)

// Live is a glance at a crowd that is running.
type Live struct {
	Offered, Sent int64
	Answers       [Classes]int64
	InFlight      int64
}

// Gauge lets others look at a crowd while it runs. The zero value is ready; each run
// needs one of its own.
type Gauge struct {
	run atomic.Pointer[run]
}

// Look returns what has been until now; before the run it is nothing. It may be
// called at any time by anybody.
func (g *Gauge) Look() Live {
	r := g.run.Load()
	if r == nil {
		return Live{}
	}
	l := r.books.live()
	select {
	case <-r.started:
		l.Offered = int64(dueBy(r.visits.plan, r.now()))
	default:
	}
	return l
}

// dueBy returns how many visits of a plan are due by an instant.
func dueBy(plan []Visit, now time.Duration) int {
	return sort.Search(len(plan), func(i int) bool { return plan[i].At > now })
}
