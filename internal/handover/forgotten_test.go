package handover_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// inTwoParts returns a sale on the fast path whose orders are loaded by two calls.
func inTwoParts(t *testing.T) (*world, *handover.Keeper) {
	t.Helper()
	w := newWorld(t)
	s := w.sale(3 * stock.MaxActs)
	w.store.Advance(time.Hour)
	early := ledger.Batch{Sale: s.Number, Epoch: s.Epoch}
	for i := range stock.MaxActs + 10 {
		user := strconv.Itoa(i)
		early.Attempts = append(early.Attempts, ledger.Attempt{ID: s.OrderID(user, "k"), User: user, SKU: "a", Quantity: 1})
	}
	_, err := w.book.Reserve(t.Context(), early)
	require.NoError(t, err)
	k := w.keeper()
	k.Look(t.Context())
	w.sound()
	return w, k
}

// rebuiltInTheEnd has the sale built, which a fault ends, and wants the next builds to
// miss nothing.
func (w *world) rebuiltInTheEnd(k *handover.Keeper) {
	t := w.t
	t.Helper()
	now := w.again()
	w.store.Advance(ledger.BuildLease)
	require.NoError(t, k.WhileFrozen(t.Context(), &now, func(context.Context) error { return nil }))
	w.counter.before = nil
	require.NotEmpty(t, w.log.failed)
	for range 3 {
		w.store.Advance(ledger.BuildLease)
		k.Look(t.Context())
	}
	require.Equal(t, sale.PathFast, w.again().Path)
	w.sound()
}

// What is taken off the tray raises the lane's number, too, and makes up for no part of
// the load that the server forgets.
func TestLoadThatIsForgottenAfterADrain(t *testing.T) {
	t.Parallel()
	for _, queued := range []int{0, 1, 3} {
		w, k := inTwoParts(t)

		first := w.counter.steps + 2 // freeze, then both parts of the load
		if queued > 0 {
			first++ // what was queued goes in between
		}
		for i := range queued {
			w.take("queued" + strconv.Itoa(i))
		}
		var old stocktest.Snapshot
		w.counter.before = func(step int) {
			switch step {
			case first:
				old = w.counter.Save()
			case first + 1:
				w.counter.Restore(old)
			}
		}
		w.rebuiltInTheEnd(k)
	}
}

// A try of the end that was not committed has left its rules in the lane; a server that
// goes back to that is not opened with them by another try.
func TestServerThatGoesBackToATryThatWasNotCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	a, err := w.reserve("anna")
	require.NoError(t, err)
	once := true
	book := &retracting{Ledger: w.book, fails: 1, between: func() {
		if !once {
			return
		}
		once = false
		_, err := w.book.Cancel(t.Context(), a.ID, "anna")
		require.NoError(t, err)
		_, err = w.reserve("bert")
		require.NoError(t, err)
	}}
	var old stocktest.Snapshot
	w.counter.before = func(step int) {
		switch step { // freeze, load, set | what comes next
		case 4:
			old = w.counter.Save()
		case 6:
			w.counter.Restore(old)
		}
	}
	k := handover.New(book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
	k.Look(t.Context())
	for range 3 {
		w.store.Advance(ledger.BuildLease)
		k.Look(t.Context())
	}
	require.Equal(t, sale.PathFast, w.again().Path)
	w.sound()
}

// A server that goes back to before the drain has its entries again; workers who take
// them off once more, each for itself, make up for no load that is forgotten.
func TestEntriesThatComeBackHideNoForgottenLoad(t *testing.T) {
	t.Parallel()
	w, k := inTwoParts(t)
	base := w.counter.steps
	w.take("queued0")
	w.take("queued1")
	l := w.lane()
	var old stocktest.Snapshot
	w.counter.before = func(step int) {
		switch step - base { // 1 freeze, 2 done of both, 3 load, 4 load
		case 2:
			old = w.counter.Save()
		case 4:
			w.counter.Restore(old)
			entries, err := w.counter.Look(t.Context(), l, "", 10)
			require.NoError(t, err)
			require.Len(t, entries, 2)
			for i := range entries { // the workers of two instances; all is judged already
				require.NoError(t, w.counter.Mem.Done(t.Context(), l, entries[i:i+1]))
			}
		}
	}
	w.rebuiltInTheEnd(k)
}
