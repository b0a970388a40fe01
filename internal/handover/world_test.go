package handover_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// world is a ledger and a counter in memory that go by one clock.
type world struct {
	t       *testing.T
	store   *ledgertest.MemStore
	book    *ledger.Book
	counter *fragile
	log     *log
	key     int
}

var errCrashed = errors.New("crashed")

// fragile is a counter that can be interrupted before any of its changes.
type fragile struct {
	*stocktest.Mem

	mu     sync.Mutex
	steps  int            // changes so far
	before func(step int) // runs before each change
	dieAt  int            // the change that fails, and all after it; 0: none
	failAt int            // the one change that fails; 0: none
	lateAt int            // the one change that its caller gives up waiting for; 0: none
	late   func() error   // that change, for whoever lets it arrive
}

func (f *fragile) step() error {
	f.mu.Lock()
	f.steps++
	step, before, dead := f.steps, f.before, f.dieAt > 0 && f.steps >= f.dieAt || f.steps == f.failAt
	f.mu.Unlock()
	if before != nil {
		before(step)
	}
	if dead {
		return errCrashed
	}
	return nil
}

func (f *fragile) Freeze(ctx context.Context, l stock.Lane, token int64) (stock.Standing, error) {
	if err := f.step(); err != nil {
		return stock.Standing{}, err
	}
	return f.Mem.Freeze(ctx, l, token)
}

// change carries out a change, unless it is interrupted.
func (f *fragile) change(do func() error) error {
	if err := f.step(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.steps == f.lateAt {
		f.late = do
		return stock.ErrUnavailable
	}
	return do()
}

func (f *fragile) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	acts = slices.Clone(acts)
	return f.change(func() error { return f.Mem.Load(context.WithoutCancel(ctx), l, token, acts) })
}

func (f *fragile) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	return f.change(func() error { return f.Mem.Set(context.WithoutCancel(ctx), l, token, s) })
}

func (f *fragile) Unfreeze(ctx context.Context, l stock.Lane, token int64) error {
	if err := errors.Join(f.step(), ctx.Err()); err != nil {
		return err
	}
	return f.Mem.Unfreeze(ctx, l, token)
}

func (f *fragile) Clear(ctx context.Context, l stock.Lane, token int64) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Mem.Clear(ctx, l, token)
}

func (f *fragile) Done(ctx context.Context, l stock.Lane, entries []stock.Entry) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Mem.Done(ctx, l, entries)
}

// log is what keepers report.
type log struct {
	mu     sync.Mutex
	built  []handover.Why
	left   []handover.Why
	failed []error
}

func (l *log) Built(_ sale.Number, why handover.Why, _ int, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.built = append(l.built, why)
}

func (l *log) WentDirect(_ sale.Number, why handover.Why) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, why)
}

func (l *log) Failed(_ sale.Number, _ handover.Why, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: ledgertest.NewMemStore(), log: &log{}}
	w.book = ledger.New(w.store)
	w.counter = &fragile{Mem: stocktest.NewMem(w.now)}
	t.Cleanup(func() { _ = w.book.Close() })
	return w
}

func (w *world) now() time.Time {
	now, err := w.store.Now(context.Background())
	if err != nil {
		panic(err)
	}
	return now
}

func (w *world) keeper() *handover.Keeper {
	return handover.New(w.book, w.counter, handover.Options{Clock: w.now, Drain: w.drain, Observer: w.log, MaxQueued: 1000})
}

// sale enters a published sale that prefers the fast path and starts in an hour.
func (w *world) sale(stockOf int64) sale.Sale {
	w.t.Helper()
	now := w.now()
	_, err := w.book.CreateSale(w.t.Context(), sale.Sale{
		Slug: "drop",
		Rules: sale.Rules{
			StartsAt: now.Add(time.Hour), EndsAt: now.Add(2 * time.Hour), PerUserLimit: 3, LimitRule: sale.LimitLive,
			Hold: time.Minute, Currency: "EUR", Preferred: sale.PathFast,
		},
		Items: []sale.Item{{SKU: "a", Stock: stockOf, Price: 100}, {SKU: "b", Stock: stockOf, Price: 100}},
	})
	require.NoError(w.t, err)
	s, err := w.book.ChangeSale(w.t.Context(), "drop", 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(w.t, err)
	return s
}

// running returns a world whose sale has begun, on the fast path, and its keeper.
func running(t *testing.T, stockOf int64) (*world, *handover.Keeper) {
	t.Helper()
	w := newWorld(t)
	w.sale(stockOf)
	w.store.Advance(time.Hour)
	k := w.keeper()
	k.Look(t.Context())
	w.sound()
	return w, k
}

func (w *world) again() sale.Sale {
	w.t.Helper()
	s, err := w.book.Sale(w.t.Context(), "drop")
	require.NoError(w.t, err)
	return s
}

func (w *world) lane() stock.Lane {
	s := w.again()
	return stock.LanesOf(&s)[0]
}

func (w *world) standing() stock.Standing {
	w.t.Helper()
	at, err := w.counter.Read(w.t.Context(), w.lane())
	require.NoError(w.t, err)
	return at
}

// reserve buys on the direct path.
func (w *world) reserve(user string) (sale.Order, error) {
	s := w.again()
	w.key++
	out, err := w.book.Reserve(w.t.Context(), ledger.Batch{Sale: s.Number, Epoch: s.Epoch, Attempts: []ledger.Attempt{
		{ID: s.OrderID(user, strconv.Itoa(w.key)), User: user, SKU: "a", Quantity: 1},
	}})
	if err != nil {
		return sale.Order{}, err
	}
	return out.Results[0].Order, nil
}

// take buys on the fast path and leaves a slip in the tray.
func (w *world) take(user string) stock.Result {
	w.t.Helper()
	s := w.again()
	w.key++
	slip := stock.Slip{
		ID: s.OrderID(user, strconv.Itoa(w.key)), User: user, Quantity: 1, Epoch: s.Epoch, Terms: s.Terms, AskedAt: w.now(),
	}
	r, err := w.counter.Take(w.t.Context(), stock.Call{
		Lane: w.lane(), Epoch: s.Epoch, Terms: s.Terms, AskedAt: slip.AskedAt,
		Attempts: []stock.Attempt{{ID: slip.ID, User: user, Quantity: 1, MAC: stock.NewSigner(s.Key, s.Number).Sign(&slip)}},
	})
	require.NoError(w.t, err)
	require.Equal(w.t, stock.Open, r.State)
	return r.Results[0]
}

// drain judges a whole tray, as the settling room does.
func (w *world) drain(ctx context.Context, l stock.Lane, s *sale.Sale) error {
	for {
		entries, err := w.counter.Look(ctx, l, "", 100)
		if err != nil || len(entries) == 0 {
			return err
		}
		b := ledger.Batch{Sale: s.Number}
		for i := range entries {
			slips, err := stock.ReadSlips(s.Number, &entries[i])
			if err != nil {
				return err
			}
			for _, slip := range slips {
				b.Attempts = append(b.Attempts, ledger.Attempt{
					ID: slip.ID, User: slip.User, SKU: s.Items[slip.Item].SKU, Quantity: slip.Quantity,
					Slip: &ledger.Slip{Epoch: slip.Epoch, Terms: slip.Terms, TakenAt: slip.TakenAt},
				})
			}
		}
		if _, err := w.book.Reserve(ctx, b); err != nil {
			return err
		}
		if err := w.counter.Done(ctx, l, entries); err != nil {
			return err
		}
	}
}

// sound requires that the sale is on the fast path with an open lane that says
// what the ledger says.
func (w *world) sound() {
	w.t.Helper()
	s, at := w.again(), w.standing()
	require.Equal(w.t, sale.PathFast, s.Path)
	require.Equal(w.t, stock.Open, at.State)
	require.Equal(w.t, s.Epoch, at.Epoch)
	for i := range s.Items {
		require.Equal(w.t, s.Items[i].Stock-s.Items[i].Sold, at.Left[i], "item %d", i)
	}
	orders, err := w.book.ListOrders(w.t.Context(), ledger.OrderFilter{Sale: s.Number, Limit: 1000})
	require.NoError(w.t, err)
	for i := range orders {
		o := &orders[i]
		found, err := w.counter.Records(w.t.Context(), w.lane(), o.User)
		require.NoError(w.t, err)
		want := int64(0)
		if o.State.Live() {
			want = o.Quantity
		}
		known := false
		for _, r := range found.Orders {
			if r.ID == o.ID {
				known = true
				require.Equal(w.t, want, r.Quantity, "the record of %v, %s", o.ID, o.State)
			}
		}
		require.True(w.t, known, "no record of %v", o.ID)
	}
}
