package lab

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// drawEvery is how often the bar is drawn.
const drawEvery = 100 * time.Millisecond

// watch draws how far the crowd has come until the returned function is called:
// first buyers at the door who have an answer, then units that are paid. The
// bars are cleared when they are full, so what stays on the terminal is the
// report.
func (o *DemoOptions) watch(c *crowd) (stop func()) {
	if o.Progress == nil {
		return func() {}
	}
	end := make(chan struct{})
	var drawn sync.WaitGroup
	drawn.Go(func() {
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		door := newBar(o.Progress, "at the door ", o.Buyers)
		var paid *progressbar.ProgressBar
		for {
			select {
			case <-end:
				_ = door.Clear()
				if paid != nil {
					_ = paid.Clear()
				}
				return
			case <-tick.C:
			}
			// A bar that cannot be drawn is no reason to stop a sale.
			if n := int(c.answered.Load()); n < o.Buyers {
				_ = door.Set(n)
				continue
			}
			if paid == nil {
				_ = door.Clear()
				paid = newBar(o.Progress, "units paid  ", o.Stock)
			}
			_ = paid.Set(min(o.Stock, int(c.books.paidUnits())))
		}
	})
	return func() {
		close(end)
		drawn.Wait()
	}
}

func newBar(w io.Writer, what string, steps int) *progressbar.ProgressBar {
	return progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(40),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true),
	)
}
