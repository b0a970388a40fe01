package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestQueuedOrderIsShownToItsBuyerAlone(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		_, unknown := s.Order(t.Context(), s.sale.OrderID("thief", "k"), "thief")
		_, foreign := s.Order(t.Context(), o.ID, "thief")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(unknown))
		require.Equal(t, unknown, foreign)
		_, err := s.Cancel(t.Context(), o.ID, "thief")
		require.Equal(t, unknown, err)
		_, err = s.OrderByReceipt(t.Context(), o.ID, "thief", s.buy("thief", "k", 1).Receipt)
		require.Equal(t, unknown, err, "a receipt is of one order and one user")
		// An instance that has never sold the sale finds it too.
		fresh := engine.New(s.ledger, s.counter, engine.Options{Clock: time.Now})
		found, err := fresh.Order(t.Context(), o.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, o, found)
		require.NoError(t, fresh.Close(t.Context()))
		_, err = s.Order(t.Context(), sale.OrderID{1}, "ann")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err), "of a sale that there never was")
	})
}

func TestUnreachableLaneIsNoReasonToDenyAnOrder(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		s.mem.Down()
		_, err := s.Order(t.Context(), o.ID, "ann")
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		_, err = s.Cancel(t.Context(), o.ID, "ann")
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		s.mem.Up()
		require.Equal(t, sale.Queued, s.order(o.ID, "ann").State)
	})
}

func TestListLeadsWithWhatIsQueued(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		list := func(f ledger.OrderFilter) []sale.OrderState {
			f.User = "ann"
			found, err := s.Orders(t.Context(), f)
			require.NoError(t, err)
			states := make([]sale.OrderState, len(found))
			for i := range found {
				states[i] = found[i].State
			}
			return states
		}
		require.Empty(t, list(ledger.OrderFilter{}))
		old := s.buy("ann", "1", 1).Order
		s.judge(1)
		s.buy("ann", "2", 1)
		s.pass(time.Millisecond)
		ended := s.buy("ann", "3", 1).Order
		require.Equal(t, []sale.OrderState{sale.Queued, sale.Queued, sale.Reserved}, list(ledger.OrderFilter{}))
		_, err := s.Cancel(t.Context(), ended.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, []sale.OrderState{sale.Queued, sale.Cancelled, sale.Reserved}, list(ledger.OrderFilter{}))
		require.Equal(t, []sale.OrderState{sale.Queued}, list(ledger.OrderFilter{State: sale.Queued}))
		require.Equal(t, []sale.OrderState{sale.Reserved}, list(ledger.OrderFilter{State: sale.Reserved}))
		require.Empty(t, list(ledger.OrderFilter{Sale: s.sale.Number + 1}))
		judged := s.order(old.ID, "ann")
		require.Empty(t, list(ledger.OrderFilter{Before: ledger.Cursor{At: judged.ReservedAt, ID: judged.ID}}), "the next page begins in the ledger")
		s.mem.Down()
		require.Len(t, list(ledger.OrderFilter{}), 2, "a lane that does not answer is left out")
	}, func(d *sale.Sale) { d.PerUserLimit = 5 })
}

func TestCancelOfAQueuedOrderEndsItBeforeItsSlipIsJudged(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		require.Equal(t, int64(9), s.left())
		ended, err := s.Cancel(t.Context(), o.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, ended.State)
		require.Equal(t, int64(10), s.left(), "back at once")
		require.Equal(t, sale.Cancelled, s.buy("ann", "k", 1).Order.State)
		s.judge(1)
		require.Equal(t, sale.Cancelled, s.order(o.ID, "ann").State, "the slip meets a final order")
		again, err := s.Cancel(t.Context(), o.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, again.State)
		require.Equal(t, int64(10), s.left())
		sold, err := s.ledger.Ledger.Sale(t.Context(), slug)
		require.NoError(t, err)
		require.Zero(t, sold.Items[0].Sold)
	})
}

func TestReturnThatFailsIsLeftToTheJournal(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		s.judge(1)
		s.mem.Down()
		ended, err := s.Cancel(t.Context(), o.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, ended.State)
		s.mem.Up()
		require.Equal(t, int64(9), s.left())
	})
}

func TestRefundCountsWhatWasEverPaid(t *testing.T) {
	t.Parallel()
	for rule, verdict := range map[sale.LimitRule]sale.Verdict{sale.LimitLive: sale.Taken, sale.LimitEverPaid: sale.LimitReached} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			onFastPath(t, func(t *testing.T, s *fastShop) {
				o := s.buy("ann", "k", 1).Order
				s.judge(1)
				_, err := s.Pay(t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
				require.NoError(t, err)
				_, err = s.Refund(t.Context(), o.ID, true)
				require.NoError(t, err)
				require.Equal(t, int64(10), s.left())
				require.Equal(t, verdict, s.buy("ann", "again", 1).Verdict)
			}, func(d *sale.Sale) { d.LimitRule = rule })
		})
	}
}

// A refund that goes ahead of the journal counts by the rule in force, which another
// instance has changed: the journal's own row comes too late to mend it.
func TestRefundCountsByTheRuleInForce(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		s.judge(1)
		rule := sale.LimitEverPaid
		_, err := ledger.New(s.world.Store).ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{LimitRule: &rule}})
		require.NoError(t, err)
		_, err = s.Pay(t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		_, err = s.Refund(t.Context(), o.ID, true)
		require.NoError(t, err)
		require.Equal(t, int64(10), s.left(), "at once")
		require.Equal(t, sale.LimitReached, s.buy("ann", "again", 1).Verdict)
	})
}

func TestRefundWithoutRestockPutsNothingUp(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		s.judge(1)
		_, err := s.Pay(t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		var lowest int64 = 10
		s.counter.set(func() {
			s.counter.syncIn = func(stock.Lane) error { lowest = s.left(); return nil }
		})
		_, err = s.Refund(t.Context(), o.ID, false)
		require.NoError(t, err)
		require.Equal(t, int64(9), lowest, "the cut comes first")
		require.Equal(t, int64(9), s.left())
		require.Equal(t, int64(1), s.counter.returns.Load())
	})
}

func TestReceiptIsHonouredWhereTheCounterHasLostTheOrder(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		d := s.buy("ann", "k", 1)
		found, err := s.OrderByReceipt(t.Context(), d.Order.ID, "ann", d.Receipt)
		require.NoError(t, err)
		require.Equal(t, sale.Queued, found.State, "the lane knows it; nothing is judged")
		require.Zero(t, s.ledger.reserves.Load())

		s.mem.Wipe()
		for _, forged := range []string{"", "nonsense", d.Receipt + "A", d.Receipt[:len(d.Receipt)-2] + "AA"} {
			_, err = s.OrderByReceipt(t.Context(), d.Order.ID, "ann", forged)
			require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err), "%q", forged)
		}
		s.ledger.set(func() { s.ledger.before = func(ledger.Batch) error { return errors.New("no database") } })
		_, err = s.OrderByReceipt(t.Context(), d.Order.ID, "ann", d.Receipt)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		s.ledger.set(func() { s.ledger.before = nil })
		judged, err := s.OrderByReceipt(t.Context(), d.Order.ID, "ann", d.Receipt)
		require.NoError(t, err)
		require.Equal(t, sale.Reserved, judged.State)
		again, err := s.OrderByReceipt(t.Context(), d.Order.ID, "ann", d.Receipt)
		require.NoError(t, err)
		require.Equal(t, judged, again)
	})
}

func TestReceiptOfALongTimeAgoIsRejected(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		d := s.buy("ann", "k", 1)
		s.mem.Wipe()
		s.pass(11 * time.Minute)
		judged, err := s.OrderByReceipt(t.Context(), d.Order.ID, "ann", d.Receipt)
		require.NoError(t, err)
		require.Equal(t, sale.Rejected, judged.State)
		require.Equal(t, sale.RejectedLate, judged.Reason)
	})
}

func TestReceiptWithAClockOfItsOwnIsNone(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		id, now := s.sale.OrderID("ann", "k"), s.sale.UpdatedAt
		slip := stock.Slip{ID: id, User: "ann", Quantity: 1, Epoch: s.sale.Epoch, Terms: s.sale.Terms, AskedAt: now, TakenAt: now.Add(2 * stock.MaxDrift)}
		signer := stock.NewSigner(s.sale.Key, s.sale.Number)
		slip.MAC = signer.Sign(&slip)
		_, err := s.OrderByReceipt(t.Context(), id, "ann", signer.Receipt(&slip))
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err), "a lane may not say freely when it took something")
	})
}

func TestDeadLetterIsARejectedOrder(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.world.Faults.Refuse(t, "mallory")
		o := s.buy("mallory", "k", 1).Order
		require.NoError(t, s.ledger.Park(t.Context(), s.sale.Number, []ledger.Letter{{
			ID: ledger.LetterID{1}, Place: "lane 0", Cause: "refused", Attempt: &ledger.Attempt{
				ID: o.ID, User: "mallory", SKU: "shoe", Quantity: 1, Slip: &ledger.Slip{Epoch: o.Epoch, Terms: o.Terms, TakenAt: s.sale.UpdatedAt},
			},
		}}))
		require.NoError(t, s.mem.Return(t.Context(), s.lane(0), s.sale.Epoch, []stock.Act{{Kind: stock.ActReturn, ID: o.ID, User: "mallory"}}))
		require.Equal(t, sale.Rejected, s.order(o.ID, "mallory").State)
		d := s.buy("mallory", "k", 1)
		require.Equal(t, sale.Replayed, d.Verdict)
		require.Equal(t, sale.Rejected, d.Order.State)
		_, err := s.Cancel(t.Context(), o.ID, "mallory")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err), "nothing is there to cancel, and nothing comes to be")
	})
}

// What the counter says without the ledger is not made up.
func TestRecordOfAnEndThatTheLedgerDoesNotHoldIsTrouble(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		o := s.buy("ann", "k", 1).Order
		require.NoError(t, s.mem.Return(t.Context(), s.lane(0), s.sale.Epoch, []stock.Act{{Kind: stock.ActReturn, ID: o.ID, User: "ann"}}))
		_, err := s.try("ann", "k", 1)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
		_, err = s.Cancel(t.Context(), o.ID, "ann")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err))
	})
}

func TestRepeatedRequestWithAReceipt(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		d := s.buy("ann", "k", 1)
		s.mem.Wipe()
		s.build(1) // without what the tray held
		s.sellAll(10)
		repeat := requestFor("ann", "")
		repeat.Receipt = d.Receipt
		again, err := s.Buy(t.Context(), repeat)
		require.NoError(t, err)
		require.Equal(t, sale.Replayed, again.Verdict)
		require.Equal(t, sale.Reserved, again.Order.State, "his slip comes before those that are still queued")
		repeat.Quantity = 2
		again, err = s.Buy(t.Context(), repeat)
		require.NoError(t, err)
		require.Equal(t, sale.KeyMismatch, again.Verdict)
		repeat.User, repeat.Quantity = "bob", 1
		again, err = s.Buy(t.Context(), repeat)
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, again.Verdict, "another's receipt is none")
	})
}

func TestChangesReachEveryLaneAndInstance(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		s.build(3)
		broken := s.lane(1)
		s.counter.set(func() {
			s.counter.syncIn = func(l stock.Lane) error {
				if l == broken {
					return stock.ErrUnavailable
				}
				return nil
			}
		})
		add := sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 5}}
		changed, err := s.ChangeSale(t.Context(), slug, 0, add)
		require.NoError(t, err)
		require.Equal(t, int64(15), changed.Items[0].Stock)
		require.Equal(t, []int{1}, changed.Outstanding)
		s.counter.set(func() { s.counter.syncIn = nil })
		changed, err = s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionPause})
		require.NoError(t, err)
		require.Nil(t, changed.Outstanding)
		require.Equal(t, int64(15), s.left(), "the total travels, so nothing is missed")
		require.Equal(t, sale.PausedNow, s.buyAt(s.second, "ann").Verdict)
		_, err = s.ChangeSale(t.Context(), slug, changed.Version-1, sale.Change{Action: sale.ActionResume})
		require.Equal(t, sale.CodeVersionMismatch, sale.CodeOf(err))
	})
}

func TestRestockSellsAgainOnEveryInstance(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		s.sellAll(10)
		refuseAll(t, s.second, "a", sale.SoldOut)
		synctest.Wait()
		_, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
		require.NoError(t, err)
		require.Equal(t, sale.Taken, s.buyAt(s.second, "next").Verdict)
		s.pass(100 * time.Millisecond)
		_, err = s.second.Sale(t.Context(), slug) // has it read again
		require.NoError(t, err)
		synctest.Wait()
		v, err := s.second.Sale(t.Context(), slug)
		require.NoError(t, err)
		require.Equal(t, int64(11), v.Items[0].Stock, "and its page shows it")
	})
}

// While a queued order is being cancelled it is judged, and its lane cleared away:
// first the ledger did not know it yet, then the lane did not know it any more.
func TestCancelFindsWhatIsJudgedWhileItLooks(t *testing.T) {
	t.Parallel()
	onFastPath(t, func(t *testing.T, s *fastShop) {
		bought := s.buyAt(s.Engine, "ann")
		s.counter.set(func() {
			s.counter.lookIn = func() {
				s.judge(1)
				s.mem.Wipe()
			}
		})
		o, err := s.Cancel(t.Context(), bought.Order.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, sale.Cancelled, o.State)
		_, err = s.Cancel(t.Context(), s.sale.OrderID("ann", "other"), "ann")
		require.Equal(t, sale.CodeOrderNotFound, sale.CodeOf(err))
	})
}
