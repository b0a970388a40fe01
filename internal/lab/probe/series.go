package probe

import (
	"fmt"
	"slices"
	"time"
)

// Series is one figure in the course of time.
type Series struct {
	Source string       `json:"source"` // server, server 2, redis, postgres, stock, nginx, crowd
	Name   string       `json:"name"`   // cpu, memory, calls/s, queued slips, …
	Unit   string       `json:"unit"`   // cores, bytes, bytes/s, 1/s, 1, s
	Points [][2]float64 `json:"points"` // seconds after the start, value; by time

	// Lag is how many seconds what has happened may be missing from a counter while those
	// who count are busy; 0 is none. Such a rate goes by leaps, and Grown says by how much
	// the counter has grown in all since the crowd came (Options.Before).
	Lag   float64 `json:"lag_s,omitempty"`
	Grown float64 `json:"grown,omitempty"`
}

// Note is what a reader of the series should know of a source.
type Note struct {
	Source string  `json:"source"`
	At     float64 `json:"at"` // seconds after the start
	Text   string  `json:"text"`
}

// kind says how a figure becomes a point.
type kind uint8

const (
	gauge kind = iota // the value itself
	rate              // a counter: its growth a second
	late              // the same, of a counter that lags
	mean              // sum and count of events: the mean of those since the reading before
)

// figure is what a source says of one thing at one moment.
type figure struct {
	name, unit string
	kind       kind
	value      float64 // of a mean, the sum
	count      float64 // of a mean
}

// reading is what a source says at one moment.
type reading struct {
	// life is another one after what counts has begun again; sources that do not tell
	// leave it empty.
	life    string
	figures []figure
	remarks []string // said once, however often they are read
}

const (
	// mostPoints bounds a series: more than two hours at the default interval.
	mostPoints = 1 << 15
	mostNotes  = 50
)

// recorder makes series of the readings of one source.
type recorder struct {
	source string
	from   time.Duration // when the crowd comes
	series []*Series
	byName map[string]*Series
	before map[string]counted
	life   string
	full   bool // there is room for no more
	notes  []Note
	said   map[string]bool // remarks

	missed      int // readings since the last that came to something
	since, last time.Duration
	reason      error
}

// counted is a counter as it was read.
type counted struct {
	at           time.Duration
	value, count float64
}

func newRecorder(source string, from time.Duration) *recorder {
	return &recorder{source: source, from: from, byName: make(map[string]*Series), before: make(map[string]counted), said: make(map[string]bool)}
}

// heard records a reading.
func (r *recorder) heard(at time.Duration, now *reading) {
	r.recovered(at)
	if r.restarted(now) {
		clear(r.before)
		r.note(at, "was started again: its counters begin anew")
	}
	r.life = now.life
	for _, remark := range now.remarks {
		if !r.said[remark] {
			r.said[remark] = true
			r.note(at, remark)
		}
	}
	for i := range now.figures {
		f := &now.figures[i]
		old, value, ok := r.before[f.name], f.value, true
		if f.kind != gauge {
			value, ok = r.change(at, f)
		}
		if !ok {
			continue
		}
		s := r.add(at, f, value)
		if f.kind == late {
			s.Lag = flushEvery.Seconds()
			if at > r.from {
				s.Grown += f.value - old.value
			}
		}
	}
	if r.full {
		r.note(at, "was watched for so long that nothing more is recorded")
	}
}

// restarted reports whether what counts has begun again since the reading before.
func (r *recorder) restarted(now *reading) bool {
	if r.life != now.life {
		return r.life != ""
	}
	return slices.ContainsFunc(now.figures, func(f figure) bool {
		old, known := r.before[f.name]
		return known && f.kind != gauge && (f.value < old.value || f.count < old.count)
	})
}

// change returns the growth of a counter, or the mean of the events since it was read
// before; it is false if there is none.
func (r *recorder) change(at time.Duration, f *figure) (float64, bool) {
	old, known := r.before[f.name]
	r.before[f.name] = counted{at: at, value: f.value, count: f.count}
	grown := f.value - old.value
	if f.kind == mean {
		events := f.count - old.count
		return grown / events, known && events > 0
	}
	passed := at - old.at
	return grown / passed.Seconds(), known && passed > 0
}

func (r *recorder) add(at time.Duration, f *figure, value float64) *Series {
	s := r.byName[f.name]
	if s == nil {
		s = &Series{Source: r.source, Name: f.name, Unit: f.unit}
		r.byName[f.name] = s
		r.series = append(r.series, s)
	}
	s.Points = append(s.Points, [2]float64{at.Seconds(), value})
	r.full = r.full || len(s.Points) >= mostPoints
	return s
}

// failed records that a reading came to nothing.
func (r *recorder) failed(at time.Duration, err error) {
	if r.missed == 0 {
		r.since = at
	}
	r.missed++
	r.last, r.reason = at, err
}

// recovered tells of an outage that is over.
func (r *recorder) recovered(at time.Duration) {
	if r.missed > 0 {
		r.note(r.since, fmt.Sprintf("did not answer %s for %.1f s: %v", times(r.missed), (at-r.since).Seconds(), r.reason))
		r.missed = 0
	}
}

// end tells of an outage that is not over.
func (r *recorder) end() {
	if r.missed > 0 {
		r.note(r.since, fmt.Sprintf("did not answer %s, the last time at %.1f s: %v", times(r.missed), r.last.Seconds(), r.reason))
		r.missed = 0
	}
}

func (r *recorder) note(at time.Duration, text string) {
	if len(r.notes) < mostNotes {
		r.notes = append(r.notes, Note{Source: r.source, At: at.Seconds(), Text: text})
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
