package handover_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/handover"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Clear returns when the lanes are gone, whoever did it.
func TestClearThatAnotherFinishes(t *testing.T) {
	t.Parallel()
	w, _ := running(t, 5)
	w.take("late")
	s, err := w.book.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionClose})
	require.NoError(t, err)
	other := w.keeper()
	k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Observer: w.log, Drain: func(ctx context.Context, l stock.Lane, s *sale.Sale) error {
		if err := w.drain(ctx, l, s); err != nil {
			return err
		}
		w.store.Advance(ledger.BuildLease) // a long drain
		now := w.again()                   //nolint:contextcheck // by the test's own
		return other.Clear(ctx, &now)
	}})
	require.NoError(t, k.Clear(t.Context(), &s))
}

// A counter that has lost everything while it was drained keeps no sale on the fast path.
func TestWayToTheDirectPathWhoseCounterIsLost(t *testing.T) {
	t.Parallel()
	w, _ := running(t, 5)
	k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Observer: w.log, Drain: func(ctx context.Context, l stock.Lane, s *sale.Sale) error {
		w.counter.Wipe()
		return w.drain(ctx, l, s)
	}})
	s, err := k.Route(t.Context(), "drop", 0, sale.PathDirect)
	require.NoError(t, err)
	require.Equal(t, sale.PathDirect, s.Path)
}

// A slip that cannot be judged keeps no sale from selling, and no operator from his act.
func TestSlipThatCannotBeJudgedKeepsNobodyFromBuying(t *testing.T) {
	t.Parallel()
	for about, act := range map[string]func(context.Context, *handover.Keeper, *sale.Sale) error{
		"a look": func(ctx context.Context, k *handover.Keeper, s *sale.Sale) error {
			k.Stale(s.Number, s.Epoch)
			k.Look(ctx)
			return nil
		},
		"a way back": func(ctx context.Context, k *handover.Keeper, s *sale.Sale) error {
			_, err := k.Route(ctx, s.Slug, 0, sale.PathDirect)
			return err
		},
		"a change": func(ctx context.Context, k *handover.Keeper, s *sale.Sale) error {
			return k.WhileFrozen(ctx, s, func(context.Context) error { return nil })
		},
	} {
		w, _ := running(t, 5)
		w.take("stuck")
		bad := true
		k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Observer: w.log, Drain: func(ctx context.Context, l stock.Lane, s *sale.Sale) error {
			if bad {
				return fmt.Errorf("%w: the row is damaged", stock.ErrStuck)
			}
			return w.drain(ctx, l, s)
		}})
		s := w.again()
		require.NoError(t, act(t.Context(), k, &s), about)
		now := w.again()
		require.Equal(t, sale.PathDirect, now.Path, about)
		w.store.Advance(ledger.BuildLease)
		bad = false
		k.Look(t.Context())
		back := w.again()
		require.Equal(t, now.Preferred, back.Path, about)
	}
}

// A drain that takes longer than a lease may be overtaken; the operator's act is done.
func TestChangeThatIsOvertakenWhileItDrains(t *testing.T) {
	t.Parallel()
	w, _ := running(t, 5)
	other := w.keeper()
	once := true
	k := handover.New(w.book, w.counter, handover.Options{Clock: w.now, Observer: w.log, Drain: func(ctx context.Context, l stock.Lane, s *sale.Sale) error {
		if once {
			once = false
			w.store.Advance(ledger.BuildLease) // a long drain
			now := w.again()                   //nolint:contextcheck // by the test's own
			require.NoError(t, other.WhileFrozen(ctx, &now, func(context.Context) error { return nil }))
		}
		return w.drain(ctx, l, s)
	}})
	s := w.again()
	w.store.Advance(ledger.BuildLease)
	done := false
	err := k.WhileFrozen(t.Context(), &s, func(context.Context) error { done = true; return nil })
	require.NoError(t, err)
	require.True(t, done)
}
