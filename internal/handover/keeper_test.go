package handover_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestSaleIsLoadedBeforeItsStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	k := w.keeper()
	k.Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path, "an hour is too early")

	w.store.Advance(55 * time.Minute)
	k.Look(t.Context())
	w.sound()
	at := w.standing()
	require.Equal(t, int64(5), at.Left[0])

	version, epoch, steps := w.again().Version, w.again().Epoch, w.counter.steps
	for range 3 { // restarts of any number of instances
		w.keeper().Look(t.Context())
	}
	require.Equal(t, epoch, w.again().Epoch)
	require.Equal(t, version, w.again().Version, "an operator's ETag stays good")
	require.Equal(t, steps, w.counter.steps, "nothing is loaded twice")
	require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built)
	require.Empty(t, w.log.failed)
}

// A build that takes long keeps nobody from looking after the other sales.
func TestLongBuildHoldsUpNoOtherSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := w.sale(5)
	w.store.Advance(time.Hour)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w.counter.before = func(step int) {
		if step == 1 {
			close(arrived)
			<-goOn
		}
	}
	k := w.keeper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	<-arrived
	_, err := w.book.CreateSale(t.Context(), sale.Sale{Slug: "other", Rules: slow.Rules, Items: slow.Items})
	require.NoError(t, err)
	_, err = w.book.ChangeSale(t.Context(), "other", 0, sale.Change{Action: sale.ActionPublish}) // which Run hears of
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		other, readErr := w.book.Sale(t.Context(), "other")
		require.NoError(t, readErr)
		return other.Path == sale.PathFast
	}, time.Minute, time.Millisecond)
	require.Equal(t, sale.PathDirect, w.again().Path)
	close(goOn)
	require.Eventually(t, func() bool { return w.again().Path == sale.PathFast }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}

func TestSaleThatDoesNotWantIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	direct := sale.PathDirect
	_, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Preferred: &direct}})
	require.NoError(t, err)
	w.store.Advance(time.Hour)
	w.keeper().Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path)
	_, err = w.keeper().Preheat(t.Context(), "drop")
	require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err))
	require.Zero(t, w.counter.steps)
}

// Everything that happens while the counter is loaded is in it at the end.
func TestLoadMissesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(50)
	w.store.Advance(time.Hour)
	var orders []sale.Order
	buy := func(user string) {
		o, err := w.reserve(user)
		require.NoError(t, err)
		orders = append(orders, o)
	}
	for _, user := range []string{"early", "gone", "payer", "cool"} {
		buy(user)
	}
	_, err := w.book.Cancel(t.Context(), orders[1].ID, "gone")
	require.NoError(t, err)
	w.counter.before = func(step int) {
		if step != 2 { // the first Load: the snapshot has been read
			return
		}
		buy("between")
		buy("early")
		_, err := w.book.Cancel(t.Context(), orders[0].ID, "early")
		require.NoError(t, err)
		paid, err := w.book.Pay(t.Context(), sale.Payment{ID: "p", Order: orders[2].ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		require.Equal(t, sale.OutcomePaid, paid.Outcome)
	}
	w.keeper().Look(t.Context())
	w.counter.before = nil
	w.sound()
	require.Equal(t, int64(50-4), w.standing().Left[0])
}

func TestLostLaneIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"everything":    func(w *world) { w.counter.Wipe() },
		"only the meta": func(w *world) { w.counter.Forget(w.lane()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, k := running(t, 5)
			require.Equal(t, sale.Taken, w.take("judged").Verdict)
			s := w.again()
			require.NoError(t, w.drain(t.Context(), w.lane(), &s))
			lose(w)
			w.store.Advance(ledger.BuildLease)
			k.Look(t.Context())
			w.sound()
			require.Equal(t, int64(4), w.standing().Left[0])
			require.Greater(t, w.again().Epoch, s.Epoch)
			require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyCold}, w.log.built)
		})
	}
}

// A fail-over to a replica that lagged behind brings units back that are sold.
func TestStaleLaneIsRebuilt(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	old := w.counter.Save()
	s := w.again()
	for _, user := range []string{"a", "b", "c"} {
		w.take(user)
	}
	require.NoError(t, w.drain(t.Context(), w.lane(), &s))
	k.Look(t.Context())
	require.Len(t, w.log.built, 1, "all is well")
	w.counter.Restore(old)
	require.Equal(t, int64(5), w.standing().Left[0])
	w.store.Advance(ledger.BuildLease)
	w.keeper().Look(t.Context()) // one who knows by the counts alone
	w.sound()
	require.Equal(t, int64(2), w.standing().Left[0])
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyLoss}, w.log.built)
}

// What was lost may have been in the tray only, and the counts are right without it.
func TestLaneThatIsBehindWhatWasSeenIsRebuilt(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	old := w.counter.Save()
	w.take("a")
	k.Look(t.Context())
	w.counter.Restore(old)
	w.store.Advance(ledger.BuildLease)
	w.keeper().Look(t.Context())
	require.Len(t, w.log.built, 1, "who has seen nothing finds nothing")
	before := w.again().Epoch
	k.Look(t.Context())
	w.sound()
	require.Greater(t, w.again().Epoch, before)
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyStale}, w.log.built)
	k.Look(t.Context())
	require.Len(t, w.log.built, 2, "once")
}

// A slip that somebody took out of the tray is judged by nobody; its unit sells again
// and its order is not queued for ever.
func TestMislaidSlip(t *testing.T) {
	t.Parallel()
	w, k := running(t, 10)
	require.Equal(t, sale.Taken, w.take("eve").Verdict)
	entries, err := w.counter.Look(t.Context(), w.lane(), "", 10)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	k.Look(t.Context())
	require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built, "it waits to be judged")
	require.NoError(t, w.counter.Done(t.Context(), w.lane(), entries))
	require.Equal(t, int64(9), w.standing().Left[0])
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyLoss}, w.log.built)
	require.Equal(t, int64(10), w.standing().Left[0])
	w.sound()
}

// What a fail-over forgets may never have left the counter: no count shows it.
func TestForgetfulLaneIsRebuiltWhenAnInstanceSaysSo(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	old := w.counter.Save()
	w.take("forgotten")
	w.counter.Restore(old)
	s := w.again()
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	require.Equal(t, s.Epoch, w.again().Epoch, "nobody knows")
	k.Stale(s.Number, s.Epoch-1)
	k.Look(t.Context())
	require.Equal(t, s.Epoch, w.again().Epoch, "an epoch that is over")
	k.Stale(s.Number, s.Epoch)
	k.Look(t.Context())
	w.sound()
	require.Greater(t, w.again().Epoch, s.Epoch)
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyStale}, w.log.built)
	k.Look(t.Context())
	require.Len(t, w.log.built, 2, "once")
}

// A builder that dies at any step leaves something that any other one finishes.
func TestBuilderDiesAtEveryStep(t *testing.T) {
	t.Parallel()
	for dieAt := 1; ; dieAt++ {
		w := newWorld(t)
		w.sale(5)
		w.store.Advance(time.Hour)
		w.keeper().Look(t.Context())
		w.take("queued")
		w.take("also")
		done := w.counter.steps
		w.counter.Forget(w.lane())
		w.store.Advance(ledger.BuildLease)
		w.counter.dieAt = done + dieAt
		w.keeper().Look(t.Context())
		dead := w.counter.steps >= w.counter.dieAt
		w.counter.dieAt = 0
		k := w.keeper()
		for range 3 {
			k.Look(t.Context())
			w.store.Advance(ledger.BuildLease)
		}
		w.sound()
		require.Equal(t, int64(3), w.standing().Left[0], "queued buyers are not robbed, at step %d", dieAt)
		if !dead {
			require.Greater(t, dieAt, 4)
			return
		}
	}
}

func TestLaneLeftFrozenByItsOwnEpochIsOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	w.counter.dieAt = 3 // freeze, set; the sale has no orders to load
	w.keeper().Look(t.Context())
	epoch := w.again().Epoch
	require.Equal(t, sale.PathFast, w.again().Path)
	require.Equal(t, stock.Frozen, w.standing().State)
	require.Equal(t, epoch, w.standing().FrozenBy)
	w.counter.dieAt = 0
	w.keeper().Look(t.Context())
	w.sound()
	require.Equal(t, epoch, w.again().Epoch, "opened, not built again")
}

// A keeper that is told to stop at any step opens what it has put in force.
func TestStopLeavesNoLaneInForceFrozen(t *testing.T) {
	t.Parallel()
	for stopAt, steps := 1, 1; steps >= stopAt; stopAt++ {
		w := newWorld(t)
		w.sale(5)
		w.store.Advance(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		w.counter.before = func(step int) {
			if step == stopAt {
				stop()
			}
		}
		w.keeper().Look(ctx)
		stop()
		steps = w.counter.steps
		if w.again().Path == sale.PathFast {
			require.Equal(t, stock.Open, w.standing().State, "told to stop at step %d", stopAt)
		}
	}
}

func TestManyKeepersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { w.keeper().Look(t.Context()) })
	}
	all.Wait()
	w.keeper().Look(t.Context())
	w.sound()
	require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built, "one builder")
}

func TestPreheatWaitsForAnothersBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	first, second := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	w.counter.before = func(int) {
		once.Do(func() {
			go func() {
				close(first)
				_, err := w.keeper().Preheat(t.Context(), "drop")
				second <- err
			}()
			<-first
		})
	}
	s, err := w.keeper().Preheat(t.Context(), "drop")
	require.NoError(t, err)
	require.Equal(t, sale.PathFast, s.Path)
	require.NoError(t, <-second)
	w.sound()
	require.Len(t, w.log.built, 1)
}

func TestWayToTheDirectPathRobsNobody(t *testing.T) {
	t.Parallel()
	w, k := running(t, 2)
	w.take("queued")
	after, err := k.Route(t.Context(), "drop", 0, sale.PathDirect)
	require.NoError(t, err)
	require.Equal(t, sale.PathDirect, after.Path)
	require.Equal(t, int64(1), w.again().Items[0].Sold, "the queued buyer has the unit")
	o, err := w.reserve("next")
	require.NoError(t, err)
	require.Equal(t, sale.Reserved, o.State)
	require.Equal(t, stock.Cold, w.standing().State, "nothing stays behind")
	k.Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path)

	// At once: no lease of another build is in the way.
	_, err = k.Route(t.Context(), "drop", 0, sale.PathFast)
	require.NoError(t, err)
	w.sound()
}

func TestWayToTheDirectPathWithoutACounter(t *testing.T) {
	t.Parallel()
	w, k := running(t, 2)
	w.counter.Down()
	after, err := k.Route(t.Context(), "drop", 0, sale.PathDirect)
	require.NoError(t, err)
	require.Equal(t, sale.PathDirect, after.Path)
}

func TestRouteRefusesAStaleVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sale(2)
	_, err := w.keeper().Route(t.Context(), "drop", s.Version-1, sale.PathDirect)
	require.Equal(t, sale.CodeVersionMismatch, sale.CodeOf(err))
}

func TestClearDownAfterTheEnd(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	w.store.Advance(59 * time.Minute)
	w.take("late")
	w.store.Advance(time.Minute)
	k.Look(t.Context())
	require.Equal(t, sale.PathFast, w.again().Path, "a slip waits")
	s := w.again()
	require.NoError(t, w.drain(t.Context(), w.lane(), &s))
	k.Look(t.Context())
	require.Equal(t, sale.PathFast, w.again().Path, "a hold waits")
	orders, err := w.book.ListOrders(t.Context(), ledger.OrderFilter{Sale: s.Number})
	require.NoError(t, err)
	w.store.Advance(time.Minute)
	_, err = w.book.Expire(t.Context(), []sale.OrderID{orders[0].ID})
	require.NoError(t, err)
	old := w.counter.Save()
	k.Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path)
	require.Equal(t, stock.Cold, w.standing().State)
	steps := w.counter.steps
	k.Look(t.Context())
	require.Equal(t, steps, w.counter.steps, "once")

	w.counter.Restore(old) // a server that goes back in time has them again
	require.NotEqual(t, stock.Cold, w.standing().State)
	w.store.Advance(time.Minute)
	k.Look(t.Context())
	require.Equal(t, stock.Cold, w.standing().State)
}

// Whoever is queued in a sale that is put away would be so for ever.
func TestClosedSaleIsClearedToBePutAway(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	w.take("late")
	untouched := func(s sale.Sale) {
		t.Helper()
		steps := w.counter.steps
		require.NoError(t, k.Clear(t.Context(), &s))
		require.Equal(t, steps, w.counter.steps)
	}
	untouched(w.again()) // it sells
	s, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionClose})
	require.NoError(t, err)
	w.counter.dieAt = w.counter.steps + 1
	require.ErrorIs(t, k.Clear(t.Context(), &s), errCrashed)
	w.counter.dieAt = 0
	// The token of what died counts for a while; somebody who waits is in time.
	done := make(chan error, 1)
	go func() { done <- k.Clear(t.Context(), &s) }()
	w.store.Advance(ledger.BuildLease + time.Second)
	require.NoError(t, <-done)
	require.Equal(t, stock.Cold, w.standing().State)
	now := w.again()
	require.Equal(t, sale.PathDirect, now.Path)
	require.Equal(t, s.Version, now.Version, "whoever closed it may put it away")
	orders, err := w.book.ListOrders(t.Context(), ledger.OrderFilter{Sale: s.Number})
	require.NoError(t, err)
	require.Len(t, orders, 1)
	require.Equal(t, sale.Reserved, orders[0].State, "it was taken before the sale was closed")
	untouched(now)
}

func TestClearDownThatDiedIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	w.keeper().Look(t.Context())
	w.store.Advance(time.Hour)
	w.counter.dieAt = w.counter.steps + 2 // freeze, then clear
	w.keeper().Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path)
	require.NotEqual(t, stock.Cold, w.standing().State)
	w.counter.dieAt = 0
	w.keeper().Look(t.Context())
	require.Equal(t, stock.Cold, w.standing().State)
}

func TestRunEndsWithItsContextAndHearsOfTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log, Interval: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	require.Eventually(t, func() bool { return w.again().Path == sale.PathFast }, 10*time.Second, time.Millisecond)
	w.counter.Wipe()
	w.store.Advance(ledger.BuildLease)
	before := w.again().Epoch
	k.Trouble(w.again().Number)
	require.Eventually(t, func() bool { return w.again().Epoch > before+1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}
