package audit

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// WriteText writes the report as a table that a person can read, without
// colours, ending with a line that gives the verdict.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := &printer{w: t}
	for i := range r.Sales {
		p.sale(&r.Sales[i])
	}
	p.verdict(r)
	if p.err != nil {
		return p.err
	}
	return t.Flush()
}

// printer keeps the first error, so that a table is written without a check
// after every line.
type printer struct {
	w   *tabwriter.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) sale(s *SaleReport) {
	f := &s.Figures
	p.line("sale %s (number %d, %s)", safe(s.Slug), s.Number, safe(string(s.State)))
	p.line("")
	p.line("  units\tstock %d, sold %d: reserved %d, paid %d", f.Stock, f.Sold, f.Reserved, f.Paid)
	p.line("  came back\tcancelled %d, expired %d, refunded %d; rejected %d", f.Cancelled, f.Expired, f.Refunded, f.Rejected)
	p.line("  orders\t%d of %s, %s", f.Orders, counted(f.Buyers, "buyer"), counted(f.Charges, "charge"))
	for _, m := range f.Money {
		p.line("  money\t%s in minor units: paid %d, to return %d, returned %d", safe(m.Currency), m.Paid, m.ToReturn, m.Returned)
	}
	p.line("  journal\t%s, head %s", counted(int64(f.Rows), "row"), f.Head) //nolint:gosec // a journal ends long before
	if f.Anchor > 0 {
		p.line("  published\tthe given head is row %d", f.Anchor)
	}
	p.line("")
	p.line("  rule\tchecked\tbroken\tpromise")
	for i := range s.Rules {
		u := &s.Rules[i]
		p.line("  %s\t%d\t%d\t%s", u.Rule, u.Checked, u.Broken, u.Promise)
	}
	p.line("  P2, P5, P8\t-\t-\tdemand sells all, queued orders end, events arrive: shown by tests")
	p.line("  P9\t-\t-\terrors are honest: shown by tests")
	p.line("")
	for i := range s.Rules {
		p.violations(&s.Rules[i])
	}
}

func (p *printer) violations(u *RuleReport) {
	if u.Broken == 0 {
		return
	}
	p.line("  %s is broken: %s", u.Rule, counted(u.Broken, "violation"))
	for _, v := range u.Violations {
		p.line("    %s%s", whereabouts(v), safe(v.Text))
	}
	if more := u.Broken - int64(len(u.Violations)); more > 0 {
		p.line("    and %d more", more)
	}
	p.line("")
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.FormatInt(n, 10) + " " + what
}

func whereabouts(v Violation) string {
	var parts []string
	if !v.Order.IsZero() {
		parts = append(parts, v.Order.String())
	}
	if v.Row > 0 {
		parts = append(parts, "row "+strconv.FormatUint(v.Row, 10))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ": "
}

func (p *printer) verdict(r *Report) {
	var orders int64
	var rows uint64
	var broken []string
	for i := range r.Sales {
		s := &r.Sales[i]
		orders += s.Figures.Orders
		rows += s.Figures.Rows
		for j := range s.Rules {
			if s.Rules[j].Broken > 0 {
				broken = append(broken, safe(s.Slug)+" "+s.Rules[j].Rule)
			}
		}
	}
	extent := counted(int64(len(r.Sales)), "sale") + ", " + counted(orders, "order") + ", " + counted(int64(rows), "journal row")
	if len(broken) == 0 {
		p.line("KEPT: every promise that leaves a trace holds (%s).", extent)
		return
	}
	p.line("BROKEN: %s (%s).", strings.Join(broken, ", "), extent)
}

// safe returns text that cannot move a terminal's cursor or break a table: what
// is not printable is quoted.
func safe(text string) string {
	if !utf8.ValidString(text) {
		return strconv.QuoteToASCII(text)
	}
	for _, c := range text {
		if !unicode.IsPrint(c) {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}
