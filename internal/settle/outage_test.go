package settle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestOutageOfTheLedgerIsWaitedOutWithoutSpinning(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Reserve" {
				return errHook
			}
			return nil
		}, nil)
		leave := hire(t, l, f.counter, options("w", &witness{}))
		who := f.fresh(50)
		f.take(t, who...)
		f.pass(time.Minute)
		require.Equal(t, map[sale.OrderState]int{sale.Queued: 50}, f.states(t, who...))
		require.Less(t, l.count("Reserve"), 60, "pauses grow to two seconds")
		require.Greater(t, l.count("Reserve"), 20)
		l.set(nil, nil)
		f.pass(3 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 50}, f.states(t, who...))
		require.Empty(t, f.letters(t))
		f.inStep(t)
	})
}

// TestWorkerWithoutItsLedgerLeavesTheSlipsToOthers cuts one of two workers off.
func TestWorkerWithoutItsLedgerLeavesTheSlipsToOthers(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.set(func(string) error { return errHook }, nil)
		cutOff := hire(t, l, f.counter, options("cut off", &witness{}))
		f.take(t, "first")
		f.pass(1100 * time.Millisecond) // it had begun to wait for more
		other := hire(t, f, f.counter, options("other", &witness{}))
		for range 30 {
			who := f.fresh(1)
			f.take(t, who...)
			f.pass(100 * time.Millisecond)
			require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, who...))
		}
		f.pass(5 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "first"), "taken over from the one cut off")
		cutOff()
		other()
		f.inStep(t)
	})
}

// TestBreakdownDuringTheSearchForACulpritParksNobody has single results fail for
// want of the ledger, as they do when it breaks down between two halves of a batch.
func TestBreakdownDuringTheSearchForACulpritParksNobody(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		who := f.fresh(50)
		for _, user := range who[10:20] {
			l.refused.Store(user, errHook)
		}
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.take(t, who...)
		f.pass(time.Minute)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 40, sale.Queued: 10}, f.states(t, who...))
		l.refused.Clear()
		f.pass(3 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 50}, f.states(t, who...))
		require.Empty(t, f.letters(t))
		f.inStep(t)
	})
}

// picky is a ledger that breaks down over some batches without refusing a row.
type picky struct {
	ledger.Ledger
	limit   int           // more attempts than this are too much
	takes   time.Duration // how long it takes to find that out
	breaker string        // a user over whom it breaks down
}

func (p *picky) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	if len(b.Attempts) > p.limit {
		<-time.After(p.takes) //nolint:forbidigo // the bubble's fake clock
		return ledger.Batched{}, context.DeadlineExceeded
	}
	for i := range b.Attempts {
		if b.Attempts[i].User == p.breaker {
			return ledger.Batched{}, errHook
		}
	}
	return p.Ledger.Reserve(ctx, b)
}

func TestBatchThatIsTooMuchIsTriedSmaller(t *testing.T) {
	t.Parallel()
	onFloor(t, 2000, func(t *testing.T, f *floor) {
		who := f.fresh(2000)
		f.take(t, who...)
		leave := hire(t, &picky{Ledger: f, limit: 100}, f.counter, options("w", &witness{}))
		f.pass(20 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 2000}, f.states(t, who...))
		f.inStep(t)
	})
}

// TestSlipThatBreaksTheLedgerIsFoundAndParked has one slip fail every call that it
// is part of, in a way that looks like an outage.
func TestSlipThatBreaksTheLedgerIsFoundAndParked(t *testing.T) {
	t.Parallel()
	onFloor(t, 3000, func(t *testing.T, f *floor) {
		l := &picky{Ledger: f, limit: 10_000, breaker: "breaker"}
		f.take(t, f.fresh(300)...)
		f.take(t, "breaker")
		f.take(t, f.fresh(700)...)
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.pass(3 * time.Second)
		behind := f.fresh(300)
		f.take(t, behind...)
		f.pass(time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 300}, f.states(t, behind...), "it blocks nobody")
		for range 40 {
			f.take(t, f.fresh(5)...)
			f.pass(500 * time.Millisecond)
		}
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1}, f.states(t, "breaker"))
		require.Len(t, f.letters(t), 1)
		require.Empty(t, f.tray(t))
		require.Equal(t, int64(3000-1500), f.left(t, "drop"))
		f.inStep(t)
	})
}

// The same where nobody buys any more, so that no other slip shows that it is not an
// outage.
func TestSlipThatBreaksTheLedgerOfAQuietLaneEnds(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		leave := hire(t, &picky{Ledger: f, limit: 10_000, breaker: "breaker"}, f.counter, options("w", &witness{}))
		f.take(t, "breaker")
		f.pass(ledger.MaxQueued - time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Queued: 1}, f.states(t, "breaker"), "it may yet be judged")
		f.pass(time.Minute)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1}, f.states(t, "breaker"))
		require.Empty(t, f.tray(t))
		f.inStep(t)
	})
}

// An outage that lasts longer than a slip may wait parks nobody.
func TestLongOutageParksNobody(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		leave := hire(t, l, f.counter, options("w", &witness{}))
		l.set(func(string) error { return errHook }, nil)
		f.take(t, "a", "b")
		f.pass(2 * ledger.MaxQueued)
		l.set(nil, nil)
		f.pass(10 * time.Second)
		leave()
		require.Empty(t, f.letters(t))
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 2}, f.states(t, "a", "b"), "too late, says the ledger")
		f.inStep(t)
	})
}

func TestOutageOfTheCounterIsWaitedOut(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		c := &hookedCounter{Counter: f.counter}
		leave := hire(t, f, c, options("w", &witness{}))
		who := f.fresh(50)
		f.take(t, who...)
		f.counter.Down()
		f.pass(time.Minute)
		f.counter.Up()
		require.Less(t, c.count("Claim"), 60)
		f.pass(7 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 50}, f.states(t, who...))
		f.inStep(t)
	})
}

func TestBackOffWhileOthersSell(t *testing.T) {
	// A sale that the ledger cannot read never stops another.
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 10, 1, nil)
		bad := f.sale
		f.open(t, "other", 10, nil)
		f.build(t, 1)
		l := &badSale{Ledger: f, bad: bad.Number}
		leave := hire(t, l, f.counter, options("w", &witness{}))
		who := f.fresh(10)
		f.take(t, who...)
		other := *f
		other.sale = bad
		other.take(t, "x")
		f.pass(2 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 10}, f.states(t, who...))
		require.Equal(t, map[sale.OrderState]int{sale.Queued: 1}, other.states(t, "x"))
	})
}

// badSale cannot judge one of the sales.
type badSale struct {
	ledger.Ledger
	bad sale.Number
}

func (b *badSale) Reserve(ctx context.Context, batch ledger.Batch) (ledger.Batched, error) {
	if batch.Sale == b.bad {
		return ledger.Batched{}, fmt.Errorf("sale %d: %w", b.bad, errHook)
	}
	return b.Ledger.Reserve(ctx, batch)
}
