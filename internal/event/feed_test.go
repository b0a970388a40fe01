package event_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestRowsArriveAtOnceAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{})
		sub := w.subscribe(t, 0, event.Buyer("alice"))
		o := w.buy(t, "alice", 1)
		e := next(t, sub, time.Nanosecond) // a nudge needs no time
		require.Equal(t, uint64(3), e.Seq)
		require.Equal(t, ledger.OrderKind(sale.Reserved), e.Kind)
		require.Equal(t, o.ID, e.Order)
		for i := range 20 {
			w.buy(t, "alice", 10+i)
			require.Equal(t, uint64(4+i), next(t, sub, time.Nanosecond).Seq)
		}
		require.Empty(t, waiting(sub))
	})
}

// Rows of which no nudge tells, since another process wrote them, come with
// the poll.
func TestPollIsTheNet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{Poll: time.Hour}, "deaf") // more than a second is a second
		sub := w.subscribe(t, 0, event.Buyer("alice"))
		require.Empty(t, waiting(sub))
		w.buy(t, "alice", 1)
		w.buy(t, "alice", 2)
		require.Equal(t, uint64(3), next(t, sub, time.Second+1).Seq)
		require.Equal(t, uint64(4), next(t, sub, time.Nanosecond).Seq)
	})
}

func TestAudiences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{})
		public, alice := w.subscribe(t, 0, event.Public()), w.subscribe(t, 0, event.Buyer("alice"))
		nobody, bob := w.subscribe(t, 0, event.Buyer("")), w.subscribe(t, 0, event.Buyer("bob"))
		o := w.buy(t, "alice", 1)                             // 3
		w.buy(t, "bob", 1)                                    // 4
		w.act(t, sale.Change{Action: sale.ActionPause})       // 5
		_, err := w.tap.Cancel(t.Context(), o.ID, "alice")    // 6
		require.NoError(t, err)                               //
		w.act(t, sale.Change{Action: sale.ActionResume})      // 7
		order := w.buy(t, "bob", 2)                           // 8
		for _, charge := range []string{"ch-1", "ch-twice"} { // 9 paid, 10 owed
			_, err = w.tap.Pay(t.Context(), sale.Payment{ID: charge, Order: order.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
			require.NoError(t, err)
		}
		require.Equal(t, []uint64{5, 7}, waiting(public))
		require.Equal(t, []uint64{5, 7}, waiting(nobody))
		require.Equal(t, []uint64{3, 5, 6, 7}, waiting(alice))
		require.Equal(t, []uint64{4, 5, 7, 8, 9}, waiting(bob))

		// The same rows, from memory and from the journal.
		require.Equal(t, []uint64{5, 6, 7}, waiting(w.subscribe(t, 4, event.Buyer("alice"))))
		require.Equal(t, []uint64{2, 5, 7}, waiting(w.subscribe(t, 1, event.Public())))
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{Replay: 5, Buffer: 2})
		for i := range 8 {
			w.buy(t, "alice", i) // rows 3 to 10
		}
		require.Equal(t, []uint64{6, 7, 8, 9, 10}, waiting(w.subscribe(t, 5, event.Buyer("alice"))))
		require.Equal(t, []uint64{10}, waiting(w.subscribe(t, 9, event.Buyer("alice"))))
		require.Empty(t, waiting(w.subscribe(t, 10, event.Buyer("alice"))))

		far := w.subscribe(t, 4, event.Buyer("alice"))
		e := next(t, far, time.Nanosecond)
		require.True(t, e.Reset)
		require.Equal(t, uint64(10), e.Seq, "it goes on from here")
		require.Equal(t, w.sale.Number, e.Sale)
		w.buy(t, "alice", 99)
		require.Equal(t, []uint64{11}, waiting(far))
	})
}

// A place that another instance handed out before this one saw the row is
// honoured; a place in no journal is not.
func TestPlaceAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{}, "deaf")
		first := w.subscribe(t, 0, event.Buyer("alice"))
		require.Empty(t, waiting(first))
		w.buy(t, "alice", 1) // 3, not seen yet
		w.buy(t, "alice", 2) // 4
		sub := w.subscribe(t, 3, event.Buyer("alice"))
		require.Equal(t, uint64(4), next(t, sub, time.Second).Seq)

		forged := w.subscribe(t, 1<<62, event.Buyer("alice"))
		require.True(t, next(t, forged, time.Nanosecond).Reset)
		w.buy(t, "alice", 3)
		require.Equal(t, uint64(5), next(t, forged, time.Second).Seq)
	})
}

func TestSlowSubscriberIsCutOffAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{Buffer: 3})
		slow, quick := w.subscribe(t, 0, event.Buyer("alice")), w.subscribe(t, 0, event.Buyer("alice"))
		for i := range 10 {
			w.buy(t, "alice", i)
			require.Len(t, waiting(quick), 1)
		}
		require.Equal(t, []uint64{3, 4, 5}, waiting(slow), "what it got is in order and without a gap")
		_, open := <-slow.Events()
		require.False(t, open)
		require.ErrorIs(t, slow.Err(), event.ErrSlow)
		require.NoError(t, quick.Err())
		require.EqualValues(t, 1, w.watch.cut.Load())

		again := w.subscribe(t, 5, event.Buyer("alice"))
		require.Equal(t, []uint64{6, 7, 8, 9, 10, 11, 12}, waiting(again))
	})
}

func TestCrowdSharesOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const crowd = 10_000
		w := start(t, event.Options{Poll: time.Second})
		w.tap.lag = time.Millisecond // so that all of them come while it reads
		for i := range 50 {
			w.buy(t, "alice", i)
		}
		subs := make([]*event.Subscription, crowd)
		var all sync.WaitGroup
		for i := range subs {
			all.Go(func() {
				// Half come new, half come back after a restart of the server.
				subs[i], _ = w.feed.Subscribe(t.Context(), w.sale.Number, []uint64{0, 10}[i%2], event.Public())
			})
		}
		all.Wait()
		synctest.Wait()
		require.LessOrEqual(t, w.tap.rows.Load(), int64(3), "the journal was read for one of them")
		require.EqualValues(t, 1, w.tap.ends.Load())
		before := w.tap.rows.Load()
		w.act(t, sale.Change{Action: sale.ActionPause})
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // fake time
		synctest.Wait()
		require.LessOrEqual(t, w.tap.rows.Load()-before, int64(2), "one read, and one that finds the end")
		var first *event.Event
		for _, sub := range subs {
			e := next(t, sub, time.Nanosecond)
			if first == nil {
				first = e
			}
			require.Same(t, first, e)
			sub.Close()
		}
	})
}

func TestSaleWithoutSubscribersCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{})
		key := 0
		work := func() {
			for range 10 {
				key++
				w.buy(t, "alice", key)
			}
			time.Sleep(5 * time.Second) //nolint:forbidigo // fake time
			synctest.Wait()
		}
		work()
		require.Zero(t, w.tap.rows.Load()+w.tap.ends.Load())

		sub := w.subscribe(t, 0, event.Public())
		work()
		require.Positive(t, w.tap.rows.Load())
		sub.Close()
		sub.Close() // repeated, it does nothing
		require.NoError(t, sub.Err())
		_, open := <-sub.Events()
		require.False(t, open)
		before := w.tap.rows.Load()
		work()
		require.Equal(t, before, w.tap.rows.Load())
	})
}

func TestFailedReadLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{})
		sub := w.subscribe(t, 0, event.Buyer("alice"))
		w.tap.failing.Store(true)
		w.buy(t, "alice", 1)
		w.buy(t, "alice", 2)
		require.Empty(t, waiting(sub))
		require.Positive(t, w.watch.failed.Load())
		_, err := w.feed.Subscribe(t.Context(), w.sale.Number, 1, event.Public())
		require.ErrorIs(t, err, errCable)
		w.tap.failing.Store(false)
		require.Equal(t, uint64(3), next(t, sub, time.Second).Seq)
		require.Equal(t, []uint64{4}, waiting(sub))
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"Close":   func(w *world) { w.feed.Close(); w.feed.Close() },
		"context": func(w *world) { w.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := start(t, event.Options{})
				sub := w.subscribe(t, 0, event.Buyer("alice"))
				synctest.Wait()
				require.ErrorContains(t, w.feed.Run(t.Context()), "runs already")
				end(w)
				_, open := <-sub.Events()
				require.False(t, open)
				require.ErrorIs(t, sub.Err(), event.ErrClosed)
				_, err := w.feed.Subscribe(t.Context(), w.sale.Number, 0, event.Public())
				require.ErrorIs(t, err, event.ErrClosed)
				sub.Close()
				require.ErrorIs(t, sub.Err(), event.ErrClosed, "the reason stays")
			})
		})
	}
}

func TestClosedFeedHasNothingToRun(t *testing.T) {
	t.Parallel()
	w := open(t, event.Options{})
	w.feed.Close()
	require.NoError(t, w.feed.Run(t.Context()))
}

func TestSubscribersMayComeBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, event.Options{})
		sub := w.subscribe(t, 0, event.Buyer("alice"))
		w.buy(t, "alice", 1)
		require.Empty(t, waiting(sub))
		w.run(t)
		require.Equal(t, uint64(3), next(t, sub, time.Nanosecond).Seq)
	})
}

func TestUnknownSale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, event.Options{})
		_, err := w.feed.Subscribe(t.Context(), 99, 0, event.Public())
		require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
	})
}
