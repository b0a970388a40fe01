package handover_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// laned returns a world whose sale has begun in so many lanes, and its keeper.
func laned(t *testing.T, stockOf int64, lanes int) (*world, *handover.Keeper) {
	t.Helper()
	w := newWorld(t)
	w.sale(stockOf)
	w.store.Advance(time.Hour)
	k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log, MaxQueued: 1000, Lanes: lanes})
	k.Look(t.Context())
	s := w.again()
	require.Equal(t, sale.PathFast, s.Path)
	require.Len(t, s.Salts, lanes)
	return w, k
}

func (w *world) lanes() []stock.Lane {
	s := w.again()
	return stock.LanesOf(&s)
}

func (w *world) standings() []stock.Standing {
	w.t.Helper()
	at, err := w.counter.ReadAll(w.t.Context(), w.lanes())
	require.NoError(w.t, err)
	return at
}

func (w *world) lefts() (left []int64) {
	w.t.Helper()
	for _, at := range w.standings() {
		left = append(left, at.Left[0])
	}
	return left
}

// give takes a unit out of a lane and does not bring it to the other.
func (w *world) give(from, to int) stock.Transfer {
	w.t.Helper()
	out, err := w.counter.Give(w.t.Context(), w.lanes()[from], stock.Transfer{
		Epoch: w.again().Epoch, From: from, To: to, Number: w.standings()[to].Received[from] + 1, Units: 1,
	})
	require.NoError(w.t, err)
	return out
}

func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	w, _ := laned(t, 10, 3)
	require.Equal(t, []int64{4, 3, 3}, w.lefts())
}

func TestKeeperBringsHomeWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	w, k := laned(t, 9, 3)
	w.give(0, 2)
	require.Equal(t, []int64{2, 3, 3}, w.lefts())
	k.Look(t.Context())
	require.Equal(t, []int64{2, 3, 4}, w.lefts())
	require.Empty(t, stock.Underway(w.standings()))
	require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built, "nothing is wrong")
	require.Empty(t, w.log.failed)
}

// An order that the ledger took without the lane may put that below zero while
// others have units: those are owed.
func TestKeeperCoversWhatALaneOwes(t *testing.T) {
	t.Parallel()
	w, k := laned(t, 2, 2)
	s := w.again()
	for i := range 2 {
		user := homeOf(t, 1, 2, fmt.Sprintf("late%d", i))
		act := stock.Act{Kind: stock.ActAdopt, ID: s.OrderID(user, "k"), User: user, Quantity: 1, Counted: 1, TakenAt: w.now()}
		applied := w.standings()[1].Applied
		act.Seq = applied + 1
		_, err := w.book.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Attempts: []ledger.Attempt{{
			ID: act.ID, User: user, Quantity: 1,
			Slip: &ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: act.TakenAt, Presented: true},
		}}})
		require.NoError(t, err)
		_, err = w.counter.Apply(t.Context(), w.lanes()[1], stock.Acts{Epoch: s.Epoch, From: applied, To: applied + 1, Acts: []stock.Act{act}})
		require.NoError(t, err)
	}
	require.Equal(t, []int64{1, -1}, w.lefts())
	k.Look(t.Context())
	require.Equal(t, []int64{0, 0}, w.lefts())
}

func homeOf(t *testing.T, lane, lanes int, name string) string {
	t.Helper()
	for i := range 1000 {
		if user := name + "-" + strconv.Itoa(i); stock.Home(user, lanes) == lane {
			return user
		}
	}
	t.Fatal("nobody is at home there")
	return ""
}

// A lane whose server went back to before a transfer has units twice, or has lost
// them: the lanes are built anew.
func TestForgottenTransfer(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(w *world){
		"by its source": func(w *world) {
			old := w.counter.Save()
			gift := w.give(0, 1)
			w.counter.Restore(old)
			require.NoError(w.t, w.counter.Receive(w.t.Context(), w.lanes()[1], gift))
		},
		"by its target, when the next one was given": func(w *world) {
			gift := w.give(0, 1) // and received, which is what has been forgotten
			gift.Number++
			_, err := w.counter.Give(w.t.Context(), w.lanes()[0], gift)
			require.NoError(w.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, k := laned(t, 6, 2)
			w.t = t
			forget(w)
			k.Look(t.Context())
			k.Look(t.Context())
			require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyLoss}, w.log.built)
			require.Equal(t, []int64{3, 3}, w.lefts())
		})
	}
}

func TestStockIsCutWhileNoLaneSells(t *testing.T) {
	t.Parallel()
	w, k := laned(t, 6, 2)
	s := w.again()
	one := int64(1)
	cut := sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "a", Total: &one}}
	lanes := w.lanes()
	var during []stock.Standing
	err := k.WhileFrozen(t.Context(), &s, func(ctx context.Context) (err error) {
		if during, err = w.counter.ReadAll(ctx, lanes); err == nil {
			_, err = w.book.ChangeSale(ctx, "drop", 0, cut)
		}
		return err
	})
	require.NoError(t, err)
	for i := range during {
		require.Equal(t, stock.Frozen, during[i].State)
	}
	require.Equal(t, sale.PathFast, w.again().Path)
	require.Equal(t, []int64{1, 0}, w.lefts())
	require.Equal(t, []handover.Why{handover.WhyPreheat, handover.WhyStock}, w.log.built)
}

// A change that is refused leaves a sale that sells as before.
func TestCutThatIsRefused(t *testing.T) {
	t.Parallel()
	w, k := laned(t, 6, 2)
	s := w.again()
	refused := sale.IllegalState("no", "never")
	require.ErrorIs(t, k.WhileFrozen(t.Context(), &s, func(context.Context) error { return refused }), refused)
	require.Equal(t, sale.PathFast, w.again().Path)
	require.Equal(t, []int64{3, 3}, w.lefts())
}

// While somebody else is at it the change waits its turn.
func TestCutDuringABuild(t *testing.T) {
	t.Parallel()
	w, k := laned(t, 6, 2)
	s := w.again()
	other, err := w.book.StartBuild(t.Context(), s.Number, s.Epoch)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	done := make(chan error, 1)
	go func() {
		done <- k.WhileFrozen(ctx, &s, func(context.Context) error { ran = true; return nil })
	}()
	w.store.Advance(ledger.BuildLease + time.Second) // the other one has died
	require.NoError(t, <-done)
	cancel()
	require.True(t, ran)
	require.Greater(t, w.again().Epoch, other.Token)
}
