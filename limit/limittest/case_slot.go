package limittest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/limit"
)

// slotCases are about how much happens at the same time.
func slotCases() group {
	return group{
		"SlotsAreBounded":    slotsAreBounded,
		"CrashedHolders":     crashedHolders,
		"SlotIsExtended":     slotIsExtended,
		"SlotOfAnother":      slotOfAnother,
		"L16_SlotsChange":    slotsChange,
		"SlotsExactInACrowd": slotsExactInACrowd,
		"LooksCutNoLease":    looksCutNoLease,
	}
}

func slots(n int64, lease time.Duration) limit.Rate {
	return limit.Rate{Name: "r", Algorithm: limit.Concurrency, Quota: n, Window: lease}
}

func (w *World) acquire(t *testing.T, s string, r limit.Rate) limit.Slot {
	t.Helper()
	slot, d, err := w.limiter.Acquire(t.Context(), s, r)
	require.NoError(t, err)
	require.True(t, d.Allowed, "%+v", d)
	require.NotNil(t, slot)
	return slot
}

func (w *World) full(t *testing.T, r limit.Rate) limit.Decision {
	t.Helper()
	slot, d, err := w.limiter.Acquire(t.Context(), "s", r)
	require.NoError(t, err)
	require.Nil(t, slot)
	require.False(t, d.Allowed)
	require.Equal(t, limit.Exceeded, d.Reason)
	require.Positive(t, d.Binding.RetryAfter)
	return d
}

func slotsAreBounded(t *testing.T, w *World) {
	r := slots(2, long)
	a := w.acquire(t, "s", r)
	w.acquire(t, "s", r)
	w.full(t, r)
	w.acquire(t, "other", r)
	require.False(t, w.peek(t, "s", r).Allowed)
	require.NoError(t, a.Release(t.Context()))
	require.EqualValues(t, 1, w.peek(t, "s", r).Binding.Remaining)
	w.acquire(t, "s", r)
	require.ErrorIs(t, a.Release(t.Context()), limit.ErrSlotLost, "a slot is given back once")
	require.ErrorIs(t, a.Extend(t.Context()), limit.ErrSlotLost)
	w.full(t, r)
	require.NoError(t, w.limiter.Reset(t.Context(), "s", r))
	w.acquire(t, "s", r)
}

func crashedHolders(t *testing.T, w *World) {
	r := slots(2, brief)
	lost := w.acquire(t, "s", r)
	w.acquire(t, "s", r)
	if w.is.Still {
		w.Advance(w.full(t, r).Binding.RetryAfter - time.Microsecond)
		w.full(t, r)
		w.Advance(time.Microsecond)
	}
	w.Advance(brief)
	w.acquire(t, "s", r)
	require.ErrorIs(t, lost.Release(t.Context()), limit.ErrSlotLost)
	require.ErrorIs(t, lost.Extend(t.Context()), limit.ErrSlotLost)
	w.acquire(t, "s", r)
}

func slotIsExtended(t *testing.T, w *World) {
	r := slots(1, 2*time.Second)
	slot := w.acquire(t, "s", r)
	for range 4 {
		w.Advance(time.Second * 2 / 3)
		require.NoError(t, slot.Extend(t.Context()))
	}
	w.full(t, r)
	require.NoError(t, slot.Release(t.Context()))
	w.acquire(t, "s", r)
}

// slotOfAnother: who has lost a slot does not touch that of the next holder.
func slotOfAnother(t *testing.T, w *World) {
	r := slots(1, brief)
	old := w.acquire(t, "s", r)
	w.Advance(brief)
	w.acquire(t, "s", slots(1, long))
	require.ErrorIs(t, old.Release(t.Context()), limit.ErrSlotLost)
	w.full(t, slots(1, long))
}

func slotsChange(t *testing.T, w *World) {
	held := []limit.Slot{w.acquire(t, "s", slots(3, long)), w.acquire(t, "s", slots(3, long)), w.acquire(t, "s", slots(3, long))}
	w.acquire(t, "s", slots(4, long))
	less := slots(2, long)
	for _, one := range held {
		w.full(t, less)
		require.NoError(t, one.Release(t.Context()))
	}
	w.acquire(t, "s", less)
	w.full(t, less)
}

func slotsExactInACrowd(t *testing.T, w *World) {
	r := slots(5, long)
	var mu sync.Mutex
	inside, most := 0, 0
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			for range 20 {
				slot, _, err := w.limiter.Acquire(t.Context(), "s", r)
				if err != nil {
					t.Error(err)
					return
				}
				if slot == nil {
					continue
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				inside--
				mu.Unlock()
				if err = slot.Release(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	require.LessOrEqual(t, most, 5)
	require.EqualValues(t, 5, w.peek(t, "s", r).Binding.Remaining)
}

// looksCutNoLease looks at slots, and gives one back, with a shorter lease than they
// have: neither ends the others sooner.
func looksCutNoLease(t *testing.T, w *World) {
	other, slot := w.acquire(t, "s", slots(3, brief)), w.acquire(t, "s", slots(3, long))
	require.EqualValues(t, 1, w.peek(t, "s", slots(3, brief)).Binding.Remaining)
	require.NoError(t, other.Release(t.Context()))
	w.Advance(brief * 3 / 2)
	require.EqualValues(t, 2, w.peek(t, "s", slots(3, long)).Binding.Remaining)
	require.NoError(t, slot.Release(t.Context()))
}
