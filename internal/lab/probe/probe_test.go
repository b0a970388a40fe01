package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// script is a source that takes its time, and fails from one reading to another.
type script struct {
	takes    time.Duration
	fails    func(n int64) bool
	asked    atomic.Int64
	atOnce   atomic.Int64
	together atomic.Bool
	closed   atomic.Int64
}

func (s *script) read(ctx context.Context) (reading, error) {
	n := s.asked.Add(1)
	if s.atOnce.Add(1) > 1 {
		s.together.Store(true)
	}
	defer s.atOnce.Add(-1)
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return reading{}, ctx.Err()
	case <-timer.C:
	}
	if s.fails != nil && s.fails(n) {
		return reading{}, errors.New("no answer")
	}
	return reading{figures: []figure{{name: "level", unit: "1", value: float64(n)}}}, nil
}

func (s *script) refusal(err error) *sale.Error { return unreachable("script", "", err) }
func (s *script) close()                        { s.closed.Add(1) }

// watching starts a probe with scripts as its sources.
func watching(ctx context.Context, scripts ...*script) *Probe {
	p := &Probe{start: time.Now(), every: 250 * time.Millisecond, stop: make(chan struct{})}
	for _, s := range scripts {
		p.watched = append(p.watched, &watched{source: s, recorder: newRecorder("script", 0)})
	}
	p.begin(ctx)
	return p
}

func TestTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quick := &script{takes: 2 * time.Millisecond}
		slow := &script{takes: 600 * time.Millisecond}
		p := watching(t.Context(), quick, slow)
		<-time.After(3100 * time.Millisecond) //nolint:forbidigo // in a bubble of fake time
		series, notes := p.Stop()
		require.Empty(t, notes)
		require.Len(t, series, 2)
		require.EqualValues(t, 13, quick.asked.Load(), "twelve intervals, and the last reading")
		require.Len(t, series[0].Points, 13)
		require.Equal(t, [2]float64{.251, 1}, series[0].Points[0], "in the middle of the reading")
		require.False(t, slow.together.Load(), "a slow source is not asked twice at once")
		require.LessOrEqual(t, slow.asked.Load(), int64(5), "and has a rest")
		again, _ := p.Stop()
		require.Equal(t, series, again)
		require.EqualValues(t, 1, quick.closed.Load())
	})
}

func TestSilenceIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := &script{takes: time.Hour}
		p := watching(t.Context(), silent)
		<-time.After(time.Second) //nolint:forbidigo // in a bubble of fake time
		before := time.Now()
		_, notes := p.Stop()
		require.LessOrEqual(t, time.Since(before), 2*readIn, "the reading under way, and the last one")
		require.Len(t, notes, 1)
		require.Contains(t, notes[0].Text, "did not answer 2 times")
	})
}

func TestFailureLeavesAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shaky := &script{fails: func(n int64) bool { return n == 3 || n == 4 }}
		p := watching(t.Context(), shaky)
		<-time.After(2 * time.Second) //nolint:forbidigo // in a bubble of fake time
		series, notes := p.Stop()
		require.Equal(t, [2]float64{.5, 2}, series[0].Points[1])
		require.Equal(t, [2]float64{1.25, 5}, series[0].Points[2])
		require.Equal(t, []Note{{Source: "script", At: .75, Text: "did not answer 2 times for 0.5 s: no answer"}}, notes)
	})
}

// Who is interrupted keeps what was read until then, and it is nobody's failure.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		quick, silent := &script{}, &script{takes: time.Hour}
		p := watching(ctx, quick, silent)
		<-time.After(time.Second + time.Millisecond) //nolint:forbidigo // in a bubble of fake time
		cancel()
		synctest.Wait()
		asked := quick.asked.Load()
		series, notes := p.Stop()
		require.Empty(t, notes)
		require.Len(t, series, 1)
		require.Len(t, series[0].Points, 4)
		require.Equal(t, asked, quick.asked.Load())
	})
}
