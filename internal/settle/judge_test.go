package settle_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// onFloor runs body in a bubble of fake time, on a floor with so many units.
func onFloor(t *testing.T, units int64, body func(t *testing.T, f *floor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, units, 1, nil)
		body(t, f)
	})
}

func TestSlipsBecomeOrdersAndEverybodyIsTold(t *testing.T) {
	t.Parallel()
	onFloor(t, 3000, func(t *testing.T, f *floor) {
		var told sync.Map
		ears, deaf := context.WithCancel(t.Context())
		go func() {
			_ = f.counter.Listen(ears, func(m stock.Message) {
				for _, id := range m.IDs {
					told.Store(id, true)
				}
			})
		}()
		seen := &witness{}
		who := f.fresh(2500)
		f.take(t, who...)
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 2500}, f.states(t, who...))
		require.Empty(t, f.tray(t))
		for _, user := range who {
			_, heard := told.Load(f.id(user))
			require.True(t, heard)
		}
		seen.note(func() { require.GreaterOrEqual(t, seen.batches[0], 1000, "what is there is judged together") })

		f.take(t, "late")
		f.pass(50 * time.Millisecond)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "late"), "one slip waits for no other")
		leave()
		deaf()
		f.inStep(t)
		require.Equal(t, 2501, seen.settled[sale.Reserved])
	})
}

func TestTwoWorkersShareATray(t *testing.T) {
	t.Parallel()
	onFloor(t, 2000, func(t *testing.T, f *floor) {
		a := hire(t, f, f.counter, options("a", &witness{}))
		b := hire(t, f, f.counter, options("b", &witness{}))
		for range 20 {
			f.take(t, f.fresh(100)...)
			f.pass(50 * time.Millisecond)
		}
		f.pass(time.Second)
		a()
		b()
		f.inStep(t)
		require.Zero(t, f.left(t, "drop"))
	})
}

// crashes are the places where a worker can die between a claim and the news of it.
func crashes() map[string]func(*hookedLedger, *hookedCounter, func()) {
	at := func(h *hooks, call string, before bool, die func()) {
		fn := func(c string) error {
			if c != call {
				return nil
			}
			die()
			return errHook
		}
		if before {
			h.set(fn, nil)
		} else {
			h.set(nil, fn)
		}
	}
	return map[string]func(*hookedLedger, *hookedCounter, func()){
		"after the claim":   func(_ *hookedLedger, c *hookedCounter, die func()) { at(&c.hooks, "Claim", false, die) },
		"before the commit": func(l *hookedLedger, _ *hookedCounter, die func()) { at(&l.hooks, "Reserve", true, die) },
		"after the commit":  func(l *hookedLedger, _ *hookedCounter, die func()) { at(&l.hooks, "Reserve", false, die) },
		"before done":       func(_ *hookedLedger, c *hookedCounter, die func()) { at(&c.hooks, "Done", true, die) },
		"after done":        func(_ *hookedLedger, c *hookedCounter, die func()) { at(&c.hooks, "Done", false, die) },
		"before the news":   func(_ *hookedLedger, c *hookedCounter, die func()) { at(&c.hooks, "Tell", true, die) },
	}
}

// TestWorkerMayDieAnywhere lets a worker die at each step: every call it makes
// from then on fails. Another takes its slips over.
func TestWorkerMayDieAnywhere(t *testing.T) {
	t.Parallel()
	for name, crash := range crashes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onFloor(t, 100, func(t *testing.T, f *floor) {
				l, c := &hookedLedger{Ledger: f}, &hookedCounter{Counter: f.counter}
				var died atomic.Bool
				crash(l, c, func() {
					died.Store(true)
					dead := func(string) error { return errHook }
					go l.set(dead, nil)
					go c.set(dead, nil)
				})
				who := f.fresh(60)
				f.take(t, who...)
				dies := hire(t, l, c, options("dies", &witness{}))
				f.pass(time.Second)
				require.True(t, died.Load())
				dies()
				seen := &witness{}
				lives := hire(t, f, f.counter, options("lives", seen))
				f.pass(7 * time.Second)
				lives()
				require.Equal(t, map[sale.OrderState]int{sale.Reserved: 60}, f.states(t, who...))
				f.inStep(t)
			})
		})
	}
}

// TestLostRepliesLoseNothing loses each reply once to a worker that lives on.
func TestLostRepliesLoseNothing(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Claim", "Reserve", "Done", "Tell"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			onFloor(t, 100, func(t *testing.T, f *floor) {
				l, c := &hookedLedger{Ledger: f}, &hookedCounter{Counter: f.counter}
				var lost atomic.Bool
				lose := func(name string) error {
					if name == call && lost.CompareAndSwap(false, true) {
						return errHook
					}
					return nil
				}
				l.set(nil, lose)
				c.set(nil, lose)
				seen := &witness{}
				leave := hire(t, l, c, options("w", seen))
				who := f.fresh(60)
				f.take(t, who...)
				f.pass(7 * time.Second)
				leave()
				require.True(t, lost.Load())
				require.Equal(t, map[sale.OrderState]int{sale.Reserved: 60}, f.states(t, who...))
				f.inStep(t)
				require.Empty(t, f.letters(t), "trouble is no reason to park")
			})
		})
	}
}

func TestSlipsOfADeadConsumerAreTakenOver(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		who := f.fresh(10)
		f.take(t, who...)
		entries, err := f.counter.Claim(t.Context(), f.lane(), stock.Claim{Consumer: "dead", Max: 10})
		require.NoError(t, err)
		require.NotEmpty(t, entries)
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(4 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Queued: 10}, f.states(t, who...), "it may be slow, not dead")
		f.pass(3 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 10}, f.states(t, who...))
		require.Equal(t, 1, seen.tookOver)
		f.inStep(t)
	})
}

// TestSlowWorkerChangesNothing holds a worker before its transaction, as SIGSTOP
// does, until its slips were judged by another and an order has ended since.
func TestSlowWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		wake := make(chan struct{})
		once := sync.OnceFunc(func() { close(wake) })
		l.set(func(call string) error {
			if call == "Reserve" {
				<-wake
			}
			return nil
		}, nil)
		o := options("slow", &witness{})
		o.CallTimeout = time.Hour
		slow := hire(t, l, f.counter, o)
		t.Cleanup(once)
		f.pass(300 * time.Millisecond)
		who := f.fresh(10)
		f.take(t, who[:9]...)
		f.pass(300 * time.Millisecond)
		f.take(t, who[9])
		f.pass(200 * time.Millisecond) // now it looks for idle entries before the other does
		quick := hire(t, f, f.counter, options("quick", &witness{}))
		f.pass(7 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 10}, f.states(t, who...))
		_, err := f.Cancel(t.Context(), f.id(who[0]), "")
		require.NoError(t, err)
		f.pass(time.Second)
		f.take(t, "next") // the unit sells again
		f.pass(time.Second)

		once()
		f.pass(2 * time.Second)
		slow()
		quick()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 10, sale.Cancelled: 1}, f.states(t, append(who, "next")...))
		require.Equal(t, []sale.Verdict{sale.SoldOut}, f.try(t, "too late"))
		f.inStep(t)
	})
}

func TestSlipOlderThanAllowedIsRejectedAndReturned(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		who := f.fresh(10)
		f.take(t, who...)
		f.world.Advance(ledger.MaxQueued + time.Millisecond)
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(2 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 10}, f.states(t, who...))
		f.take(t, f.fresh(10)...)
		f.pass(time.Second)
		leave()
		require.Zero(t, f.left(t, "drop"))
		f.inStep(t)
	})
}

func TestDrainEmptiesAFrozenTrayWhoeverHasClaimed(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		who := f.fresh(700)
		for _, user := range who[:300] {
			f.take(t, user) // one entry each
		}
		f.take(t, who[300:]...)
		_, err := f.counter.Claim(t.Context(), f.lane(), stock.Claim{Consumer: "dead", Max: 100})
		require.NoError(t, err)
		b, err := f.StartBuild(t.Context(), f.sale.Number, f.sale.Epoch)
		require.NoError(t, err)
		_, err = f.counter.Freeze(t.Context(), f.lane(), b.Token)
		require.NoError(t, err)

		f.frail.refuse(who[5])
		j := settle.NewJudge(f, f.counter, options("w", &witness{}))
		require.NoError(t, j.Drain(t.Context(), f.lane(), &b.Sale))
		require.Empty(t, f.tray(t))
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 699, sale.Queued: 1}, f.states(t, who...))
		require.Len(t, f.letters(t), 1)
		require.NoError(t, j.Drain(t.Context(), f.lane(), &b.Sale), "an empty tray is drained")

		f.counter.Down()
		require.ErrorIs(t, j.Drain(t.Context(), f.lane(), &b.Sale), stock.ErrUnavailable)
	})
}

func TestDrainAsksATiredLedgerForLess(t *testing.T) {
	t.Parallel()
	onFloor(t, 2001, func(t *testing.T, f *floor) {
		who := f.fresh(1000)
		f.take(t, who...)
		j := settle.NewJudge(&picky{Ledger: f, limit: 100}, f.counter, options("w", &witness{}))
		require.NoError(t, j.Drain(t.Context(), f.lane(), &f.sale))
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1000}, f.states(t, who...))

		who = f.fresh(1000)
		f.take(t, who...)
		tired := &picky{Ledger: f, limit: 10, takes: 4 * time.Second} // each refusal lasts
		require.NoError(t, settle.NewJudge(tired, f.counter, options("w", &witness{})).Drain(t.Context(), f.lane(), &f.sale))
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1000}, f.states(t, who...))

		f.take(t, "next")
		dead := &hookedLedger{Ledger: f}
		dead.set(func(string) error { return errHook }, nil)
		j = settle.NewJudge(dead, f.counter, options("w", &witness{}))
		require.ErrorIs(t, j.Drain(t.Context(), f.lane(), &f.sale), errHook)
		require.Len(t, f.tray(t), 1)
	})
}

// A slip that cannot be judged keeps nobody's place but its own, and nobody waiting.
func TestDrainLeavesASlipThatIsStuck(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		f.take(t, "breaker")
		who := f.fresh(300)
		for _, user := range who {
			f.take(t, user) // one entry each
		}
		j := settle.NewJudge(&picky{Ledger: f, limit: 10_000, breaker: "breaker"}, f.counter, options("w", &witness{}))
		began := time.Now()
		require.ErrorIs(t, j.Drain(t.Context(), f.lane(), &f.sale), stock.ErrStuck)
		require.Less(t, time.Since(began), 14*time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 300}, f.states(t, who...))
		require.Len(t, f.tray(t), 1)
		require.ErrorIs(t, j.Drain(t.Context(), f.lane(), &f.sale), errHook)

		f.pass(ledger.MaxQueued + time.Second)
		require.NoError(t, j.Drain(t.Context(), f.lane(), &f.sale))
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1}, f.states(t, "breaker"))
	})
}

// Nor do some: whoever comes pages behind them is judged, and soon.
func TestDrainGoesPastStuckSlips(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		who := make([]string, 0, 4*70)
		for i := range 4 {
			user := "stuck" + strconv.Itoa(i)
			l.refused.Store(user, errHook)
			f.take(t, user)
			for _, other := range f.fresh(70) {
				f.take(t, other) // one entry each
				who = append(who, other)
			}
		}
		began := time.Now()
		err := settle.NewJudge(l, f.counter, options("w", &witness{})).Drain(t.Context(), f.lane(), &f.sale)
		require.ErrorIs(t, err, stock.ErrStuck)
		require.Less(t, time.Since(began), 30*time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 280}, f.states(t, who...))
	})
}

// Where the ledger cannot be written to, it is not the slips.
func TestDrainKnowsAnOutage(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		f.take(t, "a")
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Reserve" {
				return errHook
			}
			return nil
		}, nil)
		err := settle.NewJudge(l, f.counter, options("w", &witness{})).Drain(t.Context(), f.lane(), &f.sale)
		require.ErrorIs(t, err, errHook)
		require.NotErrorIs(t, err, stock.ErrStuck)
	})
}

// Nor does a letter that the ledger does not take.
func TestDrainLeavesALetterThatIsStuck(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		f.counter.Plant(f.lane(), map[string]string{"garbage": "1"})
		f.take(t, "a")
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Park" {
				return fmt.Errorf("the letters: %w", ledger.ErrConstraint)
			}
			return nil
		}, nil)
		j := settle.NewJudge(l, f.counter, options("w", &witness{}))
		began := time.Now()
		require.ErrorIs(t, j.Drain(t.Context(), f.lane(), &f.sale), stock.ErrStuck)
		require.Less(t, time.Since(began), 14*time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "a"))
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		f.take(t, "a")
		l := &hookedLedger{Ledger: f}
		l.refused.Store("a", ledger.ErrConstraint)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		j := settle.NewJudge(l, f.counter, options("w", &witness{}))
		require.ErrorIs(t, j.Drain(ctx, f.lane(), &f.sale), context.DeadlineExceeded)
		require.Len(t, f.tray(t), 1)
	})
}
