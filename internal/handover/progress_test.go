package handover_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// takeAt buys on the fast path at a lane.
func (w *world) takeAt(lane, lanes int) stock.State {
	w.t.Helper()
	s := w.again()
	w.key++
	user := homeOf(w.t, lane, lanes, fmt.Sprint("half", w.key))
	slip := stock.Slip{ID: s.OrderID(user, "k"), User: user, Quantity: 1, Epoch: s.Epoch, Terms: s.Terms, AskedAt: w.now()}
	r, err := w.counter.Take(w.t.Context(), stock.Call{
		Lane: w.lanes()[lane], Epoch: s.Epoch, Terms: s.Terms, AskedAt: slip.AskedAt,
		Attempts: []stock.Attempt{{ID: slip.ID, User: user, Quantity: 1, MAC: stock.NewSigner(s.Key, s.Number).Sign(&slip)}},
	})
	require.NoError(w.t, err)
	return r.State
}

// A builder may die, or be stopped by a lane that does not answer, when it has frozen a
// lane and others go on selling: what those do is no sign of its life, neither to keepers
// nor to an operator.
func TestSaleThatIsFrozenInPartIsBuiltAnew(t *testing.T) {
	t.Parallel()
	freezes := map[string]func(t *testing.T, w *world, k *handover.Keeper){
		"dead": func(t *testing.T, w *world, _ *handover.Keeper) {
			t.Helper()
			s := w.again()
			b, err := w.book.StartBuild(t.Context(), s.Number, s.Epoch)
			require.NoError(t, err)
			_, err = w.counter.Freeze(t.Context(), w.lanes()[0], b.Token)
			require.NoError(t, err)
		},
		"stopped": func(t *testing.T, w *world, k *handover.Keeper) {
			t.Helper()
			s := w.again()
			w.counter.failAt = w.counter.steps + 2 // the second lane's freezing
			require.ErrorIs(t, k.WhileFrozen(t.Context(), &s, nil), errCrashed)
		},
	}
	helps := map[string]func(w *world, k *handover.Keeper){
		"looks":    func(w *world, k *handover.Keeper) { k.Look(w.t.Context()) },
		"operator": func(w *world, k *handover.Keeper) { _, _ = k.Route(w.t.Context(), "drop", 0, sale.PathDirect) },
	}
	for how, freeze := range freezes {
		for who, help := range helps {
			t.Run(how+" "+who, func(t *testing.T) {
				t.Parallel()
				w, k := laned(t, 1000, 2)
				before := w.again()
				freeze(t, w, k)
				keepers := [3]*handover.Keeper{k}
				for i := range keepers[1:] {
					keepers[i+1] = handover.New(w.book, w.counter, handover.Options{
						Clock: w.now, Drain: w.drain, Observer: w.log, MaxQueued: 1000, Lanes: 2,
					})
				}
				const step = ledger.BuildLease / 10
				for range 30 {
					if now := w.again(); now.Epoch != before.Epoch {
						return
					}
					w.store.Advance(step)
					require.Equal(t, stock.Open, w.takeAt(1, 2))
					now := w.again()
					require.NoError(t, w.drain(t.Context(), w.lanes()[1], &now))
					for _, k := range keepers {
						help(w, k)
					}
				}
				require.Fail(t, "frozen in part for three leases")
			})
		}
	}
}

// many is a ledger that takes its time for every holder.
type many struct {
	ledger.Ledger
	each time.Duration
}

func (d *many) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	return d.Ledger.Snapshot(ctx, func(r ledger.Reader) error { return fn(&manyReader{r, d}) })
}

type manyReader struct {
	ledger.Reader
	d *many
}

func (r *manyReader) EachHolder(ctx context.Context, n sale.Number, fn func(ledger.Holder) error) error {
	return r.Reader.EachHolder(ctx, n, func(h ledger.Holder) error {
		if err := pass(ctx, r.d.each); err != nil {
			return err
		}
		return fn(h)
	})
}

// twoKeepers has two keepers look after the sales for a while, each of whom the ledger
// takes its time to tell of the holders.
func (w *world) twoKeepers(d time.Duration) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for pass(ctx, 50*time.Millisecond) == nil {
			w.store.Advance(50 * time.Millisecond)
		}
	})
	for i := range 2 {
		k := handover.New(&many{w.book, 100 * time.Millisecond}, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
		all.Go(func() {
			_ = pass(ctx, time.Duration(i)*170*time.Millisecond)
			_ = k.Run(ctx)
		})
	}
	_ = pass(ctx, d)
	cancel()
	all.Wait()
}

// Reading the holders may take longer than a lease, and bring nothing to the lanes.
func TestTwoKeepersAndManyHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sale(100)
		w.store.Advance(time.Hour)
		for i := range 80 {
			_, err := w.reserve(fmt.Sprint("u", i))
			require.NoError(t, err)
		}
		w.twoKeepers(30 * time.Second)
		require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built)
		require.Empty(t, w.log.failed)
		w.sound()
	})
}

// counting is a ledger that counts how often all sales are listed.
type counting struct {
	ledger.Ledger
	lists atomic.Int64
}

func (c *counting) ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error) {
	c.lists.Add(1)
	return c.Ledger.ListSales(ctx, after, limit)
}

// Every batch that a frozen lane refuses is trouble, and looks are not made that often.
func TestTroubleIsLookedIntoWithPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sale(5)
		book := &counting{Ledger: w.book}
		k := handover.New(book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = k.Run(ctx) })
		all.Go(func() {
			for pass(ctx, time.Millisecond) == nil {
				k.Trouble(1)
			}
		})
		_ = pass(ctx, 10*time.Second)
		cancel()
		all.Wait()
		require.InDelta(t, 200, book.lists.Load(), 5)
	})
}

// occupied is a ledger that counts its readers and takes its time for each.
type occupied struct {
	ledger.Ledger
	now, most atomic.Int64
}

func (o *occupied) Snapshot(ctx context.Context, fn func(ledger.Reader) error) error {
	o.most.Store(max(o.most.Load(), o.now.Add(1)))
	defer o.now.Add(-1)
	if err := pass(ctx, time.Second); err != nil {
		return err
	}
	return o.Ledger.Snapshot(ctx, fn)
}

// A builder keeps a connection to the ledger for as long as it loads; however many sales
// have to be built, most of the eight that there are by default are others'.
func TestBuildsLeaveTheLedgerToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sales = 20
		w := newWorld(t)
		first := w.sale(5)
		for i := range sales - 1 {
			w.like(&first, fmt.Sprint("drop", i), first.StartsAt)
		}
		w.store.Advance(time.Hour)
		book := &occupied{Ledger: w.book}
		k := handover.New(book, w.counter, handover.Options{Clock: time.Now, Drain: w.drain, Observer: w.log})
		k.Look(t.Context())
		require.Len(t, w.log.built, sales)
		require.Equal(t, int64(2), book.most.Load())
	})
}

// Of two instances with eight sales that take longer to load than a lease, neither takes
// over what the other has begun, be it loading or waiting for its turn.
func TestSalesThatWaitForTheLedgerAreNotTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sales = 8
		w := newWorld(t)
		first := w.sale(1000)
		all := [sales]sale.Sale{first}
		for i := range all[1:] {
			all[i+1] = w.like(&first, fmt.Sprint("drop", i), first.StartsAt)
		}
		w.store.Advance(time.Hour)
		for i := range all {
			s, err := w.book.SaleByNumber(t.Context(), all[i].Number)
			require.NoError(t, err)
			b := ledger.Batch{Sale: s.Number, Epoch: s.Epoch}
			for j := range 120 + 40*(i%3) {
				user := fmt.Sprint("u", j)
				b.Attempts = append(b.Attempts, ledger.Attempt{ID: s.OrderID(user, "k"), User: user, SKU: "a", Quantity: 1})
			}
			_, err = w.book.Reserve(t.Context(), b)
			require.NoError(t, err)
		}
		w.twoKeepers(100 * time.Second)
		require.Empty(t, w.log.failed)
		require.Len(t, w.log.built, sales)
	})
}
