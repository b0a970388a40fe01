package chart

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plot is a chart of curves: values over time, or over quantiles.
type Plot struct {
	Title string
	Note  string // what is counted, beside the title
	X, Y  Axis
	// Stacked lays the curves upon one another as bands, the first one lowest. A
	// curve that has no value where another has one is zero there.
	Stacked bool
	Small   bool // half as high
	Series  []Series
}

// Series is one curve.
type Series struct {
	Name   string // may be empty where there is only one
	Ink    Ink
	Shade  Shade
	Dashed bool
	Filled bool // a light area below it
	Points []Point
}

// HTML draws the chart.
func (p *Plot) HTML() template.HTML {
	series := make([]Series, 0, len(p.Series))
	for _, s := range p.Series {
		s.Points = p.X.within(clean(s.Points))
		if _, _, some := limits([][]Point{s.Points}); some {
			s.Name = clip(s.Name)
			series = append(series, s)
		}
	}
	d := drawing{plot: p, told: series, curves: make([][]Point, len(series))}
	for i := range series {
		d.curves[i] = series[i].Points
	}
	if p.Stacked {
		d.stack()
	} else {
		for i := range d.curves {
			d.curves[i] = thin(d.curves[i])
		}
	}
	return d.html()
}

// drawing is a plot on its way to the page.
type drawing struct {
	canvas

	plot   *Plot
	told   []Series  // what is told in words
	curves [][]Point // what is drawn: for each of told, its points or the upper edge of its band
	x, y   scale
}

// stack turns the curves into the upper edges of bands, all at the same places.
func (d *drawing) stack() {
	var places []float64
	for _, points := range d.curves {
		for _, p := range points {
			places = append(places, p[0])
		}
	}
	slices.Sort(places)
	places = slices.Compact(places)
	sums := make([]float64, len(places))
	edges := make([][]Point, len(d.curves))
	for i, points := range d.curves {
		edges[i] = make([]Point, len(places))
		next := 0
		for j, at := range places {
			for ; next < len(points) && points[next][0] <= at; next++ {
				if points[next][0] == at && points[next][1] > 0 {
					sums[j] = min(sums[j]+points[next][1], beyond)
				}
			}
			edges[i][j] = Point{at, sums[j]}
		}
	}
	if len(places) > most {
		kept := extremes(len(places), func(j int) float64 { return sums[j] })
		for i, edge := range edges {
			thinned := make([]Point, len(kept))
			for k, j := range kept {
				thinned[k] = edge[j]
			}
			edges[i] = thinned
		}
	}
	d.curves = edges
}

func (d *drawing) html() template.HTML {
	low, high, some := limits(d.curves)
	size := ""
	if d.plot.Small {
		size = " small"
	}
	d.raw(`<figure class="chart`, size, `">`)
	d.caption(d.plot.Title, d.plot.Note)
	if !some {
		d.nothing()
		return d.canvas.html()
	}
	d.x = newScale(d.plot.X, low[0], high[0], 8)
	d.y = newScale(d.plot.Y, low[1], high[1], 4)
	if d.plot.X.Scale == Linear && !d.plot.X.fixed() {
		// Time has no zero that must be seen.
		d.x = newScale(Axis{Unit: d.plot.X.Unit, Min: low[0], Max: high[0]}, low[0], high[0], 8)
	}
	d.legend()
	d.open(d.plot.Title, d.describe(), &d.x, &d.y)
	for i := range d.told {
		d.curve(len(d.told) - 1 - i) // the first one last, on top
	}
	d.hits()
	d.shut()
	return d.canvas.html()
}

// describe tells the chart to who does not see it.
func (d *drawing) describe() string {
	var text strings.Builder
	text.WriteString(d.plot.Note + ".")
	for _, s := range d.told {
		least, most, _ := limits([][]Point{s.Points})
		text.WriteString(" " + cmp.Or(s.Name, d.plot.Title) + ": from " + d.y.unit.Text(least[1]) + " to " + d.y.unit.Text(most[1]) + ".")
	}
	return text.String()
}

func (d *drawing) legend() {
	if len(d.told) == 1 && !d.plot.Stacked && d.told[0].Name == "" {
		return
	}
	d.raw(`<ul class="legend">`)
	for _, s := range d.told {
		d.raw(`<li><svg class="key `, s.Ink.class(s.Shade), `" width="18" height="10" aria-hidden="true">`)
		if d.plot.Stacked {
			d.raw(`<rect class="band" width="18" height="10"/>`)
		} else {
			d.raw(`<path class="`, lineClass(s), `" d="M1 5H17"/>`)
		}
		d.wrap(`</svg>`, s.Name, `</li>`)
	}
	d.raw(`</ul>`)
}

func lineClass(s Series) string {
	if s.Dashed {
		return "line dashed"
	}
	return "line"
}

// curve draws one curve or band.
func (d *drawing) curve(i int) {
	s := d.told[i]
	d.raw(`<g class="`, s.Ink.class(s.Shade), `">`)
	defer d.raw(`</g>`)
	if d.plot.Stacked {
		d.raw(`<path class="band" d="`)
		d.along(d.curves[i], "M")
		d.below(i)
		d.raw(`Z"/>`)
		return
	}
	for _, run := range runs(d.curves[i]) {
		if s.Filled && len(run) > 1 {
			d.raw(`<path class="area" d="`)
			d.along(run, "M")
			d.raw("L", coord(d.x.share(run[len(run)-1][0])), " ", coord(1-d.y.share(0)))
			d.raw("L", coord(d.x.share(run[0][0])), " ", coord(1-d.y.share(0)), `Z"/>`)
		}
		d.raw(`<path class="`, lineClass(s), `" d="`)
		d.along(run, "M")
		if len(run) == 1 {
			d.raw("h0") // a dot, by its round ends
		}
		d.raw(`"/>`)
	}
}

// below draws the lower edge of a band, backwards: the upper edge of the band below,
// or the axis.
func (d *drawing) below(i int) {
	if i > 0 {
		edge := slices.Clone(d.curves[i-1])
		slices.Reverse(edge)
		d.along(edge, "L")
		return
	}
	edge := d.curves[i]
	for _, p := range []Point{edge[len(edge)-1], edge[0]} {
		d.raw("L", coord(d.x.share(p[0])), " ", coord(1))
	}
}

// along writes a path through points, after its first letter.
func (d *drawing) along(points []Point, first string) {
	for i, p := range points {
		if i == 0 {
			d.raw(first)
		} else {
			d.raw("L")
		}
		d.raw(coord(d.x.share(p[0])), " ", coord(1-d.y.share(p[1])))
	}
}

// runs cuts a curve at its gaps.
func runs(points []Point) [][]Point {
	var out [][]Point
	start := 0
	for i := range points {
		if math.IsNaN(points[i][1]) {
			if i > start {
				out = append(out, points[start:i])
			}
			start = i + 1
		}
	}
	if start < len(points) {
		out = append(out, points[start:])
	}
	return out
}

// columns is into how many upright strips a chart is cut that tell their values under
// a pointer.
const columns = 100

func (d *drawing) hits() {
	width := 1.0 / columns
	for c := range columns {
		share := (float64(c) + 0.5) * width
		at := d.x.value(share)
		reach := (d.x.value(share+width) - d.x.value(share-width)) / 2
		var words []string
		for _, s := range d.told {
			if v := nearest(s.Points, at, reach); finite(v) {
				words = append(words, strings.TrimSpace(s.Name+" "+d.y.unit.Text(v)))
			}
		}
		if len(words) > 0 {
			d.hit(float64(c)*width, width, d.x.unit.Text(at)+"\n"+strings.Join(words, "\n"))
		}
	}
}

// hit draws a strip that nobody sees and a pointer finds.
func (c *canvas) hit(from, width float64, words string) {
	c.raw(`<rect class="hit" x="`, coord(from), `" width="`, coord(width), `" height="`, strconv.Itoa(grain), `">`)
	c.wrap(`<title>`, words, `</title></rect>`)
}
