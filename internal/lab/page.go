package lab

import (
	"fmt"
	"io"
	"runtime"
	"strconv"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
	"github.com/doorbuster/doorbuster/internal/lab/console"
)

// WriteText writes the report as tables for a person, ending with the verdict.
func (r *DemoReport) WriteText(w io.Writer) error {
	p := &page{console.New(w)}
	p.head(r)
	p.attempts(r)
	p.speed(r)
	p.units(r)
	p.promises(r)
	p.title("The audit: the ledger itself, recounted by `doorbuster audit`")
	p.Part(r.Audit.WriteText)
	p.Line("")
	p.verdict(r)
	return p.Err()
}

// page is the report as it is written down.
type page struct{ *console.Page }

func (p *page) title(text string) {
	p.Line("%s", text)
	p.Line("")
}

func (p *page) head(r *DemoReport) {
	p.Line("%s buyers at the door in one instant, %s units, %s latecomers (seed %d)",
		chart.Grouped(int64(r.Buyers)), chart.Grouped(r.Stock), chart.Grouped(int64(r.Latecomers)), r.Seed)
	p.Line("")
}

func (p *page) attempts(r *DemoReport) {
	p.title("Attempts by verdict")
	rows := make([][]string, 1, 2+len(r.Attempts))
	rows[0] = []string{"verdict", "at the door", "later", "what the buyer was told"}
	var door, later int64
	for _, t := range r.Attempts {
		rows = append(rows, []string{t.Verdict, chart.Grouped(t.AtDoor), chart.Grouped(t.Later), t.Meaning})
		door, later = door+t.AtDoor, later+t.Later
	}
	rows = append(rows, []string{"all", chart.Grouped(door), chart.Grouped(later), ""})
	p.Table("lrrl", rows)
}

func (p *page) speed(r *DemoReport) {
	p.title(fmt.Sprintf("Speed at the door, over %s connections; how long buyers waited, from the instant it opened", chart.Grouped(int64(r.Connections))))
	p.Table("lrrrrrrr", [][]string{
		{"", "answers", "within", "per second", "p50", "p99", "p999", "slowest"},
		paceRow("accepted (the stock, sold once)", &r.Accepted),
		paceRow("refused", &r.Refused),
	})
	p.Line("  Accepted are the first orders for each unit, within and per second by the ledger's clock. The waits are the buyers': all")
	p.Line("  counted from the opening, with the crowd and the server on the same %d cores, so they show the queue, not one purchase.", runtime.NumCPU())
	p.Line("")
}

func paceRow(name string, a *Pace) []string {
	return []string{
		name, chart.Grouped(a.Answers), milliText(a.Seconds * 1000), chart.Grouped(int64(a.PerSecond)),
		milliText(a.P50), milliText(a.P99), milliText(a.P999), milliText(a.Max),
	}
}

func (p *page) units(r *DemoReport) {
	u := &r.Units
	p.title("What became of the units")
	p.Table("rl", [][]string{
		{chart.Grouped(u.Paid), fmt.Sprintf("of %s units paid, %s oversold, %s left over", chart.Grouped(r.Stock), chart.Grouped(u.Oversold), chart.Grouped(u.LeftOver))},
		{chart.Grouped(u.Cancelled), "came back because the buyer cancelled, and were sold again"},
		{chart.Grouped(u.Expired), fmt.Sprintf("came back because the hold ran out, at most %s ms after its end, and were sold again", chart.Grouped(u.SlowestMS))},
		{chart.Grouped(u.LatePaid), "charges came after the hold and found a free unit"},
		{chart.Grouped(u.LateRefunded), "charges came after the hold, found none, and go back to the buyer"},
	})
}

func (p *page) promises(r *DemoReport) {
	p.title("The promises, as the buyers' own books show them")
	rows := make([][]string, 1, 1+len(r.Promises))
	rows[0] = []string{"", "compared", "promise"}
	for i := range r.Promises {
		m := &r.Promises[i]
		sign := "kept"
		if m.Broken > 0 {
			sign = "BROKEN"
		}
		rows = append(rows, []string{sign, chart.Grouped(int64(m.Checked)), m.Name})
	}
	p.Table("lrl", rows)
	for i := range r.Promises {
		p.details(&r.Promises[i])
	}
}

func (p *page) details(m *Promise) {
	if m.Broken == 0 {
		return
	}
	p.Line("  broken %d times: %s", m.Broken, m.Name)
	for _, text := range m.Details {
		p.Line("    %s", text)
	}
	if more := m.Broken - len(m.Details); more > 0 {
		p.Line("    and %d more", more)
	}
	p.Line("")
}

func (p *page) verdict(r *DemoReport) {
	if r.Broken() {
		p.Line("BROKEN after %.1f s: a promise does not hold; see above.", r.Seconds)
	} else {
		p.Line("ALL KEPT after %.1f s: %s of %s units paid, %s oversold, %s left over; the buyers' books and the ledger agree.",
			r.Seconds, chart.Grouped(r.Units.Paid), chart.Grouped(r.Stock), chart.Grouped(r.Units.Oversold), chart.Grouped(r.Units.LeftOver))
	}
	if r.Kept {
		p.Line("")
		p.Line("The server goes on serving at %s; Ctrl-C stops it.", r.Address)
		p.Line("Its folder, which stays: %s", r.Dir)
		p.Line("  doorbuster order list --data-dir %s", r.Dir)
		p.Line("  curl %s/v1/sales/%s", r.Address, r.Sale)
	}
}

// milliText writes milliseconds with as many digits as tell something.
func milliText(ms float64) string {
	switch {
	case ms >= 100:
		return chart.Grouped(int64(ms)) + " ms"
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
}
