package event_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/event"
)

// While rows are written, subscribers come at any place, leave, and come back
// from the last row they saw: each sees every row after its place exactly once.
func TestComingAndGoingLosesNothing(t *testing.T) {
	t.Parallel()
	const writers, rows, readers = 4, 250, 16
	w := start(t, event.Options{Buffer: 8, Replay: writers * rows * 2})
	const last = uint64(writers*rows + 2)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for k := range rows {
				w.buy(t, "alice", i*rows+k)
			}
		})
	}
	var gaps, resumed atomic.Int64
	for i := range readers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // a test repeats itself
			seen := uint64(1 + i%2)
			for seen < last {
				sub, err := w.feed.Subscribe(t.Context(), w.sale.Number, seen, event.Buyer("alice"))
				if err != nil {
					gaps.Add(1)
					return
				}
				resumed.Add(1)
				for stay := random.IntN(40) + 1; stay > 0 && seen < last; stay-- {
					e, open := <-sub.Events()
					if !open {
						break // cut off for slowness; come again
					}
					if e.Reset || e.Seq != seen+1 {
						gaps.Add(1)
						return
					}
					seen = e.Seq
				}
				sub.Close()
			}
		})
	}
	all.Wait()
	require.Zero(t, gaps.Load())
	require.Greater(t, resumed.Load(), int64(readers))
}

// Starting, subscribing, closing at once, many times.
func TestEndAtAnyMoment(t *testing.T) {
	t.Parallel()
	for range 50 {
		w := open(t, event.Options{})
		w.run(t)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				sub, err := w.feed.Subscribe(t.Context(), w.sale.Number, []uint64{0, 1, 2}[i%3], event.Buyer("alice"))
				if err != nil {
					return // closed already
				}
				if i%2 == 0 {
					sub.Close()
				}
				for range sub.Events() { // until it closes
				}
			})
		}
		all.Go(func() { w.buy(t, "alice", 1) })
		all.Go(func() { w.feed.Close() })
		all.Wait()
	}
}
