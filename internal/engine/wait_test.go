package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// buyWaiting buys in the background and waits for the judge.
func (s *fastShop) buyWaiting(user string, wait time.Duration) <-chan engine.Decision {
	got := make(chan engine.Decision, 1)
	go func() {
		d, err := s.Buy(s.t.Context(), engine.Request{Sale: slug, User: user, Key: "k", Quantity: 1, Wait: wait})
		if err != nil {
			s.t.Error(err)
		}
		got <- d
	}()
	synctest.Wait()
	return got
}

func TestBuyerIsAnsweredAsSoonAsHisSlipIsJudged(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		began := time.Now()
		got := s.buyWaiting("ann", 10*time.Second)
		s.judge(1)
		d := <-got
		require.Zero(t, time.Since(began), "no interval passes")
		require.Equal(t, sale.Taken, d.Verdict)
		require.Equal(t, sale.Reserved, d.Order.State)
		require.Empty(t, d.Receipt)
		require.Equal(t, int64(1), s.ledger.looks.Load())
	})
}

func TestManyWaitersCostFewLookUps(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(2000, 1)
		s.build(1)
		var all sync.WaitGroup
		all.Go(func() {
			crowd(1500, func(i int) {
				d, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: fmt.Sprint("u", i), Key: "k", Quantity: 1, Wait: 10 * time.Second})
				if err != nil || d.Order.State != sale.Reserved {
					t.Errorf("got %s, %v", d.Order.State, err)
				}
			})
		})
		synctest.Wait()
		s.judge(1)
		all.Wait()
		require.LessOrEqual(t, s.ledger.looks.Load(), int64(3), "1000 at a time, whoever waits")
	})
}

func TestLostNewsIsCaughtByTheNet(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		got := s.buyWaiting("ann", 10*time.Second)
		also := s.buyWaiting("bob", 10*time.Second)
		s.counter.mute.Store(true)
		s.judge(1)
		s.pass(1100 * time.Millisecond)
		require.Equal(t, sale.Reserved, (<-got).Order.State)
		require.Equal(t, sale.Reserved, (<-also).Order.State)
		require.LessOrEqual(t, s.ledger.looks.Load(), int64(2), "one look a second for all of them")
	})
}

func TestRowsOfThisProcessWakeWaiters(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.counter.mute.Store(true)
		got := s.buyWaiting("ann", 10*time.Second)
		began := time.Now()
		s.judgeBy(s.ledger, 1)
		require.Equal(t, sale.Reserved, (<-got).Order.State)
		require.Zero(t, time.Since(began))
	})
}

func TestWaitingEndsInTime(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		began := time.Now()
		d := <-s.buyWaiting("ann", 3*time.Second)
		require.Equal(t, sale.Queued, d.Order.State)
		require.NotEmpty(t, d.Receipt)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, 3*time.Second, d.Times.Wait)
		d = <-s.buyWaiting("bob", time.Hour)
		require.Equal(t, sale.Queued, d.Order.State)
		require.Equal(t, 20*time.Second, d.Times.Wait, "nobody waits longer")

		ctx, leave := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := s.Buy(ctx, engine.Request{Sale: slug, User: "cid", Key: "k", Quantity: 1, Wait: time.Second})
			got <- err
		}()
		synctest.Wait()
		leave()
		require.NoError(t, <-got, "what was taken is told all the same")
	})
}

func TestRejectedOrderIsToldToWhoWaits(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		got := s.buyWaiting("ann", 10*time.Second)
		_, err := ledger.New(s.world.Store).ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Total: new(int64)}})
		require.NoError(t, err)
		s.judge(1)
		d := <-got
		require.Equal(t, sale.Rejected, d.Order.State)
		require.Equal(t, sale.Rejected, s.buy("ann", "k", 1).Order.State, "a rejected order is final, and its key replays it")
	})
}

func TestFullRoomWaitsForNobody(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{MaxWaiters: 1}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		s.build(1)
		first := s.buyWaiting("ann", 10*time.Second)
		second := <-s.buyWaiting("bob", 10*time.Second)
		require.Equal(t, sale.Queued, second.Order.State)
		require.Zero(t, second.Times.Wait)
		s.judge(1)
		require.Equal(t, sale.Reserved, (<-first).Order.State)
		third := s.buyWaiting("cid", 10*time.Second)
		s.judge(1)
		require.Equal(t, sale.Reserved, (<-third).Order.State, "there is room again")
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		_, err := s.Await(t.Context(), o.ID, "thief", time.Minute)
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err))
		got := make(chan sale.Order, 1)
		go func() {
			judged, awaitErr := s.Await(t.Context(), o.ID, "ann", time.Minute)
			if awaitErr != nil {
				t.Error(awaitErr)
			}
			got <- judged
		}()
		synctest.Wait()
		s.judge(1)
		require.Equal(t, sale.Reserved, (<-got).State)
		judged, err := s.Await(t.Context(), o.ID, "ann", time.Minute)
		require.NoError(t, err)
		require.Equal(t, sale.Reserved, judged.State, "at once")
	})
}

func TestPaymentOfAQueuedOrderWaitsForItsJudgement(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		notice := sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"}
		began := time.Now()
		_, err := s.Pay(t.Context(), notice)
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "it may be paid in a moment")
		require.Equal(t, 2*time.Second, time.Since(began))
		got := make(chan ledger.Paid, 1)
		go func() {
			paid, payErr := s.Pay(t.Context(), notice)
			if payErr != nil {
				t.Error(payErr)
			}
			got <- paid
		}()
		synctest.Wait()
		s.judge(1)
		require.Equal(t, sale.OutcomePaid, (<-got).Outcome)
		notice.Order = s.sale.OrderID("nobody", "k")
		began = time.Now()
		_, err = s.Pay(t.Context(), notice)
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err), "all slips are judged, so there is no such order")
		require.Zero(t, time.Since(began))
	})
}

func TestShopCancelsAQueuedOrderOnceItIsJudged(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		_, err := s.Cancel(t.Context(), o.ID, "")
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
		s.mem.Down()
		_, err = s.Cancel(t.Context(), o.ID, "")
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "nobody knows that it is not queued")
		s.mem.Up()
		s.judge(1)
		ended, err := s.Cancel(t.Context(), o.ID, "")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, ended.State)
		_, err = s.Cancel(t.Context(), s.sale.OrderID("nobody", "k"), "")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err))
	})
}
