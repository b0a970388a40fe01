package bench

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
)

//go:embed html.tmpl
var htmlText string

// WriteHTML writes the report as one page that needs nothing else: the verdict, the
// figures, the course in time and what was checked.
func WriteHTML(w io.Writer, r *Report) error { return WriteHTMLCompared(w, r, nil) }

// WriteHTMLCompared does the same and sets the figures of an older report beside
// those of this one; nil is none.
func WriteHTMLCompared(w io.Writer, r, old *Report) error {
	title := "Bench of " + r.Sale + ": " + strings.ToLower(r.verdict())
	return chart.WritePage(w, title, htmlText, newSheet(r, old))
}

// sheet is what the page's template asks for.
type sheet struct {
	*Report

	Old   *Report
	span  chart.Axis // the time that all charts share
	grain float64    // seconds in a slot
}

func newSheet(r, old *Report) *sheet {
	s := &sheet{Report: r, Old: old, grain: 0.1}
	if len(r.Slots) > 1 && r.Slots[1].At > r.Slots[0].At {
		s.grain = r.Slots[1].At - r.Slots[0].At
	}
	// From the first visit to when the machines were left alone: the work that a crowd
	// leaves behind belongs to it, the quiet before it does not.
	s.span = chart.Axis{Unit: chart.Seconds}
	if n := len(r.Slots); n > 0 {
		s.span.Min, s.span.Max = r.Slots[0].At, r.Slots[n-1].At+s.grain
	}
	for i := range r.Probes {
		for _, p := range r.Probes[i].Points {
			s.span.Max = max(s.span.Max, p[0])
		}
	}
	return s
}

// Of returns the pace of a class of this report; one that did not occur is zero.
func (s *sheet) Of(class string) *Pace { return s.of(class) }

func paceOf(r *Report, class string) *Pace {
	for i := range r.Pace {
		if r.Pace[i].Class == class {
			return &r.Pace[i]
		}
	}
	return &Pace{Class: class}
}

// OldVerdict is the older report in one word.
func (s *sheet) OldVerdict() string { return strings.ToLower(s.Old.verdict()) }

// Units is how many units were sold.
func (s *sheet) Units() int64 { return s.Sold.Reserved + s.Sold.Paid }

// Broken tells in words what failed.
func (s *sheet) Broken() []string {
	var out []string
	if s.Sold.Oversold > 0 {
		out = append(out, chart.Grouped(s.Sold.Oversold)+" units were sold that did not exist")
	}
	for i := range s.Checks {
		if c := &s.Checks[i]; c.Broken > 0 {
			out = append(out, c.Promise+" "+c.Text+": broken "+chart.Grouped(c.Broken)+" times")
		}
	}
	if s.Audit != nil && s.Audit.Broken() {
		out = append(out, "the audit found a promise broken; see below")
	}
	return out
}

// lateFrom is the p99, in ms, from which a crowd that left late is worth a warning:
// below it the kernel's timers and a busy core explain it.
const lateFrom = 10

// Punctual reports whether the crowd kept up with its own plan.
func (s *sheet) Punctual() bool { return s.Late.P99 < lateFrom }

// Ink is the colour of a class of answers.
func (*sheet) Ink(class string) chart.Ink { return inkOf(class) }

func inkOf(class string) chart.Ink {
	switch class {
	case "accepted":
		return chart.Accepted
	case "refused":
		return chart.Refused
	case "looked":
		return chart.Looked
	case "settled":
		return chart.Settled
	case "turned_off":
		return chart.TurnedOff
	}
	return chart.Failed
}

// Words writes the name of a class or verdict for people.
func (*sheet) Words(name string) string { return words(name) }

// Lines breaks a long command before its flags, as a shell takes it.
func (*sheet) Lines(command string) string {
	const line = 90
	command = "doorbuster " + command
	if len(command) <= line {
		return command
	}
	return strings.ReplaceAll(command, " --", " \\\n    --")
}

// Best writes a peak.
func (*sheet) Best(peak float64) string { return best(peak) }

// Bar is the part of one answer among all of its kind.
func (s *sheet) Bar(t Tally) template.HTML {
	var most int64
	for _, other := range s.Verdicts {
		most = max(most, other.Count)
	}
	return chart.Bar(float64(t.Count), float64(most), verdictInk(t.Kind, t.Verdict))
}

// StageBar is the mean of one stage beside the others.
func (s *sheet) StageBar(i int) template.HTML {
	var most float64
	for _, other := range s.Stages {
		most = max(most, other.Mean)
	}
	return chart.Bar(s.Stages[i].Mean, most, stageInk(s.Stages[i].Name, i))
}

// Against is one class of answers, now and before.
type Against struct {
	New, Old *Pace
}

// Against pairs the classes that occurred in this report or in the older one.
func (s *sheet) Against() []Against {
	var out []Against
	for _, class := range classNames() {
		if a := (Against{New: s.of(class), Old: s.Old.of(class)}); a.New.Answers > 0 || a.Old.Answers > 0 {
			out = append(out, a)
		}
	}
	return out
}

// Change tells how a figure has moved.
func (*sheet) Change(before, now float64) string { return change(before, now) }

// Unlike lists what makes the two reports hard to compare.
func (s *sheet) Unlike() []string { return Unlike(s.Report, s.Old) }
