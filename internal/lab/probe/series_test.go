package probe

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func counter(value float64) figure {
	return figure{name: "calls/s", unit: "1/s", kind: rate, value: value}
}

func sized(sum, count float64) figure {
	return figure{name: "size", unit: "1", kind: mean, value: sum, count: count}
}

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// points returns those of one series; nil if it is not there.
func (r *recorder) points(name string) [][2]float64 {
	if s := r.byName[name]; s != nil {
		return s.Points
	}
	return nil
}

func TestFiguresBecomePoints(t *testing.T) {
	t.Parallel()
	r := newRecorder("server", 0)
	level := func(value float64) figure { return figure{name: "level", unit: "1", value: value} }
	r.heard(at(-1), &reading{figures: []figure{level(3), counter(100), sized(10, 2)}})
	r.heard(at(-0.5), &reading{figures: []figure{level(4), counter(150), sized(10, 2)}})
	r.heard(at(1.5), &reading{figures: []figure{level(5), counter(150), sized(34, 8)}})
	require.Equal(t, [][2]float64{{-1, 3}, {-0.5, 4}, {1.5, 5}}, r.points("level"))
	require.Equal(t, [][2]float64{{-0.5, 100}, {1.5, 0}}, r.points("calls/s"), "the first reading tells no rate")
	require.Equal(t, [][2]float64{{1.5, 4}}, r.points("size"), "where nothing happened there is no mean")
	require.Empty(t, r.notes)
}

// A counter that lags tells too how much it grew since the crowd came, whatever was
// told late, and also where it began anew.
func TestGrown(t *testing.T) {
	t.Parallel()
	r := newRecorder("postgres", at(-3))
	for _, told := range []struct{ at, rows float64 }{{-6, 100}, {-5, 140}, {-2, 150}, {-1, 150}, {0, 450}, {1, 10}, {2, 30}} {
		r.heard(at(told.at), &reading{figures: []figure{counter(told.rows), {name: "rows/s", kind: late, value: told.rows}}})
	}
	require.InDelta(t, 330, r.byName["rows/s"].Grown, 1e-9)
	require.InDelta(t, 1, r.byName["rows/s"].Lag, 1e-9)
	require.Equal(t, r.points("calls/s"), r.points("rows/s"))
	require.Zero(t, r.byName["calls/s"].Grown)
	require.Zero(t, r.byName["calls/s"].Lag)
}

// A figure that is not told each time is counted from when it was last told.
func TestRareFigure(t *testing.T) {
	t.Parallel()
	r := newRecorder("postgres", 0)
	r.heard(at(0), &reading{figures: []figure{counter(0)}})
	r.heard(at(1), &reading{})
	r.heard(at(2), &reading{figures: []figure{counter(50)}})
	require.Equal(t, [][2]float64{{2, 25}}, r.points("calls/s"))
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ before, after reading }{
		"another life":        {reading{life: "a", figures: []figure{counter(100)}}, reading{life: "b", figures: []figure{counter(400)}}},
		"a counter that fell": {reading{figures: []figure{counter(100)}}, reading{figures: []figure{counter(7)}}},
		"events that fell":    {reading{figures: []figure{counter(1), sized(5, 5)}}, reading{figures: []figure{counter(2), sized(6, 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder("redis", 0)
			r.heard(at(1), &tt.before)
			r.heard(at(2), &tt.after)
			require.Empty(t, r.points("calls/s"))
			require.Equal(t, []Note{{Source: "redis", At: 2, Text: "was started again: its counters begin anew"}}, r.notes)
			last := tt.after
			last.figures = []figure{counter(last.figures[0].value + 30)}
			r.heard(at(3), &last)
			require.Equal(t, [][2]float64{{3, 30}}, r.points("calls/s"))
			require.Len(t, r.notes, 1)
		})
	}
}

// Every rate is the growth since the reading before of the same life, whatever the
// instants, the outages and the restarts.
func TestRates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newRecorder("server", 0)
		var want [][2]float64
		var clock, before time.Duration
		var value, old float64
		life, known := 'a', false
		for range rapid.IntRange(1, 30).Draw(t, "readings") {
			clock += time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				life, value, known = life+1, 0, false
			case 1:
				r.failed(clock, errors.New("gone"))
				continue
			}
			value += float64(rapid.IntRange(0, 1000).Draw(t, "grown"))
			if known {
				want = append(want, [2]float64{clock.Seconds(), (value - old) / (clock - before).Seconds()})
			}
			before, old, known = clock, value, true
			r.heard(clock, &reading{life: string(life), figures: []figure{counter(value)}})
		}
		require.Equal(t, want, r.points("calls/s"))
	})
}

func TestOutageIsAGap(t *testing.T) {
	t.Parallel()
	r := newRecorder("nginx", 0)
	r.heard(at(0), &reading{figures: []figure{counter(0)}})
	r.failed(at(1), errors.New("connection refused"))
	r.failed(at(2), errors.New("connection reset"))
	r.heard(at(4), &reading{figures: []figure{counter(100)}})
	r.failed(at(5), errors.New("timeout"))
	r.end()
	require.Equal(t, [][2]float64{{4, 25}}, r.points("calls/s"))
	require.Equal(t, []Note{
		{Source: "nginx", At: 1, Text: "did not answer 2 times for 3.0 s: connection reset"},
		{Source: "nginx", At: 5, Text: "did not answer once, the last time at 5.0 s: timeout"},
	}, r.notes)
}

func TestRemarksAreSaidOnce(t *testing.T) {
	t.Parallel()
	r := newRecorder("postgres", 0)
	for i := range 3 {
		r.heard(at(float64(i)), &reading{remarks: []string{"hides much"}})
	}
	require.Len(t, r.notes, 1)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	r := newRecorder("server", 0)
	for i := range mostPoints {
		require.False(t, r.full)
		r.heard(at(float64(i)), &reading{figures: []figure{{name: "level", unit: "1", value: 1}}})
	}
	require.True(t, r.full)
	require.Len(t, r.notes, 1)
	for i := range 2 * mostNotes {
		r.note(at(float64(i)), "again")
	}
	require.Len(t, r.notes, mostNotes)
}
