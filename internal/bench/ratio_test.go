package bench_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	rounds = 15
	turn   = 250 * time.Millisecond
)

// ratio prints one goal's line.
func ratio(b *testing.B, name string, value, goal float64) {
	b.Helper()
	b.ReportMetric(value, "ratio")
	verdict := ""
	if value < goal {
		verdict = " MISSED"
	}
	_, _ = fmt.Fprintf(os.Stdout, "RATIO %s %.2f %.2f%s\n", name, value, goal, verdict)
}

// note prints a figure that belongs to the line after it.
func note(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, "  "+format+"\n", args...)
}

// sideBySide lets ours and the baseline take turns, each returning operations a
// second, and returns the medians of the rates and of the rounds' ratios.
func sideBySide(ours, baseline func(time.Duration) float64) (fast, slow, factor float64) {
	ours(turn) // warm up
	baseline(turn)
	a, z, f := make([]float64, 0, rounds), make([]float64, 0, rounds), make([]float64, 0, rounds)
	for range rounds {
		z = append(z, baseline(turn))
		a = append(a, ours(turn))
		f = append(f, a[len(a)-1]/z[len(z)-1])
	}
	return median(a), median(z), median(f)
}

func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[len(sorted)/2]
}
