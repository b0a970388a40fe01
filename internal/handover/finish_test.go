package handover_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// retracting is a ledger that fails to commit the end of a build, at first. Each build
// asks twice, to know what became of the first.
type retracting struct {
	ledger.Ledger
	fails   int    // so often
	between func() // runs after each time
}

func (r *retracting) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	if r.fails == 0 {
		return r.Ledger.FinishBuild(ctx, f)
	}
	r.fails--
	load := f.Load
	f.Load = func(ctx context.Context, now ledger.Present) error { return errors.Join(load(ctx, now), errCrashed) }
	out, err := r.Ledger.FinishBuild(ctx, f)
	r.between()
	return out, err
}

// The end of a build that is not committed is nobody's to put in force any more; the next
// build misses nothing of what happened since the orders were read, nor since.
func TestEndOfABuildThatIsNotCommitted(t *testing.T) {
	t.Parallel()
	for fails := range 3 {
		w := newWorld(t)
		w.sale(20)
		w.store.Advance(time.Hour)
		orders := make([]sale.Order, 0, 10)
		buy := func() {
			o, err := w.reserve("buyer" + strconv.Itoa(len(orders)))
			require.NoError(t, err)
			orders = append(orders, o)
		}
		buy()
		w.counter.before = func(step int) {
			if step == 2 { // the orders have been read
				buy()
			}
		}
		book := &retracting{Ledger: w.book, fails: 2 * fails, between: func() {
			buy()
			last := orders[len(orders)-2]
			_, err := w.book.Cancel(t.Context(), last.ID, last.User)
			require.NoError(t, err)
		}}
		k := handover.New(book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
		for i := range fails {
			k.Look(t.Context())
			require.Len(t, w.log.failed, i+1)
			require.ErrorIs(t, w.log.failed[i], errCrashed)
			require.Equal(t, sale.PathDirect, w.again().Path)
			w.store.Advance(ledger.BuildLease)
		}
		k.Look(t.Context())
		require.Len(t, orders, 2+2*fails)
		w.sound()
	}
}

// silent is a ledger whose answer to the end of a build is lost.
type silent struct {
	ledger.Ledger
	lost  int
	after func() // runs each time
}

func (s *silent) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	out, err := s.Ledger.FinishBuild(ctx, f)
	if s.lost > 0 && err == nil {
		s.lost--
		s.after()
		return sale.Sale{}, errCrashed
	}
	return out, err
}

// What happens after such an end is the couriers' to bring to the lanes, be it much.
func TestEndOfABuildWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	const much = 200 // three rows each, which is more than the end of a build takes
	w := newWorld(t)
	s := w.sale(5)
	w.store.Advance(time.Hour)
	book := &silent{Ledger: w.book, lost: 2, after: func() {
		for i := range much {
			key := strconv.Itoa(i)
			slip := ledger.Slip{Epoch: w.again().Epoch, Terms: s.Terms, TakenAt: w.now()}
			out, err := w.book.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Attempts: []ledger.Attempt{
				{ID: s.OrderID("u"+key, key), User: "u" + key, SKU: "b", Quantity: 1, Slip: &slip},
			}})
			require.NoError(t, err)
			_, err = w.book.Cancel(t.Context(), out.Results[0].Order.ID, "u"+key)
			require.NoError(t, err)
		}
	}}
	o, err := w.reserve("early")
	require.NoError(t, err)
	k := handover.New(book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
	k.Look(t.Context())
	require.Empty(t, w.log.failed)
	require.Equal(t, 4, w.counter.steps, "freeze, load, set, unfreeze")
	require.Equal(t, sale.PathFast, w.again().Path)
	found, err := w.counter.Records(t.Context(), w.lane(), "early")
	require.NoError(t, err)
	require.Len(t, found.Orders, 1)
	require.Equal(t, o.ID, found.Orders[0].ID)
}

// contended is a ledger whose locks come late, and whose clock goes on with the bubble's.
type contended struct {
	ledger.Ledger
	store *ledgertest.MemStore
	since time.Time
	waits int           // so many of them
	wait  time.Duration // this late
}

func (c *contended) StartBuild(ctx context.Context, n sale.Number, epoch int64) (ledger.Build, error) {
	c.store.Advance(time.Since(c.since))
	c.since = time.Now()
	return c.Ledger.StartBuild(ctx, n, epoch)
}

func (c *contended) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	if c.waits > 0 {
		c.waits--
		if err := pass(ctx, c.wait); err != nil {
			return sale.Sale{}, err
		}
	}
	return c.Ledger.FinishBuild(ctx, f)
}

// distant is a counter that takes its time.
type distant struct{ *fragile }

func (d *distant) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	if pass(ctx, 20*time.Millisecond) != nil {
		return stock.ErrUnavailable
	}
	return d.fragile.Set(ctx, l, token, s)
}

// pass lets time pass in a bubble.
func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A crowd may hold the sale's lock so long that too little time is left for the counter,
// or none.
func TestEndOfABuildThatGotTheLockLateIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"late": 490 * time.Millisecond, "too late": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, k := behindACrowd(t, 2, wait)
				k.Look(t.Context())
				require.Empty(t, w.log.failed)
				require.Equal(t, []handover.Why{handover.WhyPreheat}, w.log.built)
				w.sound()
			})
		})
	}
}

// behindACrowd returns a sale whose lock comes late so many times, and its keeper.
func behindACrowd(t *testing.T, waits int, wait time.Duration) (*world, *handover.Keeper) {
	t.Helper()
	w := newWorld(t)
	w.sale(5)
	w.store.Advance(time.Hour)
	crowd := &contended{Ledger: w.book, store: w.store, since: time.Now(), waits: waits, wait: wait}
	return w, handover.New(crowd, &distant{w.counter}, handover.Options{Clock: time.Now, Drain: w.drain, Observer: w.log})
}

// A look gives up a build whose lock does not come, and the next one begins it anew; an
// operator waits for as long as they said they would.
func TestPreheatWaitsForTheLockAsLongAsItsCaller(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"late": 490 * time.Millisecond, "too late": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, k := behindACrowd(t, 12, wait)
				after, err := k.Preheat(t.Context(), "drop")
				require.NoError(t, err)
				require.Equal(t, sale.PathFast, after.Path)
				w.sound()
			})
			synctest.Test(t, func(t *testing.T) {
				_, k := behindACrowd(t, 1000, wait)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := k.Preheat(ctx, "drop")
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// never is a ledger that commits no end of a build.
type never struct{ ledger.Ledger }

func (n *never) FinishBuild(ctx context.Context, f ledger.Finish) (sale.Sale, error) {
	load := f.Load
	f.Load = func(ctx context.Context, now ledger.Present) error { return errors.Join(load(ctx, now), errCrashed) }
	return n.Ledger.FinishBuild(ctx, f)
}

// An operator is told why the end of a build fails each time.
func TestPreheatThatFailsForGoodSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sale(5)
		w.store.Advance(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			for pass(ctx, 50*time.Millisecond) == nil {
				w.store.Advance(50 * time.Millisecond)
			}
		})
		k := handover.New(&never{w.book}, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log})
		_, err := k.Preheat(ctx, "drop")
		cancel()
		wg.Wait()
		require.ErrorIs(t, err, errCrashed)
	})
}
