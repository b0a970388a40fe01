package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// onLanes runs a test with a sale of one item in so many lanes.
func onLanes(t *testing.T, units int64, lanes int, test func(t *testing.T, s *fastShop), tune ...func(*sale.Sale)) {
	t.Helper()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(units, 1, tune...)
		s.build(lanes)
		test(t, s)
	})
}

// at returns a user who is at home in a lane.
func (s *fastShop) at(lane int, name string) string {
	for i := 0; ; i++ {
		user := fmt.Sprintf("%s-%d", name, i)
		if stock.Home(user, len(s.sale.Salts)) == lane {
			return user
		}
	}
}

// standings reads the lanes.
func (s *fastShop) standings() []stock.Standing {
	s.t.Helper()
	at, err := s.mem.ReadAll(s.t.Context(), stock.LanesOf(&s.sale))
	require.NoError(s.t, err)
	return at
}

func TestEveryUnitIsForEverybody(t *testing.T) {
	t.Parallel()
	onLanes(t, 10, 3, func(t *testing.T, s *fastShop) {
		for i := range 10 { // all of one lane, which has a third
			d := s.buyAt(s.Engine, s.at(1, fmt.Sprintf("u%d", i)))
			require.Equal(t, sale.Taken, d.Verdict, "unit %d", i)
		}
		for lane := range 3 {
			require.Equal(t, sale.SoldOut, s.buyAt(s.second, s.at(lane, "late")).Verdict)
		}
		require.Zero(t, s.left())
		require.Empty(t, stock.Underway(s.standings()))
		require.Len(t, s.judge(3), 10)
	})
}

func TestCrowdOverLanesTakesAllAndNoMore(t *testing.T) {
	t.Parallel()
	onLanes(t, 50, 4, func(t *testing.T, s *fastShop) {
		var mu sync.Mutex
		got := make(map[sale.Verdict]int)
		var crowd sync.WaitGroup
		for i := range 300 {
			e := s.Engine
			if i%2 == 0 {
				e = s.second
			}
			crowd.Go(func() {
				for {
					d, err := e.Buy(t.Context(), engine.Request{Sale: slug, User: fmt.Sprintf("u%d", i), Key: "k", Quantity: 1})
					if sale.CodeOf(err) == sale.CodeBusy {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					got[d.Verdict]++
					mu.Unlock()
					return
				}
			})
		}
		crowd.Wait()
		require.Equal(t, map[sale.Verdict]int{sale.Taken: 50, sale.SoldOut: 250}, got)
		require.Len(t, s.judge(4), 50)
	})
}

func TestEmptyLaneIsNoSoldOutSale(t *testing.T) {
	t.Parallel()
	onLanes(t, 1, 2, func(t *testing.T, s *fastShop) { // the only unit is in lane 0
		require.Equal(t, sale.Insufficient, s.buyMany(s.at(1, "greedy"), 2).Verdict)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "ann")).Verdict)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(0, "bob")).Verdict)
	}, func(d *sale.Sale) { d.PerUserLimit = 2 })
}

func (s *fastShop) buyMany(user string, quantity int64) engine.Decision {
	s.t.Helper()
	d, err := s.Buy(s.t.Context(), engine.Request{Sale: slug, User: user, Key: "k", Quantity: quantity})
	require.NoError(s.t, err)
	return d
}

func TestPairIsGatheredFromTwoLanes(t *testing.T) {
	t.Parallel()
	onLanes(t, 2, 2, func(t *testing.T, s *fastShop) {
		d := s.buyMany(s.at(0, "greedy"), 3)
		require.Equal(t, sale.Insufficient, d.Verdict)
		require.Equal(t, int64(2), d.Left, "what all lanes have")
		require.Equal(t, sale.Taken, s.buyMany(s.at(0, "pair"), 2).Verdict)
		require.Zero(t, s.left())
	}, func(d *sale.Sale) { d.PerUserLimit = 3 })
}

// Who knows that every lane is empty asks nobody for a second; a unit that comes
// back to any of them is for everybody.
func TestMemoryOfLanes(t *testing.T) {
	t.Parallel()
	onLanes(t, 2, 2, func(t *testing.T, s *fastShop) {
		ann := s.at(0, "ann")
		bought := s.buyAt(s.Engine, ann)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "bob")).Verdict)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(1, "x")).Verdict)
		synctest.Wait() // the holders are loaded
		takes := s.counter.takes.Load()
		for i := range 50 {
			require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(1, fmt.Sprintf("y%d", i))).Verdict)
		}
		require.Equal(t, takes, s.counter.takes.Load())
		require.Equal(t, sale.Replayed, s.buyAt(s.Engine, s.at(1, "bob")).Verdict)

		s.judge(2)
		_, err := s.Cancel(t.Context(), bought.Order.ID, ann)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "y")).Verdict)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(0, "z")).Verdict)
	})
}

// While one asks whether the lanes still are empty, and reads them, the others wait
// for what he finds instead of asking as well.
func TestEmptyLanesAreProbedByOne(t *testing.T) {
	t.Parallel()
	onLanes(t, 2, 2, func(t *testing.T, s *fastShop) {
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(0, "ann")).Verdict)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "bob")).Verdict)
		require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(1, "x")).Verdict)
		synctest.Wait() // the holders are loaded
		s.pass(2 * time.Second)
		takes, reading, read := s.counter.takes.Load(), make(chan struct{}), make(chan struct{})
		s.counter.set(func() {
			s.counter.readIn = func() {
				close(reading)
				<-read
			}
		})
		var crowd sync.WaitGroup
		ask := func(name string) {
			crowd.Go(func() {
				d, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(1, name), Key: "k", Quantity: 1})
				if err != nil || d.Verdict != sale.SoldOut {
					t.Errorf("%s: %v %v", name, d.Verdict, err)
				}
			})
		}
		ask("probe")
		<-reading
		for i := range 20 {
			ask(fmt.Sprintf("y%d", i))
		}
		synctest.Wait()
		close(read)
		crowd.Wait()
		require.Equal(t, takes+1, s.counter.takes.Load())
	})
}

func TestLaneThatRunsDryLoadsNoHolders(t *testing.T) {
	t.Parallel()
	onLanes(t, 20, 2, func(t *testing.T, s *fastShop) {
		for i := range 19 {
			require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(0, fmt.Sprintf("u%d", i))).Verdict)
			synctest.Wait()
		}
		require.Zero(t, s.counter.holders.Load(), "while the sale has units nobody is refused for want of them")
	})
}

// What a gathering that was cut off has left on its way is brought home by the next.
func TestGatheringThatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"give", "unheard give", "receive", "unheard receive"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			onLanes(t, 1, 2, func(t *testing.T, s *fastShop) {
				lost := errors.New("the line is cut")
				s.counter.set(func() { s.counter.cut = map[string]error{step: lost} })
				_, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(1, "ann"), Key: "k", Quantity: 1})
				require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
				s.counter.set(func() { s.counter.cut = nil })
				require.Equal(t, sale.Taken, s.buyAt(s.second, s.at(1, "bob")).Verdict)
				require.Equal(t, sale.SoldOut, s.buyAt(s.second, s.at(0, "cid")).Verdict)
				require.Equal(t, sale.SoldOut, s.buyAt(s.Engine, s.at(1, "ann")).Verdict)
				require.Empty(t, stock.Underway(s.standings()))
			})
		})
	}
}

// A unit on its way is in no lane, and yet the sale is not sold out.
func TestUnitOnItsWayIsNotSoldOut(t *testing.T) {
	t.Parallel()
	onLanes(t, 1, 3, func(t *testing.T, s *fastShop) {
		lanes := stock.LanesOf(&s.sale)
		_, err := s.mem.Give(t.Context(), lanes[0], stock.Transfer{Epoch: s.sale.Epoch, From: 0, To: 2, Number: 1, Units: 1})
		require.NoError(t, err)
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "ann")).Verdict)
	})
}

func TestLaneThatDoesNotAnswerAGathering(t *testing.T) {
	t.Parallel()
	onLanes(t, 2, 2, func(t *testing.T, s *fastShop) {
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, "ann")).Verdict)
		s.freeze() // lane 0
		_, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(1, "bob"), Key: "k", Quantity: 1})
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "who can say what is in there? %v", err)
		require.Positive(t, s.trouble.Load())
		s.mem.Forget(s.lane(0))
		_, err = s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(1, "bob"), Key: "k", Quantity: 1})
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
	})
}

// A lane that went back in time is found out by a gathering as well.
func TestGatheringFindsAStaleLane(t *testing.T) {
	t.Parallel()
	var stale []int64
	inFastBubble(t, engine.Options{Stale: func(_ sale.Number, epoch int64) { stale = append(stale, epoch) }}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(4, 1)
		s.build(2)
		old := s.mem.Save()
		require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(0, "ann")).Verdict)
		s.mem.Restore(old)
		for _, name := range []string{"b", "c"} { // what lane 1 has
			require.Equal(t, sale.Taken, s.buyAt(s.Engine, s.at(1, name)).Verdict)
		}
		_, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(1, "d"), Key: "k", Quantity: 1})
		require.Equal(t, sale.CodeBusy, sale.CodeOf(err))
		require.Contains(t, stale, s.sale.Epoch)
	})
}

func TestStockOfSeveralLanesChangesWhileNoneSells(t *testing.T) {
	t.Parallel()
	var frozen int
	var shop *fastShop
	hold := func(ctx context.Context, _ *sale.Sale, do func(context.Context) error) error {
		if frozen++; frozen > 1 { // at first another builder is quicker, and the lanes sell again
			shop.goDirect() //nolint:contextcheck // by the test's own
		}
		return do(ctx)
	}
	for lanes, want := range map[int]int{1: 0, 2: 2} {
		inFastBubble(t, engine.Options{WhileFrozen: hold}, func(t *testing.T, s *fastShop) {
			frozen, shop = 0, s
			s.sale = s.open(4, 1)
			s.build(lanes)
			five := int64(5)
			changed, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Total: &five}})
			require.NoError(t, err)
			require.Equal(t, five, changed.Items[0].Stock)
			require.Equal(t, want, frozen)
			s.pass(time.Second)
			_, err = s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionPause})
			require.NoError(t, err)
			require.Equal(t, want, frozen, "other rules need no freezing")
		})
	}
}

// What has been refunded counts by a new limit rule at once, in one lane or several.
func TestLimitRuleChangesWhileNoLaneSells(t *testing.T) {
	t.Parallel()
	var frozen, lanes int
	var shop *fastShop
	hold := func(ctx context.Context, _ *sale.Sale, do func(context.Context) error) error {
		frozen++
		shop.goDirect() //nolint:contextcheck // by the test's own
		err := do(ctx)
		shop.build(lanes) //nolint:contextcheck // by the test's own
		return err
	}
	for lanes = 1; lanes <= 2; lanes++ {
		inFastBubble(t, engine.Options{WhileFrozen: hold}, func(t *testing.T, s *fastShop) {
			frozen, shop = 0, s
			s.sale = s.open(4, 1)
			s.build(lanes)
			o := s.buyAt(s.Engine, "ann").Order
			s.judge(lanes)
			_, err := s.Pay(t.Context(), sale.Payment{ID: "p", Order: o.ID, Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
			require.NoError(t, err)
			_, err = s.Refund(t.Context(), o.ID, true)
			require.NoError(t, err)
			rule, title := sale.LimitEverPaid, "Shoes"
			update := func(p sale.Patch) engine.Changed {
				changed, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: p})
				require.NoError(t, err)
				return changed
			}
			changed := update(sale.Patch{LimitRule: &rule})
			require.Equal(t, 1, frozen)
			require.Equal(t, sale.PathFast, changed.Path)
			require.Equal(t, sale.LimitEverPaid, changed.LimitRule)
			require.Equal(t, sale.LimitReached, s.buy("ann", "again", 1).Verdict)
			require.Equal(t, sale.Taken, s.buyAt(s.Engine, "bob").Verdict)
			update(sale.Patch{LimitRule: &rule, Title: &title})
			require.Equal(t, 1, frozen, "no other rule")
		})
	}
}

// Whoever changes the limit rule while somebody else changes the sale begins again with
// what is there then, unless they have said what they have seen.
func TestLimitRuleThatTwoOperatorsChangeAtOnce(t *testing.T) {
	t.Parallel()
	var shop *fastShop
	var other func()
	frozen := 0
	hold := func(ctx context.Context, _ *sale.Sale, do func(context.Context) error) error {
		frozen++
		if other != nil {
			other()
			other = nil
		}
		shop.goDirect() //nolint:contextcheck // by the test's own
		err := do(ctx)
		shop.build(1) //nolint:contextcheck // by the test's own
		return err
	}
	ever, live, title := sale.LimitEverPaid, sale.LimitLive, "Shoes"
	for _, c := range []struct {
		first, second sale.Patch
		frozen        int
		rule          sale.LimitRule
	}{
		{sale.Patch{LimitRule: &ever}, sale.Patch{LimitRule: &ever}, 1, ever},
		{sale.Patch{LimitRule: &ever}, sale.Patch{Title: &title}, 2, ever},
		{sale.Patch{LimitRule: &ever, Title: &title}, sale.Patch{LimitRule: &live, Title: &title}, 2, ever},
	} {
		for _, seen := range []bool{false, true} {
			inFastBubble(t, engine.Options{WhileFrozen: hold}, func(t *testing.T, s *fastShop) {
				frozen, shop = 0, s
				s.sale = s.open(4, 1)
				s.build(1)
				book := ledger.New(s.world.Store)
				other = func() {
					_, err := book.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: c.second})
					require.NoError(t, err)
				}
				version := int64(0)
				if seen {
					now, err := book.Sale(t.Context(), slug)
					require.NoError(t, err)
					version = now.Version
				}
				changed, err := s.ChangeSale(t.Context(), slug, version, sale.Change{Action: sale.ActionUpdate, Patch: c.first})
				if seen {
					require.Equal(t, sale.CodeVersionMismatch, sale.CodeOf(err))
					require.Equal(t, 1, frozen)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.rule, changed.LimitRule)
				require.Equal(t, sale.PathFast, changed.Path)
				require.Equal(t, c.frozen, frozen)
			})
		}
	}
}

// A sale is put away when nobody can be queued in it, and not where that is unknown.
func TestSaleIsClearedBeforeItIsPutAway(t *testing.T) {
	t.Parallel()
	var shop *fastShop
	var trouble error
	cleared := 0
	empty := func(context.Context, *sale.Sale) error {
		if cleared++; trouble == nil {
			shop.goDirect() //nolint:contextcheck // by the test's own
		}
		return trouble
	}
	inFastBubble(t, engine.Options{Clear: empty}, func(t *testing.T, s *fastShop) {
		shop, s.sale = s, s.open(4, 1)
		s.build(1)
		closed, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionClose})
		require.NoError(t, err)
		remove := func(version int64) error {
			_, err := s.ChangeSale(t.Context(), slug, version, sale.Change{Action: sale.ActionDelete})
			return err
		}
		require.Equal(t, sale.CodeVersionMismatch, sale.CodeOf(remove(closed.Version-1)))
		require.Zero(t, cleared)
		trouble = stock.ErrUnavailable
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(remove(closed.Version)))
		trouble = nil
		require.NoError(t, remove(closed.Version))
		require.Equal(t, 2, cleared)
		require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(remove(0)))
	})
}

// A unit that is refunded without going back into the stock is not sold again by the
// lane that it came from.
func TestRefundWithoutRestockIsACutOfSeveralLanes(t *testing.T) {
	t.Parallel()
	var shop *fastShop
	frozen, quicker, lost := 0, true, false
	hold := func(ctx context.Context, _ *sale.Sale, do func(context.Context) error) error {
		frozen++
		switch {
		case lost:
			return stock.ErrUnavailable
		case quicker: // another builder is, and the lanes sell again
			quicker = false
			return do(ctx)
		}
		shop.goDirect() //nolint:contextcheck // by the test's own
		err := do(ctx)
		shop.build(2) //nolint:contextcheck // by the test's own
		return err
	}
	inFastBubble(t, engine.Options{WhileFrozen: hold}, func(t *testing.T, s *fastShop) {
		shop, s.sale = s, s.open(4, 1)
		s.build(2)
		paid := func(user, charge string) sale.OrderID {
			d := s.buyAt(s.Engine, user)
			s.judge(2)
			_, err := s.Pay(t.Context(), sale.Payment{
				ID: charge, Order: d.Order.ID, Status: sale.PaymentSucceeded, Amount: d.Order.Amount, Currency: d.Order.Currency,
			})
			require.NoError(t, err)
			return d.Order.ID
		}
		one, two := paid(s.at(0, "ann"), "a"), paid(s.at(1, "bob"), "b")
		_, err := s.Refund(t.Context(), one, true)
		require.NoError(t, err)
		require.Zero(t, frozen, "the unit goes back to the lane that it came from")
		o, err := s.Refund(t.Context(), two, false)
		require.NoError(t, err)
		require.Equal(t, sale.Refunded, o.State)
		require.Equal(t, 2, frozen, "once more where lanes sold")
		_, err = s.Refund(t.Context(), two, false)
		require.NoError(t, err)
		require.Equal(t, 2, frozen, "nothing is cut by a repetition")

		lost = true
		o, err = s.Refund(t.Context(), paid(s.at(0, "cid"), "c"), false)
		require.NoError(t, err, "money does not wait for the counter")
		require.Equal(t, sale.Refunded, o.State)
	})
}
