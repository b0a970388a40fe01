package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestSoldOutCostsOneProbeASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(3, 1)
		s.sellOut(3)
		asked := s.ledger.reserves.Load()
		refuseAll := func(round int) {
			crowd(500, func(i int) {
				d, err := s.try(fmt.Sprintf("stranger-%d-%d", round, i), "k", 1)
				if err != nil || d.Verdict != sale.SoldOut {
					t.Errorf("got %v, %v", d.Verdict, err)
				}
			})
		}
		refuseAll(0)
		require.Equal(t, asked, s.ledger.reserves.Load(), "refused from memory")
		s.pass(1001 * time.Millisecond)
		refuseAll(1)
		require.Equal(t, asked+1, s.ledger.reserves.Load(), "one probe, on which the others waited")
		require.LessOrEqual(t, s.ledger.batches[len(s.ledger.batches)-1], 1)
	})
}

func TestReplayPrecedesRefusalFromMemory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(2, 1)
		bought := s.sellOut(2)
		require.Equal(t, sale.SoldOut, s.buy("stranger", "k", 1).Verdict)
		again := s.buy("owner-0", "k", 1)
		require.Equal(t, sale.Replayed, again.Verdict)
		require.Equal(t, bought[0].Order.ID, again.Order.ID)
		require.Equal(t, sale.LimitReached, s.buy("owner-0", "other", 1).Verdict, "the limit is told even when nothing is left")
	})
}

func TestBuyersOfAnEarlierProcessAreKnown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		sold := s.open(1, 1)
		_, err := s.ledger.Ledger.Reserve(t.Context(), ledger.Batch{
			Sale: sold.Number, Epoch: sold.Epoch,
			Attempts: []ledger.Attempt{{ID: sold.OrderID("before", "k"), User: "before", Quantity: 1}},
		})
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, s.buy("late", "k", 1).Verdict)
		synctest.Wait()
		require.Equal(t, int64(1), s.ledger.buyers.Load())
		require.Equal(t, sale.Replayed, s.buy("before", "k", 1).Verdict)
	})
}

func TestReturnedUnitSellsAtOnce(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(s *shop, o sale.Order) error{
		"cancel": func(s *shop, o sale.Order) error {
			_, err := s.Cancel(s.t.Context(), o.ID, o.User)
			return err
		},
		"expiry": func(s *shop, o sale.Order) error {
			s.pass(61 * time.Second)
			_, err := s.ledger.Expire(s.t.Context(), []sale.OrderID{o.ID})
			return err
		},
		"refund": func(s *shop, o sale.Order) error {
			if _, err := s.Pay(s.t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"}); err != nil {
				return err
			}
			_, err := s.Refund(s.t.Context(), o.ID, true)
			return err
		},
		"restock": func(s *shop, _ sale.Order) error {
			_, err := s.ChangeSale(s.t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *shop) {
				s.open(1, 1)
				bought := s.sellOut(1)
				require.Equal(t, sale.SoldOut, s.buy("stranger", "k", 1).Verdict)
				require.NoError(t, give(s, bought[0].Order))
				require.Equal(t, sale.Taken, s.buy("next", "k", 1).Verdict)
			})
		})
	}
}

func TestReplyOlderThanTheReturnIsNotLearned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		bought := s.sellOut(1)
		s.pass(2 * time.Second) // memory has lapsed, so the next one asks the ledger
		var once atomic.Bool
		s.ledger.set(func() {
			s.ledger.after = func() { // "sold out" is on its way back when the unit returns
				if once.CompareAndSwap(false, true) {
					if _, err := s.Cancel(t.Context(), bought[0].Order.ID, ""); err != nil {
						t.Error(err)
					}
				}
			}
		})
		require.Equal(t, sale.SoldOut, s.buy("unlucky", "k", 1).Verdict)
		require.Equal(t, sale.Taken, s.buy("lucky", "k", 1).Verdict, "the old reply must not be believed")
	})
}

func TestInsufficientRefusesOnlyQuantitiesAboveWhatIsLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(3, 5)
		d := s.buy("greedy", "k", 5)
		require.Equal(t, sale.Insufficient, d.Verdict)
		require.Equal(t, int64(3), d.Left)
		synctest.Wait()
		asked := s.ledger.reserves.Load()
		d = s.buy("greedy too", "k", 4)
		require.Equal(t, sale.Insufficient, d.Verdict)
		require.Equal(t, int64(3), d.Left)
		require.Equal(t, asked, s.ledger.reserves.Load())
		require.Equal(t, sale.Taken, s.buy("modest", "k", 2).Verdict)
		d = s.buy("third", "k", 2)
		require.Equal(t, sale.Insufficient, d.Verdict)
		require.Equal(t, int64(1), d.Left)
	})
}

func TestFailedProbeSendsTheOthersToTheLedger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		s.sellOut(1)
		s.pass(2 * time.Second)
		var calls atomic.Int64
		s.ledger.set(func() {
			s.ledger.before = func(ledger.Batch) error {
				if calls.Add(1) == 1 {
					return errors.New("reply lost")
				}
				return nil
			}
		})
		var refused, failed atomic.Int64
		crowd(50, func(i int) {
			d, err := s.try(fmt.Sprintf("u%d", i), "k", 1)
			switch {
			case err != nil:
				failed.Add(1)
			case d.Verdict == sale.SoldOut:
				refused.Add(1)
			}
		})
		require.Equal(t, int64(1), failed.Load())
		require.Equal(t, int64(49), refused.Load())
	})
}

func TestQuantityAboveTheLimitIsRefusedAsSuchWhateverIsLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		require.Equal(t, sale.BadQuantity, s.buy("greedy", "k", 2).Verdict)
		s.sellOut(1)
		asked := s.ledger.reserves.Load()
		require.Equal(t, sale.BadQuantity, s.buy("greedy", "k", 2).Verdict, "the same input has the same answer after sell-out")
		require.Equal(t, asked, s.ledger.reserves.Load(), "refused from memory")
	})
}

func TestProbeThatIsRefusedForAnotherReasonStillTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		s.sellOut(1)
		s.pass(2 * time.Second)
		asked := s.ledger.reserves.Load()
		arrived, open := make(chan struct{}), make(chan struct{})
		s.ledger.set(func() {
			s.ledger.before = func(ledger.Batch) error { close(arrived); <-open; return nil }
		})
		probe := requestFor("misled", "")
		probe.Expected = &ledger.Money{Amount: 1, Currency: "EUR"}
		answered := make(chan sale.Verdict, 1)
		go func() {
			d, err := s.Buy(t.Context(), probe)
			if err != nil {
				t.Errorf("the probe failed: %v", err)
			}
			answered <- d.Verdict
		}()
		<-arrived
		s.ledger.set(func() { s.ledger.before = nil })
		done := make(chan struct{})
		go func() {
			defer close(done)
			crowd(50, func(i int) {
				if d, err := s.try(fmt.Sprintf("u%d", i), "k", 1); err != nil || d.Verdict != sale.SoldOut {
					t.Errorf("got %v, %v", d.Verdict, err)
				}
			})
		}()
		synctest.Wait()
		close(open)
		<-done
		require.Equal(t, sale.TermsChanged, <-answered)
		require.Equal(t, asked+1, s.ledger.reserves.Load(), "the others were answered by what the probe brought")
	})
}

func TestEarlyCrowdIsRefusedFromMemoryUntilTheStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1, func(d *sale.Sale) { d.StartsAt = d.StartsAt.Add(10 * time.Second) })
		require.Equal(t, sale.NotStarted, s.buy("eager", "k", 1).Verdict)
		synctest.Wait()
		asked := s.ledger.reserves.Load()
		crowd(200, func(i int) {
			if d, err := s.try(fmt.Sprintf("u%d", i), "k", 1); err != nil || d.Verdict != sale.NotStarted {
				t.Errorf("got %v, %v", d.Verdict, err)
			}
		})
		require.Equal(t, asked, s.ledger.reserves.Load())
		s.pass(9999 * time.Millisecond)
		require.Equal(t, sale.NotStarted, s.buy("eager", "k", 1).Verdict, "the ledger judges the last moments")
		s.pass(time.Millisecond)
		require.Equal(t, sale.Taken, s.buy("eager", "k", 1).Verdict, "the start is inclusive")
	})
}

func TestWindowCloseAndPauseAreJudgedByTheLedger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 1)
		require.Equal(t, sale.Taken, s.buy("owner", "k", 1).Verdict)
		act := func(a sale.Action) {
			_, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: a})
			require.NoError(t, err)
		}
		require.Equal(t, sale.BadQuantity, s.buy("u", "k", 2).Verdict)
		synctest.Wait() // the buyers are known from here on
		act(sale.ActionPause)
		require.Equal(t, sale.PausedNow, s.buy("u", "k", 1).Verdict)
		require.Equal(t, sale.PausedNow, s.buy("u", "k", 2).Verdict, "memory says nothing of a paused sale")
		require.Equal(t, sale.Replayed, s.buy("owner", "k", 1).Verdict)
		act(sale.ActionResume)
		s.pass(time.Hour - time.Millisecond)
		require.Equal(t, sale.Taken, s.buy("u", "k", 1).Verdict)
		s.pass(time.Millisecond)
		require.Equal(t, sale.Ended, s.buy("v", "k", 1).Verdict, "the end is exclusive")
		require.Equal(t, sale.Replayed, s.buy("owner", "k", 1).Verdict)
		act(sale.ActionClose)
		require.Equal(t, sale.ClosedNow, s.buy("v", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("owner", "k", 1).Verdict)
	})
}

func TestUnknownItemIsALookUpForBuyersOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(10, 2)
		require.Equal(t, sale.Taken, s.buy("owner", "k", 1).Verdict)
		ask := func(user string) sale.Verdict {
			d, err := s.Buy(t.Context(), requestFor(user, "boot"))
			require.NoError(t, err)
			return d.Verdict
		}
		require.Equal(t, sale.NoSuchItem, ask("stranger"))
		synctest.Wait()
		asked := s.ledger.reserves.Load()
		require.Equal(t, sale.NoSuchItem, ask("stranger"))
		require.Equal(t, asked, s.ledger.reserves.Load())
		require.Equal(t, sale.KeyMismatch, ask("owner"), "his key stands for another item")
	})
}
