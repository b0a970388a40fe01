package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/lock"
)

// A quantile is never too small, and at most an eighth too large.
func TestQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		took := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(r, "took"))
		var s lock.Stats
		s.Observe(lock.Event{Kind: lock.Acquired, Took: took})
		got := s.Quantile(lock.Acquired, 0.99)
		require.GreaterOrEqual(r, got, took)
		require.LessOrEqual(r, got, took+took/8+2*time.Microsecond)
		require.Equal(r, took, s.Total(lock.Acquired))
	})
	var s lock.Stats
	require.Zero(t, s.Quantile(lock.Lost, 0.5))
	for i := range 100 {
		s.Observe(lock.Event{Kind: lock.Renewed, Took: time.Duration(i+1) * time.Millisecond})
	}
	require.InDelta(t, 50, s.Quantile(lock.Renewed, 0.5).Milliseconds(), 7)
	require.Equal(t, uint64(100), s.Count(lock.Renewed))
	require.Equal(t, "renewed", lock.Renewed.String())
	s.Observe(lock.Event{Kind: 200})
}
