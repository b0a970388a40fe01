package settle_test

import (
	"context"
	"errors"
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

// courier returns one for the floor's only lane.
func (f *floor) courier(l ledger.Ledger, c stock.Counter, w *witness) *settle.Courier {
	return settle.NewForwarder(l, c, options("f", w)).Courier(f.lane(), &f.sale)
}

// sold takes and judges one unit for each user.
func (f *floor) sold(t *testing.T, who ...string) {
	t.Helper()
	f.take(t, who...)
	require.NoError(t, settle.NewJudge(f, f.counter, options("j", &witness{})).Drain(t.Context(), f.lane(), &f.sale))
}

func (f *floor) restock(t *testing.T, add int64) {
	t.Helper()
	s, err := f.ChangeSale(t.Context(), f.sale.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "shoe", Add: add}})
	require.NoError(t, err)
	f.sale = s
}

func TestUnitsThatComeBackSellAgainOnEveryInstance(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		var again atomic.Int64
		ears, deaf := context.WithCancel(t.Context())
		defer deaf()
		go func() {
			_ = f.counter.Listen(ears, func(m stock.Message) {
				if m.Kind == stock.KindSellsAgain {
					again.Add(1)
				}
			})
		}()
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.take(t, "a", "b", "c")
		f.pass(time.Second)
		require.Equal(t, []sale.Verdict{sale.SoldOut}, f.try(t, "d"))
		require.Zero(t, again.Load(), "births are no news to a lane")
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		f.pass(50 * time.Millisecond)
		require.Equal(t, int64(1), again.Load(), "the commit itself nudges")
		f.take(t, "d")
		f.pass(time.Second)
		leave()
		f.inStep(t)
	})
}

// TestRowsThatNobodyNudgedForArriveInTime lets another process write them.
func TestRowsThatNobodyNudgedForArriveInTime(t *testing.T) {
	t.Parallel()
	onFloor(t, 1, func(t *testing.T, f *floor) {
		leave := hire(t, ledger.New(f.frail), f.counter, options("w", &witness{}))
		f.take(t, "a")
		f.pass(2 * time.Second)
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		f.pass(600 * time.Millisecond)
		f.take(t, "b")
		f.pass(time.Second)
		leave()
		f.inStep(t)
	})
}

func TestTwoForwardersApplyEachRowOnce(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		who := f.fresh(100)
		f.sold(t, who...)
		a, b := f.courier(f, f.counter, &witness{}), f.courier(f, f.counter, &witness{})
		require.NoError(t, a.Round(t.Context()))
		require.NoError(t, b.Round(t.Context()))
		for i, user := range who[:50] {
			_, err := f.Cancel(t.Context(), f.id(user), "")
			require.NoError(t, err)
			if i%7 == 0 {
				require.NoError(t, a.Round(t.Context())) // b falls behind
			}
		}
		require.NoError(t, b.Round(t.Context()))
		require.NoError(t, a.Round(t.Context()))
		require.Equal(t, int64(50), f.standing(t).Left[0])
		require.Equal(t, int64(50), f.standing(t).Returned)
		f.inStep(t)
	})
}

func TestForwarderMayDieAnywhere(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Apply", "Sync", "Tell"} {
		for _, happened := range []string{"before", "after"} {
			t.Run(happened+" "+call, func(t *testing.T) {
				t.Parallel()
				onFloor(t, 10, func(t *testing.T, f *floor) {
					f.sold(t, f.fresh(10)...)
					_, err := f.Cancel(t.Context(), f.id("buyer-3"), "")
					require.NoError(t, err)
					f.restock(t, 5)
					_, err = f.Cancel(t.Context(), f.id("buyer-4"), "")
					require.NoError(t, err)

					c := &hookedCounter{Counter: f.counter}
					fails := func(name string) error {
						if name == call {
							return errHook
						}
						return nil
					}
					if happened == "before" {
						c.set(fails, nil)
					} else {
						c.set(nil, fails)
					}
					dies := f.courier(f, c, &witness{})
					if err := dies.Round(t.Context()); call != "Tell" {
						require.ErrorIs(t, err, errHook)
					}
					require.NoError(t, f.courier(f, f.counter, &witness{}).Round(t.Context()))
					at := f.standing(t)
					require.Equal(t, int64(7), at.Left[0])
					require.Equal(t, f.sale.Version, at.Version, "the change is not lost")
					f.inStep(t)
				})
			})
		}
	}
}

func TestLostReplyOfApplyIsLivedOn(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		f.sold(t, f.fresh(10)...)
		c := f.courier(f, f.counter, &witness{})
		require.NoError(t, c.Round(t.Context()))
		_, err := f.Cancel(t.Context(), f.id("buyer-3"), "")
		require.NoError(t, err)
		f.counter.LoseReply()
		require.ErrorIs(t, c.Round(t.Context()), stock.ErrUnavailable)
		require.NoError(t, c.Round(t.Context()))
		require.Equal(t, int64(1), f.standing(t).Left[0])
		f.inStep(t)
	})
}

func TestFrozenLaneIsWaitedFor(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		f.take(t, f.fresh(10)...)
		f.pass(time.Second)
		b, err := f.StartBuild(t.Context(), f.sale.Number, f.sale.Epoch)
		require.NoError(t, err)
		before, err := f.counter.Freeze(t.Context(), f.lane(), b.Token)
		require.NoError(t, err)
		_, err = f.Cancel(t.Context(), f.id("buyer-3"), "")
		require.NoError(t, err)
		f.pass(3 * time.Second)
		require.Equal(t, before.Applied, f.standing(t).Applied, "nothing reaches a frozen lane")
		seen.note(func() { require.Empty(t, seen.failures[settle.DoingForward], "a build is no failure") })

		// The build ends; what it has set contains the cancelled order.
		f.sale, err = f.FinishBuild(t.Context(), ledger.Finish{Build: b, Salts: []uint32{0}, Load: func(ctx context.Context, now ledger.Present) error {
			set := stock.Setting{Rules: stock.RulesOf(&now.Sale), Left: []int64{1, 10}, Applied: now.Seq, MaxQueued: 100}
			return f.counter.Set(ctx, f.lane(), b.Token, set)
		}})
		require.NoError(t, err)
		require.NoError(t, f.counter.Unfreeze(t.Context(), f.lane(), b.Token))
		f.pass(time.Second)
		f.take(t, "next")
		f.pass(time.Second)
		_, err = f.Cancel(t.Context(), f.id("next"), "")
		require.NoError(t, err)
		f.pass(time.Second)
		leave()
		require.Equal(t, int64(1), f.standing(t).Left[0], "the worker has followed into the new epoch")
		require.Zero(t, seen.troubles)
	})
}

func TestChangesOfASaleReachTheLaneOnce(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		c := &hookedCounter{Counter: f.counter}
		leave := hire(t, f, c, options("w", &witness{}))
		f.pass(time.Second)
		f.restock(t, 5)
		f.pass(time.Second)
		require.Equal(t, int64(15), f.standing(t).Left[0])
		_, err := f.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionPause})
		require.NoError(t, err)
		f.pass(time.Second)
		require.Equal(t, []sale.Verdict{sale.PausedNow}, f.try(t, "a"))
		limit := int64(2)
		_, err = f.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{PerUserLimit: &limit}})
		require.NoError(t, err)
		s, err := f.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionResume})
		require.NoError(t, err)
		f.pass(5 * time.Second)
		leave()
		require.Equal(t, s.Version, f.standing(t).Version)
		require.LessOrEqual(t, c.count("Sync"), 4, "one for each change, or for several")
		require.GreaterOrEqual(t, c.count("Sync"), 3)

		// A forwarder that slept through it all brings an old version.
		v, err := f.counter.Sync(t.Context(), f.lane(), f.sale.Epoch, stock.RulesOf(&f.sale))
		require.NoError(t, err)
		require.Equal(t, s.Version, v)
		f.take(t, "a")
		require.NoError(t, settle.NewJudge(f, f.counter, options("j", &witness{})).Drain(t.Context(), f.lane(), &f.sale))
		f.inStep(t)
	})
}

// TestWhatEndsAnOrderReachesTheLane looks at each kind of row.
func TestWhatEndsAnOrderReachesTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 10, 1, func(s *sale.Sale) {
			s.LimitRule, s.MaxUnpaidHolds, s.CoolDown, s.Hold = sale.LimitEverPaid, 1, time.Minute, 10*time.Second
		})
		courier := f.courier(f, f.counter, &witness{})
		who := []string{"cancels", "expires", "refunds", "keeps"}
		f.sold(t, who...)
		for _, user := range who[2:] {
			_, err := f.Pay(t.Context(), sale.Payment{ID: "pay-" + user, Order: f.id(user), Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
			require.NoError(t, err)
		}
		_, err := f.Cancel(t.Context(), f.id("cancels"), "")
		require.NoError(t, err)
		_, err = f.Refund(t.Context(), f.id("refunds"), ledger.Refunding{Restock: true})
		require.NoError(t, err)
		f.world.Advance(10 * time.Second)
		require.Equal(t, 1, settle.New(f, settle.Options{}).Sweep(t.Context(), time.Now()))
		require.NoError(t, courier.Round(t.Context()))

		record := func(user string) (stock.Record, time.Time) {
			r, failed := f.counter.Records(t.Context(), f.lane(), user)
			require.NoError(t, failed)
			require.Len(t, r.Orders, 1)
			return r.Orders[0], r.CoolUntil
		}
		for _, user := range []string{"cancels", "expires"} {
			r, cool := record(user)
			require.Zero(t, r.Quantity)
			require.Zero(t, r.Counted)
			require.False(t, cool.IsZero(), "the cool-down is known where it is asked for")
			require.Equal(t, []sale.Verdict{sale.Replayed}, f.try(t, user))
		}
		r, cool := record("refunds")
		require.Zero(t, r.Quantity)
		require.Equal(t, int64(1), r.Counted, "what was paid once counts for ever")
		require.True(t, cool.IsZero())
		r, _ = record("keeps")
		require.Equal(t, int64(1), r.Quantity)
		f.inStep(t)

		// A late payment bears an order that the lane did not take.
		paid, err := f.Pay(t.Context(), sale.Payment{ID: "late", Order: f.id("expires"), Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		require.Equal(t, sale.OutcomePaid, paid.Outcome)
		require.NoError(t, courier.Round(t.Context()))
		require.Equal(t, int64(8), f.standing(t).Left[0])
		f.inStep(t)
	})
}

func TestColdLaneIsTroubleAndLivedThrough(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		seen := &witness{}
		c := &hookedCounter{Counter: f.counter}
		leave := hire(t, f, c, options("w", seen))
		f.take(t, f.fresh(5)...)
		f.pass(time.Second)
		seen.note(func() { require.Zero(t, seen.troubles) })
		f.counter.Wipe()
		f.pass(10 * time.Second)
		seen.note(func() { require.NotZero(t, seen.troubles) })
		require.Less(t, c.count("Claim"), 40, "it does not spin")
		f.build(t, 1)
		f.take(t, "again")
		f.pass(3 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "again"))
	})
}

// TestLaneOfAnotherEpochIsTrouble has a lane come back from before the last build.
func TestLaneOfAnotherEpochIsTrouble(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		old := f.counter.Save()
		f.pass(10 * time.Second) // beyond the lease of the build before
		f.build(t, 1)
		f.counter.Restore(old)
		seen := &witness{}
		courier := f.courier(f, f.counter, seen)
		require.ErrorIs(t, courier.Round(t.Context()), stock.ErrEpoch)
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(2 * time.Second)
		leave()
		require.NotZero(t, seen.troubles)
	})
}

func TestUnreadableRowIsPassedOver(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		f.sold(t, f.fresh(3)...)
		for _, user := range []string{"buyer-0", "buyer-1", "buyer-2"} {
			_, err := f.Cancel(t.Context(), f.id(user), "")
			require.NoError(t, err)
		}
		seen := &witness{}
		c := f.courier(&smudged{Ledger: f, order: f.id("buyer-1")}, f.counter, seen)
		require.NoError(t, c.Round(t.Context()))
		require.Equal(t, int64(9), f.standing(t).Left[0], "the rows around it arrive")
		require.Len(t, seen.failures[settle.DoingForward], 1)
	})
}

// smudged shows the journal with the rows of one order unreadable.
type smudged struct {
	ledger.Ledger
	order sale.OrderID
}

func (s *smudged) LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) (ledger.LaneRows, error) {
	rows, err := s.Ledger.LaneRows(ctx, n, after, limit)
	for i := range rows.Rows {
		if rows.Rows[i].Order == s.order {
			rows.Rows[i].Body = []byte(`{"user":`)
		}
	}
	return rows, err
}

func TestLongJournalIsForwardedInStretches(t *testing.T) {
	t.Parallel()
	onFloor(t, 1200, func(t *testing.T, f *floor) {
		f.sold(t, f.fresh(1200)...)
		f.world.Advance(10 * time.Minute)
		require.Equal(t, 1200, settle.New(f, settle.Options{}).Sweep(t.Context(), time.Now()))
		c := &hookedCounter{Counter: f.counter}
		require.NoError(t, f.courier(f, c, &witness{}).Round(t.Context()))
		require.GreaterOrEqual(t, c.count("Apply"), 3)
		require.Equal(t, int64(1200), f.standing(t).Left[0])
	})
}

func TestReturnsFindTheirWayHomeAmongLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 101, 3, nil)
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		who := f.fresh(60)
		f.take(t, who...)
		f.pass(time.Second)
		for _, user := range who[:30] {
			_, err := f.Cancel(t.Context(), f.id(user), "")
			require.NoError(t, err)
		}
		f.restock(t, 7)
		f.pass(time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 30, sale.Cancelled: 30}, f.states(t, who...))
		f.inStep(t)
		require.Empty(t, seen.failures)
	})
}

func TestLedgerOutageDelaysForwardingOnly(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.take(t, "a", "b", "c")
		f.pass(time.Second)
		l.set(func(call string) error {
			if call == "LaneRows" {
				return errors.New("out of reach")
			}
			return nil
		}, nil)
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		before := l.count("LaneRows")
		f.pass(30 * time.Second)
		require.LessOrEqual(t, l.count("LaneRows")-before, 65)
		l.set(nil, nil)
		f.pass(600 * time.Millisecond)
		f.take(t, "d")
		f.pass(time.Second)
		leave()
		f.inStep(t)
	})
}
