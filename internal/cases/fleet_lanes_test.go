package cases_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// lanesFleet is a fleet on a cluster whose sales have two lanes a master.
func lanesFleet(t *testing.T, args ...string) *fleet {
	t.Helper()
	const lanes = 6
	f := newFleet(t, testenv.FleetOptions{
		Cluster: testenv.RedisCluster(t), Args: append(quick(), append(args, "--set", "fast.lanes="+strconv.Itoa(lanes))...),
	})
	s := f.open(drop, 120, 1, 2)
	metas := f.places(s, "meta")
	require.Len(t, metas, lanes)
	for _, n := range f.Cluster.Nodes {
		own := slices.DeleteFunc(slices.Clone(metas), func(p place) bool { return p.at != n })
		require.Len(t, own, lanes/3, "the masters carry the same")
	}
	return f
}

// The accident: stock that was cut into slices is told to be gone while a slice has
// some, or is lost with the instance that was carrying it from one to another.
// The right outcome: every unit is for everybody, and what an instance leaves
// halfway is brought home by another.
func TestFleetLanesOfAClusterWithInstancesKilled(t *testing.T) {
	t.Parallel()
	f := lanesFleet(t)
	th := f.throng(drop, 16)
	random := rand.New(rand.NewPCG(7, 7))
	for kill := range 5 {
		th.took(2 + random.Int64N(30))
		g := f.gates[random.IntN(len(f.gates))]
		g.Kill()
		if kill%2 == 0 {
			th.served(20) // by the others
		}
		g.revive(t)
	}
	th.prove()
	require.NotZero(t, f.transfers(), "units have moved between lanes")
}

// transfers counts those that arrived in lanes of the sale, in the present epoch.
func (f *fleet) transfers() (n int) {
	f.t.Helper()
	for _, p := range f.places(f.sale(drop), "meta") {
		for i := range 6 {
			number, _ := strconv.Atoi(p.at.Must("HGET", p.key, "i"+strconv.Itoa(i))) // "" for none
			n += number
		}
	}
	return n
}

// The accident: while the stock is changed, a slice sells what another has given up.
// The right outcome: a restock sells, a cut holds, whatever the crowd does.
func TestFleetStockOfLanesChangesUnderACrowd(t *testing.T) {
	t.Parallel()
	f := lanesFleet(t)
	th := f.throng(drop, 4)
	for _, total := range []int64{500, 300, 400, 250} {
		th.served(20)
		changed, err := persist(t.Context(), f, f.key, func(c *client.Client) (client.AdminSale, error) {
			return c.Restock(t.Context(), drop, 0, client.Restock{Stock: &total})
		})
		require.NoError(t, err)
		require.Equal(t, total, changed.Items[0].Stock)
		require.Equal(t, "fast", changed.Path)
		th.took(10) // from lanes that were built anew
	}
	th.prove()
}
