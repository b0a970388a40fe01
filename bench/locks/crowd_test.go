package locks_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const goroutines = 64

// ratio prints one goal's line. A goal below zero is one to stay under.
func ratio(b *testing.B, name string, value, goal float64) {
	b.Helper()
	b.ReportMetric(value, "ratio")
	missed := value < goal
	if goal < 0 {
		goal = -goal
		missed = value > goal
	}
	verdict := ""
	if missed {
		verdict = " MISSED"
	}
	_, _ = fmt.Fprintf(os.Stdout, "RATIO %s %.2f %.2f%s\n", name, value, goal, verdict)
}

// note prints a figure that belongs to the line after it.
func note(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, "  "+format+"\n", args...)
}

func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[len(sorted)/2]
}

// free lets every goroutine lock and unlock a name of its own, and returns pairs a
// second.
func free(b *testing.B, p peer, turn time.Duration) float64 {
	b.Helper()
	var n atomic.Int64
	var work sync.WaitGroup
	start := time.Now()
	end := start.Add(turn)
	for i := range goroutines {
		name := "free" + strconv.Itoa(i)
		work.Go(func() {
			for time.Now().Before(end) {
				if err := p(b.Context(), name, func() {}); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	work.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

// rest lasts as long as it is told to. A timer of the runtime would not: whenever
// the network interrupts its wait, it is rounded up to the next millisecond, so that
// a section would seem to take longer the more other goroutines do.
func rest(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR { //nolint:errorlint // an errno
	}
}

// fight is what came of a fight for one name.
type fight struct {
	sections float64 // a second
	changes  float64 // sections a second whose holder is not the one before
	jain     float64 // fairness of the goroutines' shares, 1 is equal
	longest  time.Duration
}

// contended lets all goroutines fight for one name, with a section of some length.
// Who still waits at the end has waited until then.
func contended(b *testing.B, p peer, section, turn time.Duration) fight {
	b.Helper()
	var mu sync.Mutex
	last, changes, total := -1, 0, 0
	counts := make([]float64, goroutines)
	var longest atomic.Int64
	var work sync.WaitGroup
	start := time.Now()
	end := start.Add(turn)
	waited := func(since time.Time) {
		d := min(time.Since(since), end.Sub(since))
		for old := longest.Load(); int64(d) > old && !longest.CompareAndSwap(old, int64(d)); old = longest.Load() {
		}
	}
	for i := range goroutines {
		work.Go(func() {
			for time.Now().Before(end) {
				asked := time.Now()
				err := p(b.Context(), "hot", func() {
					waited(asked)
					if time.Now().After(end) {
						return
					}
					mu.Lock()
					if last != i {
						changes++
					}
					last = i
					total++
					counts[i]++
					mu.Unlock()
					if section > 0 {
						rest(section)
					}
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	var sum, squares float64
	for _, c := range counts {
		sum += c
		squares += c * c
	}
	return fight{
		sections: float64(total) / turn.Seconds(), changes: float64(changes) / turn.Seconds(),
		jain: sum * sum / (goroutines * max(squares, 1)), longest: time.Duration(longest.Load()),
	}
}
