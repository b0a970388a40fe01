package chart

import (
	"math"
	"strconv"
	"strings"
)

// Unit says what a value counts, in the words in which reports name it. A unit that
// is none of these stands behind the value as it is.
type Unit string

// The units.
const (
	Count     Unit = "1"
	PerSecond Unit = "1/s"
	Seconds   Unit = "s"
	Millis    Unit = "ms"
	Bytes     Unit = "bytes"
	Traffic   Unit = "bytes/s"
	Cores     Unit = "cores"
	Percent   Unit = "%"
	// Quantile is a share of all answers, 0 to 1.
	Quantile Unit = "q"
)

// prefix is the size in which values of a unit are best told.
type prefix struct {
	factor float64
	suffix string
}

// prefix returns the largest prefix that a value reaches.
func (u Unit) prefix(value float64) prefix {
	steps := u.prefixes()
	best := steps[0]
	for _, p := range steps {
		// A value that rounds up to the next prefix is told in it: 1 s, not 1,000 ms.
		if math.Abs(value) >= p.factor*0.9995 {
			best = p
		}
	}
	return best
}

func (u Unit) prefixes() []prefix {
	switch u {
	case Seconds:
		return []prefix{{1e-6, " µs"}, {1e-3, " ms"}, {1, " s"}}
	case Millis:
		return []prefix{{1e-3, " µs"}, {1, " ms"}, {1e3, " s"}}
	case Bytes:
		return binary("")
	case Traffic:
		return binary("/s")
	case Quantile:
		return []prefix{{0.01, " %"}}
	case Percent:
		return []prefix{{1, " %"}}
	case Cores:
		return []prefix{{1, " cores"}}
	case Count, "":
		return metric("")
	case PerSecond:
		return metric("/s")
	}
	return metric(" " + clip(string(u)))
}

func metric(suffix string) []prefix {
	return []prefix{{1, suffix}, {1e3, "k" + suffix}, {1e6, "M" + suffix}, {1e9, "G" + suffix}, {1e12, "T" + suffix}}
}

func binary(suffix string) []prefix {
	return []prefix{{1, " B" + suffix}, {1 << 10, " KiB" + suffix}, {1 << 20, " MiB" + suffix}, {1 << 30, " GiB" + suffix}, {1 << 40, " TiB" + suffix}}
}

// Text writes a value with three significant digits and its unit: 1.25k/s, 42 ms,
// 3.5 MiB. What is not a number is a dash.
func (u Unit) Text(value float64) string {
	if !finite(value) {
		return "–"
	}
	if value == 0 {
		return "0"
	}
	p := u.prefix(value)
	scaled := value / p.factor
	decimals := 0
	if size := math.Abs(scaled); size < 999.5 {
		decimals = 2 - int(math.Floor(math.Log10(max(size, 1e-3)*1.0005)))
	}
	if u == Quantile {
		decimals = 4 // the nines are what it is about
	}
	return minus(trim(strconv.FormatFloat(scaled, 'f', min(max(decimals, 0), 5), 64))) + p.suffix
}

// mark writes a value beside a tick, with the digits that tell it from its
// neighbours, a step away.
func (u Unit) mark(value, step float64, p prefix) string {
	if value == 0 {
		return "0"
	}
	decimals := max(0, -int(math.Floor(math.Log10(step/p.factor)+1e-9)))
	suffix := p.suffix
	if u == Cores {
		suffix = ""
	}
	if scaled := value / p.factor; decimals == 0 && math.Abs(scaled) >= 1000 {
		return Grouped(int64(math.Round(scaled))) + suffix
	}
	return minus(strconv.FormatFloat(value/p.factor, 'f', min(decimals, 9), 64)) + suffix
}

// trim takes off zeros that tell nothing.
func trim(number string) string {
	if !strings.Contains(number, ".") {
		return number
	}
	return strings.TrimRight(strings.TrimRight(number, "0"), ".")
}

func minus(number string) string {
	if rest, found := strings.CutPrefix(number, "-"); found {
		if rest == "0" {
			return rest
		}
		return "−" + rest
	}
	return number
}

// Grouped writes a number with a comma after each three digits.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(text) - 3; i > from; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return minus(text)
}

const longestName = 48

// clip shortens a name that somebody else has chosen.
func clip(name string) string {
	runes := []rune(name)
	if len(runes) <= longestName {
		return name
	}
	return string(runes[:longestName-1]) + "…"
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
