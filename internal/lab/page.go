package lab

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report as tables for a person, ending with the verdict.
func (r *DemoReport) WriteText(w io.Writer) error {
	p := &page{w: w}
	p.head(r)
	p.attempts(r)
	p.speed(r)
	p.units(r)
	p.promises(r)
	p.title("The audit: the ledger's own file, recounted by `doorbuster audit`")
	if p.err == nil {
		p.err = r.Audit.WriteText(w)
	}
	p.line("")
	p.verdict(r)
	return p.err
}

// page keeps the first error, so that a table is written without a check after
// every line.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) title(text string) {
	p.line("%s", text)
	p.line("")
}

// table writes rows of cells in columns, each aligned to the left or, where
// align has an r, to the right, and a blank line.
func (p *page) table(align string, rows [][]string) {
	widths := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if align[i] == 'r' {
				cell = fill + cell
			} else {
				cell += fill
			}
			b.WriteString("  " + cell)
		}
		p.line("%s", strings.TrimRight(b.String(), " "))
	}
	p.line("")
}

func (p *page) head(r *DemoReport) {
	p.line("%s buyers at the door in one instant, %s units, %s latecomers (seed %d)",
		grouped(int64(r.Buyers)), grouped(r.Stock), grouped(int64(r.Latecomers)), r.Seed)
	p.line("")
}

func (p *page) attempts(r *DemoReport) {
	p.title("Attempts by verdict")
	rows := make([][]string, 1, 2+len(r.Attempts))
	rows[0] = []string{"verdict", "at the door", "later", "what the buyer was told"}
	var door, later int64
	for _, t := range r.Attempts {
		rows = append(rows, []string{t.Verdict, grouped(t.AtDoor), grouped(t.Later), t.Meaning})
		door, later = door+t.AtDoor, later+t.Later
	}
	rows = append(rows, []string{"all", grouped(door), grouped(later), ""})
	p.table("lrrl", rows)
}

func (p *page) speed(r *DemoReport) {
	p.title(fmt.Sprintf("Speed at the door, over %s connections; how long buyers waited, from the instant it opened", grouped(int64(r.Connections))))
	p.table("lrrrrrrr", [][]string{
		{"", "answers", "within", "per second", "p50", "p99", "p999", "slowest"},
		paceRow("accepted (the stock, sold once)", &r.Accepted),
		paceRow("refused", &r.Refused),
	})
	p.line("  Accepted are the first orders for each unit, within and per second by the ledger's clock. The waits are the buyers': all")
	p.line("  counted from the opening, with the crowd and the server on the same %d cores, so they show the queue, not one purchase.", runtime.NumCPU())
	p.line("")
}

func paceRow(name string, a *Pace) []string {
	return []string{
		name, grouped(a.Answers), milliText(a.Seconds * 1000), grouped(int64(a.PerSecond)),
		milliText(a.P50), milliText(a.P99), milliText(a.P999), milliText(a.Max),
	}
}

func (p *page) units(r *DemoReport) {
	u := &r.Units
	p.title("What became of the units")
	p.table("rl", [][]string{
		{grouped(u.Paid), fmt.Sprintf("of %s units paid, %s oversold, %s left over", grouped(r.Stock), grouped(u.Oversold), grouped(u.LeftOver))},
		{grouped(u.Cancelled), "came back because the buyer cancelled, and were sold again"},
		{grouped(u.Expired), fmt.Sprintf("came back because the hold ran out, at most %s ms after its end, and were sold again", grouped(u.SlowestMS))},
		{grouped(u.LatePaid), "charges came after the hold and found a free unit"},
		{grouped(u.LateRefunded), "charges came after the hold, found none, and go back to the buyer"},
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
		rows = append(rows, []string{sign, grouped(int64(m.Checked)), m.Name})
	}
	p.table("lrl", rows)
	for i := range r.Promises {
		p.details(&r.Promises[i])
	}
}

func (p *page) details(m *Promise) {
	if m.Broken == 0 {
		return
	}
	p.line("  broken %d times: %s", m.Broken, m.Name)
	for _, text := range m.Details {
		p.line("    %s", text)
	}
	if more := m.Broken - len(m.Details); more > 0 {
		p.line("    and %d more", more)
	}
	p.line("")
}

func (p *page) verdict(r *DemoReport) {
	if r.Broken() {
		p.line("BROKEN after %.1f s: a promise does not hold; see above.", r.Seconds)
	} else {
		p.line("ALL KEPT after %.1f s: %s of %s units paid, %s oversold, %s left over; the buyers' books and the ledger agree.",
			r.Seconds, grouped(r.Units.Paid), grouped(r.Stock), grouped(r.Units.Oversold), grouped(r.Units.LeftOver))
	}
	if r.Kept {
		p.line("")
		p.line("The server goes on serving at %s; Ctrl-C stops it.", r.Address)
		p.line("Its folder, which stays: %s", r.Dir)
		p.line("  doorbuster order list --data-dir %s", r.Dir)
		p.line("  curl %s/v1/sales/%s", r.Address, r.Sale)
	}
}

// grouped writes a number with a comma after each three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(text) - 3; i > from; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// milliText writes milliseconds with as many digits as tell something.
func milliText(ms float64) string {
	switch {
	case ms >= 100:
		return grouped(int64(ms)) + " ms"
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
}
