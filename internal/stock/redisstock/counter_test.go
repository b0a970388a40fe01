package redisstock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const prefix = "test"

// dial opens a client as the product does.
func dial(tb testing.TB, url string) rueidis.Client {
	tb.Helper()
	client, err := redisconn.Open(tb.Context(), redisconn.Options{URL: url, CallTimeout: 20 * time.Second})
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

// open returns a counter whose deadline is no concern of the test's.
func open(tb testing.TB, client rueidis.Client) *redisstock.Counter {
	tb.Helper()
	c, err := redisstock.New(client, redisstock.Options{Prefix: prefix, CallTimeout: 20 * time.Second})
	require.NoError(tb, err)
	return c
}

// key returns the name of a key of a lane as the package comment has it.
func key(l stock.Lane, part string) string {
	return "{" + prefix + ":" + text(int64(l.Sale)) + "." + text(int64(l.Index)) + "." + text(int64(l.Salt)) + "}:" + part
}

// looker sees what is in a server, past the counter.
type looker interface {
	Must(words ...string) string
}

// faults are those that only need a look at the keys.
func faults(s looker, l stock.Lane) stocktest.Faults {
	return stocktest.Faults{
		Spoil: func(t *testing.T, p stocktest.Part, epoch int64) (mend func()) {
			t.Helper()
			name := key(l, string(p))
			if p == stocktest.PartBuyers {
				name += ":" + text(epoch)
			}
			s.Must("RENAME", name, name+":away")
			s.Must("SET", name, "x")
			return func() {
				s.Must("DEL", name)
				s.Must("RENAME", name+":away", name)
			}
		},
		Forget: func(*testing.T) { s.Must("DEL", key(l, "meta")) },
		Plant: func(_ *testing.T, fields map[string]string) string {
			words := append(make([]string, 0, 3+2*len(fields)), "XADD", key(l, "tray"), "*")
			for name, value := range fields {
				words = append(words, name, value)
			}
			return s.Must(words...)
		},
		Trim: func(_ *testing.T, id string) { s.Must("XDEL", key(l, "tray"), id) },
	}
}

// sales gives each world a sale of its own on a shared server.
type sales struct{ last atomic.Uint32 }

func (s *sales) lane() stock.Lane {
	n := s.last.Add(1)
	return laneOf(n, int(n%3))
}

func laneOf(n uint32, index int) stock.Lane {
	return stock.Lane{Sale: sale.Number(n), Index: index, Salt: (n + uint32(index)) * 2_654_435_761} //nolint:gosec // small
}

// others returns the other two lanes of the lane's sale.
func others(l stock.Lane) []stock.Lane {
	return []stock.Lane{laneOf(uint32(l.Sale), (l.Index+1)%3), laneOf(uint32(l.Sale), (l.Index+2)%3)}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	warm(t, open(t, dial(t, server.URL)))
	var numbers sales
	stocktest.Run(t, func(t *testing.T) stocktest.World {
		t.Helper()
		proxy := testenv.NewProxy(t, server.Addr)
		w := stocktest.World{Counter: open(t, dial(t, "redis://"+proxy.Addr)), Lane: numbers.lane()}
		w.Others = others(w.Lane)
		w.Faults = faults(server, w.Lane)
		w.Faults.LoseReply = func() (end func()) {
			for _, request := range []string{"EVALSHA\r\n", "XREADGROUP", "XAUTOCLAIM"} {
				proxy.Lose(testenv.Replies, 1, request)
			}
			return proxy.Pass
		}
		return w
	})
}

func TestCounterOnCluster(t *testing.T) {
	t.Parallel()
	// Nobody dies here: a busy machine must not look like it.
	cluster := testenv.RedisCluster(t, "cluster-node-timeout 30000")
	client := dial(t, cluster.URL())
	var numbers sales
	stocktest.Run(t, func(t *testing.T) stocktest.World {
		t.Helper()
		w := stocktest.World{Counter: open(t, client), Lane: numbers.lane()}
		w.Others = others(w.Lane)
		w.Faults = faults(clusterLook{t, client}, w.Lane)
		return w
	})
	t.Run("Salts", func(t *testing.T) {
		t.Parallel()
		spread(t, cluster, open(t, client))
	})
}

type clusterLook struct {
	tb     testing.TB
	client rueidis.Client
}

func (c clusterLook) Must(words ...string) string {
	c.tb.Helper()
	cmd := c.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
	if words[0] == "RENAME" {
		cmd = c.client.B().Arbitrary(words[0]).Keys(words[1:]...).Build()
	}
	msg, err := c.client.Do(c.tb.Context(), cmd).ToMessage()
	require.NoError(c.tb, err)
	out, _ := msg.ToString()
	return out
}

// warm runs every script once, so that a lost reply is that of a script that ran.
func warm(tb testing.TB, c *redisstock.Counter) {
	tb.Helper()
	l := stock.Lane{}
	live(tb, c, l, 1)
	ctx := tb.Context()
	act := stock.Act{Kind: stock.ActReturn, User: "u", CoolUntil: time.Unix(1, 0)}
	require.NoError(tb, c.Return(ctx, l, 1, []stock.Act{act}))
	_, err := c.Sync(ctx, l, 1, stock.Rules{Stock: []int64{1}})
	require.NoError(tb, err)
	_, err = c.Take(ctx, stock.Call{Lane: l, Epoch: 1, Terms: 1, AskedAt: time.Now()})
	require.NoError(tb, err)
	_, err = c.Give(ctx, l, stock.Transfer{Epoch: 1, To: 1, Number: 1, Units: 1})
	require.NoError(tb, err)
	require.NoError(tb, c.Receive(ctx, l, stock.Transfer{Epoch: 1, From: 1, Number: 1, Units: 1}))
	require.NoError(tb, c.Want(ctx, l, 1, 0))
	_, err = c.Freeze(ctx, l, 2)
	require.NoError(tb, err)
	require.NoError(tb, c.Load(ctx, l, 2, []stock.Act{act}))
	require.NoError(tb, c.Done(ctx, l, []stock.Entry{{ID: "1-1"}}))
	require.NoError(tb, c.Retire(ctx, l, "c"))
	require.NoError(tb, c.Clear(ctx, l, 2))
}

// live loads a lane that sells units of one item.
func live(tb testing.TB, c *redisstock.Counter, l stock.Lane, units int64) {
	tb.Helper()
	ctx := tb.Context()
	_, err := c.Freeze(ctx, l, 1)
	require.NoError(tb, err)
	require.NoError(tb, c.Set(ctx, l, 1, stock.Setting{
		Rules: stock.Rules{
			Version: 1, State: sale.Published, StartsAt: time.Unix(0, 0), EndsAt: time.Now().Add(time.Hour),
			PerUserLimit: 2, Terms: 1, Stock: []int64{units},
		},
		Left: []int64{units}, MaxQueued: 1 << 40,
	}))
	require.NoError(tb, c.Unfreeze(ctx, l, 1))
}

// TestAgreesWithMem makes random calls to Redis and to the plain counter in
// memory, and wants the same answers.
func TestAgreesWithMem(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	c := open(t, dial(t, server.URL))
	var numbers sales
	rapid.Check(t, func(rt *rapid.T) {
		l := numbers.lane()
		stocktest.Agree(rt, stocktest.World{Counter: c, Lane: l}, stocktest.World{Counter: stocktest.NewMem(time.Now), Lane: l})
	})
}
