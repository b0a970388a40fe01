package handover_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// A sale that runs and was never loaded is sold by the ledger: a crowd at several
// instances waits for nobody, and of all their keepers one loads it meanwhile.
func TestColdSaleIsSoldWhileOneKeeperLoadsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sale(1000)
		w.store.Advance(time.Hour)
		const instances, buyers = 3, 90
		begun, goOn := make(chan struct{}), make(chan struct{})
		w.counter.before = func(step int) {
			if step == 1 {
				close(begun)
				<-goOn
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var keepers sync.WaitGroup
		var sellers [instances]*engine.Engine
		for i := range sellers {
			sellers[i] = engine.New(w.book, w.counter, engine.Options{Clock: w.now})
			keepers.Go(func() { _ = w.keeper().Run(ctx) })
		}
		crowd := func(name string, want sale.OrderState) {
			var all sync.WaitGroup
			for i := range buyers {
				all.Go(func() {
					d, err := sellers[i%instances].Buy(ctx, engine.Request{Sale: "drop", User: name + strconv.Itoa(i), Key: "k", SKU: "a", Quantity: 1})
					if err != nil || d.Verdict != sale.Taken || d.Order.State != want {
						t.Errorf("%s: %s, %s, %v", name, d.Verdict, d.Order.State, err)
					}
				})
			}
			all.Wait()
		}

		<-begun
		crowd("early", sale.Reserved)
		<-time.After(3 * time.Second) //nolint:forbidigo // the bubble's fake clock: every keeper has looked again
		require.Equal(t, 1, w.counter.steps, "nobody else has begun")
		close(goOn)
		synctest.Wait()
		require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built)
		w.sound()
		crowd("late", sale.Queued)

		stop()
		keepers.Wait()
		require.Empty(t, w.log.failed)
		for _, e := range sellers {
			require.NoError(t, e.Close(t.Context()))
		}
	})
}

// A lane that has lost its tray takes nothing, and nobody could judge what it took.
func TestLaneWithoutItsTrayIsRebuilt(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	w.take("lost")
	w.counter.LoseTray(w.lane())
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyCold}, w.log.built)
	w.sound()
	w.take("found")
}

// A sale that is over and has left meta and buyers without a tray.
func TestLaneLeftBehindWithoutItsTrayIsCleared(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	w.take("ann")
	s := w.again()
	// the way back of a counter that does not answer leaves the lanes behind
	_, err := w.book.GoDirect(t.Context(), s.Number, s.Epoch, s.Epoch+1)
	require.NoError(t, err)
	l := w.lane()
	w.counter.LoseTray(l)
	w.store.Advance(2 * time.Hour)
	for range 5 {
		k.Look(t.Context())
		w.store.Advance(2 * time.Minute)
	}
	found, err := w.counter.Records(t.Context(), l, "ann")
	require.NoError(t, err)
	require.Equal(t, stock.Cold, found.State, "meta and buyers are still there")
}
