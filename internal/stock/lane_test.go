package stock_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestLanesOf(t *testing.T) {
	t.Parallel()
	s := &sale.Sale{Number: number}
	require.Nil(t, stock.LanesOf(s))
	s.Salts = []uint32{9, 0, 4}
	require.Equal(t, []stock.Lane{{Sale: number, Salt: 9}, {Sale: number, Index: 1}, {Sale: number, Index: 2, Salt: 4}}, stock.LanesOf(s))
}

// TestShares: the parts of all lanes are the whole, and no two are far apart.
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total, lanes := rapid.Int64Range(0, 1<<40).Draw(t, "total"), rapid.IntRange(1, stock.MaxLanes).Draw(t, "lanes")
		var sum int64
		for i := range lanes {
			part := stock.Share(total, i, lanes)
			require.Contains(t, []int64{total / int64(lanes), total/int64(lanes) + 1}, part)
			sum += part
		}
		require.Equal(t, total, sum)
	})
}

func TestHome(t *testing.T) {
	t.Parallel()
	const lanes, users = 4, 4000
	at := make([]int, lanes)
	for i := range users {
		user := "user-" + strconv.Itoa(i)
		require.Zero(t, stock.Home(user, 1))
		home := stock.Home(user, lanes)
		require.Equal(t, home, stock.Home(user, lanes))
		at[home]++
	}
	for _, n := range at {
		require.InDelta(t, users/lanes, n, users/lanes/5, "users spread over lanes")
	}
}

// TestMark: it is the highest number of the newest epoch, in whatever order they come.
func TestMark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m stock.Mark
		var newest int64
		highest := make(map[int64]uint64)
		for range rapid.IntRange(0, 20).Draw(t, "numbers") {
			epoch, seq := rapid.Int64Range(1, 4).Draw(t, "epoch"), rapid.Uint64Range(0, 9).Draw(t, "seq")
			m.Saw(epoch, seq)
			newest, highest[epoch] = max(newest, epoch), max(highest[epoch], seq)
		}
		for epoch := range int64(5) {
			want := highest[epoch]
			if epoch != newest {
				want = 0
			}
			require.Equal(t, want, m.Of(epoch))
		}
	})
}
