package limittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// edgeCases are about the edges of windows.
func edgeCases() map[string]func(*testing.T, *World) {
	return map[string]func(*testing.T, *World){
		"C46_L11_NoDoubleAtAnEdge": noDoubleAtAnEdge,
		"L14_CallAtTheEnd":         callAtTheEnd,
	}
}

// noDoubleAtAnEdge spends all at the end of one window and all at the beginning of
// the next.
func noDoubleAtAnEdge(t *testing.T, w *World) {
	if !w.Still {
		return
	}
	sliding := limit.Rate{Name: "r", Algorithm: limit.SlidingWindow, Quota: 5, Window: time.Second}
	for _, us := range []int{1, 1000, 10_000, 62_499, 62_500, 500_000} {
		s, before := w.subject(), time.Duration(us)*time.Microsecond
		w.admitted(t, s, 1, sliding) // the first window begins
		w.Advance(time.Second - before)
		w.admitted(t, s, 4, sliding)
		w.Advance(2 * before)
		w.refused(t, s, 5, sliding)
		w.refused(t, s, 2, sliding)
		w.Advance(time.Second - 2*before - time.Microsecond)
		w.refused(t, s, 5, sliding)
		w.Advance(time.Second/16 + time.Microsecond)
		w.admitted(t, s, 5, sliding)
	}
	fixed := sliding
	fixed.Algorithm = limit.FixedWindow
	s := w.subject()
	w.admitted(t, s, 1, fixed)
	w.Advance(time.Second - time.Microsecond)
	w.admitted(t, s, 4, fixed)
	w.Advance(time.Microsecond)
	w.admitted(t, s, 5, fixed) // as the package says
	w.Advance(time.Second - time.Microsecond)
	w.refused(t, s, 1, fixed)
}

func callAtTheEnd(t *testing.T, w *World) {
	for _, r := range counting(2, brief) {
		s := w.subject()
		for range w.rounds() {
			w.admitted(t, s, 2, r)
			d := w.peek(t, s, r)
			w.Advance(d.Binding.ResetAfter)
			require.EqualValues(t, 2, w.peek(t, s, r).Binding.Remaining, r.Algorithm)
		}
	}
}
