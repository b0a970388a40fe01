package lab

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// drawEvery is how often the bar is drawn.
const drawEvery = 100 * time.Millisecond

// step is a part of the demo whose progress is drawn.
type step struct {
	name  string
	total int
	done  func() int
	over  func() bool // the next step has begun
}

// watch draws how far the demo has come, one step after the other, until the
// returned function is called, which may be called again. What is drawn is cleared in the end, so that what
// stays on the terminal is the report.
func (o *DemoOptions) watch(st *stage, c *crowd) (stop func()) {
	if o.Progress == nil {
		return func() {}
	}
	steps := []step{
		{"connections  ", st.door.size, count(&st.door.opened), func() bool { return c.answered.Load() > 0 }},
		{"at the door  ", o.Buyers, count(&c.answered), func() bool { return c.answered.Load() == int64(o.Buyers) }},
		{"units paid   ", o.Stock, func() int { return int(c.books.paidUnits()) }, func() bool { return false }},
	}
	end := make(chan struct{})
	var drawn sync.WaitGroup
	drawn.Go(func() { paint(o.Progress, steps, end) })
	return sync.OnceFunc(func() {
		close(end)
		drawn.Wait()
	})
}

func count(n *atomic.Int64) func() int { return func() int { return int(n.Load()) } }

// paint draws the steps until end is closed. A bar that cannot be drawn is no
// reason to stop a sale.
func paint(w io.Writer, steps []step, end <-chan struct{}) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	bar := newBar(w, steps[0])
	defer func() { _ = bar.Clear() }()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		for steps[0].over() {
			steps = steps[1:]
			_ = bar.Clear()
			bar = newBar(w, steps[0])
		}
		_ = bar.Set(min(steps[0].total, steps[0].done()))
	}
}

func newBar(w io.Writer, s step) *progressbar.ProgressBar {
	return progressbar.NewOptions(s.total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(s.name),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(40),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true),
	)
}
