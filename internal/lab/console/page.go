// Package console writes reports for a terminal: lines, and tables whose columns stand
// under each other.
package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page is a report that is being written. It keeps the first error, so that nothing
// is checked after every line.
type Page struct {
	w   io.Writer
	err error
}

// New returns an empty page.
func New(w io.Writer) *Page { return &Page{w: w} }

// Err returns what went wrong first, or nil.
func (p *Page) Err() error { return p.err }

// Line writes one line.
func (p *Page) Line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// Part lets somebody else write a part.
func (p *Page) Part(write func(io.Writer) error) {
	if p.err == nil {
		p.err = write(p.w)
	}
}

// Table writes rows of cells in columns, and a blank line. A column is aligned to the
// right where align has an r, else to the left.
func (p *Page) Table(align string, rows [][]string) {
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
		p.Line("%s", strings.TrimRight(b.String(), " "))
	}
	p.Line("")
}
