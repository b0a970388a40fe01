package settle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/settle"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// TestC37PoisonNeverBlocksTheGood puts poisons of every kind among five hundred
// good orders.
func TestC37PoisonNeverBlocksTheGood(t *testing.T) {
	t.Parallel()
	onFloor(t, 1000, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		who := f.fresh(500)
		f.take(t, who[:250]...)
		f.take(t, "mallory")
		l.refused.Store("mallory", ledger.ErrConstraint)
		good := f.tray(t)[0]
		with := func(name, value string) map[string]string {
			fields := maps.Clone(good.Fields)
			fields[name] = value
			return fields
		}
		plants := []map[string]string{
			{"garbage": "\x00\xff"},
			with(stock.FieldVersion, "99"),
			with(stock.FieldTaken, "yesterday"),
			with(stock.FieldSlips, ""),
			with(stock.FieldSlips, strings.Repeat("x", 1<<20)),
		}
		for _, fields := range plants {
			f.counter.Plant(f.lane(), fields)
		}
		f.counter.Plant(f.lane(), good.Fields) // the row already exists
		f.take(t, who[250:]...)

		seen := &witness{}
		leave := hire(t, l, f.counter, options("w", seen))
		f.pass(100 * time.Millisecond)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 500}, f.states(t, who...), "in normal time")
		f.pass(5 * time.Second)
		leave()
		require.Empty(t, f.tray(t))
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1}, f.states(t, "mallory"))
		letters := f.letters(t)
		require.Len(t, letters, len(plants)+1, "those that deserve it, and no others")
		authentic := 0
		for i := range letters {
			require.NotEmpty(t, letters[i].Cause)
			require.NotEmpty(t, letters[i].Raw)
			require.Less(t, len(letters[i].Cause), 600)
			if letters[i].Attempt != nil {
				authentic++
				require.Equal(t, f.id("mallory"), letters[i].Attempt.ID)
			}
		}
		require.Equal(t, 1, authentic)
		require.Less(t, l.count("Reserve"), 30, "tries are bounded")
		f.inStep(t)
	})
}

// TestC38RefusedOrderGivesBackOnce has the database refuse an order again and
// again, and the letter replayed when its units were sold to others.
func TestC38RefusedOrderGivesBackOnce(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		f.frail.refuse("mallory") // every row, the rejection too
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.take(t, "a", "b", "mallory")
		require.Equal(t, []sale.Verdict{sale.SoldOut}, f.try(t, "c"))
		f.pass(5 * time.Second)
		letters := f.letters(t)
		require.Len(t, letters, 1)
		o, err := f.Order(t.Context(), f.id("mallory"))
		require.NoError(t, err)
		require.Equal(t, sale.Rejected, o.State, "the buyer is told")
		require.Equal(t, sale.RejectedSlip, o.Reason)
		f.take(t, "c") // the unit came back
		require.Equal(t, []sale.Verdict{sale.SoldOut}, f.try(t, "d"), "once")
		f.pass(time.Second)

		office := settle.NewDeadLetters(f)
		_, err = office.Replay(t.Context(), letters[0].ID)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err), "the database refuses it still")
		f.frail.mend("mallory")
		o, err = office.Replay(t.Context(), letters[0].ID)
		require.NoError(t, err)
		require.Equal(t, sale.Rejected, o.State, "the unit has gone to somebody else")
		again, err := office.Replay(t.Context(), letters[0].ID)
		require.NoError(t, err)
		require.Equal(t, o, again, "repeated, it changes nothing")
		f.pass(time.Second)
		leave()
		require.Zero(t, f.left(t, "drop"))
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 3}, f.states(t, "a", "b", "c"))
		f.inStep(t)
	})
}

// TestC36TrimmedEntriesAreClearedAndCounted deletes entries behind the consumer
// that had claimed them.
func TestC36TrimmedEntriesAreClearedAndCounted(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		for range 5 {
			f.take(t, f.fresh(2)...)
		}
		entries, err := f.counter.Claim(t.Context(), f.lane(), stock.Claim{Consumer: "dead", Max: 10})
		require.NoError(t, err)
		f.counter.Trim(f.lane(), entries[1].ID)
		f.counter.Trim(f.lane(), entries[3].ID)
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(10 * time.Second)
		leave()
		require.Empty(t, f.tray(t))
		require.Equal(t, 2, seen.trimmed, "each is counted once, and not looked at for ever")
		require.Equal(t, 6, seen.settled[sale.Reserved])
		left, err := f.counter.TakeOver(t.Context(), f.lane(), "heir", 0, 100)
		require.NoError(t, err)
		require.Empty(t, left, "nothing is pending")
	})
}

// forge returns the fields of an entry with one slip, altered by change.
func (f *floor) forge(entry *stock.Entry, change func(*stock.Slip, map[string]string)) map[string]string {
	slips, err := stock.ReadSlips(f.sale.Number, entry)
	if err != nil {
		panic(err)
	}
	fields := maps.Clone(entry.Fields)
	change(&slips[0], fields)
	fields[stock.FieldSlips] = string(stock.AppendSlip(nil, &slips[0]))
	return fields
}

// TestForgedSlipsNeitherMintNorSpoilOrders plants what somebody with write access
// to the counter might, beside the genuine slip.
func TestForgedSlipsNeitherMintNorSpoilOrders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloor(t, 100, 1, nil)
		other := *f
		f.open(t, "elsewhere", 100, nil)
		f.build(t, 1)
		f.take(t, "stranger")
		foreign := f.tray(t)[0]
		*f = other

		f.take(t, "alice")
		genuine := f.tray(t)[0]
		forgeries := []map[string]string{
			f.forge(&genuine, func(s *stock.Slip, _ map[string]string) { s.Quantity = 5 }),
			f.forge(&genuine, func(s *stock.Slip, _ map[string]string) { s.User = "mallory" }),
			f.forge(&genuine, func(s *stock.Slip, _ map[string]string) { s.Item = 1 }),
			f.forge(&genuine, func(s *stock.Slip, _ map[string]string) { s.MAC[0]++ }),
			f.forge(&genuine, func(_ *stock.Slip, fields map[string]string) { fields[stock.FieldTerms] = "7" }),
			f.forge(&genuine, func(_ *stock.Slip, fields map[string]string) { fields[stock.FieldEpoch] = "1" }),
			f.forge(&genuine, func(_ *stock.Slip, fields map[string]string) { fields[stock.FieldAsked] = "1" }),
			f.forge(&genuine, func(_ *stock.Slip, fields map[string]string) { fields[stock.FieldTaken] = "1" }), // beyond the drift
			foreign.Fields, // of another sale
		}
		for _, fields := range forgeries {
			f.counter.Plant(f.lane(), fields)
		}
		seen := &witness{}
		leave := hire(t, f, f.counter, options("w", seen))
		f.pass(2 * time.Second)
		leave()
		o, err := f.Order(t.Context(), f.id("alice"))
		require.NoError(t, err)
		require.Equal(t, sale.Reserved, o.State)
		require.Equal(t, int64(1), o.Quantity)
		orders, err := f.ListOrders(t.Context(), ledger.OrderFilter{Sale: f.sale.Number})
		require.NoError(t, err)
		require.Len(t, orders, 1, "nothing was minted")
		letters := f.letters(t)
		require.Len(t, letters, len(forgeries))
		for i := range letters {
			require.Nil(t, letters[i].Attempt)
		}
		office := settle.NewDeadLetters(f)
		_, err = office.Replay(t.Context(), letters[0].ID)
		require.Equal(t, sale.CodeIllegalState, sale.CodeOf(err), "what nobody of ours made is not judged")
		for range 2 { // repeated, it changes nothing
			_, err = office.Drop(t.Context(), letters[0].ID)
			require.NoError(t, err)
		}
		require.Empty(t, f.tray(t))
	})
}

func TestDuplicateEntriesMakeOneOrderEach(t *testing.T) {
	t.Parallel()
	onFloor(t, 50, func(t *testing.T, f *floor) {
		who := f.fresh(50)
		f.take(t, who[:25]...)
		f.take(t, who[25:]...)
		for _, e := range f.tray(t) {
			f.counter.Plant(f.lane(), e.Fields)
		}
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(time.Second)
		_, err := f.Cancel(t.Context(), f.id(who[0]), "")
		require.NoError(t, err)
		f.pass(time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 49, sale.Cancelled: 1}, f.states(t, who...))
		require.Empty(t, f.letters(t))
		f.inStep(t)
	})
}

// TestUnreadableRestIsParkedAndTheBeginningJudged cuts an entry off in the middle.
func TestUnreadableRestIsParkedAndTheBeginningJudged(t *testing.T) {
	t.Parallel()
	onFloor(t, 50, func(t *testing.T, f *floor) {
		who := f.fresh(3)
		f.take(t, who...)
		e := f.tray(t)[0]
		fields := maps.Clone(e.Fields)
		raw := fields[stock.FieldSlips]
		fields[stock.FieldSlips] = raw[:len(raw)-3]
		f.counter.Trim(f.lane(), e.ID)
		f.counter.Plant(f.lane(), fields)
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 2, sale.Queued: 1}, f.states(t, who...))
		letters := f.letters(t)
		require.Len(t, letters, 1)
		require.Contains(t, letters[0].Place, "slip 2")
	})
}

func TestOrderCancelledWhileQueuedMeetsItsSlip(t *testing.T) {
	t.Parallel()
	onFloor(t, 1, func(t *testing.T, f *floor) {
		f.take(t, "a")
		now, err := f.Now(t.Context())
		require.NoError(t, err)
		_, err = f.CancelQueued(t.Context(), ledger.Attempt{
			ID: f.id("a"), User: "a", SKU: "shoe", Quantity: 1,
			Slip: &ledger.Slip{Epoch: f.sale.Epoch, Terms: f.sale.Terms, TakenAt: now},
		})
		require.NoError(t, err)
		leave := hire(t, f, f.counter, options("w", &witness{}))
		f.pass(2 * time.Second)
		require.Equal(t, map[sale.OrderState]int{sale.Cancelled: 1}, f.states(t, "a"))
		f.take(t, "b")
		f.pass(time.Second)
		leave()
		f.inStep(t)
	})
}

// TestWholeEntryWaitsForItsWorstSlip sees an entry off the tray only when each of
// its slips is decided, and those decided early judged once.
func TestWholeEntryWaitsForItsWorstSlip(t *testing.T) {
	t.Parallel()
	onFloor(t, 100, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		l.refused.Store("u2", ledger.ErrConstraint)
		f.take(t, users(5)...)
		seen := &witness{}
		leave := hire(t, l, f.counter, options("w", seen))
		f.pass(250 * time.Millisecond)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 4, sale.Queued: 1}, f.states(t, users(5)...))
		require.Len(t, f.tray(t), 1, "one of its slips is not decided")
		l.refused.Delete("u2") // the trouble passes
		f.pass(2 * time.Second)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 5}, f.states(t, users(5)...))
		require.Empty(t, f.tray(t))
		require.Empty(t, f.letters(t))
		require.Equal(t, 5, seen.batches[0])
		for _, n := range seen.batches[1:] {
			require.Equal(t, 1, n, "only the culprit is tried again")
		}
	})
}

func TestEverythingRefusedIsParkedInBoundedTime(t *testing.T) {
	t.Parallel()
	onFloor(t, 2000, func(t *testing.T, f *floor) {
		l := &hookedLedger{Ledger: f}
		who := f.fresh(1500)
		for _, user := range who {
			l.refused.Store(user, ledger.ErrConstraint)
		}
		f.take(t, who...)
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.pass(time.Minute)
		leave()
		require.Equal(t, map[sale.OrderState]int{sale.Rejected: 1500}, f.states(t, who...))
		require.Empty(t, f.tray(t))
		f.inStep(t)
	})
}

func TestLettersThatCannotBeStoredStayInTheTray(t *testing.T) {
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
		leave := hire(t, l, f.counter, options("w", &witness{}))
		f.take(t, "a")
		f.pass(time.Minute)
		require.Equal(t, map[sale.OrderState]int{sale.Reserved: 1}, f.states(t, "a"), "it blocks nobody")
		require.Len(t, f.tray(t), 1)
		require.Less(t, l.count("Park"), 20)
		l.set(nil, nil)
		f.pass(5 * time.Minute)
		leave()
		require.Empty(t, f.tray(t))
		require.Len(t, f.letters(t), 1)
	})
}
