package obs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace begins the name of every metric.
const namespace = "doorbuster"

// card describes one metric for people.
type card struct {
	name   string
	kind   string
	help   string
	labels []string
}

// maker makes metrics, registers them and keeps their cards.
type maker struct {
	to    prometheus.Registerer
	cards []card
}

func (m *maker) keep(kind, name, help string, labels []string) string {
	full := prometheus.BuildFQName(namespace, "", name)
	m.cards = append(m.cards, card{name: full, kind: kind, help: help, labels: labels})
	return full
}

func (m *maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: m.keep("counter", name, help, nil), Help: help})
	m.to.MustRegister(c)
	return c
}

func (m *maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.keep("counter", name, help, labels), Help: help}, labels)
	m.to.MustRegister(c)
	return c
}

func (m *maker) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: m.keep("gauge", name, help, nil), Help: help})
	m.to.MustRegister(g)
	return g
}

func (m *maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.keep("gauge", name, help, labels), Help: help}, labels)
	m.to.MustRegister(g)
	return g
}

func (m *maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.keep("histogram", name, help, nil), Help: help, Buckets: buckets})
	m.to.MustRegister(h)
	return h
}

func (m *maker) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.keep("histogram", name, help, labels), Help: help, Buckets: buckets}, labels)
	m.to.MustRegister(h)
	return h
}

// desc describes a metric that is read when it is asked for.
func (m *maker) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(m.keep("gauge", name, help, labels), help, labels, nil)
}

// WriteDoc writes the page that explains every metric, in Markdown.
func (m *Metrics) WriteDoc(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Metrics\n\nServed at `/metrics` of the ops listener. This page is made from `internal/obs/metrics.go` by `make generate`.\n\n")
	b.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	cards := slices.Clone(m.cards)
	slices.SortFunc(cards, func(a, b card) int { return strings.Compare(a.name, b.name) })
	for _, c := range cards {
		labels := make([]string, len(c.labels))
		for i, l := range c.labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.name, c.kind, strings.Join(labels, ", "), c.help)
	}
	b.WriteString("\nBesides these there are the usual `go_…` and `process_…` metrics of the runtime.\n")
	_, err := io.WriteString(w, b.String())
	return err
}
