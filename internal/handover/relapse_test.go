package handover_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// The counter's server may go back, at any step of a build, to where it was at any
// step before. Whatever is put in force in the end has everything that was loaded.
func TestServerGoesBackDuringABuild(t *testing.T) {
	t.Parallel()
	for from, steps := 1, 2; from < steps; from++ {
		for to := from + 1; to <= steps+1; to++ {
			w := newWorld(t)
			w.sale(5)
			w.store.Advance(time.Hour)
			_, err := w.reserve("early")
			require.NoError(t, err)
			var old stocktest.Snapshot
			w.counter.before = func(step int) {
				switch step {
				case from:
					old = w.counter.Save()
				case to:
					w.counter.Restore(old)
				}
			}
			w.keeper().Look(t.Context())
			steps = max(steps, w.counter.steps)
			k := w.keeper()
			for range 4 {
				w.store.Advance(ledger.BuildLease)
				k.Look(t.Context())
			}
			w.sound()
		}
	}
}

// A build of many orders takes several calls, and misses none that is forgotten.
func TestServerForgetsACallOfALongLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sale(3 * stock.MaxActs)
	w.store.Advance(time.Hour)
	early := ledger.Batch{Sale: s.Number, Epoch: s.Epoch}
	for i := range 2*stock.MaxActs + 1 {
		user := strconv.Itoa(i)
		early.Attempts = append(early.Attempts, ledger.Attempt{ID: s.OrderID(user, "k"), User: user, SKU: "a", Quantity: 1})
	}
	_, err := w.book.Reserve(t.Context(), early)
	require.NoError(t, err)
	var old stocktest.Snapshot
	w.counter.before = func(step int) {
		switch step { // freeze, load, load, load, set, unfreeze
		case 3:
			old = w.counter.Save()
		case 4:
			w.counter.Restore(old)
		}
	}
	k := w.keeper()
	k.Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path, "what is not all there is not put in force")
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	w.sound()
}

// Whoever says that a lane is forgetful may have seen a newer epoch than a look that is
// under way.
func TestForgetfulLaneOfANewerEpochIsRemembered(t *testing.T) {
	t.Parallel()
	w, k := running(t, 5)
	s := w.again()
	next, err := w.book.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	k.Stale(s.Number, next.Token+2)
	k.Look(t.Context())
	require.Equal(t, s.Epoch, w.again().Epoch)
	w.counter.Wipe()
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	require.Equal(t, next.Token+2, w.again().Epoch)
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	w.sound()
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyCold, handover.WhyStale}, w.log.built)
}

// drowsy is a ledger that takes its time for every order, and falls asleep over one.
type drowsy struct {
	ledger.Ledger
	each time.Duration
	last int // this many are told; 0: all
}

func (d *drowsy) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	return d.Ledger.Snapshot(ctx, func(r ledger.Reader) error { return fn(&drowsyReader{Reader: r, drowsy: d}) })
}

type drowsyReader struct {
	ledger.Reader
	*drowsy
}

func (r *drowsyReader) EachOrder(ctx context.Context, n sale.Number, fn func(sale.Order) error) error {
	told := 0
	return r.Reader.EachOrder(ctx, n, func(o sale.Order) error {
		if told++; told == r.last+1 && r.last > 0 {
			<-ctx.Done()
			return ctx.Err()
		}
		if err := pass(ctx, r.each); err != nil {
			return err
		}
		return fn(o)
	})
}

// A ledger with many orders may take longer for all of them than for a call. One that
// hangs keeps nobody for ever, be it an operator who cuts the stock.
func TestLedgerThatHangsEndsTheBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sale(5)
		w.store.Advance(time.Hour)
		for i := range 4 {
			_, err := w.reserve(strconv.Itoa(i))
			require.NoError(t, err)
		}
		book := &drowsy{Ledger: w.book, each: 3 * time.Second}
		k := handover.New(book, w.counter, handover.Options{
			Clock: w.now, Drain: w.drain, Observer: w.log, CallTimeout: 5 * time.Second,
		})
		k.Look(t.Context())
		require.Empty(t, w.log.failed, "12 s in all")
		w.sound()

		book.last = 2
		began, s := time.Now(), w.again()
		w.store.Advance(ledger.BuildLease)
		require.NoError(t, k.WhileFrozen(t.Context(), &s, func(context.Context) error { return nil }))
		require.Equal(t, 11*time.Second, time.Since(began))
		require.Equal(t, sale.PathDirect, w.again().Path)
		require.Len(t, w.log.failed, 1)
		w.store.Advance(ledger.BuildLease)
		k.Look(t.Context())
		require.Len(t, w.log.failed, 2)

		book.last = 0
		w.store.Advance(ledger.BuildLease)
		k.Look(t.Context())
		w.sound()
	})
}

// A call that its builder has given up waiting for may arrive later, when what it says
// is not true any more.
func TestLateCallsOfABuildChangeNothing(t *testing.T) {
	t.Parallel()
	for lateAt := 2; lateAt <= 4; lateAt++ { // load, load of what came since, set
		for arrives := lateAt + 1; arrives <= lateAt+4; arrives++ { // in the next build
			made := false
			w := newWorld(t)
			w.sale(5)
			w.store.Advance(time.Hour)
			early, err := w.reserve("early")
			require.NoError(t, err)
			w.counter.lateAt = lateAt
			w.counter.before = func(step int) {
				switch step {
				case 2: // the orders have been read
					_, err := w.reserve("late")
					require.NoError(t, err)
				case lateAt + 1:
					_, err := w.book.Cancel(t.Context(), early.ID, "early")
					require.NoError(t, err)
				}
				if step == arrives {
					made = true
					_ = w.counter.late() // refused, or in time
				}
			}
			k := w.keeper()
			for range 4 {
				k.Look(t.Context())
				w.store.Advance(ledger.BuildLease)
			}
			require.True(t, made)
			w.sound()
		}
	}
}

// Nobody waits for the lane of a sale that is over: the ledger tells what is asked
// while the last holds run.
func TestLaneLostAfterTheEndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	k := w.keeper()
	_, err := w.reserve("holder")
	require.NoError(t, err)
	k.Look(t.Context())
	_, err = w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionClose})
	require.NoError(t, err)
	k.Look(t.Context())
	require.Equal(t, sale.PathFast, w.again().Path, "a hold runs")
	w.counter.Wipe()
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	require.Equal(t, sale.PathDirect, w.again().Path)
	require.Equal(t, stock.Cold, w.standing().State)
}

// What an order that was refunded counts is loaded by the rule of then; a rule that
// changes before the build ends has everything loaded again.
func TestLimitRuleThatChangesDuringABuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	o, err := w.reserve("ann")
	require.NoError(t, err)
	_, err = w.book.Pay(t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
	require.NoError(t, err)
	_, err = w.book.Refund(t.Context(), o.ID, ledger.Refunding{Restock: true})
	require.NoError(t, err)
	w.counter.before = func(step int) {
		if step != 2 { // the first Load: the snapshot has been read
			return
		}
		rule := sale.LimitEverPaid
		_, err = w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{LimitRule: &rule}})
		require.NoError(t, err)
	}
	k := w.keeper()
	k.Look(t.Context())
	require.Len(t, w.log.failed, 1)
	require.Equal(t, sale.PathDirect, w.again().Path)
	w.counter.before = nil
	w.store.Advance(ledger.BuildLease)
	k.Look(t.Context())
	w.sound()
	found, err := w.counter.Records(t.Context(), w.lane(), "ann")
	require.NoError(t, err)
	require.Len(t, found.Orders, 1)
	require.Equal(t, int64(1), found.Orders[0].Counted)
}

// What is refunded while a sale is loaded counts by the rule of the reading, not by that
// of the build's beginning.
func TestRefundsDuringABuildCountByTheRuleOfItsReading(t *testing.T) {
	t.Parallel()
	const refunds = 200 // three rows each, which is more than the end of a build takes
	w, k := running(t, refunds+1)
	w.take("early")
	w.counter.before = func(int) {
		if w.again().Path != sale.PathDirect {
			return
		}
		w.counter.before = nil
		for i := range refunds {
			o, err := w.reserve(fmt.Sprint("u", i))
			require.NoError(t, err)
			_, err = w.book.Pay(t.Context(), sale.Payment{ID: o.ID.String(), Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
			require.NoError(t, err)
			_, err = w.book.Refund(t.Context(), o.ID, ledger.Refunding{Restock: true})
			require.NoError(t, err)
		}
	}
	s := w.again()
	require.NoError(t, k.WhileFrozen(t.Context(), &s, func(ctx context.Context) error {
		rule := sale.LimitEverPaid
		_, err := w.book.ChangeSale(ctx, "drop", 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{LimitRule: &rule}})
		return err
	}))
	w.sound()
	found, err := w.counter.Records(t.Context(), w.lane(), "u0")
	require.NoError(t, err)
	require.Len(t, found.Orders, 1)
	require.Equal(t, int64(1), found.Orders[0].Counted)
}

// Nobody looks after the lanes of a sale that was put away while they were being built.
func TestSaleThatIsPutAwayDuringABuildLeavesNoLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.sale(5)
	w.store.Advance(time.Hour)
	w.counter.before = func(step int) {
		if step != 1 { // the builder is about to freeze
			return
		}
		for _, a := range []sale.Action{sale.ActionClose, sale.ActionDelete} {
			_, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: a})
			require.NoError(t, err)
		}
	}
	w.keeper().Look(t.Context())
	require.Len(t, w.log.failed, 1)
	require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(w.log.failed[0]))
	require.Greater(t, w.counter.steps, 1)
	salts, err := w.counter.Salts(t.Context(), stock.FirstLane(&s), 1)
	require.NoError(t, err)
	s.Salts = salts
	at, err := w.counter.Read(t.Context(), stock.LanesOf(&s)[0])
	require.NoError(t, err)
	require.Equal(t, stock.Cold, at.State)
}
