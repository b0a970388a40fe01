package contest

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// width is how wide a report in text is.
const width = 120

// WriteText writes the report as a table, and below it why each row is as it is.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d buyers in %d ms, %d clicks, %d units, one each (seed %d)\n", r.Buyers, spread.Milliseconds(), r.Clicks, r.Stock, r.Seed)
	for _, store := range []struct{ name, is string }{{"PostgreSQL", r.Postgres}, {"Redis", r.Redis}} {
		if store.is != "" {
			fmt.Fprintf(&b, "%s %s\n", store.name, store.is)
		}
	}
	b.WriteString("\n")
	r.writeTable(&b)
	b.WriteString("\n")
	for i := range r.Rows {
		r.Rows[i].writeWhy(&b)
	}
	b.WriteString("\n")
	word, text := r.conclusion()
	wrap(&b, word, fmt.Sprintf("%s (%.0f s)", text, r.Seconds))
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	headings = "%-25s %-5s %5s %5s %6s %6s %5s  %7s %5s %6s  %7s %5s %6s %6s %5s\n"
	figures  = "%-25s %-5s %5d %5s %6s %6s %5s  %7s %5s %6s  %7s %5s %6s %6s %5s\n"
)

func (r *Report) writeTable(b *strings.Builder) {
	fmt.Fprintf(b, headings, "", "", "", "over", "under", "bought", "", "accepts", "p50", "p99", "refuses", "p50", "p99", "not", "took")
	fmt.Fprintf(b, headings, "", "", "sold", "sold", "sold", "twice", "lost", "a sec.", "ms", "ms", "a sec.", "ms", "ms", "served", "s")
	for i := range r.Rows {
		row := &r.Rows[i]
		if i > 0 && (row.Expect == Clean) != (r.Rows[i-1].Expect == Clean) {
			b.WriteString("\n")
		}
		if row.Trouble != "" {
			fmt.Fprintf(b, "%-25s did not run\n", row.Name)
			continue
		}
		fmt.Fprintf(
			b, figures, row.Name, row.outcome(), row.Sold,
			some(row.Oversold), some(row.Undersold), some(row.Duplicates), some(row.Lost),
			rate(&row.Accepted), ms(&row.Accepted, row.Accepted.P50), ms(&row.Accepted, row.Accepted.P99),
			rate(&row.Refused), ms(&row.Refused, row.Refused.P50), ms(&row.Refused, row.Refused.P99),
			some(row.Failed), fmt.Sprintf("%.3g", row.Seconds),
		)
	}
}

// some writes a number that is well if it is zero.
func some(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func rate(s *Speed) string {
	if s.Answers == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", s.PerSecond)
}

func ms(s *Speed, t float64) string {
	switch {
	case s.Answers == 0:
		return "-"
	case t < 10:
		return fmt.Sprintf("%.1f", t)
	}
	return fmt.Sprintf("%.0f", t)
}

// outcome is what became of the row, in one word.
func (r *Row) outcome() string {
	switch {
	case r.void():
		return "void"
	case !r.Clean():
		return "FAILS"
	case r.Expect == Clean:
		return "clean"
	default:
		return "holds"
	}
}

// Summary tells in one line what a row showed.
func (r *Row) Summary() string {
	if r.Trouble != "" {
		return "did not run: " + r.Trouble
	}
	if r.void() {
		return "void: the fault did not happen; " + r.shown()
	}
	return r.outcome() + ": " + r.shown()
}

// Came says how the fault came about.
func (r *Row) Came() string {
	switch {
	case r.Struck == 0:
		return "it did not happen"
	case r.ToldAtKill > 0:
		return fmt.Sprintf("killed when %d orders had been told", r.ToldAtKill)
	case r.Struck == 1:
		return "it happened once"
	}
	return fmt.Sprintf("it happened %d times", r.Struck)
}

// shown lists the columns that are not zero.
func (r *Row) shown() string {
	var parts []string
	for _, c := range []struct {
		n    int64
		what string
	}{
		{r.Oversold, "oversold"},
		{r.Undersold, "that nobody could buy"},
		{r.Duplicates, "bought twice"},
		{r.Lost, "lost"},
		{r.Broken, "promises broken"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	sold := fmt.Sprintf("%d sold", r.Sold)
	if len(parts) == 0 {
		return sold
	}
	return sold + ", " + strings.Join(parts, ", ")
}

// writeWhy writes why the row is as it is.
func (r *Row) writeWhy(b *strings.Builder) {
	text := r.Title + ". "
	if r.Trouble != "" {
		wrap(b, r.Name, text+"It did not run: "+r.Trouble)
		return
	}
	if r.Fault != "" {
		text += "(Here " + r.Fault + "; " + r.Came() + ".) "
	}
	text += strings.ToUpper(r.outcome()[:1]) + strings.ToLower(r.outcome()[1:]) + ": " + r.shown() + ". " + r.Why
	switch {
	case r.As:
	case r.void():
		text += " This time the fault did not happen, so it shows nothing."
	case r.Expect == Fails:
		text += " This time nothing happened."
	case r.Expect == Holds:
		text += " This time it did not hold, by bad luck."
	default:
		text += strings.TrimSuffix(" THIS MUST NOT BE: "+r.Note, ": ")
	}
	if j := r.Judged; j != nil {
		text += fmt.Sprintf(" From click to judgement: p50 %s ms, p99 %s ms.", ms(j, j.P50), ms(j, j.P99))
	}
	if r.As && r.Note != "" {
		text += " (" + r.Note + ".)"
	}
	wrap(b, r.Name, text)
}

// wrap writes a text beside its name in lines of the report's width.
func wrap(b *strings.Builder, name, text string) {
	const indent = 26
	line := fmt.Sprintf("%-*s", indent-1, name)
	for word := range strings.FieldsSeq(text) {
		if len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// conclusion says what came out, in a word and in a sentence or more.
func (r *Report) conclusion() (word, text string) {
	broken, fell := r.Broken(), r.names((*Row).fell)
	unseen := slices.DeleteFunc(slices.Clone(r.Missing), func(name string) bool { return slices.Contains(fell, name) })
	var parts []string
	for _, c := range []struct {
		what  string
		names []string
	}{
		{"Doorbuster is not clean in ", broken},
		{"What must hold did not: ", fell},
		{"Nothing was to be seen of ", unseen},
		{"The lab was ended before these came to their end: ", r.CutOff},
	} {
		if len(c.names) > 0 {
			parts = append(parts, c.what+strings.Join(c.names, ", ")+".")
		}
	}
	switch {
	case len(broken) > 0:
		word = "BROKEN"
	case len(parts) > 0:
		word = "NOT SHOWN"
	case !r.ours():
		return "SHOWN", "Each row that ran failed or held as it must; none of Doorbuster's was among them."
	default:
		return "SHOWN", "What must fail failed, what must hold held, and what Doorbuster sold is clean."
	}
	return word, strings.Join(parts, " ")
}
