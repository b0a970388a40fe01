package bench

import (
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
	"github.com/doorbuster/doorbuster/internal/lab/console"
)

// WriteText writes the report as tables for a person, ending with the verdict.
func (r *Report) WriteText(w io.Writer) error {
	p := &page{console.New(w)}
	p.head(r)
	p.warnings(r.Warnings)
	p.pace(r)
	p.tallies(r)
	p.stages(r)
	p.probes(r)
	p.checks(r)
	p.audit(r)
	p.verdict(r)
	return p.Err()
}

// page is the report as it is written down.
type page struct{ *console.Page }

// titled writes a title and a table below it. The first row is the heading; without
// more rows nothing is written.
func (p *page) titled(title, align string, rows [][]string) {
	if len(rows) > 1 {
		p.Line("%s", title)
		p.Table(align, rows)
	}
}

func (p *page) head(r *Report) {
	p.Line("%s: %s units on the %s path at %s", r.Sale, chart.Grouped(r.Stock), r.Path, r.URL)
	p.Line("%s crowd: %s visits by %s buyers, due within %.1f s and done within %.1f s, over %s connections (seed %d)", r.Profile,
		chart.Grouped(r.Offered), chart.Grouped(int64(r.Buyers)), r.Due, r.Seconds, chart.Grouped(int64(r.Connections)), r.Seed)
	server := r.Server
	if server == "" {
		server = "not told"
	}
	p.Line("started %s; measured by doorbuster %s, server %s", r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"), r.Version, server)
	if r.sharesMachine() {
		p.Line("crowd and server share this machine: each is slower than alone")
	}
	p.Line("")
}

// sharesMachine reports whether a server ran where the crowd did, as far as its address
// tells.
func (r *Report) sharesMachine() bool {
	return slices.ContainsFunc(strings.Fields(r.URL), func(text string) bool {
		u, err := url.Parse(text)
		if err != nil {
			return false
		}
		ip, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	})
}

func (p *page) warnings(all []string) {
	for _, text := range all {
		p.Line("WARNING: %s.", text)
	}
	if len(all) > 0 {
		p.Line("")
	}
}

func ms(v float64) string { return chart.Millis.Text(v) }

func perSecond(v float64) string { return chart.Grouped(int64(v + 0.5)) }

// best writes a peak, if there is one.
func best(peak float64) string {
	if peak == 0 {
		return none
	}
	return perSecond(peak) + "/s"
}

func (p *page) pace(r *Report) {
	rows := [][]string{{"", "answers", "a second", "best 0.1 s", "p50", "p90", "p99", "p99.9", "max", "served p99"}}
	for i := range r.Pace {
		c := &r.Pace[i]
		rows = append(rows, []string{
			words(c.Class), chart.Grouped(c.Answers), perSecond(c.PerSecond), best(c.Peak),
			ms(c.Waited.P50), ms(c.Waited.P90), ms(c.Waited.P99), ms(c.Waited.P999), ms(c.Waited.Max), ms(c.Served.P99),
		})
	}
	if j := r.Judged; j != nil {
		rows = append(rows, []string{
			"judged", chart.Grouped(j.Orders), "", "", ms(j.Waited.P50), ms(j.Waited.P90), ms(j.Waited.P99), ms(j.Waited.P999), ms(j.Waited.Max), "",
		})
	}
	p.titled("Pace: how long was waited from the instant each step was due, and served from its leaving", "lrrrrrrrrr", rows)
	why := ""
	if r.Saturated {
		why = "; all connections were waiting for the server, so visits queued before it, and waited holds that time"
	}
	p.Line("  visits left late: %s at p50, %s at p99, %s at most%s", ms(r.Late.P50), ms(r.Late.P99), ms(r.Late.Max), why)
	if r.Judged != nil {
		p.Line("  judged: queued orders, from the click to the news that they are reserved or rejected")
	}
	p.Line("")
}

func (p *page) tallies(r *Report) {
	rows := make([][]string, 1, 1+len(r.Verdicts))
	rows[0] = []string{"asked for", "verdict", "answers"}
	for _, t := range r.Verdicts {
		rows = append(rows, []string{t.Kind, words(t.Verdict), chart.Grouped(t.Count)})
	}
	p.titled("Answers", "llr", rows)
}

func (p *page) stages(r *Report) {
	rows := make([][]string, 1, 1+len(r.Stages))
	rows[0] = []string{"stage", "buys", "mean", "p50", "p90", "p99", "max"}
	for i := range r.Stages {
		s := &r.Stages[i]
		rows = append(rows, []string{s.Name, chart.Grouped(s.Count), ms(s.Mean), ms(s.Times.P50), ms(s.Times.P90), ms(s.Times.P99), ms(s.Times.Max)})
	}
	p.titled("Stages of a buy, as the server tells them", "lrrrrrr", rows)
}

func (p *page) probes(r *Report) {
	rows := [][]string{{"of", "figure", "mean", "max", "in all"}}
	for i := range r.Probes {
		s := &r.Probes[i]
		mean, most := r.summary(s)
		switch unit := chart.Unit(s.Unit); {
		case most == 0: // it says that nothing happened
		case r.Seconds < shortLags*s.Lag:
			rows = append(rows, []string{s.Source, s.Name, none, none, ""})
		default:
			rows = append(rows, []string{s.Source, s.Name, unit.Text(mean), unit.Text(most), r.inAll(s)})
		}
	}
	p.titled("Figures of the machines while the crowd was there", "llrrr", rows)
	for _, n := range r.Notes {
		p.Line("  %s at %.1f s: %s", n.Source, n.At, n.Text)
	}
	if len(r.Notes) > 0 {
		p.Line("")
	}
}

// shortLags is how many lags of a counter a run must last at least, so that what is
// missing from it is a tenth at most.
const shortLags = 10

// summary returns mean and maximum of a series from the first visit to the last
// answer. What a counter that lags was told later happened in that time too.
func (r *Report) summary(s *Series) (mean, most float64) {
	if len(r.Slots) == 0 {
		return 0, 0
	}
	first, points := r.Slots[0].At, 0
	for _, point := range s.Points {
		if point[0] < first || point[0] > first+r.Seconds {
			continue
		}
		points++
		mean += (point[1] - mean) / float64(points)
		most = max(most, point[1])
	}
	if s.Lag > 0 && r.Seconds > 0 {
		mean = s.Grown / r.Seconds
		most = max(most, mean)
	}
	return mean, most
}

// inAll returns what a series of cores comes to, in core-seconds from the first visit to
// the last reading, so that what was done after the crowd is in it; empty for others.
func (r *Report) inAll(s *Series) string {
	if s.Unit != "cores" || len(r.Slots) == 0 {
		return ""
	}
	total, since := 0.0, r.Slots[0].At
	for _, point := range s.Points {
		if point[0] > since {
			total += point[1] * (point[0] - since)
			since = point[0]
		}
	}
	return strconv.FormatFloat(total, 'f', 2, 64) + " core-s"
}

// sign says how a promise fared; where nothing was compared, that is not known.
func sign(c *Check) string {
	switch {
	case c.Broken > 0:
		return "BROKEN"
	case c.Checked == 0:
		return none
	}
	return "kept"
}

// none stands for what there is not.
const none = "–"

func (p *page) checks(r *Report) {
	rows := make([][]string, 1, 1+len(r.Checks))
	rows[0] = []string{"", "promise", "", "compared", "broken"}
	for i := range r.Checks {
		c := &r.Checks[i]
		rows = append(rows, []string{sign(c), c.Promise, c.Text, chart.Grouped(c.Checked), chart.Grouped(c.Broken)})
	}
	p.titled("What buyers were told, against what the server holds", "lllrr", rows)
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Broken > 0 {
			p.Line("  %s is broken, for one: %s", c.Promise, c.Example)
		}
	}
}

func (p *page) audit(r *Report) {
	if r.Audit == nil || len(r.Audit.Sales) == 0 {
		return
	}
	for i := range r.Audit.Sales {
		s := &r.Audit.Sales[i]
		var facts, broken int64
		for j := range s.Rules {
			facts, broken = facts+s.Rules[j].Checked, broken+s.Rules[j].Broken
			if s.Rules[j].Broken > 0 {
				p.Line("  the audit: %s (%s) is broken by %s facts", words(s.Rules[j].Rule), s.Rules[j].Promise, chart.Grouped(s.Rules[j].Broken))
			}
		}
		p.Line("Audit of %s: %s rules over %s facts (%s orders, %s journal rows), %s broken",
			s.ID, strconv.Itoa(len(s.Rules)), chart.Grouped(facts), chart.Grouped(s.Figures.Orders), strconv.FormatUint(s.Figures.Rows, 10), chart.Grouped(broken))
	}
	p.Line("")
}

func (p *page) verdict(r *Report) {
	if r.Unproved != "" {
		p.Line("UNPROVED: %s", r.Unproved)
		return
	}
	p.Line("%s: %s of %s units sold (%s paid, %s reserved), %s oversold, %s free.", r.verdict(),
		chart.Grouped(r.Sold.Reserved+r.Sold.Paid), chart.Grouped(r.Stock), chart.Grouped(r.Sold.Paid), chart.Grouped(r.Sold.Reserved),
		chart.Grouped(r.Sold.Oversold), chart.Grouped(r.Sold.Free))
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
