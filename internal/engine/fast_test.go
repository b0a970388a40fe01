package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestTakenOnTheFastPathIsQueuedUntilJudged(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		d := s.buy("ann", "k", 1)
		require.Equal(t, sale.Taken, d.Verdict)
		require.NotEmpty(t, d.Receipt)
		require.Equal(t, sale.Order{
			ID: s.sale.OrderID("ann", "k"), Slug: slug, User: "ann", SKU: "shoe", Quantity: 1, Terms: s.sale.Terms,
			Amount: 100, Currency: "EUR", State: sale.Queued, Epoch: s.sale.Epoch, TakenAt: s.Now().UTC(),
		}, d.Order)
		require.Zero(t, s.ledger.reserves.Load(), "the ledger was not asked")
		require.Equal(t, d.Order, s.order(d.Order.ID, "ann"))
		again := s.buy("ann", "k", 1)
		require.Equal(t, sale.Replayed, again.Verdict)
		require.Equal(t, d.Order, again.Order)

		require.Equal(t, []sale.OrderID{d.Order.ID}, s.judge(1))
		judged := s.order(d.Order.ID, "ann")
		require.Equal(t, sale.Reserved, judged.State)
		require.Equal(t, judged, s.buy("ann", "k", 1).Order, "a replay is the order as it is now")
	})
}

func TestEveryVerdictOfTheCounter(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		ask := func(change func(*engine.Request)) engine.Decision {
			r := requestFor("u", "")
			change(&r)
			d, err := s.Buy(t.Context(), r)
			require.NoError(t, err)
			return d
		}
		require.Equal(t, sale.Taken, s.buy("ann", "k", 2).Verdict)
		require.Equal(t, sale.KeyMismatch, s.buy("ann", "k", 1).Verdict, "the same key, another quantity")
		require.Equal(t, sale.LimitReached, s.buy("ann", "k2", 2).Verdict)
		require.Equal(t, sale.NoSuchItem, ask(func(r *engine.Request) { r.SKU = "boot" }).Verdict)
		require.Equal(t, sale.BadQuantity, s.buy("u", "k", 4).Verdict)
		require.Equal(t, sale.TermsChanged, ask(func(r *engine.Request) { r.Expected = &ledger.Money{Amount: 99, Currency: "EUR"} }).Verdict)
		require.Equal(t, sale.TermsChanged, ask(func(r *engine.Request) { r.Expected = &ledger.Money{Amount: 100, Currency: "USD"} }).Verdict)
		require.Equal(t, sale.Taken, ask(func(r *engine.Request) { r.Expected = &ledger.Money{Amount: 100, Currency: "EUR"} }).Verdict)
		for i := range 2 {
			require.Equal(t, sale.Taken, s.buy(fmt.Sprintf("three-%d", i), "k", 3).Verdict)
		}
		d := s.buy("greedy", "k", 2)
		require.Equal(t, sale.Insufficient, d.Verdict)
		require.Equal(t, int64(1), d.Left)
		require.Equal(t, sale.Taken, s.buy("modest", "k", 1).Verdict)
		require.Equal(t, sale.SoldOut, s.buy("late", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("ann", "k", 2).Verdict, "replay precedes sold out")
		act := func(a sale.Action) {
			_, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: a})
			require.NoError(t, err)
		}
		act(sale.ActionPause)
		require.Equal(t, sale.PausedNow, s.buy("late", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("ann", "k", 2).Verdict)
		act(sale.ActionResume)
		s.pass(time.Hour)
		require.Equal(t, sale.Ended, s.buy("late", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("ann", "k", 2).Verdict)
		act(sale.ActionClose)
		require.Equal(t, sale.ClosedNow, s.buy("late", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("ann", "k", 2).Verdict)
	}, func(d *sale.Sale) { d.PerUserLimit = 3 })
}

func TestCoolDownIsToldByTheCounter(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		now, err := s.ledger.Now(t.Context())
		require.NoError(t, err)
		until := now.Add(time.Minute)
		require.NoError(t, s.mem.Return(t.Context(), s.lane(0), s.sale.Epoch, []stock.Act{
			{Kind: stock.ActReturn, User: "hoarder", CoolUntil: until},
		}))
		d := s.buy("hoarder", "k", 1)
		require.Equal(t, sale.CoolDown, d.Verdict)
		require.True(t, until.Equal(d.RetryAt), "%s", d.RetryAt)
	})
}

func TestLostReplyIsToldByTheSameKey(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.buy("first", "k", 1)
		s.mem.LoseReply()
		_, err := s.try("ann", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		require.Equal(t, sale.Replayed, s.buy("ann", "k", 1).Verdict)
		require.Equal(t, int64(8), s.left())
		s.mem.Down()
		_, err = s.try("bob", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		s.mem.Up()
		require.Equal(t, sale.Taken, s.buy("bob", "k", 1).Verdict)
	})
}

func TestUserOfALostReplyIsNoStranger(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(9)
		s.mem.LoseReply()
		_, err := s.try("last", "k", 1)
		require.Error(t, err)
		require.Equal(t, sale.SoldOut, s.buy("late", "k", 1).Verdict)
		synctest.Wait()
		takes := s.counter.takes.Load()
		require.Equal(t, sale.SoldOut, s.buy("later", "k", 1).Verdict)
		require.Equal(t, takes, s.counter.takes.Load(), "refused from memory")
		require.Equal(t, sale.Replayed, s.buy("last", "k", 1).Verdict)
	})
}

func TestLaneOutOfOrderIsBusyAndReported(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *fastShop){
		"cold":   func(s *fastShop) { s.mem.Wipe() },
		"frozen": func(s *fastShop) { s.freeze() },
		"stale": func(s *fastShop) {
			old := s.mem.Save()
			s.buy("ahead", "k", 1)
			s.mem.Restore(old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onFastPath(t, func(t *testing.T, s *fastShop) {
				s.buy("first", "k", 1)
				spoil(s)
				_, err := s.try("ann", "k", 1)
				require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "never a business answer")
				require.Positive(t, s.trouble.Load())
				require.Zero(t, s.ledger.reserves.Load())
				s.goDirect()
				s.pass(time.Second)
				require.Equal(t, sale.Taken, s.buy("ann", "k", 1).Verdict, "the direct path goes on")
				require.Equal(t, int64(1), s.ledger.reserves.Load())
			})
		})
	}
}

func TestFullTrayIsBusy(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.counter.set(func() {
			s.counter.after = func(r *stock.Reply) { *r = stock.Reply{State: stock.Full} }
		})
		_, err := s.try("ann", "k", 1)
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
		require.Zero(t, s.trouble.Load(), "the lane is well")
	})
}

func TestReplyThatDoesNotFitIsTrouble(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.counter.set(func() { s.counter.after = func(r *stock.Reply) { r.Results = nil } })
		_, err := s.try("ann", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	})
}

func TestBatchFollowsASaleThatMoves(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.buy("first", "k", 1)
		s.build(1) // another instance rebuilds; nobody tells us
		require.Equal(t, sale.Taken, s.buy("second", "k", 1).Verdict)
		require.Equal(t, sale.Replayed, s.buy("first", "k", 1).Verdict)
		s.freeze()
		s.judge(1)
		s.goDirect()
		d := s.buy("third", "k", 1)
		require.Equal(t, sale.Taken, d.Verdict)
		require.Equal(t, sale.Reserved, d.Order.State)
		s.build(1)
		require.Equal(t, sale.Queued, s.buy("fourth", "k", 1).Order.State, "and back: the ledger says wrong epoch")
		require.Zero(t, s.trouble.Load())
	})
}

func TestLaneThatIsBehindInTermsIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		price := int64(120)
		var failing atomic.Bool
		failing.Store(true)
		s.counter.set(func() {
			s.counter.syncIn = func(stock.Lane) error {
				if failing.Load() {
					return stock.ErrUnavailable
				}
				return nil
			}
		})
		changed, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{
			Action: sale.ActionUpdate, Patch: sale.Patch{Items: []sale.ItemPatch{{SKU: "shoe", Price: &price}}},
		})
		require.NoError(t, err)
		require.Equal(t, []int{0}, changed.Outstanding)
		_, err = s.try("ann", "k", 1)
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
		failing.Store(false)
		d := s.buy("ann", "k", 1)
		require.Equal(t, sale.Taken, d.Verdict)
		require.Equal(t, int64(120), d.Order.Amount)
		s.judge(1)
		require.Equal(t, int64(120), s.order(d.Order.ID, "ann").Amount)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "bob").Verdict, "the other instance, behind the lane, reads again")
	})
}

func TestPathMovesInTheMiddleOfACrowd(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		gate := make(chan struct{})
		s.counter.set(func() { s.counter.before = func(*stock.Call) error { <-gate; return nil } })
		var taken, soldOut, again atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			crowd(400, func(i int) {
				e := []*engine.Engine{s.Engine, s.second}[i%2]
				for {
					d, err := e.Buy(t.Context(), engine.Request{Sale: slug, User: fmt.Sprintf("u%d", i), Key: "k", Quantity: 1})
					switch {
					case err != nil && sale.CodeOf(err) == sale.CodeBusy:
						again.Add(1)
						time.Sleep(time.Second) //nolint:forbidigo // the client's Retry-After, in the bubble's time
						continue
					case err != nil:
						t.Error(err)
					case d.Verdict == sale.SoldOut:
						soldOut.Add(1)
					default:
						taken.Add(1)
					}
					return
				}
			})
		}()
		synctest.Wait()
		s.freeze()
		close(gate)
		synctest.Wait()
		s.judge(1)
		s.goDirect()
		<-done
		require.Equal(t, int64(10), taken.Load())
		require.Equal(t, int64(390), soldOut.Load())
		require.Positive(t, again.Load())
		sold, err := s.ledger.Ledger.Sale(t.Context(), slug)
		require.NoError(t, err)
		require.Equal(t, int64(10), sold.Items[0].Sold)
	})
}

func TestUsersAreSoldToInTheirHomeLane(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(300, 1)
		s.build(3)
		crowd(150, func(i int) {
			if d, err := s.try(fmt.Sprintf("u%d", i), "k", 1); err != nil || d.Verdict != sale.Taken {
				t.Errorf("got %v, %v", d.Verdict, err)
			}
		})
		require.Equal(t, int64(150), s.left())
		for i := range 150 {
			user := fmt.Sprintf("u%d", i)
			r, err := s.mem.Records(t.Context(), s.lane(stock.Home(user, 3)), user)
			require.NoError(t, err)
			require.Len(t, r.Orders, 1)
		}
		require.Len(t, s.judge(3), 150)
		gate, done := make(chan struct{}), make(chan struct{})
		s.counter.set(func() { s.counter.before = func(*stock.Call) error { <-gate; return nil } })
		go func() {
			defer close(done)
			crowd(150, func(i int) {
				d, err := s.try(fmt.Sprintf("u%d", i), "k", 1)
				if err != nil || d.Verdict != sale.Replayed || d.Order.State != sale.Reserved {
					t.Errorf("got %v, %v", d.Verdict, err)
				}
			})
		}()
		synctest.Wait()
		s.build(2) // whoever is in line moves to his new home
		close(gate)
		<-done
	})
}

func TestFastSaleNeedsACounter(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		blind := engine.New(s.ledger, nil, engine.Options{Clock: time.Now})
		_, err := blind.Buy(t.Context(), requestFor("ann", ""))
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		require.NoError(t, blind.Close(t.Context()))
	})
}

func TestRecordAnswersWhileTheLedgerDoesNot(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		d := s.buy("ann", "k", 1)
		gone := s.buy("bob", "k", 1)
		s.judge(1)
		_, err := s.Cancel(t.Context(), gone.Order.ID, "bob")
		require.NoError(t, err)
		s.ledger.set(func() { s.ledger.looking = errors.New("no database") })
		again := s.buy("ann", "k", 1)
		require.Equal(t, sale.Replayed, again.Verdict)
		require.Equal(t, sale.Queued, again.Order.State, "queued is no promise")
		require.Equal(t, d.Order, s.order(d.Order.ID, "ann"))
		_, err = s.try("bob", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "how it ended only the ledger knows")
		s.ledger.set(func() { s.ledger.looking = nil })
		require.Equal(t, sale.Cancelled, s.buy("bob", "k", 1).Order.State)
		require.Equal(t, sale.KeyMismatch, s.buy("bob", "k", 2).Verdict, "compared with the ledger's, since a tombstone holds nothing")
	})
}

func TestCloseAnswersWhoWaitsAndStopsListening(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		s.build(1)
		got := make(chan engine.Decision, 1)
		go func() {
			d, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: "ann", Key: "k", Quantity: 1, Wait: 20 * time.Second})
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.Equal(t, sale.Queued, (<-got).Order.State)
	})
}
