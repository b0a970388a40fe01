package redisconn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
)

// remote is a clock that is ahead, and whose question and answer take their time.
func remote(ahead, there, back time.Duration) redisconn.Clock {
	return func(context.Context) (time.Time, error) {
		<-time.NewTimer(there).C
		now := time.Now().Add(ahead)
		<-time.NewTimer(back).C
		return now, nil
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		clock, reference redisconn.Clock
		by, within       time.Duration
	}{
		"equal":      {remote(0, 0, 0), remote(0, 0, 0), 0, 0},
		"even ways":  {remote(3*time.Second, 40*ms, 40*ms), remote(0, 5*ms, 5*ms), 3 * time.Second, 45 * ms},
		"behind":     {remote(0, 5*ms, 5*ms), remote(time.Minute, 20*ms, 20*ms), -time.Minute, 25 * ms},
		"late reply": {remote(0, 0, 80*ms), remote(0, 0, 0), -40 * ms, 40 * ms},
		"late ask":   {remote(0, 80*ms, 0), remote(0, 0, 80*ms), 80 * ms, 80 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, err := redisconn.Compare(t.Context(), tt.clock, tt.reference)
				require.NoError(t, err)
				require.Equal(t, redisconn.Offset{By: tt.by, Within: tt.within}, o)
			})
		})
	}
}

func TestCompareBelievesTheQuickestLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := []time.Duration{90 * time.Millisecond, 30 * time.Millisecond, 2 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}
		uneven := func(ctx context.Context) (time.Time, error) {
			wait := waits[0]
			waits = waits[1:]
			return remote(time.Second, wait, 0)(ctx)
		}
		o, err := redisconn.Compare(t.Context(), uneven, remote(0, time.Millisecond, 0))
		require.NoError(t, err)
		require.InDelta(t, time.Second, o.By, float64(o.Within))
		require.Equal(t, 1500*time.Microsecond, o.Within)
	})
}

func TestCompareEndsWithAnError(t *testing.T) {
	t.Parallel()
	broken := func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no time") }
	for _, pair := range [][2]redisconn.Clock{{broken, remote(0, 0, 0)}, {remote(0, 0, 0), broken}} {
		_, err := redisconn.Compare(t.Context(), pair[0], pair[1])
		require.ErrorContains(t, err, "no time")
	}
}

func TestSurely(t *testing.T) {
	t.Parallel()
	o := redisconn.Offset{By: -150 * time.Millisecond, Within: 40 * time.Millisecond}
	require.True(t, o.Surely(100*time.Millisecond))
	require.False(t, o.Surely(110*time.Millisecond))
}

func TestServerClock(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL})
	ours := func(context.Context) (time.Time, error) { return time.Now(), nil }
	o, err := redisconn.Compare(t.Context(), redisconn.ServerClock(client), ours)
	require.NoError(t, err)
	require.LessOrEqual(t, o.By.Abs(), o.Within+time.Millisecond, "one machine has one clock")
	s.Kill()
	_, err = redisconn.Compare(t.Context(), redisconn.ServerClock(client), ours)
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
}
