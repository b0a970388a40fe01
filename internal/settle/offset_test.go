package settle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestOffsetIsMeasuredAndALeapIsTrouble(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		seen := &witness{}
		ahead := &leaping{Counter: f.counter}
		courier := f.courier(f, ahead, seen)
		for _, c := range []struct {
			by       time.Duration
			troubles int
		}{{0, 0}, {300 * time.Millisecond, 0}, {-200 * time.Millisecond, 0}, {2 * time.Second, 1}, {2 * time.Second, 1}} {
			ahead.by = c.by
			require.NoError(t, courier.Measure(t.Context()))
			require.Equal(t, c.by, f.standing(t).Offset)
			require.Equal(t, c.by, seen.offset)
			require.Equal(t, c.troubles, seen.troubles)
		}
		f.counter.Wipe()
		require.ErrorIs(t, courier.Measure(t.Context()), stock.ErrCold)
	})
}

// TestOffsetWithinItsDoubtIsLeftAlone measures over a slow line.
func TestOffsetWithinItsDoubtIsLeftAlone(t *testing.T) {
	t.Parallel()
	onFloor(t, 10, func(t *testing.T, f *floor) {
		slow := &hookedCounter{Counter: f.counter}
		slow.set(func(call string) error {
			if call == "Clock" {
				f.pass(200 * time.Millisecond) // all of it on the way there
			}
			return nil
		}, nil)
		seen := &witness{}
		require.NoError(t, f.courier(f, slow, seen).Measure(t.Context()))
		require.Equal(t, 100*time.Millisecond, seen.offset, "it looks as if the clocks were apart")
		require.Zero(t, f.standing(t).Offset)
	})
}

// A lane whose server went back in time lacks rows that its courier believes to be
// there.
func TestLaneThatWentBackGetsItsRowsAgain(t *testing.T) {
	t.Parallel()
	onFloor(t, 2, func(t *testing.T, f *floor) {
		f.sold(t, "a", "b")
		courier := f.courier(f, f.counter, &witness{})
		require.NoError(t, courier.Round(t.Context()))
		old := f.counter.Save()
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		require.NoError(t, courier.Round(t.Context()))
		f.inStep(t)
		f.counter.Restore(old)
		require.NoError(t, courier.Measure(t.Context()))
		require.NoError(t, courier.Round(t.Context()))
		f.inStep(t)
	})
}

// New rows tell that it has, and nobody need measure for that. Its rules come with the
// rows, though none of those is new.
func TestLaneThatWentBackBeforeNewRowsGetsAllAtOnce(t *testing.T) {
	t.Parallel()
	onFloor(t, 2, func(t *testing.T, f *floor) {
		f.sold(t, "a", "b")
		courier := f.courier(f, f.counter, &witness{})
		require.NoError(t, courier.Round(t.Context()))
		old := f.counter.Save()
		f.restock(t, 5)
		require.NoError(t, courier.Round(t.Context()))
		f.counter.Restore(old)
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		require.NoError(t, courier.Round(t.Context()))
		f.inStep(t)
	})
}

// Its server goes back between the rules and the rows of a stretch: the rows arrive
// at a lane that has lost the rules.
func TestLaneThatWentBackGetsItsRulesAgain(t *testing.T) {
	t.Parallel()
	onFloor(t, 2, func(t *testing.T, f *floor) {
		c := &hookedCounter{Counter: f.counter}
		courier := f.courier(f, c, &witness{})
		old := f.counter.Save()
		c.set(func(call string) error {
			if call == "Apply" {
				f.counter.Restore(old)
			}
			return nil
		}, nil)
		f.restock(t, 5)
		require.NoError(t, courier.Round(t.Context()))
		require.Less(t, f.standing(t).Version, f.sale.Version, "the lane has the rows and not the rules")
		c.set(func(call string) error {
			if call == "Sync" {
				return errHook
			}
			return nil
		}, nil)
		require.NoError(t, courier.Measure(t.Context()))
		require.ErrorIs(t, courier.Round(t.Context()), errHook)
		c.set(nil, nil)
		require.NoError(t, courier.Round(t.Context()), "with no new row that would tell of them")
		f.inStep(t)
	})
}

// Another courier brings the rules, its server goes back, and the rows that it brings
// then are past those that this one has read: there is nothing to tell of the rules
// but the sale itself.
func TestOvertakenCourierReadsTheSaleAgain(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		f.sold(t, "a", "b")
		slow, fast := &hookedCounter{Counter: f.counter}, &hookedCounter{Counter: f.counter}
		one, other := f.courier(f, slow, &witness{}), f.courier(f, fast, &witness{})
		require.NoError(t, one.Round(t.Context()))
		require.NoError(t, other.Round(t.Context()))
		_, err := f.Cancel(t.Context(), f.id("a"), "")
		require.NoError(t, err)
		var once sync.Once
		slow.set(func(call string) error {
			if call == "Apply" {
				once.Do(func() {
					old := f.counter.Save()
					fast.set(func(call string) error {
						if call == "Apply" {
							f.counter.Restore(old)
						}
						return nil
					}, nil)
					f.restock(t, 5)
					require.NoError(t, other.Round(t.Context()))
					require.Less(t, f.standing(t).Version, f.sale.Version)
				})
			}
			return nil
		}, nil)
		require.NoError(t, one.Round(t.Context()))
		require.NoError(t, one.Measure(t.Context()))
		require.NoError(t, one.Round(t.Context()))
		f.inStep(t)
	})
}

// A courier whose call failed meets its lane again. Another one has brought it newer
// rules meanwhile, and the rows that follow count by those.
func TestCourierThatMeetsNewerRulesReadsThem(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		f.sold(t, "a", "b")
		c := &hookedCounter{Counter: f.counter}
		one, other := f.courier(f, c, &witness{}), f.courier(f, f.counter, &witness{})
		require.NoError(t, one.Round(t.Context()))
		require.NoError(t, other.Round(t.Context()))
		_, err := f.Cancel(t.Context(), f.id("b"), "")
		require.NoError(t, err)
		c.set(func(string) error { return errHook }, nil)
		require.ErrorIs(t, one.Round(t.Context()), errHook)
		c.set(nil, nil)
		rule := sale.LimitEverPaid
		_, err = f.ChangeSale(t.Context(), f.sale.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{LimitRule: &rule}})
		require.NoError(t, err)
		require.NoError(t, other.Round(t.Context()))
		_, err = f.Pay(t.Context(), sale.Payment{ID: "p", Order: f.id("a"), Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		_, err = f.Refund(t.Context(), f.id("a"), ledger.Refunding{Restock: true})
		require.NoError(t, err)
		require.NoError(t, one.Round(t.Context()))
		records, err := f.counter.Records(t.Context(), f.lane(), "a")
		require.NoError(t, err)
		require.Len(t, records.Orders, 1)
		require.Equal(t, int64(1), records.Orders[0].Counted, "what was paid once counts for ever")
	})
}

// Rows are read by the rules that came with them: a lane that forgot a refund would
// take orders which the judge rejects.
func TestRowsCountByTheRulesOfTheirStretch(t *testing.T) {
	t.Parallel()
	onFloor(t, 3, func(t *testing.T, f *floor) {
		f.sold(t, "a")
		courier := f.courier(f, f.counter, &witness{})
		require.NoError(t, courier.Round(t.Context()))
		rule := sale.LimitEverPaid
		_, err := f.ChangeSale(t.Context(), f.sale.Slug, 0, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{LimitRule: &rule}})
		require.NoError(t, err)
		_, err = f.Pay(t.Context(), sale.Payment{ID: "p", Order: f.id("a"), Status: sale.PaymentSucceeded, Amount: 100, Currency: "EUR"})
		require.NoError(t, err)
		_, err = f.Refund(t.Context(), f.id("a"), ledger.Refunding{Restock: true})
		require.NoError(t, err)
		require.NoError(t, courier.Round(t.Context()))
		records, err := f.counter.Records(t.Context(), f.lane(), "a")
		require.NoError(t, err)
		require.Len(t, records.Orders, 1)
		require.Equal(t, int64(1), records.Orders[0].Counted, "a refunded order counts for ever now")
	})
}

// leaping is a counter whose clock is ahead.
type leaping struct {
	stock.Counter
	by time.Duration
}

func (l *leaping) Clock(ctx context.Context, lane stock.Lane) (time.Time, error) {
	at, err := l.Counter.Clock(ctx, lane)
	return at.Add(l.by), err
}
