package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Holders that are never read in time do not keep the counter busy with nothing else;
// those who were read before go on to cover the sale.
func TestHoldersThatAreNeverReadInTime(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(10)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, "late").Verdict)
		synctest.Wait()
		first := s.counter.holders.Load()
		s.counter.set(func() { s.counter.stuck = true })
		for range 90 {
			s.pass(1001 * time.Millisecond)
			takes := s.counter.takes.Load()
			refuseAll(t, s.Engine, fmt.Sprint("at ", time.Now().UnixMilli(), " "), sale.SoldOut)
			require.Equal(t, takes+1, s.counter.takes.Load(), "one probes, all others are answered from memory")
			synctest.Wait()
		}
		tried := s.counter.holders.Load() - first
		require.Greater(t, tried, int64(1), "it is tried again")
		require.LessOrEqual(t, tried, int64(3))
	})
}

func TestCloseDoesNotWaitForHoldersThatAreRead(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(1, 1)
		s.build(1)
		s.counter.set(func() { s.counter.stuck = true })
		s.sellAll(1)
		synctest.Wait()
		require.Equal(t, int64(1), s.counter.holders.Load())
		began := time.Now()
		require.NoError(t, s.Close(t.Context()))
		require.Zero(t, time.Since(began))
	})
}
