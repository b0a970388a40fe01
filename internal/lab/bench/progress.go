package bench

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/chart"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

// gathering is the phase in which the crowd is sent.
const gathering = "the crowd gathers"

// drawEvery is how often the line is drawn.
const drawEvery = 100 * time.Millisecond

// progress draws one line about a run, and clears it in the end, so that what stays
// on the terminal is the report.
type progress struct {
	phase atomic.Pointer[string]
	gauge *traffic.Gauge
	books atomic.Pointer[buyers.Books]
	start atomic.Pointer[time.Time]
	total int

	end   chan struct{}
	drawn sync.WaitGroup
	once  sync.Once
}

// watch begins to draw; w nil draws nothing.
func watch(w io.Writer, visits int, g *traffic.Gauge) *progress {
	p := &progress{gauge: g, total: visits, end: make(chan struct{})}
	p.say("opening the sale")
	if w != nil {
		p.drawn.Go(func() { p.draw(w) })
	}
	return p
}

// say names what the run is about now.
func (p *progress) say(phase string) { p.phase.Store(&phase) }

// stop clears the line. It may be called again.
func (p *progress) stop() {
	p.once.Do(func() { close(p.end) })
	p.drawn.Wait()
}

func (p *progress) draw(w io.Writer) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	bar := progressbar.NewOptions(max(1, p.total),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(10),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetRenderBlankState(true),
	)
	defer func() { _ = bar.Clear() }() // what cannot be drawn stops no sale
	for {
		select {
		case <-p.end:
			return
		case <-tick.C:
		}
		now := p.gauge.Look()
		bar.Describe(p.text(&now))
		_ = bar.Set(min(p.total, int(now.Offered)))
	}
}

// text says how far the run has come, in a line that fits beside the bar into 80
// columns: a longer one would wrap, and leave a line behind each time it is drawn.
func (p *progress) text(now *traffic.Live) string {
	phase := *p.phase.Load()
	if start := p.start.Load(); now.Offered == 0 && start != nil {
		return fmt.Sprintf("%s, %.1f s to the start", phase, time.Until(*start).Seconds())
	}
	if now.Offered == 0 || phase != gathering { // before the crowd, or after it
		return phase
	}
	n := chart.Grouped
	text := fmt.Sprintf("accepted %s, refused %s", n(now.Answers[traffic.Accepted]), n(now.Answers[traffic.Refused]))
	if failed := now.Answers[traffic.Failed]; failed > 0 {
		text += ", failed " + n(failed)
	}
	if books := p.books.Load(); books != nil {
		if queued := books.Live().Waiting; queued > 0 {
			text += ", queued " + n(queued)
		}
	}
	return text
}
