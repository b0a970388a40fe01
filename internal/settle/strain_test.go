package settle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// oneSeat makes a worker that serves one lane at a time.
func oneSeat(o settle.LaneOptions) settle.LaneOptions {
	o.MaxLanes = 1
	return o
}

// Two sales and one seat: a lane where something always waits gives it up all the same.
func TestBusyLaneGivesUpItsSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 1000, 1, nil)
		first := *f
		f.open(t, "second", 1000, nil)
		f.build(t, 1)
		leave := hire(t, f, f.counter, oneSeat(options("w", &witness{})))
		f.pass(500 * time.Millisecond)
		var buyers []string
		for i := range 240 { // two minutes
			user := fmt.Sprint("buyer", i)
			if i < 120 {
				buyers = append(buyers, user)
			}
			first.take(t, user)
			f.take(t, user)
			f.pass(500 * time.Millisecond)
		}
		firsts, seconds := first.states(t, buyers...), f.states(t, buyers...)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 120}, firsts, "taken more than a minute ago")
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 120}, seconds, "taken more than a minute ago")
	})
}

// partlyAway has the lanes of one sale out of reach.
type partlyAway struct {
	stock.Counter
	sale sale.Number
}

func (c *partlyAway) Claim(ctx context.Context, l stock.Lane, claim stock.Claim) ([]stock.Entry, error) {
	if l.Sale == c.sale {
		return nil, stock.ErrUnavailable
	}
	return c.Counter.Claim(ctx, l, claim)
}

func (c *partlyAway) TakeOver(ctx context.Context, l stock.Lane, consumer string, idle time.Duration, limit int) ([]stock.Entry, error) {
	if l.Sale == c.sale {
		return nil, stock.ErrUnavailable
	}
	return c.Counter.TakeOver(ctx, l, consumer, idle, limit)
}

// A sale that left the fast path and its server with it must not keep the seat of one
// that sells.
func TestLaneOfAServerThatIsGoneGivesUpItsSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 10, 1, nil)
		c := &partlyAway{Counter: f.counter, sale: f.sale.Number}
		_, err := f.GoDirect(t.Context(), f.sale.Number, f.sale.Epoch, f.sale.Epoch+1)
		require.NoError(t, err)
		leave := hire(t, f, c, oneSeat(options("w", &witness{})))
		f.pass(2 * time.Second)
		f.open(t, "second", 10, nil)
		f.build(t, 1)
		f.take(t, "a")
		f.pass(time.Minute)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "a"))
	})
}

// Nobody buys any more: what a dead worker has left does not wait for new entries, page
// after page.
func TestMuchIsTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	onFloor(t, 10_000, func(t *testing.T, f *floor) {
		who := f.fresh(3000)
		for _, user := range who {
			f.take(t, user) // one entry each
		}
		got, err := f.counter.Claim(t.Context(), f.lane(), stock.Claim{Consumer: "dead", Max: len(who)})
		require.NoError(t, err)
		require.Len(t, got, len(who))
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(5*time.Second + 2*time.Second) // the time after which they may be had, and a little
		states := f.states(t, who...)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: len(who)}, states)
	})
}

// A worker that always has something to do looks after what a dead one has left, too.
func TestBusyWorkerTakesOver(t *testing.T) {
	t.Parallel()
	onFloor(t, 100_000, func(t *testing.T, f *floor) {
		f.take(t, "left")
		got, err := f.counter.Claim(t.Context(), f.lane(), stock.Claim{Consumer: "dead", Max: 1})
		require.NoError(t, err)
		require.Len(t, got, 1)
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Reserve" {
				<-time.After(470 * time.Millisecond) //nolint:forbidigo // the bubble's fake clock
			}
			return nil
		}, nil)
		o := options("w", &witness{})
		o.Batch = 20
		leave := hire(t, l, f.counter, o)
		for range 30 {
			f.take(t, f.fresh(100)...) // more than it can judge
			f.pass(500 * time.Millisecond)
		}
		states := f.states(t, "left")
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, states)
	})
}

// gauge notes what is said to wait.
type gauge struct {
	witness
	mu     sync.Mutex
	queued int64
}

func (g *gauge) Queued(_ stock.Lane, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queued = n
}

func (g *gauge) said() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queued
}

// The queue is measured while the ledger is away, which is when it grows.
func TestQueueIsMeasuredDuringAnOutage(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		seen := &gauge{}
		o := options("w", &seen.witness)
		o.Observer = seen
		leave := hire(t, l, f.counter, o)
		f.pass(2 * time.Second)
		l.set(func(string) error { return errHook }, nil)
		for range 60 {
			f.take(t, f.fresh(10)...)
			f.pass(time.Second)
		}
		said := seen.said()
		leave()
		require.InDelta(t, 600, said, 50)
	})
}

// The same unreadable entry in the trays of two sales is two letters.
func TestSameGarbageInTwoSales(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 10, 1, nil)
		first := *f
		f.open(t, "second", 10, nil)
		f.build(t, 1)
		f.counter.Plant(first.lane(), map[string]string{"garbage": "1"})
		f.counter.Plant(f.lane(), map[string]string{"garbage": "1"})
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(3 * time.Second)
		leave()
		require.Empty(t, f.tray(t))
		require.Empty(t, first.tray(t))
		require.Len(t, first.letters(t), 1)
		require.Len(t, f.letters(t), 1)
	})
}

// Who holds on to a letter that cannot be stored takes nothing over from others.
func TestLoneWorkerTakesOverFromNobody(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Park" {
				return fmt.Errorf("the letters: %w", ledger.ErrConstraint)
			}
			return nil
		}, nil)
		f.counter.Plant(f.lane(), map[string]string{"garbage": "1"})
		seen := &witness{}
		leave := hire(t, l, f.counter, options("w", seen))
		f.pass(time.Minute)
		leave()
		require.Zero(t, seen.tookOver)
	})
}

// dropping has another operator drop a letter while one replays it.
type dropping struct {
	ledger.Ledger
	id ledger.LetterID
}

func (d *dropping) Reserve(ctx context.Context, b ledger.Batch) (ledger.Batched, error) {
	if _, err := settle.NewDeadLetters(d.Ledger).Drop(ctx, d.id); err != nil {
		return ledger.Batched{}, err
	}
	return d.Ledger.Reserve(ctx, b)
}

// Of two operators one of whom replays and the other drops, both hear what became of it.
func TestLetterThatIsDroppedWhileItIsReplayed(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		leave := hire(t, f, f.counter, options("w", &witness{}))
		defer leave()
		f.frail.refuse("mallory")
		f.take(t, "mallory")
		f.pass(5 * time.Second)
		f.frail.mend("mallory")
		id := f.letters(t)[0].ID
		_, err := settle.NewDeadLetters(&dropping{Ledger: f, id: id}).Replay(t.Context(), id)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err))
		require.ErrorContains(t, err, "reserved")
		require.Equal(t, ledger.LetterDropped, f.letters(t)[0].State)
	})
}
