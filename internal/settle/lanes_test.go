package settle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestSaleThatLeftTheFastPathIsJudgedToItsEnd(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		c := &hookedCounter{Counter: f.counter}
		leave := hire(t, f, c, options("w", &witness{}))
		f.pass(time.Second)
		// An emergency: the sale goes direct while slips wait, and an instance that
		// has not heard takes one more.
		f.take(t, f.fresh(5)...)
		_, err := f.GoDirect(t.Context(), f.sale.Number, f.sale.Epoch, f.sale.Epoch+1)
		require.NoError(t, err)
		f.pass(2 * time.Second)
		f.take(t, "late")
		f.pass(7 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 6}, f.states(t, "buyer-0", "buyer-1", "buyer-2", "buyer-3", "buyer-4", "late"))
		before := c.count("Claim")
		f.pass(time.Minute)
		require.LessOrEqual(t, c.count("Claim")-before, 24, "an empty lane out of use is looked at now and then")
		leave()
	})
}

func TestSaleComesBackToTheFastPath(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(time.Second)
		s, err := f.GoDirect(t.Context(), f.sale.Number, f.sale.Epoch, f.sale.Epoch+1)
		require.NoError(t, err)
		f.sale = s
		f.pass(4 * time.Second)
		f.build(t, 1)
		f.take(t, "a")
		f.pass(time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "a"))
		_, err = f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		f.pass(time.Second)
		leave()
		f.inStep(t)
	})
}

func TestDeletedSaleIsJudgedToItsEnd(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.pass(time.Second)
		l.set(func(call string) error {
			if call == "Reserve" {
				return errHook
			}
			return nil
		}, nil)
		f.take(t, "a")
		closed, err := f.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionClose})
		require.NoError(t, err)
		_, err = f.GoDirect(t.Context(), closed.Number, closed.Epoch, closed.Epoch+1) // as where the counter did not answer
		require.NoError(t, err)
		_, err = f.ChangeSale(t.Context(), "drop", 0, sale.Change{Action: sale.ActionDelete})
		require.NoError(t, err)
		f.pass(2 * time.Second)
		l.set(nil, nil)
		f.pass(5 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1}, f.states(t, "a"), "queued always ends")
		require.Empty(t, f.tray(t))
	})
}

// More lanes than may be served at once take turns, so that whatever is queued ends,
// and what ended in the ledger reaches its lane.
func TestLanesBeyondTheBoundTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 10, 1, nil)
		first := f.sale
		f.open(t, "second", 100, nil)
		f.build(t, 5)
		o := options("w", &witness{})
		seen := &witness{}
		o.MaxLanes, o.Observer = 2, seen
		leave := hire(t, f, f.counter, o)
		for range 3 {
			f.sale, first = first, f.sale
			f.take(t, f.fresh(1)...)
			f.sale, first = first, f.sale
			f.take(t, f.fresh(20)...)
			f.pass(15 * time.Second)
			for _, l := range append(f.lanes(), stock.LanesOf(&first)...) {
				at, err := f.counter.Read(t.Context(), l)
				require.NoError(t, err)
				require.Zero(t, at.Queued, "lane %d of sale %d", l.Index, l.Sale)
			}
		}
		leave()
		require.NotEmpty(t, seen.failures[settle.DoingServe])
	})
}

// What is left of sales that are over costs next to nothing.
func TestLaneThatIsGoneIsLeftAlone(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		c := &hookedCounter{Counter: f.counter}
		_, err := f.GoDirect(t.Context(), f.sale.Number, f.sale.Epoch, f.sale.Epoch+1)
		require.NoError(t, err)
		token := f.sale.Epoch + 1
		_, err = f.counter.Freeze(t.Context(), f.lane(), token)
		require.NoError(t, err)
		require.NoError(t, f.counter.Clear(t.Context(), f.lane(), token))
		seen := &witness{}
		leave := hire(t, f, c, options("w", seen))
		f.pass(time.Minute)
		require.Contains(t, seen.released, f.lane())
		require.LessOrEqual(t, c.count("Claim")+c.count("TakeOver"), 2)
		leave()
	})
}

func TestStoppingFinishesWhatTheLedgerHas(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		under, goOn := make(chan struct{}, 1), make(chan struct{})
		l.set(func(call string) error {
			if call == "Reserve" {
				under <- struct{}{}
				<-goOn
			}
			return nil
		}, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- settle.NewLanes(l, f.counter, options("w", &witness{})).Run(ctx) }()
		f.take(t, f.fresh(10)...)
		<-under
		stop()
		f.pass(2 * time.Second)
		require.Empty(t, done, "a batch is with the ledger")
		close(goOn)
		require.NoError(t, <-done)
		require.Empty(t, f.tray(t), "judged, and off the tray")
		f.inStep(t)
	})
}

func TestStoppingDuringAnOutageEndsInBoundedTime(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.set(func(call string) error {
			if call == "Reserve" {
				return errHook
			}
			return nil
		}, nil)
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.take(t, f.fresh(10)...)
		f.pass(5 * time.Second)
		started := time.Now()
		leave()
		require.LessOrEqual(t, time.Since(started), 2*time.Second)
		require.Len(t, f.tray(t), 1, "nothing is lost")
	})
}

// TestManyStartsAndStopsLoseNothing starts and stops workers while a crowd buys.
func TestManyStartsAndStopsLoseNothing(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		for i := range 30 {
			leave := hire(t, f, f.counter, options("w"+string(rune('a'+i)), &witness{}))
			f.take(t, f.fresh(30)...)
			f.pass(time.Duration(i%4) * 50 * time.Millisecond)
			leave()
		}
		leave := hire(t, f, f.counter, options("last", &witness{}))
		f.pass(7 * time.Second)
		leave()
		require.Equal(t, int64(100), f.left(t, "drop"))
		f.inStep(t)
	})
}

func TestListThatFailsKeepsTheWorkersThereAre(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		l := &listless{Ledger: f}
		seen := &witness{}
		leave := hire(t, l, f.counter, options("w", seen))
		f.pass(time.Second)
		l.fails.Store(true)
		f.take(t, "a")
		f.pass(3 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "a"))
		require.NotEmpty(t, seen.failures[settle.DoingList])
	})
}

func TestReplayedLetterSellsAUnitThatIsThere(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.frail.refuse("mallory")
		f.take(t, "mallory")
		f.pass(5 * time.Second)
		letters := f.letters(t)
		require.Len(t, letters, 1)
		require.Equal(t, int64(3), f.standing(t).Left[0])
		f.frail.mend("mallory")
		office := settle.NewDeadLetters(f)
		o, err := office.Replay(t.Context(), letters[0].ID)
		require.NoError(t, err)
		require.Equal(t, sale.Reserved, o.State)
		f.pass(time.Second)
		require.Equal(t, int64(2), f.standing(t).Left[0], "the lane has learned of it")
		f.inStep(t)
		_, err = office.Drop(t.Context(), letters[0].ID)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err))
		l, err := f.Letter(t.Context(), letters[0].ID)
		require.NoError(t, err)
		require.Equal(t, ledger.LetterReplayed, l.State)
		leave()
	})
}

// TestReplayFinishesWhatACrashLeft has the order reserved and the letter open.
func TestReplayFinishesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		leave := hire(t, f, f.counter, options("w", &witness{}))
		defer leave()
		f.frail.refuse("mallory")
		f.take(t, "mallory")
		f.pass(5 * time.Second)
		f.frail.mend("mallory")
		id := f.letters(t)[0].ID
		_, err := settle.NewDeadLetters(&unclosing{Ledger: f}).Replay(t.Context(), id)
		require.ErrorIs(t, err, errHook)
		o, err := settle.NewDeadLetters(f).Replay(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, sale.Reserved, o.State)
		require.Equal(t, ledger.LetterReplayed, f.letters(t)[0].State)
	})
}

func TestLetterWithAFinalOrderIsNotReplayed(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.refused.Store("mallory", ledger.ErrConstraint) // the database takes the rejection
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.take(t, "mallory")
		f.pass(5 * time.Second)
		leave()
		office := settle.NewDeadLetters(f)
		id := f.letters(t)[0].ID
		_, err := office.Replay(t.Context(), id)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err))
		dropped, err := office.Drop(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, ledger.LetterDropped, dropped.State)
		_, err = office.Replay(t.Context(), id)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err))
		_, err = office.Replay(t.Context(), ledger.LetterID{1})
		require.Equal(t, sale.CodeLetterNotFound, sale.CodeOf(err))
		_, err = office.Drop(t.Context(), ledger.LetterID{1})
		require.Equal(t, sale.CodeLetterNotFound, sale.CodeOf(err))
	})
}

// unclosing is a ledger that fails before a letter is closed.
type unclosing struct{ ledger.Ledger }

func (*unclosing) CloseLetter(context.Context, ledger.LetterID, ledger.LetterState) (ledger.Letter, error) {
	return ledger.Letter{}, errHook
}
