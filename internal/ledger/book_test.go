package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// The rules over the reference store: what any store has to keep up with.
func TestBook(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.MemWorld)
}

func TestBookMachine(t *testing.T) {
	t.Parallel()
	ledgertest.Machine(t, ledgertest.MemWorld, 60)
}

func newSale(t *testing.T, store *ledgertest.MemStore) sale.Sale {
	t.Helper()
	now, err := store.Now(t.Context())
	require.NoError(t, err)
	return sale.Sale{
		Slug: "drop",
		Rules: sale.Rules{
			StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 1, LimitRule: sale.LimitLive, Hold: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe", Stock: 1, Price: 1}},
	}
}

func TestWatchStopWaitsForARunningCall(t *testing.T) {
	t.Parallel()
	store := ledgertest.NewMemStore()
	book := ledger.New(store)
	entered, release := make(chan struct{}), make(chan struct{})
	var ended, stopped atomic.Bool
	stop := book.Watch(func([]ledger.Entry) {
		close(entered)
		<-release
		ended.Store(true)
	})
	wrote, s := make(chan error), newSale(t, store)
	go func() {
		_, err := book.CreateSale(t.Context(), s)
		wrote <- err
	}()
	<-entered
	done := make(chan bool)
	go func() {
		stop()
		stopped.Store(true)
		done <- ended.Load()
	}()
	for range 1000 { // every chance to return too early
		runtime.Gosched()
	}
	require.False(t, stopped.Load())
	close(release)
	require.True(t, <-done, "the call had ended when stop returned")
	require.NoError(t, <-wrote)
}

func TestClosePassesThrough(t *testing.T) {
	t.Parallel()
	store := ledgertest.NewMemStore()
	book := ledger.New(store)
	s, err := book.CreateSale(t.Context(), newSale(t, store))
	require.NoError(t, err)
	require.NoError(t, book.Close())
	for name, call := range map[string]func(context.Context) error{
		"now":     func(ctx context.Context) error { _, err := book.Now(ctx); return err },
		"due":     func(ctx context.Context) error { _, err := book.Due(ctx, time.Time{}, 1); return err },
		"sale":    func(ctx context.Context) error { _, err := book.Sale(ctx, s.Slug); return err },
		"list":    func(ctx context.Context) error { _, err := book.ListSales(ctx, 0, 1); return err },
		"order":   func(ctx context.Context) error { _, err := book.Order(ctx, s.OrderID("a", "k")); return err },
		"orders":  func(ctx context.Context) error { _, err := book.ListOrders(ctx, ledger.OrderFilter{}); return err },
		"refunds": func(ctx context.Context) error { _, err := book.ListRefunds(ctx, ledger.RefundFilter{}); return err },
		"done":    func(ctx context.Context) error { _, err := book.RefundDone(ctx, sale.RefundID{1}); return err },
		"rows":    func(ctx context.Context) error { _, err := book.Rows(ctx, s.Number, 0, 1); return err },
		"reserve": func(ctx context.Context) error {
			_, err := book.Reserve(ctx, ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: make([]ledger.Attempt, 1)})
			return err
		},
		"cancel": func(ctx context.Context) error { _, err := book.Cancel(ctx, s.OrderID("a", "k"), "a"); return err },
	} {
		err := call(t.Context())
		require.Error(t, err, name)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "%s: infrastructure trouble is no business answer", name)
	}
}

// A listing without a limit gives 100, and none gives more than 1000.
func TestPages(t *testing.T) {
	t.Parallel()
	store := ledgertest.NewMemStore()
	book, s := ledger.New(store), newSale(t, store)
	s.Items[0].Stock = 1100
	s, err := book.CreateSale(t.Context(), s)
	require.NoError(t, err)
	_, err = book.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionPublish})
	require.NoError(t, err)
	b := ledger.Batch{Sale: s.Number, Epoch: 1}
	for i := range 1100 {
		user := fmt.Sprint("user-", i)
		b.Attempts = append(b.Attempts, ledger.Attempt{ID: s.OrderID(user, "k"), User: user, Quantity: 1})
	}
	out, err := book.Reserve(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, sale.Taken, out.Results[1099].Verdict)
	for limit, want := range map[int]int{0: 100, -1: 100, 1: 1, 1000: 1000, 5000: 1000} {
		orders, err := book.ListOrders(t.Context(), ledger.OrderFilter{Limit: limit})
		require.NoError(t, err)
		require.Len(t, orders, want)
		rows, err := book.Rows(t.Context(), s.Number, 0, limit)
		require.NoError(t, err)
		require.Len(t, rows, want)
	}
}

var errDown = errors.New("the database is down")

// Each good member is done exactly once, each culprit is named exactly once.
func TestBisect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 70).Draw(t, "n")
		culprit := make([]bool, n)
		for i := range culprit {
			culprit[i] = rapid.IntRange(0, 5).Draw(t, "culprit") == 0
		}
		done, named, calls := make([]int, n), make([]int, n), 0
		ledger.Bisect(n, func(from, to int) error {
			calls++
			if slices.Contains(culprit[from:to], true) {
				return fmt.Errorf("rows %d to %d: %w", from, to, ledger.ErrConstraint)
			}
			for i := from; i < to; i++ {
				done[i]++
			}
			return nil
		}, func(i int, err error) {
			require.ErrorIs(t, err, ledger.ErrConstraint)
			named[i]++
		})
		for i := range n {
			want := [2]int{1, 0}
			if culprit[i] {
				want = [2]int{0, 1}
			}
			require.Equal(t, want, [2]int{done[i], named[i]}, "member %d", i)
		}
		require.LessOrEqual(t, calls, 2*n)
	})
}

func TestBisectGivesUpOnOtherTrouble(t *testing.T) {
	t.Parallel()
	var calls []string
	bad := map[int]error{}
	ledger.Bisect(8, func(from, to int) error {
		calls = append(calls, fmt.Sprint(from, "-", to))
		switch {
		case from >= 4:
			return errDown
		case from == 0 && to > 1:
			return ledger.ErrConstraint
		}
		return nil
	}, func(i int, err error) { bad[i] = err })
	require.Equal(t, []string{"0-4", "0-2", "0-1", "1-2", "2-4", "4-8"}, calls)
	require.Equal(t, map[int]error{4: errDown, 5: errDown, 6: errDown, 7: errDown}, bad)
}
