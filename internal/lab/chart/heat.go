package chart

import (
	"html/template"
	"math"
	"strconv"
)

// Heat is a chart of a distribution over time: each column is a grain of time, each
// row a range of values, and the darker a cell the more fell into it, by powers.
type Heat struct {
	Title string
	Note  string
	X     Axis // of time
	Y     Unit // of the edges
	// Edges are the upper ends of the rows, rising and above zero.
	Edges []float64
	// Grain is how long a column is, in units of X.
	Grain   float64
	Columns []Column
}

// Column is a grain of time that begins at At. Counts has a number for each row; one
// more is of what lies above the last edge.
type Column struct {
	At     float64
	Counts []int64
}

// mostColumns bounds the columns that are drawn; neighbours are added up.
const mostColumns = 240

// strengths is how many strengths of the ink there are.
const strengths = 7

// HTML draws the chart.
func (h *Heat) HTML() template.HTML {
	d := heating{heat: h}
	d.raw(`<figure class="chart heat">`)
	d.caption(h.Title, h.Note)
	if !d.gather() {
		d.nothing()
		return d.html()
	}
	d.legend()
	d.open(h.Title, d.describe(), &d.x, &d.y)
	d.raw(`<g class="ink-heat">`)
	for strength := 1; strength <= strengths; strength++ {
		d.cells(strength)
	}
	d.raw(`</g>`)
	for _, c := range d.columns {
		d.strip(c)
	}
	d.shut()
	return d.html()
}

// heating is a heat map on its way to the page.
type heating struct {
	canvas

	heat    *Heat
	columns []Column
	grain   float64
	edges   []float64 // of all rows: row i reaches from edges[i] to edges[i+1]
	low     int       // the lowest row that holds something
	high    int       // and the highest
	most    int64
	x, y    scale
}

// gather makes the columns few enough and finds what is to be shown; it is false
// where that is nothing.
func (d *heating) gather() bool {
	if d.grain = d.heat.Grain; !(d.grain > 0 && d.grain <= beyond) || !d.rows() {
		return false
	}
	from, to := math.Inf(1), math.Inf(-1)
	for _, c := range d.heat.Columns {
		if finite(c.At) && math.Abs(c.At) <= beyond {
			from, to = min(from, c.At), max(to, c.At+d.grain)
		}
	}
	if from > to {
		return false
	}
	switch n := (to - from) / d.grain; {
	case math.IsInf(n, 1): // a grain that is nearly nothing
		d.grain = (to - from) / mostColumns
	case n > mostColumns:
		d.grain *= math.Ceil(n / mostColumns)
	}
	d.merge(from)
	axis := d.heat.X
	if !axis.fixed() {
		axis.Min, axis.Max = from, to
	}
	d.x = newScale(axis, from, to, 8)
	return d.crop()
}

// rows turns the upper ends into edges, with one row below the first and one above
// the last.
func (d *heating) rows() bool {
	last := 0.0
	for _, e := range d.heat.Edges {
		if !finite(e) || e <= last || e > beyond {
			return false
		}
		last = e
	}
	n := len(d.heat.Edges)
	if n < 2 {
		return false
	}
	first := d.heat.Edges[0]
	d.edges = append([]float64{first * first / d.heat.Edges[1]}, d.heat.Edges...)
	d.edges = append(d.edges, last*last/d.heat.Edges[n-2])
	return finite(d.edges[n+1]) && d.edges[0] > 0
}

func (d *heating) merge(from float64) {
	at := make(map[int]int) // place among the columns by number of grain
	for _, c := range d.heat.Columns {
		if !finite(c.At) || math.Abs(c.At) > beyond {
			continue
		}
		number := int(math.Floor((c.At-from)/d.grain + 1e-6))
		i, found := at[number]
		if !found {
			i = len(d.columns)
			at[number] = i
			d.columns = append(d.columns, Column{At: from + float64(number)*d.grain, Counts: make([]int64, len(d.edges)-1)})
		}
		for row, n := range c.Counts {
			if row = min(row, len(d.edges)-2); n > 0 {
				sum := &d.columns[i].Counts[row]
				*sum = min(*sum, math.MaxInt64-n) + n
			}
		}
	}
}

// crop leaves out the rows below and above what was seen.
func (d *heating) crop() bool {
	d.low, d.high = len(d.edges), -1
	for _, c := range d.columns {
		for row, n := range c.Counts {
			if n > 0 {
				d.low, d.high, d.most = min(d.low, row), max(d.high, row), max(d.most, n)
			}
		}
	}
	if d.high < 0 {
		return false
	}
	low, high := d.edges[d.low], d.edges[d.high+1]
	d.y = scale{kind: Log, unit: d.heat.Y, from: low, to: high}
	nicer := newScale(Axis{Unit: d.heat.Y, Scale: Log}, low, high, 4)
	for _, t := range nicer.steps {
		if t.at >= low*0.999 && t.at <= high*1.001 {
			d.y.steps = append(d.y.steps, t)
		}
	}
	return true
}

// strength returns how dark a count is, from 1.
func (d *heating) strength(n int64) int {
	if d.most <= 1 {
		return strengths
	}
	share := math.Log(float64(n)) / math.Log(float64(d.most))
	return min(1+int(share*strengths), strengths)
}

// least is the smallest count of a strength.
func (d *heating) least(strength int) int64 {
	return int64(math.Ceil(math.Pow(float64(d.most), float64(strength-1)/strengths) - 1e-9))
}

func (d *heating) legend() {
	d.raw(`<ul class="legend ramp"><li>1</li>`)
	for s := 1; s <= strengths; s++ {
		d.raw(`<li><svg class="key ink-heat" width="14" height="10"><rect class="cell strength-`, strconv.Itoa(s), `" width="14" height="10"/>`)
		d.wrap(`<title>from `, Grouped(d.least(s)), `</title></svg></li>`)
	}
	d.wrap(`<li>`, Grouped(d.most), ` in a cell</li></ul>`)
}

// cells draws all cells of one strength as one path.
func (d *heating) cells(strength int) {
	path := canvas{}
	for _, c := range d.columns {
		x := d.x.share(c.At)
		width := coord(d.x.share(c.At+d.grain) - x)
		for row := d.low; row <= d.high; row++ {
			if n := c.Counts[row]; n > 0 && d.strength(n) == strength {
				top, bottom := 1-d.y.share(d.edges[row+1]), 1-d.y.share(d.edges[row])
				path.raw("M", coord(x), " ", coord(top), "h", width, "V", coord(bottom), "H", coord(x), "z")
			}
		}
	}
	if path.Len() > 0 {
		d.raw(`<path class="cell strength-`, strconv.Itoa(strength), `" d="`, path.String(), `"/>`)
	}
}

// strip lets a column tell its numbers under a pointer.
func (d *heating) strip(c Column) {
	var all float64
	for _, n := range c.Counts {
		all += float64(n)
	}
	if all == 0 {
		return
	}
	from, to := d.x.share(c.At), d.x.share(c.At+d.grain)
	d.hit(from, to-from, d.x.unit.Text(c.At)+"\n"+Count.Text(all)+" answers\nhalf within "+
		d.y.unit.Text(d.within(c, all/2))+"\nall within "+d.y.unit.Text(d.within(c, all)))
}

// within returns the end of the row in which a number of a column's answers is
// reached.
func (d *heating) within(c Column, number float64) float64 {
	var sum float64
	for row, n := range c.Counts {
		if sum += float64(n); sum >= number {
			return d.edges[row+1]
		}
	}
	return d.edges[len(d.edges)-1]
}

func (d *heating) describe() string {
	return d.heat.Note + ". Values from " + d.y.unit.Text(d.y.from) + " to " + d.y.unit.Text(d.y.to) +
		", at most " + Grouped(d.most) + " in a cell."
}
