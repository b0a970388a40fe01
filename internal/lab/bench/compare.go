package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/console"
)

// longestReport bounds a report that is read again.
const longestReport = 256 << 20

// Read reads a report that was written as JSON.
func Read(r io.Reader) (*Report, error) {
	limited := &io.LimitedReader{R: r, N: longestReport}
	var out Report
	if err := json.NewDecoder(limited).Decode(&out); err != nil {
		return nil, fmt.Errorf("it is no report of doorbuster bench: %w", err)
	}
	if out.Sale == "" || len(out.Pace) == 0 {
		return nil, errors.New("it is no report of doorbuster bench: it names no sale, or no answers")
	}
	return &out, nil
}

// Unlike lists in what two runs differ that decides how fast they can be. Only runs
// that do not differ can be compared.
func Unlike(r, old *Report) []string {
	var out []string
	differ := func(what string, now, before any) {
		if now != before {
			out = append(out, fmt.Sprintf("%s: %v now, %v before", what, now, before))
		}
	}
	differ("profile", r.Profile, old.Profile)
	now, before := fields(&r.Shape), fields(&old.Shape)
	for i := range now {
		differ(now[i].name, now[i].value, before[i].value)
	}
	differ("units", r.Stock, old.Stock)
	differ("path", r.Path, old.Path)
	differ("instances", strings.Count(r.URL, " ")+1, strings.Count(old.URL, " ")+1)
	return out
}

type field struct {
	name  string
	value any
}

func fields(s *Shape) []field {
	return []field{
		{"buyers", s.Buyers},
		{"spread", s.Spread},
		{"from", s.From},
		{"to", s.To},
		{"length", s.Length},
		{"refreshes", s.Refreshes},
		{"before", s.Before},
		{"bots", s.Bots},
		{"bot clicks", s.BotClicks},
		{"double clicks", s.DoubleClick},
		{"think", s.Think},
		{"pay", s.Pay},
		{"cancel", s.Cancel},
		{"again", s.Again},
	}
}

// WriteCompared writes the figures of a run beside those of an older one. It judges
// nothing: what is much or little depends on the machines.
func (r *Report) WriteCompared(w io.Writer, old *Report) error {
	p := &page{console.New(w)}
	p.Line("Compared with the run of %s at %s", old.StartedAt.UTC().Format("2006-01-02 15:04:05Z"), old.URL)
	if unlike := Unlike(r, old); len(unlike) > 0 {
		p.Line("WARNING: the two are not alike, and their figures say little of each other: %s.", strings.Join(unlike, "; "))
	}
	p.Line("")
	rows := [][]string{{"", "", "before", "now", "change"}}
	add := func(class, figure string, text func(float64) string, before, now float64) {
		rows = append(rows, []string{class, figure, text(before), text(now), change(before, now)})
	}
	for _, class := range classNames() {
		now, before := r.of(class), old.of(class)
		if now.Answers == 0 && before.Answers == 0 {
			continue
		}
		name := words(class)
		add(name, "answers", perSecond, float64(before.Answers), float64(now.Answers))
		add("", "a second", perSecond, before.PerSecond, now.PerSecond)
		add("", "best 0.1 s", best, before.Peak, now.Peak)
		add("", "waited p50", ms, before.Waited.P50, now.Waited.P50)
		add("", "waited p99", ms, before.Waited.P99, now.Waited.P99)
		add("", "waited p99.9", ms, before.Waited.P999, now.Waited.P999)
		add("", "served p99", ms, before.Served.P99, now.Served.P99)
	}
	if r.Judged != nil && old.Judged != nil {
		add("judged", "waited p50", ms, old.Judged.Waited.P50, r.Judged.Waited.P50)
		add("", "waited p99", ms, old.Judged.Waited.P99, r.Judged.Waited.P99)
	}
	add("crowd", "late p99", ms, old.Late.P99, r.Late.P99)
	add("", "connections", perSecond, float64(old.Connections), float64(r.Connections))
	rows = append(rows, []string{"verdict", "", old.verdict(), r.verdict(), ""})
	p.titled("Before and now", "llrrr", rows)
	return p.Err()
}

// change tells how a figure has moved, in parts of a hundred.
func change(before, now float64) string {
	if before <= 0 || now <= 0 {
		return none
	}
	return fmt.Sprintf("%+.1f %%", (now/before-1)*100)
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
