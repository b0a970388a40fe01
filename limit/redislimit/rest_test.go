package redislimit_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// degraded makes one call and reports whether the store decided.
func degraded(t *testing.T, l *redislimit.Limiter, r limit.Rate) bool {
	t.Helper()
	d, err := l.Allow(t.Context(), "s", 1, r)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	return d.Degraded
}

// A store that is late once is asked again by the next call; one that is late twice
// in a row is left alone.
func TestC50_OneLateCallIsNoOutage(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	var troubles atomic.Int64
	l := open(t, single(t, s.Addr), redislimit.Options{Timeout: 500 * time.Millisecond, Probe: time.Hour, OnTrouble: func(error) { troubles.Add(1) }})
	r := rate(limit.TokenBucket, 1000, time.Hour)
	require.False(t, degraded(t, l, r))
	s.Pause()
	require.True(t, degraded(t, l, r))
	s.Resume()
	require.False(t, degraded(t, l, r), "it was late once")
	s.Pause()
	require.True(t, degraded(t, l, r))
	require.True(t, degraded(t, l, r))
	require.EqualValues(t, 3, troubles.Load())
	s.Resume()
	require.True(t, degraded(t, l, r), "it was late twice in a row, and rests")
	require.EqualValues(t, 3, troubles.Load(), "that was no call")
}

// A lost connection is an outage at once.
func TestC50_LostConnectionIsAnOutage(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	var troubles atomic.Int64
	l := open(t, single(t, s.Addr), redislimit.Options{Probe: time.Hour, OnTrouble: func(error) { troubles.Add(1) }})
	r := rate(limit.TokenBucket, 1000, time.Hour)
	require.False(t, degraded(t, l, r))
	s.Kill()
	for range 5 {
		require.True(t, degraded(t, l, r))
	}
	require.EqualValues(t, 1, troubles.Load())
}

// However often the store comes and goes within a window, a process admits no more
// without it than its share, once.
func TestC50_OutagesTogetherAdmitOneShare(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{Instances: 4, Probe: time.Millisecond, MaxDeny: -1})
	for _, r := range counting(40, time.Hour) {
		admitted, alone := 0, 0
		ask := func() (answered bool) {
			d, err := l.Allow(t.Context(), "s", 1, r)
			require.NoError(t, err)
			switch {
			case d.Allowed && d.Degraded:
				alone++
			case d.Allowed:
				admitted++
			}
			return !d.Degraded
		}
		for range 6 {
			s.Must("CONFIG", "SET", "maxmemory", "1") // every write is refused
			for range 8 {
				ask()
			}
			s.Must("CONFIG", "SET", "maxmemory", "0")
			require.Eventually(t, ask, 20*time.Second, 2*time.Millisecond)
			for range 8 {
				ask()
			}
		}
		require.Equal(t, 40, admitted, r.Algorithm)
		require.Equal(t, 10, alone, r.Algorithm)
	}
}

// After thousands of other rates, refusals of a limit that is new are remembered as
// ever.
func TestRefusalsAfterManyRates(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{MaxDeny: time.Hour})
	for i := range 5000 / limit.MaxRates {
		others := make([]limit.Rate, limit.MaxRates)
		for k := range others {
			others[k] = rate(limit.FixedWindow, 1, time.Minute+time.Duration(i*limit.MaxRates+k)*time.Microsecond)
			others[k].Name = string(rune('a' + k))
		}
		_, err := l.Peek(t.Context(), "other", others...)
		require.NoError(t, err)
	}
	r := rate(limit.TokenBucket, 1, time.Hour)
	require.True(t, allow(t, l, r).Allowed)
	require.False(t, allow(t, l, r).Remembered)
	for range 3 {
		require.True(t, allow(t, l, r).Remembered)
	}
}
