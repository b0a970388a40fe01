package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// topicless is a store that has no topics and remembers who asked.
type topicless struct {
	lock.Store
	mu    sync.Mutex
	asked map[lock.Owner]int
	third chan struct{} // closed when the third owner asks
}

func (s *topicless) Topic(*lock.Request) string { return "" }

func (s *topicless) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	s.mu.Lock()
	s.asked[r.Owner]++
	if len(s.asked) == 3 && s.asked[r.Owner] == 1 {
		close(s.third)
	}
	s.mu.Unlock()
	plain := *r
	plain.Queue = 0
	g, err := s.Store.Acquire(ctx, &plain)
	g.Retry = time.Millisecond
	return g, err
}

// Where nobody is told of a grant, every try has an owner of its own: a store may
// still take back what it gave to the one before.
func TestOwnersOfTries(t *testing.T) {
	t.Parallel()
	s := &topicless{Store: memlock.New(), asked: map[lock.Owner]int{}, third: make(chan struct{})}
	l, err := lock.New(s, lock.Config{})
	require.NoError(t, err)
	held, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, _ := l.Lock(t.Context(), "n")
		got <- lease
	}()
	<-s.third
	require.NoError(t, held.Unlock(t.Context()))
	next := <-got
	require.NotNil(t, next)
	for owner, n := range s.asked {
		require.Equal(t, 1, n, owner)
	}
	info, err := l.Inspect(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, next.Owner(), info.Holders[0].Owner)
	require.NoError(t, next.Unlock(t.Context()))
	require.NoError(t, l.Close(t.Context()))
}

// What a try without an answer was given there is given back, although the next
// one has another owner.
func TestLostGrantWhereNobodyIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hooked{Store: memlock.New()}
		lost := false
		h.acquire = func(ctx context.Context, r *lock.Request) (lock.Grant, error) {
			g, err := h.Store.Acquire(ctx, r)
			if !lost {
				lost = true
				return lock.Grant{}, errDown
			}
			return g, err
		}
		l, err := lock.New(&topicless{Store: h, asked: map[lock.Owner]int{}, third: make(chan struct{})}, lock.Config{})
		require.NoError(t, err)
		start := time.Now()
		lease, err := l.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, l.Close(t.Context()))
	})
}
