package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// refuseAll has a crowd of strangers refused by an engine.
func refuseAll(t *testing.T, e *engine.Engine, round string, want sale.Verdict) {
	t.Helper()
	crowd(300, func(i int) {
		d, err := e.Buy(t.Context(), engine.Request{Sale: slug, User: fmt.Sprint("stranger-", round, i), Key: "k", Quantity: 1})
		if err != nil || d.Verdict != want {
			t.Errorf("got %v, %v", d.Verdict, err)
		}
	})
}

func TestSoldOutCostsTheCounterOneProbeASecond(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(10)
		refuseAll(t, s.Engine, "a", sale.SoldOut)
		synctest.Wait()
		takes := s.counter.takes.Load()
		refuseAll(t, s.Engine, "b", sale.SoldOut)
		require.Equal(t, takes, s.counter.takes.Load(), "refused from memory")
		s.pass(1001 * time.Millisecond)
		refuseAll(t, s.Engine, "c", sale.SoldOut)
		require.Equal(t, takes+1, s.counter.takes.Load(), "one probe")
		require.Equal(t, int64(1), s.counter.holders.Load())
	})
}

func TestBuyerOfAnotherInstanceIsNeverRefusedHisReplay(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(9)
		there := s.buyAt(s.second, "elsewhere")
		require.Equal(t, sale.Taken, there.Verdict)
		refuseAll(t, s.Engine, "a", sale.SoldOut) // learns that nothing is left, and loads
		synctest.Wait()
		takes := s.counter.takes.Load()
		refuseAll(t, s.Engine, "b", sale.SoldOut)
		require.Equal(t, takes, s.counter.takes.Load())
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "elsewhere").Verdict)

		// A unit comes back and goes to somebody through the other instance, within
		// the second for which a shortage is remembered.
		s.judge(1)
		_, err := s.second.Cancel(t.Context(), there.Order.ID, "elsewhere")
		require.NoError(t, err)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "lucky").Verdict)
		refuseAll(t, s.Engine, "c", sale.SoldOut)
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "lucky").Verdict)
		s.pass(time.Second)
		refuseAll(t, s.Engine, "d", sale.SoldOut)
		synctest.Wait()
		takes = s.counter.takes.Load()
		refuseAll(t, s.Engine, "e", sale.SoldOut)
		require.Equal(t, takes, s.counter.takes.Load(), "and memory works again")
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "lucky").Verdict)
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "elsewhere").Verdict, "also what has ended")
	})
}

// Holders that were loaded while another item was being sold know nothing of its
// buyers.
func TestHoldersAreLoadedAgainForAnItemThatSellsOutLater(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		buy := func(e *engine.Engine, user, sku string) sale.Verdict {
			d, err := e.Buy(t.Context(), requestFor(user, sku))
			require.NoError(t, err)
			synctest.Wait()
			return d.Verdict
		}
		require.Equal(t, sale.Taken, buy(s.Engine, "ann", "shoe"))
		require.Equal(t, sale.SoldOut, buy(s.Engine, "x", "shoe"))
		require.Equal(t, int64(1), s.counter.holders.Load())
		require.Equal(t, sale.Taken, buy(s.second, "bob", "boot"))
		s.pass(time.Second)
		loads := s.counter.holders.Load()
		require.Equal(t, sale.SoldOut, buy(s.Engine, "y", "boot"))
		require.Equal(t, loads+1, s.counter.holders.Load())
		takes := s.counter.takes.Load()
		require.Equal(t, sale.SoldOut, buy(s.Engine, "z", "boot"))
		require.Equal(t, takes, s.counter.takes.Load())
		require.Equal(t, sale.Replayed, buy(s.Engine, "bob", "boot"))
	}, func(d *sale.Sale) {
		d.Items = []sale.Item{{SKU: "shoe", Stock: 1, Price: 100}, {SKU: "boot", Stock: 1, Price: 100}}
	})
}

func TestLittleLeftIsNotRememberedWhereOthersSell(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		buy := func(user, sku string, quantity int64) sale.Verdict {
			r := requestFor(user, sku)
			r.Quantity = quantity
			d, err := s.Buy(t.Context(), r)
			require.NoError(t, err)
			synctest.Wait()
			return d.Verdict
		}
		require.Equal(t, sale.Insufficient, buy("greedy", "shoe", 2))
		require.Equal(t, sale.Taken, buy("ann", "boot", 1)) // sells out, so the holders are loaded
		require.Equal(t, int64(1), s.counter.holders.Load())
		takes := s.counter.takes.Load()
		require.Equal(t, sale.Insufficient, buy("greedy too", "shoe", 2))
		require.Equal(t, takes+1, s.counter.takes.Load())
		require.Equal(t, sale.SoldOut, buy("late", "boot", 1))
		require.Equal(t, takes+1, s.counter.takes.Load())
	}, func(d *sale.Sale) {
		d.PerUserLimit = 2
		d.Items = []sale.Item{{SKU: "shoe", Stock: 1, Price: 100}, {SKU: "boot", Stock: 1, Price: 100}}
	})
}

// A unit that comes back while the holders are read may go to somebody who is not
// among them.
func TestHoldersReadWhileAUnitComesBackCoverNothing(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		bought := s.buyAt(s.second, "ann")
		synctest.Wait() // that engine has read the holders too
		s.judge(1)
		s.counter.mute.Store(true)
		s.counter.set(func() {
			s.counter.loadIn = func() {
				if _, err := s.second.Cancel(t.Context(), bought.Order.ID, "ann"); err != nil {
					t.Error(err)
				}
			}
		})
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, "x").Verdict)
		synctest.Wait()
		require.Equal(t, int64(1), s.counter.returns.Load())
		require.Equal(t, sale.Taken, s.buyAt(s.second, "lucky").Verdict)
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "lucky").Verdict)
	}, func(d *sale.Sale) { d.Items[0].Stock = 1 })
}

// While the holders are read the lane's server goes back in time, to before the last
// unit was sold; it then goes to somebody whom that reading cannot know.
func TestHoldersOfALaneThatWentBackCoverNothing(t *testing.T) {
	t.Parallel()
	var stale atomic.Int64
	inFastBubble(t, engine.Options{Stale: func(sale.Number, int64) { stale.Add(1) }}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		s.build(1)
		s.sellAll(9)
		old := s.mem.Save()
		s.counter.set(func() { s.counter.loadIn = func() { s.mem.Restore(old) } })
		require.Equal(t, sale.Taken, s.buyAt(s.second, "lost").Verdict)
		synctest.Wait()
		require.Equal(t, int64(1), stale.Load(), "who reads the holders sees it")
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, "found").Verdict)
		refuseAll(t, s.second, "a", sale.SoldOut)
		synctest.Wait()
		require.Equal(t, sale.Replayed, s.buyAt(s.second, "found").Verdict)
	})
}

// What the holders were read at counts as seen.
func TestLaneThatWentBackBehindItsHoldersIsStale(t *testing.T) {
	t.Parallel()
	var stale atomic.Int64
	inFastBubble(t, engine.Options{Stale: func(sale.Number, int64) { stale.Add(1) }}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		s.build(1)
		s.sellAll(9)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "tenth").Verdict)
		synctest.Wait()
		s.counter.set(func() { s.counter.loadIn = func() { s.judge(1) } }) // moves the lane on
		old := s.mem.Save()
		s.pass(time.Second)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, "x").Verdict) // learns, and reads
		synctest.Wait()
		s.mem.Restore(old)
		s.pass(time.Second)
		_, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: "y", Key: "k", Quantity: 1})
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "nobody rebuilds here")
		require.Positive(t, stale.Load())
	})
}

// A lane that lost a change hears of it from the first batch.
func TestLaneThatLostAChangeIsToldByABatch(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		old := s.mem.Save()
		_, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "shoe", Add: 5}})
		require.NoError(t, err)
		s.mem.Restore(old)
		require.Equal(t, int64(10), s.left())
		s.counter.set(func() { s.counter.syncIn = func(stock.Lane) error { return stock.ErrUnavailable } })
		syncs := s.counter.syncs.Load()
		for _, user := range []string{"a", "b"} {
			require.Equal(t, sale.Taken, s.buyAt(s.Engine, user).Verdict)
			synctest.Wait()
		}
		require.Equal(t, syncs+1, s.counter.syncs.Load(), "once a second")
		s.counter.set(func() { s.counter.syncIn = nil })
		s.pass(time.Second)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, "c").Verdict)
		synctest.Wait()
		require.Equal(t, int64(12), s.left())
		s.pass(time.Second)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, "d").Verdict)
		synctest.Wait()
		require.Equal(t, syncs+2, s.counter.syncs.Load(), "it knows by now")
	})
}

// A reading that fails is tried again, and the next is due half a minute after one
// that did not.
func TestHoldersThatCannotBeReadAreReadSoon(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(10)
		synctest.Wait()
		probe := func() {
			s.pass(1001 * time.Millisecond)
			refuseAll(t, s.Engine, fmt.Sprint("at ", time.Now().UnixMilli(), " "), sale.SoldOut)
			synctest.Wait()
		}
		require.Equal(t, int64(1), s.counter.holders.Load())
		for range 28 {
			probe()
		}
		require.Equal(t, int64(1), s.counter.holders.Load())
		s.counter.set(func() { s.counter.loadErr = stock.ErrUnavailable })
		for range 6 {
			probe()
		}
		failed := s.counter.holders.Load()
		require.Greater(t, failed, int64(3), "each second")
		s.counter.set(func() { s.counter.loadErr = nil })
		for range 20 {
			probe()
		}
		require.Equal(t, failed+1, s.counter.holders.Load())
	})
}

// If nobody sees that the lane went back, what was read of the holders is wrong until
// they are read again.
func TestHoldersAreReadAgainNowAndThen(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(9)
		old := s.mem.Save()
		require.Equal(t, sale.Taken, s.buyAt(s.second, "lost").Verdict)
		synctest.Wait()
		s.mem.Restore(old)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, "found").Verdict)
		for range 31 {
			s.pass(time.Second)
			refuseAll(t, s.second, fmt.Sprint("at ", time.Now().Unix(), " "), sale.SoldOut)
			synctest.Wait()
		}
		require.Equal(t, sale.Replayed, s.buyAt(s.second, "found").Verdict)
		require.LessOrEqual(t, s.counter.holders.Load(), int64(3), "one instance read them twice, the other once")
	})
}

func TestMemoryEndsWithItsEpoch(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		_, err := s.second.Sale(t.Context(), slug)
		require.NoError(t, err)
		s.pass(900 * time.Millisecond)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "ann").Verdict)
		require.Equal(t, sale.SoldOut, s.buyAt(s.second, "x").Verdict)
		synctest.Wait()
		s.counter.mute.Store(true)
		s.mem.Wipe() // with the slip, so the unit is free again
		s.build(1)
		s.pass(150 * time.Millisecond)
		_, err = s.second.Sale(t.Context(), slug) // has it read again
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, sale.Taken, s.buyAt(s.second, "y").Verdict, "what was remembered is of another epoch")
	}, func(d *sale.Sale) { d.Items[0].Stock = 1 })
}

func TestOtherInstancesBuyersAreNoStrangersWhileASaleIsLive(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		require.Equal(t, sale.BadQuantity, s.buy("x", "k", 9).Verdict)
		synctest.Wait()
		require.Equal(t, sale.Taken, s.buyAt(s.second, "ann").Verdict)
		require.Equal(t, sale.KeyMismatch, s.buy("ann", "k", 9).Verdict)
	})
}

func TestReturnedUnitSellsAtOnceOnEveryInstance(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		bought := s.sellAll(10)
		for _, e := range []*engine.Engine{s.Engine, s.second} {
			refuseAll(t, e, "a", sale.SoldOut)
			synctest.Wait()
		}
		s.judge(1)
		_, err := s.Cancel(t.Context(), bought[0].Order.ID, "owner-0")
		require.NoError(t, err)
		require.Equal(t, int64(1), s.counter.returns.Load())
		require.Equal(t, sale.Taken, s.buyAt(s.second, "next").Verdict)

		_, err = s.Pay(t.Context(), sale.Payment{ID: "p", Order: bought[1].Order.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		refuseAll(t, s.second, "b", sale.SoldOut)
		_, err = s.Refund(t.Context(), bought[1].Order.ID, true)
		require.NoError(t, err)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "after refund").Verdict)
		require.Zero(t, s.left())
	})
}

func TestReplyOlderThanSellsAgainIsNotLearned(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		bought := s.sellAll(10)
		refuseAll(t, s.Engine, "a", sale.SoldOut)
		s.judge(1)
		s.pass(2 * time.Second) // the next one asks
		done := false
		s.counter.set(func() {
			s.counter.after = func(*stock.Reply) {
				if !done {
					done = true
					if _, err := s.second.Cancel(t.Context(), bought[0].Order.ID, "owner-0"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		require.Equal(t, sale.SoldOut, s.buy("unlucky", "k", 1).Verdict)
		require.Equal(t, sale.Taken, s.buy("lucky", "k", 1).Verdict)
	})
}

func TestLostMessagesCostASecondAtMost(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		bought := s.sellAll(10)
		refuseAll(t, s.second, "a", sale.SoldOut)
		synctest.Wait()
		s.judge(1)
		s.counter.mute.Store(true)
		_, err := s.Cancel(t.Context(), bought[0].Order.ID, "owner-0")
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, s.buyAt(s.second, "early").Verdict)
		s.pass(1001 * time.Millisecond)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "next").Verdict)
	})
}

func TestEarlyCrowdIsRefusedFromMemoryOnTheFastPath(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1, func(d *sale.Sale) { d.StartsAt = d.StartsAt.Add(time.Minute) })
		s.build(1)
		require.Equal(t, sale.NotStarted, s.buy("eager", "k", 1).Verdict)
		synctest.Wait()
		takes, reads, clocks := s.counter.takes.Load(), s.ledger.reads.Load(), s.ledger.clocks.Load()
		for second := range 20 {
			refuseAll(t, s.Engine, fmt.Sprint(second, "-"), sale.NotStarted)
			s.pass(time.Second)
		}
		require.Equal(t, takes, s.counter.takes.Load())
		queries := s.ledger.reads.Load() - reads + s.ledger.clocks.Load() - clocks
		require.LessOrEqual(t, queries, int64(20), "the ledger answers at most once a second")
		require.Zero(t, s.ledger.buyers.Load()+s.ledger.lists.Load()+s.ledger.looks.Load())
		s.pass(40 * time.Second)
		require.Equal(t, sale.Taken, s.buy("eager", "k", 1).Verdict)
	})
}

func TestBuyerBeforeARescheduleIsNoStranger(t *testing.T) {
	t.Parallel()
	// The holders are read again for the new version: while that lasts, and where it
	// fails, those of the old one are not taken for it.
	buyerBeforeAReschedule(t, func(*counted) {})
	buyerBeforeAReschedule(t, func(c *counted) { c.loadErr = stock.ErrUnavailable })
	buyerBeforeAReschedule(t, func(c *counted) { c.loadIn = func() { lapse(time.Minute) } })
}

func buyerBeforeAReschedule(t *testing.T, reading func(*counted)) {
	t.Helper()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1, func(d *sale.Sale) { d.StartsAt = d.StartsAt.Add(time.Minute) })
		s.build(1)
		for range 2 {
			require.Equal(t, sale.NotStarted, s.buyAt(s.Engine, "early").Verdict)
			synctest.Wait() // the holders are loaded: nobody
		}
		s.counter.mute.Store(true)
		move := func(to time.Time) {
			_, err := s.second.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{StartsAt: &to}})
			require.NoError(t, err)
		}
		move(s.sale.StartsAt.Add(-time.Minute))
		require.Equal(t, sale.Taken, s.buyAt(s.second, "early").Verdict)
		move(s.sale.StartsAt)
		s.pass(2 * time.Second)
		_, err := s.Sale(t.Context(), slug) // has it read again
		require.NoError(t, err)
		synctest.Wait()
		s.counter.set(func() { reading(s.counter) })
		for range 2 {
			require.Equal(t, sale.NotStarted, s.buyAt(s.Engine, "stranger").Verdict)
			synctest.Wait()
			require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "early").Verdict)
		}
	})
}

// Two instances on the direct path share only the ledger: no news passes between
// them but what the replies to probes say.
func TestInstancesOnTheDirectPathLearnOfEachOther(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(3, 1)
		s.counter.mute.Store(true)
		for _, user := range []string{"a", "b"} {
			require.Equal(t, sale.Taken, s.buyAt(s.Engine, user).Verdict)
		}
		there := s.buyAt(s.second, "c")
		refuseAll(t, s.Engine, "0", sale.SoldOut)
		synctest.Wait()
		asked := s.ledger.reserves.Load()
		refuseAll(t, s.Engine, "1", sale.SoldOut)
		require.Equal(t, asked, s.ledger.reserves.Load())
		require.Equal(t, int64(1), s.ledger.buyers.Load())
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "c").Verdict)

		_, err := s.second.Cancel(t.Context(), there.Order.ID, "c")
		require.NoError(t, err)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "d").Verdict)
		s.pass(1001 * time.Millisecond)
		refuseAll(t, s.Engine, "2", sale.SoldOut)
		synctest.Wait()
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, "d").Verdict)
		require.Equal(t, int64(1), s.ledger.buyers.Load(), "only what is new is read")
		require.Positive(t, s.ledger.rows.Load())
		asked = s.ledger.reserves.Load()
		refuseAll(t, s.Engine, "3", sale.SoldOut)
		require.Equal(t, asked, s.ledger.reserves.Load(), "and memory works again")
	})
}

// What was loaded for one item a moment ago says nothing of the buyers of another
// that has just sold out.
func TestAnItemThatSellsOutJustAfterAnotherOnTheDirectPath(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(1, 1, func(d *sale.Sale) {
			d.Items = []sale.Item{{SKU: "shoe", Stock: 1, Price: 100}, {SKU: "boot", Stock: 1, Price: 100}}
		})
		buy := func(e *engine.Engine, user, sku string) sale.Verdict {
			d, err := e.Buy(t.Context(), requestFor(user, sku))
			require.NoError(t, err)
			synctest.Wait()
			return d.Verdict
		}
		require.Equal(t, sale.Taken, buy(s.Engine, "ann", "shoe"))
		require.Equal(t, sale.SoldOut, buy(s.Engine, "x", "shoe"))
		require.Equal(t, sale.Taken, buy(s.second, "bob", "boot"))
		require.Equal(t, sale.SoldOut, buy(s.Engine, "y", "boot"))
		require.Equal(t, sale.Replayed, buy(s.Engine, "bob", "boot"))
	})
}
