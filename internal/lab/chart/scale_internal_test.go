package chart

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func labels(s scale) []string {
	out := make([]string, len(s.steps))
	for i, t := range s.steps {
		out[i] = t.label
	}
	return out
}

func TestTicksAreRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		axis      Axis
		low, high float64
		count     int
		want      []string
	}{
		{"rate", Axis{Unit: PerSecond}, 0, 52_000, 4, []string{"0", "20k/s", "40k/s", "60k/s"}},
		{"small counts", Axis{Unit: Count}, 3, 950, 4, []string{"0", "500", "1,000"}},
		{"nothing happened", Axis{Unit: Count}, 0, 0, 4, []string{"0", "0.5", "1.0"}},
		{"below zero", Axis{Unit: Count}, -30, 30, 4, []string{"−40", "−20", "0", "20", "40"}},
		{"memory", Axis{Unit: Bytes}, 60 << 20, 130 << 20, 4, []string{"0", "50 MiB", "100 MiB", "150 MiB"}},
		{"cores", Axis{Unit: Cores}, 0, 1.9, 4, []string{"0", "0.5", "1.0", "1.5", "2.0"}},
		{"time", Axis{Unit: Seconds, Min: -2, Max: 4.2}, 0, 0, 8, []string{"−2 s", "−1 s", "0", "1 s", "2 s", "3 s", "4 s"}},
		{"short time", Axis{Unit: Seconds, Min: 0, Max: 0.25}, 0, 0, 5, []string{"0", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms"}},
		{"few decades", Axis{Unit: Millis, Scale: Log}, 21, 480, 4, []string{"20 ms", "50 ms", "100 ms", "200 ms", "500 ms"}},
		{"many decades", Axis{Unit: Millis, Scale: Log}, 0.04, 9_000, 4, []string{"100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"}},
		{"nines", Axis{Unit: Quantile, Scale: Nines}, 0, 0.9995, 8, []string{"0 %", "90 %", "99 %", "99.9 %"}},
		{"two nines", Axis{Unit: Quantile, Scale: Nines}, 0, 0.99, 8, []string{"0 %", "50 %", "90 %", "99 %"}},
	} {
		assert.Equal(t, c.want, labels(newScale(c.axis, c.low, c.high, c.count)), c.name)
	}
}

func TestScaleHoldsItsValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Scale{Linear, Log, Nines}).Draw(t, "kind")
		least := -beyond
		if kind != Linear {
			least = 0
		}
		most := beyond
		if kind == Nines {
			most = 1
		}
		a, b := rapid.Float64Range(least, most).Draw(t, "a"), rapid.Float64Range(least, most).Draw(t, "b")
		low, high := min(a, b), max(a, b)
		s := newScale(Axis{Scale: kind}, low, high, 4)
		assert.GreaterOrEqual(t, len(s.steps), 2)
		assert.LessOrEqual(t, len(s.steps), 30)
		before := math.Inf(-1)
		for _, step := range s.steps {
			assert.Greater(t, s.share(step.at), before, "ticks rise")
			before = s.share(step.at)
		}
		assert.LessOrEqual(t, s.share(low), s.share(high))
		assert.InDelta(t, s.share(high), s.share(s.value(s.share(high))), 1e-6)
	})
}

func TestThinKeepsExtremes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5_000).Draw(t, "n")
		seed := rapid.Uint32().Draw(t, "seed")
		points := make([]Point, n)
		for i := range points {
			seed = seed*1_664_525 + 1_013_904_223
			points[i] = Point{float64(i), float64(seed % 10_000)}
			if seed%7 == 0 {
				points[i][1] = math.NaN()
			}
		}
		thinned := thin(points)
		assert.LessOrEqual(t, len(thinned), max(most, 0))
		low, high, some := limits([][]Point{points})
		low2, high2, some2 := limits([][]Point{thinned})
		assert.Equal(t, some, some2)
		if some {
			assert.InDelta(t, low[1], low2[1], 0)
			assert.InDelta(t, high[1], high2[1], 0)
		}
		for i := 1; i < len(thinned); i++ {
			assert.Less(t, thinned[i-1][0], thinned[i][0], "the order stays")
		}
	})
}

func TestALongStackIsThinned(t *testing.T) {
	t.Parallel()
	d := drawing{curves: make([][]Point, 2)}
	for i := range 10_000 {
		value := 1.0
		if i == 7_777 {
			value = 50
		}
		d.curves[0] = append(d.curves[0], Point{float64(i), 1})
		d.curves[1] = append(d.curves[1], Point{float64(i), value})
	}
	d.stack()
	for _, edge := range d.curves {
		assert.LessOrEqual(t, len(edge), most)
	}
	_, high, _ := limits(d.curves)
	assert.InDelta(t, 51, high[1], 0, "no spike is lost")
}

// A stretch that is nearly nothing, far from zero, has ticks that can be counted.
func TestTicksOfNextToNothing(t *testing.T) {
	t.Parallel()
	for _, from := range []float64{1e15 - 1, -1e15, 1e12, 5e-324} {
		s := newScale(Axis{Min: from, Max: math.Nextafter(from, math.Inf(1))}, from, from, 8)
		require.Less(t, len(s.steps), 40, "%g", from)
		require.Less(t, s.from, s.to, "%g", from)
	}
}
