package bench

import (
	"html/template"
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
)

// panel is a chart of figures that belong together.
type panel struct {
	title, note string
	// names are the figures, as package probe calls them; of whom is the first word
	// of the source that they are taken from, and empty is everybody.
	of    string
	names []string
}

// panels are the figures that explain most runs, the first to look at first. What
// they leave out is drawn below them, one chart for each figure.
func panels() []panel {
	return []panel{
		{title: "CPU", note: "cores", names: []string{"cpu"}},
		{title: "Memory", names: []string{"memory"}},
		{title: "Units left", of: "stock", names: []string{"left in the ledger", "left in the lanes"}},
		{title: "Queue", note: "slips not yet judged", of: "stock", names: []string{"queued slips"}},
		{title: "Drift", note: "units left in the ledger less those left in the lanes", of: "stock", names: []string{"drift"}},
		{title: "Batch size", note: "attempts or slips decided together", of: "server", names: []string{"transaction size", "call size", "judge size"}},
		{title: "Batch time", note: "mean of one transaction or call", of: "server", names: []string{"transaction time", "call time", "judge time"}},
		{title: "Judge delay", note: "mean, from taken to judged", of: "server", names: []string{"judge delay"}},
		{title: "In the server", note: "requests", of: "server", names: []string{"in flight", "waiting", "waiting for the judge"}},
		{title: "Decided without the ledger", note: "a second", of: "server", names: []string{"decided from memory/s", "refused by the gate/s", "turned away/s"}},
		{title: "Redis", note: "commands a second", of: "redis", names: []string{"commands/s"}},
		{title: "PostgreSQL", note: "sessions", of: "postgres", names: []string{"active", "idle in transaction", "waiting for locks", "waiting for disk"}},
		{title: "nginx", note: "connections", of: "nginx", names: []string{"active", "reading", "writing", "waiting"}},
	}
}

// family is the first word of a source: server for server 2.
func family(source string) string {
	name, _, _ := strings.Cut(source, " ")
	return name
}

// holds reports whether a figure belongs into a panel.
func (p *panel) holds(probe *Series) bool {
	return slices.Contains(p.names, probe.Name) && (p.of == "" || p.of == family(probe.Source))
}

// html draws a panel of the figures that were told of it; it is empty where there are
// none.
func (p *panel) html(span chart.Axis, told []*Series) template.HTML {
	if len(told) == 0 {
		return ""
	}
	unit := chart.Unit(told[0].Unit)
	plot := chart.Plot{Title: p.title, Note: p.note, Small: true, X: span, Y: chart.Axis{Unit: unit}}
	for i, probe := range told {
		s := chart.Series{Name: probe.Name, Ink: chart.Other(slices.Index(p.names, probe.Name)), Points: probe.Points}
		if len(p.names) == 1 {
			s.Name, s.Ink = probe.Source, sourceInk(probe.Source, i)
		}
		if number := strings.TrimPrefix(probe.Source, family(probe.Source)); number != "" {
			s.Dashed = true
			if len(p.names) > 1 {
				s.Name = probe.Name + ", " + probe.Source
			}
		}
		if p.of != "" && len(p.names) == 1 && len(told) == 1 {
			s.Name = "" // the title says it all
		}
		plot.Series = append(plot.Series, s)
	}
	return plot.HTML()
}

func sourceInk(source string, i int) chart.Ink {
	known := []chart.Ink{chart.Server, chart.Redis, chart.Postgres, chart.Nginx, chart.Crowd}
	if ink := chart.Ink(family(source)); slices.Contains(known, ink) {
		return ink
	}
	return chart.Other(i)
}

// Resources are the panels of what the parts told of themselves.
func (s *sheet) Resources() template.HTML {
	var out template.HTML
	for _, p := range panels() {
		var told []*Series
		for i := range s.Probes {
			if p.holds(&s.Probes[i]) {
				told = append(told, &s.Probes[i])
			}
		}
		out += p.html(s.span, told)
	}
	return out
}

// Others are the figures that no panel holds.
func (s *sheet) Others() template.HTML {
	var out template.HTML
	all := panels()
	for i := range s.Probes {
		probe := &s.Probes[i]
		if slices.ContainsFunc(all, func(p panel) bool { return p.holds(probe) }) {
			continue
		}
		single := panel{title: probe.Source + ": " + probe.Name, of: family(probe.Source), names: []string{probe.Name}}
		out += single.html(s.span, []*Series{probe})
	}
	return out
}
