package locktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// forgetful loses what it holds when it is told to.
type forgetful struct{ lock.Store }

func (f forgetful) forget(t *testing.T, owner lock.Owner) {
	t.Helper()
	_, err := f.Release(t.Context(), &lock.Request{Kind: lock.Mutex, Name: "n", Owner: owner})
	require.NoError(t, err)
}

// A history tells a lock that is given twice from one that was lost in time.
func TestHistorySeesTwoHolders(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		correct bool
		meddle  func(*testing.T, *History, forgetful, *lock.Lease)
	}{
		"forgotten": {false, func(t *testing.T, _ *History, s forgetful, first *lock.Lease) {
			s.forget(t, first.Owner())
		}},
		"forgotten and excused": {true, func(t *testing.T, h *History, s forgetful, first *lock.Lease) {
			h.Damage(func() { s.forget(t, first.Owner()) })
		}},
		"lost in time": {true, func(t *testing.T, _ *History, s forgetful, first *lock.Lease) {
			s.forget(t, first.Owner())
			<-first.Context().Done()
		}},
		"given back": {true, func(t *testing.T, h *History, _ forgetful, first *lock.Lease) {
			require.NoError(t, h.Unlock(t.Context(), first))
		}},
	}
	for name, c := range cases {
		for _, end := range []string{"unlocked", "left"} {
			t.Run(name+" and "+end, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := forgetful{memlock.New()}
					l, err := lock.New(store, lock.Config{})
					require.NoError(t, err)
					h := NewHistory()
					first, err := h.Lock(t.Context(), l, "n", lock.WithLease(3*time.Second))
					require.NoError(t, err)
					c.meddle(t, h, store, first)
					second, err := h.Lock(t.Context(), l, "n")
					require.NoError(t, err)
					if end == "unlocked" {
						require.NoError(t, h.Unlock(t.Context(), second))
						if h.live[first.Owner()] != nil {
							require.ErrorIs(t, h.Unlock(t.Context(), first), lock.ErrLost)
						}
					}
					require.Equal(t, c.correct, h.correct())
					require.NoError(t, l.Close(context.WithoutCancel(t.Context())))
				})
			})
		}
	}
}
