package chart

import (
	"cmp"
	"math"
	"slices"
)

// Point is a place and a value there.
type Point = [2]float64

// most is how many points of a curve are drawn; a screen shows no more.
const most = 600

// clean returns points in the order of their places, cut to what a chart can show.
// A value that is none stays as NaN, a gap; a place that is none goes.
func clean(points []Point) []Point {
	out := make([]Point, 0, len(points))
	for _, p := range points {
		if !finite(p[0]) {
			continue
		}
		if !finite(p[1]) {
			p[1] = math.NaN()
		}
		out = append(out, Point{bound(p[0]), bound(p[1])})
	}
	slices.SortStableFunc(out, func(a, b Point) int { return cmp.Compare(a[0], b[0]) })
	return out
}

func bound(v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
	return min(max(v, -beyond), beyond)
}

// thin keeps of every stretch of points the lowest and the highest, so that no spike
// is lost, and leaves a short curve alone.
func thin(points []Point) []Point {
	if len(points) <= most {
		return points
	}
	out := make([]Point, 0, most)
	for _, i := range extremes(len(points), func(i int) float64 { return points[i][1] }) {
		out = append(out, points[i])
	}
	return out
}

// extremes returns the indices, in order, that thinning keeps of n values. Gaps are
// kept where a stretch has nothing else.
func extremes(n int, value func(int) float64) []int {
	kept := make([]int, 0, most)
	stretches := most / 2
	for s := range stretches {
		from, to := s*n/stretches, (s+1)*n/stretches
		low, high := from, from
		for i := from; i < to; i++ {
			v := value(i)
			if v < value(low) || math.IsNaN(value(low)) {
				low = i
			}
			if v > value(high) || math.IsNaN(value(high)) {
				high = i
			}
		}
		kept = append(kept, min(low, high))
		if low != high {
			kept = append(kept, max(low, high))
		}
	}
	return kept
}

// limits returns the least and the greatest place and value of all points; it is
// false where there is nothing to draw.
func limits(all [][]Point) (low, high Point, some bool) {
	low, high = Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, points := range all {
		for _, p := range points {
			if math.IsNaN(p[1]) {
				continue
			}
			some = true
			for i := range p {
				low[i], high[i] = min(low[i], p[i]), max(high[i], p[i])
			}
		}
	}
	return low, high, some
}

// nearest returns the value of the point that is closest to a place and not farther
// than reach from it; NaN is none.
func nearest(points []Point, place, reach float64) float64 {
	i, _ := slices.BinarySearchFunc(points, place, func(p Point, at float64) int { return cmp.Compare(p[0], at) })
	best := math.NaN()
	for _, j := range []int{i - 1, i} {
		if j < 0 || j >= len(points) {
			continue
		}
		if away := math.Abs(points[j][0] - place); away <= reach {
			best, reach = points[j][1], away
		}
	}
	return best
}
