package memlimit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

func BenchmarkAllow(b *testing.B) {
	subjects := make([]string, 1024)
	for i := range subjects {
		subjects[i] = "subject " + strconv.Itoa(i)
	}
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket} {
		r := limit.Rate{Name: "r", Algorithm: a, Quota: 1000, Window: time.Second}
		l := open(b, memlimit.Options{})
		b.Run(a.String(), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := l.Allow(b.Context(), subjects[i%len(subjects)], 1, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// One rate of a subject that is known costs no memory.
func TestAllowAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	l := open(t, memlimit.Options{})
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket} {
		r := limit.Rate{Name: "r", Algorithm: a, Quota: 50, Window: time.Second}
		n := testing.AllocsPerRun(200, func() { _, _ = l.Allow(t.Context(), "s", 1, r) })
		if n > 0 {
			t.Errorf("%s: %.1f allocations a call", a, n)
		}
	}
}
