package redisstock_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// spread wants the lanes of sales evenly on the masters of a cluster, each as a
// whole on one.
func spread(t *testing.T, cluster *testenv.RedisNodes, c *redisstock.Counter) {
	t.Helper()
	look := cluster.Nodes[0]
	first := make(map[string]int) // lanes by the master that has the first of a sale
	for n := sale.Number(1_000_001); n <= 1_000_006; n++ {
		for _, lanes := range []int{3, 6, 7} {
			salts, err := c.Salts(t.Context(), stock.Lane{Sale: n, Salt: math.MaxUint32}, lanes)
			require.NoError(t, err)
			require.Len(t, salts, lanes)
			again, err := c.Salts(t.Context(), stock.Lane{Sale: n, Salt: math.MaxUint32}, lanes)
			require.NoError(t, err)
			require.Equal(t, salts, again)
			on := make(map[string]int)
			for i, salt := range salts {
				l := stock.Lane{Sale: n, Index: i, Salt: salt}
				owner := cluster.Owner(key(l, "meta")).Addr
				on[owner]++
				if i == 0 {
					first[owner]++
				}
				slot := look.Must("CLUSTER", "KEYSLOT", key(l, "meta"))
				for _, part := range []string{"tray", "buyers:1", "buyers:99"} {
					require.Equal(t, slot, look.Must("CLUSTER", "KEYSLOT", key(l, part)), part)
				}
			}
			require.Len(t, on, len(cluster.Nodes))
			for owner, has := range on {
				require.Contains(t, []int{lanes / 3, (lanes + 2) / 3}, has, "%d of %d lanes on %s", has, lanes, owner)
			}
		}
	}
	require.Len(t, first, len(cluster.Nodes), "sales begin at different masters")
	alone, err := c.Salts(t.Context(), stock.Lane{Sale: 1_000_001, Salt: 9}, 1)
	require.NoError(t, err)
	require.Equal(t, []uint32{9}, alone, "one lane is where its name leads")
}

func TestSaltsOfOneServer(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c := open(t, dial(t, server.URL))
	for _, lanes := range []int{0, 1, 6, stock.MaxLanes} {
		salts, err := c.Salts(t.Context(), stock.Lane{Sale: 7, Salt: 9}, lanes)
		require.NoError(t, err)
		require.Equal(t, slices.Repeat([]uint32{9}, lanes), salts)
	}
}

// TestMalformedTransfers: fields that no script has written stop a transfer before
// anything is written.
func TestMalformedTransfers(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c, ctx := open(t, dial(t, server.URL)), t.Context()
	for field, value := range map[string]string{"o1": "1 0", "i1": "x", "x0": "x", "l0": "x", "seq": "x", "gen": "x", "w": "x"} {
		l := stock.Lane{Sale: 7, Salt: uint32(field[0])}
		live(t, c, l, 10)
		server.Must("HSET", key(l, "meta"), field, value)
		before := server.Must("HGETALL", key(l, "meta"))
		if field != "i1" {
			_, err := c.Give(ctx, l, stock.Transfer{Epoch: 1, To: 1, Number: 1, Units: 1})
			require.ErrorIs(t, err, stock.ErrUnavailable, field)
		}
		if field != "o1" && field != "w" {
			err := c.Receive(ctx, l, stock.Transfer{Epoch: 1, From: 1, Number: 1, Units: 1})
			require.ErrorIs(t, err, stock.ErrUnavailable, field)
		}
		require.Equal(t, before, server.Must("HGETALL", key(l, "meta")), field)
	}
}
