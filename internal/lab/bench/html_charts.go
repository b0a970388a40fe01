package bench

import (
	"cmp"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
)

// middle is the instant of a slot at which its figures are drawn.
func (s *sheet) middle(slot *Slot) float64 { return slot.At + s.grain/2 }

// perSecond draws a count of each slot as a rate.
func (s *sheet) perSecond(count func(*Slot) int64) []chart.Point {
	points := make([]chart.Point, len(s.Slots))
	for i := range s.Slots {
		points[i] = chart.Point{s.middle(&s.Slots[i]), float64(count(&s.Slots[i])) / s.grain}
	}
	return points
}

// Rates is the chart of what was due, what left and what came back.
func (s *sheet) Rates() template.HTML {
	p := chart.Plot{
		Title: "Offered and answered", Note: "a second", X: s.span, Y: chart.Axis{Unit: chart.PerSecond},
		Series: []chart.Series{
			{Name: "offered", Ink: chart.Offered, Dashed: true, Points: s.perSecond(func(slot *Slot) int64 { return slot.Offered })},
			{Name: "sent", Ink: chart.Sent, Points: s.perSecond(func(slot *Slot) int64 { return slot.Sent })},
		},
	}
	for _, class := range classNames() {
		if s.of(class).Answers > 0 {
			p.Series = append(p.Series, chart.Series{
				Name: words(class), Ink: inkOf(class), Filled: class == "accepted",
				Points: s.perSecond(func(slot *Slot) int64 { return slot.Answers[class] }),
			})
		}
	}
	return p.HTML()
}

// meaning is the class that a verdict on a buy belongs to; empty is unknown.
func meaning(verdict string) string {
	switch verdict {
	case "taken", "reserved", "queued", "replayed", "paid", "cancelled":
		return "accepted"
	case "busy", "rate_limited", "unavailable", "stale", "cold", "frozen", "wrong_epoch":
		return "turned_off"
	case "sold_out", "insufficient", "limit_reached", "cool_down", "not_started", "ended", "paused", "closed",
		"rejected", "terms_changed", "banned", "expired":
		return "refused"
	case "no_answer", "timed_out", "bad_answer":
		return "failed"
	}
	return ""
}

func verdictInk(kind, verdict string) chart.Ink {
	switch class := meaning(verdict); {
	case class == "failed" || class == "turned_off":
		return inkOf(class)
	case kind == "look" || kind == "poll":
		return chart.Looked
	case kind == "pay" || kind == "cancel":
		return chart.Settled
	case class == "":
		return chart.Other(0)
	default:
		return inkOf(class)
	}
}

// VerdictCourse is the chart of what buyers were told, over time.
func (s *sheet) VerdictCourse() template.HTML {
	total := make(map[string]int64)
	for i := range s.Slots {
		for verdict, n := range s.Slots[i].Verdicts {
			total[verdict] += n
		}
	}
	rank := func(verdict string) int {
		return slices.Index([]string{"accepted", "refused", "", "turned_off", "failed"}, meaning(verdict))
	}
	names := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(total[b], total[a]), strings.Compare(a, b))
	})
	p := chart.Plot{
		Title: "What buyers were told", Note: "answers to buys a second", Stacked: true,
		X: s.span, Y: chart.Axis{Unit: chart.PerSecond},
	}
	shades, others := make(map[string]chart.Shade), 0
	for _, name := range names {
		class := meaning(name)
		ink := inkOf(class)
		if class == "" {
			ink = chart.Other(others)
			others++
		}
		p.Series = append(p.Series, chart.Series{
			Name: words(name), Ink: ink, Shade: shades[class],
			Points: s.perSecond(func(slot *Slot) int64 { return slot.Verdicts[name] }),
		})
		if class != "" {
			shades[class]++
		}
	}
	return p.HTML()
}

// WaitMap is the chart of how long buyers waited, over time.
func (s *sheet) WaitMap() template.HTML {
	h := chart.Heat{
		Title: "How long buyers waited", Note: "answers to buys, by the time from the instant they were due",
		X: s.span, Y: chart.Millis, Edges: s.Buckets, Grain: s.grain, Columns: make([]chart.Column, len(s.Slots)),
	}
	for i := range s.Slots {
		h.Columns[i] = chart.Column{At: s.Slots[i].At, Counts: s.Slots[i].Waits}
	}
	return h.HTML()
}

// Curves are the charts of waiting, one for each class that matters; they have the
// same scales.
func (s *sheet) Curves() template.HTML {
	var out template.HTML
	for _, class := range []string{"accepted", "refused"} {
		pace := s.of(class)
		p := curvePlot(words(class), pace.Answers)
		p.Series = []chart.Series{
			{Name: "waited, from the instant it was due", Ink: inkOf(class), Points: curve(pace.Waits, pace.Waited, pace.Answers)},
			{Name: "served, from its leaving", Ink: chart.Crowd, Dashed: true, Points: quantiles(pace.Served, pace.Answers)},
		}
		out += p.HTML()
	}
	return out
}

// Overlays are the same curves for waiting in this report and in the older one.
func (s *sheet) Overlays() template.HTML {
	var out template.HTML
	for _, class := range []string{"accepted", "refused"} {
		now, before := s.of(class), s.Old.of(class)
		p := curvePlot(words(class), now.Answers, before.Answers)
		p.Series = []chart.Series{
			{Name: "now", Ink: inkOf(class), Points: curve(now.Waits, now.Waited, now.Answers)},
			{Name: "before", Ink: chart.Crowd, Dashed: true, Points: curve(before.Waits, before.Waited, before.Answers)},
		}
		out += p.HTML()
	}
	return out
}

// curvePlot is an empty chart of quantiles, for as many answers as the longest curve
// has.
func curvePlot(title string, answers ...int64) chart.Plot {
	return chart.Plot{
		Title: strings.ToUpper(title[:1]) + title[1:], Note: "how long, by quantile",
		X: chart.Axis{Unit: chart.Quantile, Scale: chart.Nines, Min: 0, Max: max(0.99, lastQuantile(slices.Max(answers)))},
		Y: chart.Axis{Unit: chart.Millis, Scale: chart.Log},
	}
}

// lastQuantile is where the slowest of n answers stands: all but one were faster.
func lastQuantile(n int64) float64 { return 1 - 1/float64(max(n, 2)) }

// curve draws a distribution; of one without its whole, what is known.
func curve(waits [][2]float64, known Quantiles, n int64) []chart.Point {
	if len(waits) == 0 {
		return quantiles(known, n)
	}
	points := make([]chart.Point, len(waits))
	for i, w := range waits {
		points[i] = chart.Point{min(w[0], lastQuantile(n)), w[1]}
	}
	return points
}

// quantiles draws the few that are known as a curve.
func quantiles(q Quantiles, n int64) []chart.Point {
	if n == 0 {
		return nil
	}
	last := lastQuantile(n)
	var points []chart.Point
	for _, p := range []chart.Point{{0.5, q.P50}, {0.9, q.P90}, {0.99, q.P99}, {0.999, q.P999}} {
		if p[0] < last {
			points = append(points, p)
		}
	}
	return append(points, chart.Point{last, q.Max})
}

// StageCourse is the chart of what the server spent on a buy, over time.
func (s *sheet) StageCourse() template.HTML {
	p := chart.Plot{
		Title: "Where the server spent the time of a buy", Note: "mean of the buys that passed each stage", Stacked: true,
		X: s.span, Y: chart.Axis{Unit: chart.Millis},
	}
	for i := range s.Stages {
		name := s.Stages[i].Name
		points := make([]chart.Point, len(s.Slots))
		for j := range s.Slots {
			points[j] = chart.Point{s.middle(&s.Slots[j]), s.Slots[j].Stages[name]}
		}
		p.Series = append(p.Series, chart.Series{Name: name, Ink: stageInk(name, i), Points: points})
	}
	return p.HTML()
}

// stageInk gives a stage the same ink in every report.
func stageInk(name string, i int) chart.Ink {
	known := []string{"gate", "engine", "wait", "stock", "ledger"}
	if at := slices.Index(known, name); at >= 0 {
		return chart.Other(at)
	}
	return chart.Other(len(known) + i)
}
