package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

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
