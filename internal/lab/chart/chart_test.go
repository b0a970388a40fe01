package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/lab/chart"
)

// odd draws numbers of all kinds: plain ones, and those that break charts.
func odd() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(-10, 1_000), rapid.Float64(),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 5e-324, 1e15, -1e-9}),
	)
}

func anyName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(), rapid.StringN(0, 200, -1),
		rapid.SampledFrom([]string{"", `</svg><script>alert(1)</script>`, `"><b`, "]]>", "&amp;", "\x00\x1b[31m", "\xff\xfe", "a\nb", "–"}),
	)
}

func anyAxis() *rapid.Generator[chart.Axis] {
	units := []chart.Unit{"", chart.Count, chart.PerSecond, chart.Seconds, chart.Millis, chart.Bytes, chart.Traffic, chart.Cores, chart.Percent, chart.Quantile, "<parsec>"}
	return rapid.Custom(func(t *rapid.T) chart.Axis {
		a := chart.Axis{Unit: rapid.SampledFrom(units).Draw(t, "unit"), Scale: rapid.SampledFrom([]chart.Scale{chart.Linear, chart.Log, chart.Nines}).Draw(t, "scale")}
		if rapid.Bool().Draw(t, "fixed") {
			a.Min, a.Max = odd().Draw(t, "min"), odd().Draw(t, "max")
		}
		return a
	})
}

func TestPlotIsWellFormed(t *testing.T) {
	t.Parallel()
	point := rapid.Custom(func(t *rapid.T) chart.Point { return chart.Point{odd().Draw(t, "place"), odd().Draw(t, "value")} })
	rapid.Check(t, func(t *rapid.T) {
		p := chart.Plot{
			Title: anyName().Draw(t, "title"), Note: anyName().Draw(t, "note"),
			X: anyAxis().Draw(t, "x"), Y: anyAxis().Draw(t, "y"),
			Stacked: rapid.Bool().Draw(t, "stacked"), Small: rapid.Bool().Draw(t, "small"),
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "series") {
			p.Series = append(p.Series, chart.Series{
				Name: anyName().Draw(t, "name"), Ink: chart.Other(i), Shade: chart.Shade(i),
				Dashed: rapid.Bool().Draw(t, "dashed"), Filled: rapid.Bool().Draw(t, "filled"),
				Points: rapid.SliceOfN(point, 0, 40).Draw(t, "points"),
			})
		}
		wellFormed(t, p.HTML())
	})
}

func TestHeatIsWellFormed(t *testing.T) {
	t.Parallel()
	column := rapid.Custom(func(t *rapid.T) chart.Column {
		return chart.Column{At: odd().Draw(t, "at"), Counts: rapid.SliceOfN(rapid.Int64(), 0, 12).Draw(t, "counts")}
	})
	rapid.Check(t, func(t *rapid.T) {
		h := chart.Heat{
			Title: anyName().Draw(t, "title"), Note: anyName().Draw(t, "note"), X: chart.Axis{Unit: chart.Seconds}, Y: chart.Millis,
			Grain: rapid.OneOf(odd(), rapid.Just(5e-324)).Draw(t, "grain"), Columns: rapid.SliceOfN(column, 0, 12).Draw(t, "columns"),
		}
		edge := rapid.Float64Range(1e-6, 10).Draw(t, "edge")
		for range rapid.IntRange(0, 10).Draw(t, "edges") {
			h.Edges = append(h.Edges, edge)
			edge *= rapid.Float64Range(0.9, 4).Draw(t, "step")
		}
		wellFormed(t, h.HTML())
	})
}

// wellFormed checks that a figure is XML in which each number is one.
func wellFormed(t require.TestingT, figure template.HTML) {
	d := xml.NewDecoder(strings.NewReader(string(figure)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%s", figure)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		assert.Contains(t, []string{"figure", "figcaption", "b", "span", "ul", "li", "div", "p", "svg", "title", "desc", "g", "line", "text", "path", "rect"}, start.Name.Local)
		for _, a := range start.Attr {
			assert.NotRegexp(t, `NaN|Inf|\de[+-]?\d|[<>]`, a.Value, "%s of %s", a.Name.Local, start.Name.Local)
		}
	}
	for _, number := range regexp.MustCompile(`(?:M|L| |h|V|H)(-?[\d.]+)`).FindAllStringSubmatch(strings.Join(paths(figure), " "), -1) {
		v, err := strconv.ParseFloat(number[1], 64)
		require.NoError(t, err)
		assert.True(t, v >= 0 && v <= 1000, "%v is outside of the drawing", v)
	}
}

func paths(figure template.HTML) []string {
	var out []string
	for _, m := range regexp.MustCompile(` d="([^"]*)"`).FindAllStringSubmatch(string(figure), -1) {
		if m[1] != "M1 5H17" { // of a key
			out = append(out, m[1])
		}
	}
	return out
}

func TestEmptyChartsSayNoData(t *testing.T) {
	t.Parallel()
	for name, figure := range map[string]template.HTML{
		"no series": (&chart.Plot{Title: "T"}).HTML(),
		"no points": (&chart.Plot{Title: "T", Stacked: true, Series: []chart.Series{{Name: "a"}}}).HTML(),
		"no number": (&chart.Plot{Title: "T", Series: []chart.Series{{Name: "a", Points: []chart.Point{{1, math.NaN()}, {2, math.Inf(1)}}}}}).HTML(),
		"no place":  (&chart.Plot{Title: "T", Series: []chart.Series{{Name: "a", Points: []chart.Point{{math.NaN(), 1}}}}}).HTML(),
		"no column": (&chart.Heat{Title: "T", Edges: []float64{1, 2}, Grain: 1}).HTML(),
		"no count":  (&chart.Heat{Title: "T", Edges: []float64{1, 2}, Grain: 1, Columns: []chart.Column{{Counts: []int64{0, 0}}}}).HTML(),
		"no edges":  (&chart.Heat{Title: "T", Grain: 1, Columns: []chart.Column{{Counts: []int64{1}}}}).HTML(),
	} {
		assert.Contains(t, string(figure), "no data", name)
		assert.NotContains(t, string(figure), "<svg", name)
	}
}

func TestPlotDrawsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	p := chart.Plot{
		Title: "Rate", Note: "a second", X: chart.Axis{Unit: chart.Seconds}, Y: chart.Axis{Unit: chart.PerSecond},
		Series: []chart.Series{
			{Name: "sent & <due>", Ink: chart.Sent, Dashed: true, Points: []chart.Point{{2, 400}, {0, 0}, {1, math.NaN()}, {4, 100}}},
			{Name: "accepted", Ink: chart.Accepted, Filled: true, Points: []chart.Point{{0, 200}, {4, 200}}},
		},
	}
	figure := string(p.HTML())
	// Sorted by place, cut at the gap: a dot, then a line down from the top.
	assert.Contains(t, figure, `<g class="ink-sent"><path class="line dashed" d="M0 1000h0"/><path class="line dashed" d="M500 0L1000 750"/></g>`)
	assert.Contains(t, figure, `<path class="area" d="M0 500L1000 500L1000 1000L0 1000Z"/>`)
	assert.Contains(t, figure, `sent &amp; &lt;due&gt;`)
	assert.Contains(t, figure, `<desc>a second. sent &amp; &lt;due&gt;: from 0 to 400/s. accepted: from 200/s to 200/s.</desc>`)
	for _, label := range []string{">100/s<", ">400/s<", ">2.0 s<"} {
		assert.Contains(t, figure, label)
	}
	assert.Regexp(t, `<title>1\.98 s&#xA;sent &amp; &lt;due&gt; 400/s</title>`, figure, "a strip tells what is near")
}

func TestStackLaysBandsUponOneAnother(t *testing.T) {
	t.Parallel()
	p := chart.Plot{Stacked: true, Y: chart.Axis{Min: 0, Max: 10}, Series: []chart.Series{
		{Name: "low", Ink: chart.Accepted, Points: []chart.Point{{0, 2}, {1, 2}, {2, 2}}},
		{Name: "high", Ink: chart.Refused, Points: []chart.Point{{0, 3}, {2, 8}}},
	}}
	assert.Equal(t, []string{
		"M0 500L500 800L1000 0L1000 800L500 800L0 800Z", // upon low, nothing in the middle
		"M0 800L500 800L1000 800L1000 1000L0 1000Z",
	}, paths(p.HTML()))
}

func TestHeatAddsUpWhatFallsTogether(t *testing.T) {
	t.Parallel()
	h := chart.Heat{
		Title: "Waits", Note: "n", X: chart.Axis{Unit: chart.Seconds}, Y: chart.Millis, Edges: []float64{1, 10, 100}, Grain: 0.5,
		Columns: []chart.Column{{At: 0, Counts: []int64{0, 4, 0}}, {At: 0, Counts: []int64{0, 4, 0, 1}}, {At: 0.5, Counts: []int64{1}}},
	}
	figure := string(h.HTML())
	assert.Contains(t, figure, "8 in a cell")
	assert.Contains(t, figure, "<title>0&#xA;9 answers&#xA;half within 10 ms&#xA;all within 1 s</title>", "one column, and a row above the last edge")
	assert.Contains(t, figure, `<path class="cell strength-7" d="M0 500h500V750H0z"/>`)
	assert.Contains(t, figure, `<path class="cell strength-1" d="M0 0h500V250H0zM500 750h500V1000H500z"/>`)
}

func TestTextOfValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit  chart.Unit
		value float64
		want  string
	}{
		{chart.Count, 0, "0"},
		{chart.Count, 1, "1"},
		{chart.Count, 999.4, "999"},
		{chart.Count, 999.9, "1k"},
		{chart.Count, 1_234, "1.23k"},
		{chart.Count, -1_234_567, "−1.23M"},
		{chart.Count, 0.012345, "0.0123"},
		{chart.Count, 1e-30, "0"},
		{chart.Count, math.NaN(), "–"},
		{chart.Count, math.Inf(-1), "–"},
		{chart.PerSecond, 52_871, "52.9k/s"},
		{chart.Millis, 0.0421, "42.1 µs"},
		{chart.Millis, 42, "42 ms"},
		{chart.Millis, 999.97, "1 s"},
		{chart.Millis, 75_000, "75 s"},
		{chart.Seconds, 0.25, "250 ms"},
		{chart.Seconds, 1.5, "1.5 s"},
		{chart.Bytes, 1536, "1.5 KiB"},
		{chart.Bytes, 64 << 20, "64 MiB"},
		{chart.Traffic, 2 << 20, "2 MiB/s"},
		{chart.Cores, 0.53, "0.53 cores"},
		{chart.Percent, 12.34, "12.3 %"},
		{chart.Quantile, 0.9995, "99.95 %"},
		{"parsec", 12_000, "12k parsec"},
	} {
		assert.Equal(t, c.want, c.unit.Text(c.value), "%v %s", c.value, c.unit)
	}
}

func TestTextIsShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e15, 1e15).Draw(t, "value")
		assert.LessOrEqual(t, len([]rune(chart.Count.Text(v))), 8, "%v", v)
	})
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1_000: "1,000", -1_234_567: "−1,234,567", math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "−9,223,372,036,854,775,808"} {
		assert.Equal(t, want, chart.Grouped(n))
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, greatest float64
		width           string
	}{{1, 4, `width="25%"`}, {9, 4, `width="100%"`}, {-1, 4, `width="0%"`}, {1, 0, `width="0%"`}, {math.NaN(), 1, `width="0%"`}, {math.Inf(1), math.Inf(1), `width="0%"`}} {
		bar := chart.Bar(c.value, c.greatest, chart.Accepted)
		wellFormed(t, bar)
		assert.Contains(t, string(bar), `class="full" `+c.width)
	}
}

func TestPageEscapes(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	require.NoError(t, chart.WritePage(&page, `</title><script>`, `<p title="{{.}}">{{.}}</p>{{num 1234567}} {{fixed 1234.5}} {{ms 12.5}}`, `"><script>alert(1)</script>`))
	assert.NotContains(t, page.String(), "<script>alert")
	assert.Contains(t, page.String(), "<title>&lt;/title&gt;&lt;script&gt;</title>")
	assert.Contains(t, page.String(), "1,234,567 1,235 12.5\u00a0ms")
	assert.NotRegexp(t, `(?:src|href)="(?:https?:)?//`, page.String(), "nothing comes from elsewhere")

	require.ErrorContains(t, chart.WritePage(io.Discard, "", `{{num "x"}}`, nil), "num of a string")
	require.Error(t, chart.WritePage(io.Discard, "", `{{`, nil))
}
