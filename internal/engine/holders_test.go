package engine

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// While holders are entered, or found to be there already but for a few, whoever learns
// something has his turn, and with him all who ask.
func TestNobodyWaitsWhileHoldersAreRead(t *testing.T) {
	t.Parallel()
	const n = 500_000
	m := newMemory(1, false)
	m.learn(&lesson{epoch: 1, stamp: stamp{1, 1}, left: []int64{0}})
	users := make([]uint64, n)
	for i := range users {
		users[i] = uint64(i)
	}
	require.Greater(t, turns(m, slices.Clone(users)), 2, "all are new")
	require.Len(t, m.holders.users, n)
	for round := 1; ; round++ { // who looks may sleep through some
		for i := 0; i < n; i += lockStretch {
			users[i] += n
		}
		had := turns(m, slices.Clone(users))
		require.Len(t, m.holders.users, n+round*n/lockStretch)
		if had > 2 {
			break
		}
		require.Less(t, round, 50, "a few are new")
	}
}

// turns enters users and returns how many different numbers of holders somebody saw who
// had his turn before, meanwhile and after.
func turns(m *memory, users []uint64) int {
	began, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	seen := make(map[int]bool)
	go func() {
		defer close(ended)
		for first := true; ; first = false {
			m.mu.Lock()
			seen[len(m.holders.users)] = true
			m.mu.Unlock()
			if first {
				close(began)
			}
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	<-began
	m.loaded(&census{epoch: 1, users: users, at: stamp{1, 1}}, time.Time{}, nil)
	close(done)
	<-ended
	return len(seen)
}

// A reading has time for everybody who may hold something, within bounds.
func TestPatienceWithAReading(t *testing.T) {
	t.Parallel()
	m := newMemory(2, false)
	of := func(stock ...int64) time.Duration {
		v := &View{}
		for _, units := range stock {
			v.Items = append(v.Items, sale.Item{Stock: units})
		}
		return m.patience(v, 5*time.Second)
	}
	require.Equal(t, 5*time.Second, of(0, 0))
	require.Equal(t, 8*time.Second, of(10_000, 20_000))
	require.Equal(t, time.Minute, of(1_000_000_000_000_000_000, 0))
	require.Equal(t, 2*time.Minute, m.patience(&View{}, 2*time.Minute), "what was asked for")
	m.holders.users = make(map[uint64]struct{})
	for i := range uint64(20_000) {
		m.holders.users[i] = struct{}{}
	}
	require.Equal(t, 7*time.Second, of(1, 0), "many who hold nothing any more")
}
