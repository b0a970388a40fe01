package chart

import (
	"math"
	"slices"
	"strings"
)

// Scale says how an axis spreads its values.
type Scale uint8

// The scales.
const (
	Linear Scale = iota
	// Log gives each power of ten the same room. What is not above zero is drawn at
	// its lower end.
	Log
	// Nines is for quantiles: 0.9, 0.99 and 0.999 are equally far apart.
	Nines
)

// Axis is one of the two axes of a chart. The zero value is linear, counts things
// and takes its ends from the data.
type Axis struct {
	Unit  Unit
	Scale Scale
	// Min and Max are its ends where Min < Max. Charts that stand below one another
	// share them.
	Min, Max float64
}

// fixed reports whether the axis has ends of its own.
func (a *Axis) fixed() bool { return a.Min < a.Max && finite(a.Min) && finite(a.Max) }

// within returns the points of a curve, which are in order, that an axis has room for.
func (a *Axis) within(points []Point) []Point {
	if !a.fixed() {
		return points
	}
	from := slices.IndexFunc(points, func(p Point) bool { return p[0] >= a.Min })
	if from < 0 {
		return nil
	}
	points = points[from:]
	if to := slices.IndexFunc(points, func(p Point) bool { return p[0] > a.Max }); to >= 0 {
		points = points[:to]
	}
	return points
}

// beyond is where the world of a chart ends; floats have room to spare there.
const beyond = 1e15

// scale is an axis that knows its ends, in values.
type scale struct {
	kind     Scale
	unit     Unit
	from, to float64
	steps    []tick
}

// tick is a place on an axis that is named.
type tick struct {
	at    float64
	label string
	minor bool // left out where there is little room
}

// newScale gives an axis its ends and ticks for values between low and high. About
// count ticks are wanted. A loose axis is made longer so that it ends at ticks.
func newScale(a Axis, low, high float64, count int) scale {
	s := scale{kind: a.Scale, unit: a.Unit, from: low, to: high}
	if a.fixed() {
		s.from, s.to = max(a.Min, -beyond), min(a.Max, beyond)
	}
	switch s.kind {
	case Log:
		s.log()
	case Nines:
		s.nines()
	case Linear:
		s.linear(a.fixed(), count)
	}
	return s
}

// linear is loose where its ends are not fixed, and then begins at zero.
//
//nolint:revive // whether the ends are fixed is a property of the axis
func (s *scale) linear(fixed bool, count int) {
	if !fixed {
		s.from, s.to = min(s.from, 0), max(s.to, 0)
	}
	// Beside large values a small step would be none: floats are not as fine there.
	if least := max(1e-12, 1e-9*max(math.Abs(s.from), math.Abs(s.to))); s.to-s.from < least {
		s.to = s.from + max(1, least)
	}
	p := s.unit.prefix(max(math.Abs(s.from), math.Abs(s.to)))
	step := nice((s.to-s.from)/p.factor/float64(count)) * p.factor
	if p.factor == 1e3 && step < p.factor && s.unit != Millis {
		p = s.unit.prefix(1) // 500 and 1,000 are plainer than 0.5k and 1.0k
	}
	if !fixed {
		s.from, s.to = math.Floor(s.from/step+1e-9)*step, math.Ceil(s.to/step-1e-9)*step
	}
	first, last := math.Ceil(s.from/step-1e-9), math.Floor(s.to/step+1e-9)
	for i := first; i <= last; i++ {
		s.steps = append(s.steps, tick{at: i * step, label: s.unit.mark(i*step, step, p), minor: math.Mod(i, 2) != 0})
	}
}

// nice returns the smallest of 1, 2 and 5 times a power of ten that is not below a
// step.
func nice(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= step*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// manyDecades is from how many powers of ten on a tick at each is enough.
const manyDecades = 2.5

func (s *scale) log() {
	s.from, s.to = max(s.from, 1e-6), max(s.to, 1e-6)
	s.from, s.to = niceBelow(s.from), nice(s.to)
	if s.to <= s.from*1.001 {
		s.from, s.to = s.from/2, s.to*2
	}
	few := math.Log10(s.to/s.from) < manyDecades
	for power := math.Floor(math.Log10(s.from)); power <= math.Ceil(math.Log10(s.to)); power++ {
		for _, m := range []float64{1, 2, 5} {
			at := m * math.Pow(10, power)
			if at < s.from*0.999 || at > s.to*1.001 || (m != 1 && !few) {
				continue
			}
			s.steps = append(s.steps, tick{at: at, label: s.unit.Text(at), minor: m != 1})
		}
	}
}

func niceBelow(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*power <= v*(1+1e-9) {
			return m * power
		}
	}
	return power
}

// room is the part of an axis that a label needs for itself.
const room = 0.095

// mostNines bounds the axis: nobody sends more answers than that.
const mostNines = 9

func (s *scale) nines() {
	s.from, s.to = 0, min(max(s.to, 0.99), 1-math.Pow(10, -mostNines))
	s.steps = append(s.steps, tick{at: 0, label: "0 %"})
	if s.share(0.5) >= room {
		s.steps = append(s.steps, tick{at: 0.5, label: "50 %", minor: true})
	}
	s.steps = append(s.steps, tick{at: 0.9, label: "90 %"})
	for n := 2; n <= int(nines(s.to)+1e-6); n++ {
		q := 1 - math.Pow(10, float64(-n))
		s.steps = append(s.steps, tick{at: q, label: ninesText(n), minor: n%2 == 1})
	}
}

// ninesText writes a quantile of n nines, two or more: 99 %, 99.9 %.
func ninesText(n int) string {
	return strings.TrimSuffix("99."+strings.Repeat("9", n-2), ".") + " %"
}

func nines(q float64) float64 {
	return min(-math.Log10(1-min(max(q, 0), 1)), mostNines)
}

// share returns where on the axis a value is, from 0 to 1.
func (s *scale) share(v float64) float64 {
	from, to := s.from, s.to
	switch s.kind {
	case Log:
		from, to, v = math.Log10(from), math.Log10(to), math.Log10(max(v, from))
	case Nines:
		from, to, v = nines(from), nines(to), nines(v)
	case Linear:
	}
	return min(max((v-from)/(to-from), 0), 1)
}

// value is the inverse of share.
func (s *scale) value(share float64) float64 {
	switch s.kind {
	case Log:
		return s.from * math.Pow(s.to/s.from, share)
	case Nines:
		return 1 - math.Pow(10, -share*nines(s.to))
	case Linear:
	}
	return s.from + share*(s.to-s.from)
}
