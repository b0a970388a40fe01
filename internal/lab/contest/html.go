package contest

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
)

//go:embed html.tmpl
var htmlText string

// WriteHTML writes the report as one page that needs nothing else: the story, the
// strategies side by side, and why each failed or held.
func WriteHTML(w io.Writer, r *Report) error {
	return chart.WritePage(w, "The lab: "+chart.Grouped(r.Stock)+" units, "+chart.Grouped(int64(r.Buyers))+" buyers", htmlText, newSheet(r))
}

// sheet is what the page's template asks for.
type sheet struct {
	*Report

	fastest struct{ accepted, refused float64 } // answers a second
}

func newSheet(r *Report) *sheet {
	s := &sheet{Report: r}
	for i := range r.Rows {
		s.fastest.accepted = max(s.fastest.accepted, r.Rows[i].Accepted.PerSecond)
		s.fastest.refused = max(s.fastest.refused, r.Rows[i].Refused.PerSecond)
	}
	return s
}

// Within is how long the rush takes to arrive, in ms.
func (*sheet) Within() int64 { return spread.Milliseconds() }

// Group is a part of the table.
type Group struct {
	Title string
	Ours  bool
	Rows  []*Row
}

// Groups are the ways that people have tried, and Doorbuster, which is expected to be
// clean.
func (s *sheet) Groups() []Group {
	tried, ours := Group{Title: "What people have tried"}, Group{Title: "Doorbuster", Ours: true}
	for i := range s.Rows {
		if row := &s.Rows[i]; row.Expect == Clean {
			ours.Rows = append(ours.Rows, row)
		} else {
			tried.Rows = append(tried.Rows, row)
		}
	}
	var out []Group
	for _, g := range []Group{tried, ours} {
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// Ours reports whether Doorbuster is among the rows.
func (s *sheet) Ours() bool { return s.ours() }

// Accident is one way in which a sale goes wrong, and how often it did.
type Accident struct {
	Name  string
	Count int64
}

// Accidents are all of them, zeros too, in the order of the table.
func (*sheet) Accidents(r *Row) []Accident {
	return []Accident{{"oversold", r.Oversold}, {"undersold", r.Undersold}, {"duplicates", r.Duplicates}, {"lost", r.Lost}}
}

// Seen says in words what came of a row.
func (s *sheet) Seen(r *Row) string {
	if r.Trouble != "" {
		return "nothing, since it did not run: " + r.Trouble
	}
	if r.void() {
		return "nothing, since the fault did not happen"
	}
	var seen []string
	for _, a := range s.Accidents(r) {
		if a.Count != 0 {
			seen = append(seen, chart.Grouped(a.Count)+" "+a.Name)
		}
	}
	if r.Broken > 0 {
		seen = append(seen, chart.Grouped(r.Broken)+" facts that break a promise")
	}
	if r.Failed > 0 {
		seen = append(seen, chart.Grouped(r.Failed)+" not served")
	}
	if len(seen) == 0 {
		return "no accident"
	}
	return strings.Join(seen, ", ")
}

// Clean reports whether no accident was seen in a row.
func (*sheet) Clean(r *Row) bool { return r.Clean() }

// Outcome says in one word what came of a row, in the words of what was expected.
func (s *sheet) Outcome(r *Row) string {
	switch {
	case r.Trouble != "":
		return "did not run"
	case r.void():
		return "void"
	case !s.Clean(r):
		return "failed"
	case r.Expect == Clean:
		return "clean"
	}
	return "held"
}

// Expected says what a row was expected to do.
func (*sheet) Expected(r *Row) string {
	switch r.Expect {
	case Fails:
		return "to fail"
	case Holds:
		return "to hold, with some luck"
	case Must:
		return "to hold"
	case Clean:
		return "to be clean"
	}
	return r.Expect
}

// AcceptedBar is the speed of a row's sales beside the fastest.
func (s *sheet) AcceptedBar(r *Row) template.HTML {
	return chart.Bar(r.Accepted.PerSecond, s.fastest.accepted, chart.Accepted)
}

// RefusedBar is the speed of a row's refusals beside the fastest.
func (s *sheet) RefusedBar(r *Row) template.HTML {
	return chart.Bar(r.Refused.PerSecond, s.fastest.refused, chart.Refused)
}

// Unprotected counts the rows that had an accident.
func (s *sheet) Unprotected() int {
	n := 0
	for i := range s.Rows {
		if row := &s.Rows[i]; row.Trouble == "" && !row.void() && !row.Clean() {
			n++
		}
	}
	return n
}

// Worst is the row that sold the most that did not exist; nil if none did.
func (s *sheet) Worst() *Row {
	var worst *Row
	for i := range s.Rows {
		if row := &s.Rows[i]; row.Oversold > 0 && (worst == nil || row.Oversold > worst.Oversold) {
			worst = row
		}
	}
	return worst
}

// Surprises are the rows that did not do what was expected of them.
func (s *sheet) Surprises() []*Row {
	var out []*Row
	for i := range s.Rows {
		if !s.Rows[i].As {
			out = append(out, &s.Rows[i])
		}
	}
	return out
}
