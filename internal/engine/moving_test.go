package engine_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// lapse waits, by the bubble's fake clock.
func lapse(d time.Duration) { <-time.After(d) } //nolint:forbidigo // as said

// slowSale makes each read of a sale last.
type slowSale struct {
	ledger.Ledger
	takes time.Duration
}

func (l *slowSale) Sale(ctx context.Context, slug string) (sale.Sale, error) {
	s, err := l.Ledger.Sale(ctx, slug)
	lapse(l.takes)
	return s, err
}

// reader returns an engine of its own whose reads of sales last, and that knows the sale.
func (s *fastShop) reader(l ledger.Ledger, takes time.Duration) *engine.Engine {
	e := engine.New(&slowSale{Ledger: l, takes: takes}, s.counter, engine.Options{Clock: time.Now})
	synctest.Wait()
	_, err := e.Sale(s.t.Context(), slug)
	require.NoError(s.t, err)
	return e
}

// every calls do again and again until the function that it returns is called.
func every(d time.Duration, do func()) (end func()) {
	stop := make(chan struct{})
	var doing sync.WaitGroup
	doing.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		doing.Wait()
	}
}

// Units move more often than a read of the sale lasts.
func TestSaleThatMovesFasterThanItCanBeRead(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		e := s.reader(s.ledger, 30*time.Millisecond)
		end := every(20*time.Millisecond, func() { // fifty units a second come back
			_ = s.mem.Tell(t.Context(), stock.Message{Kind: stock.KindSellsAgain, Sale: s.sale.Number})
		})
		var oldest time.Duration
		for range 80 {
			s.pass(100 * time.Millisecond)
			before := time.Now()
			v, err := e.Sale(t.Context(), slug)
			require.NoError(t, err)
			s.world.Advance(time.Since(before))
			require.Less(t, time.Since(before), time.Second, "nobody waits long while the ledger answers")
			oldest = max(oldest, e.Now().Sub(v.ReadAt))
		}
		end()
		require.Less(t, oldest, 1500*time.Millisecond)
		require.NoError(t, e.Close(context.WithoutCancel(t.Context())))
	})
}

// The shop changes the sale more often than a read of it lasts, as by many refunds.
func TestSaleThatChangesFasterThanItCanBeRead(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 1)
		e := s.reader(s.ledger, 30*time.Millisecond)
		end := every(20*time.Millisecond, func() {
			_, err := s.ledger.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "shoe", Add: 1}})
			if err != nil {
				t.Error(err)
			}
		})
		lapse(25 * time.Millisecond)
		asked := time.Now()
		v, err := e.Sale(t.Context(), slug)
		took := time.Since(asked)
		end()
		require.NoError(t, err)
		require.Less(t, took, 100*time.Millisecond, "two reads at most")
		require.Greater(t, v.Items[0].Stock, int64(10))
		require.NoError(t, e.Close(context.WithoutCancel(t.Context())))
	})
}

// Each batch shows a newer version than this instance has, and no news of it has come.
func TestNewerVersionIsLearnedUnderLoad(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(1_000_000, 1)
		s.build(1)
		e := s.reader(s.books[1], 5*time.Millisecond)
		s.counter.mute.Store(true)
		title := "new"
		changed, err := s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Title: &title}})
		require.NoError(t, err)
		s.counter.set(func() {
			s.counter.before = func(*stock.Call) error { lapse(time.Millisecond); return nil }
		})
		began, known := time.Now(), int64(0)
		for i := 0; known < changed.Version && time.Since(began) < 3*time.Second; i++ {
			s.world.Advance(time.Millisecond)
			d, err := e.Buy(t.Context(), engine.Request{Sale: slug, User: "u" + strconv.Itoa(i), Key: "k", Quantity: 1})
			require.NoError(t, err)
			known = d.View.Version
		}
		require.Equal(t, changed.Version, known)
		require.Less(t, time.Since(began), 2*time.Second)
		require.NoError(t, e.Close(context.WithoutCancel(t.Context())))
	})
}

// ledgerWatch notes what is told of the ledger's last batch.
type ledgerWatch struct {
	engine.Observer
	trouble atomic.Bool
}

func (w *ledgerWatch) Batched(by engine.Source, _ int, _ time.Duration, err error) {
	if by == engine.FromLedger {
		w.trouble.Store(err != nil)
	}
}
func (*ledgerWatch) Decided(sale.Verdict, engine.Source) {}

// That a sale has moved to the fast path is an answer of the ledger's and no trouble.
func TestMoveIsNoTroubleOfTheLedger(t *testing.T) {
	t.Parallel()
	watch := &ledgerWatch{}
	inFastBubble(t, engine.Options{}, func(t *testing.T, s *fastShop) {
		e := engine.New(s.books[1], s.counter, engine.Options{Clock: time.Now, Observer: watch})
		synctest.Wait()
		s.sale = s.open(10, 1)
		require.Equal(t, sale.Taken, s.buyAt(e, "a").Verdict)
		s.counter.mute.Store(true)
		s.build(1)
		require.Equal(t, sale.Taken, s.buyAt(e, "b").Verdict)
		require.False(t, watch.trouble.Load())
		require.NoError(t, e.Close(context.WithoutCancel(t.Context())))
	})
}

// Two sales are over, and buyers still press the button of both: each has one line.
func TestSalesThatAreOverStillGather(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		names := []string{"one", "two"}
		for _, name := range names {
			s.open(1, 1, func(d *sale.Sale) { d.Slug = name })
		}
		s.pass(2 * time.Hour)
		for _, name := range names {
			_, err := s.Sale(t.Context(), name)
			require.NoError(t, err)
		}
		var now, most atomic.Int64
		gate := make(chan struct{})
		s.ledger.set(func() {
			s.ledger.before = func(ledger.Batch) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				<-gate
				now.Add(-1)
				return nil
			}
		})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				_, _ = s.Buy(t.Context(), engine.Request{Sale: names[i%2], User: "u" + strconv.Itoa(i), Key: "k", Quantity: 1})
			})
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		require.LessOrEqual(t, most.Load(), int64(2), "one call under way for each")
	})
}

// An instance that is alone with its ledger does not know what other lanes have.
func TestAloneWithSeveralLanes(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{Alone: true}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(4, 3)
		s.build(2) // two units in each
		try := func(name string, quantity int64, expected *ledger.Money) engine.Decision {
			d, err := s.Buy(t.Context(), engine.Request{Sale: slug, User: s.at(0, name), Key: "k", Quantity: quantity, Expected: expected})
			require.NoError(t, err)
			synctest.Wait()
			return d
		}
		require.Equal(t, sale.BadQuantity, try("greedy", 4, nil).Verdict) // has the holders read
		require.Equal(t, sale.TermsChanged, try("old price", 1, &ledger.Money{Amount: 1, Currency: "EUR"}).Verdict)
		require.Equal(t, sale.Taken, try("three", 3, nil).Verdict)
	})
}

// Nobody is a stranger whose take may have been carried out.
func TestAloneAfterALostReply(t *testing.T) {
	t.Parallel()
	inFastBubble(t, engine.Options{Alone: true}, func(t *testing.T, s *fastShop) {
		s.sale = s.open(10, 2)
		s.build(1)
		try := func(user string, quantity int64) (engine.Decision, error) {
			return s.Buy(t.Context(), engine.Request{Sale: slug, User: user, Key: "k", Quantity: quantity})
		}
		d, err := try("greedy", 3)
		require.NoError(t, err)
		require.Equal(t, sale.BadQuantity, d.Verdict)
		synctest.Wait() // the holders are read
		s.mem.LoseReply()
		_, err = try("ann", 2)
		require.Error(t, err)
		require.Equal(t, int64(8), s.left())
		one := int64(1)
		_, err = s.ChangeSale(t.Context(), slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{PerUserLimit: &one}})
		require.NoError(t, err)
		synctest.Wait()
		d, err = try("ann", 2)
		require.NoError(t, err)
		require.Equal(t, sale.Replayed, d.Verdict)
	})
}

// A gate that panics takes nobody's place who is to look whether the sale sells again.
func TestProbeThatPanics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *shop) {
		s.open(1, 1)
		s.sellOut(1)
		s.pass(1001 * time.Millisecond)
		require.Panics(t, func() {
			_, _ = s.Buy(t.Context(), engine.Request{Sale: slug, User: "x", Key: "k", Quantity: 1, Admit: func(context.Context) error { panic("boom") }})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		d, err := s.Buy(ctx, engine.Request{Sale: slug, User: "y", Key: "k", Quantity: 1})
		require.NoError(t, err)
		require.Equal(t, sale.SoldOut, d.Verdict)
	})
}

// The race detector watches Close beside a reading of the sales, as metrics are scraped.
func TestCloseBesideReads(t *testing.T) {
	t.Parallel()
	book := ledger.New(ledgertest.MemWorld(t).Store)
	for range 100 {
		e := engine.New(book, nil, engine.Options{Clock: time.Now})
		var all sync.WaitGroup
		all.Go(func() { _, _ = e.Sales(t.Context()) })
		all.Go(func() { _ = e.Close(t.Context()) })
		all.Wait()
	}
}
