package redisstock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// crowd is how many holders a lane has whose scan takes many pages, and middle the page
// before which something happens to it.
const (
	crowd  = 20_000
	middle = 10
)

// reader is a client that lets something happen between two pages of a scan.
type reader struct {
	rueidis.Client
	pages int
	then  func()
}

func (r *reader) turn(cmd rueidis.Completed) {
	if cmd.Commands()[0] != "HSCAN" {
		return
	}
	if r.pages++; r.pages == middle {
		r.then()
	}
}

func (r *reader) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	r.turn(cmd)
	return r.Client.Do(ctx, cmd)
}

func (r *reader) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, giveBack := r.Client.Dedicate()
	return &ownConn{conn, r}, giveBack
}

type ownConn struct {
	rueidis.DedicatedClient
	reader *reader
}

func (c *ownConn) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.reader.turn(cmd)
	return c.DedicatedClient.Do(ctx, cmd)
}

// crowded is a lane with a crowd of holders.
func crowded(t *testing.T, client rueidis.Client) stock.Lane {
	t.Helper()
	l := stock.Lane{Sale: 7}
	live(t, open(t, client), l, 10)
	const step = 1000
	for first := int64(0); first < crowd; first += step {
		cmd := client.B().Hset().Key(key(l, "buyers:1")).FieldValue()
		for i := first; i < first+step; i++ {
			cmd = cmd.FieldValue("user-"+text(i), strings.Repeat("x", 25))
		}
		require.NoError(t, client.Do(t.Context(), cmd.Build()).Error())
	}
	return l
}

// whole wants that the reading of a lane to which something happens in the middle fails,
// and that the next one finds everybody.
func whole(t *testing.T, client rueidis.Client, l stock.Lane, then func()) {
	t.Helper()
	c := open(t, &reader{Client: client, then: then})
	h, err := c.Holders(t.Context(), l)
	require.ErrorIs(t, err, stock.ErrUnavailable, "it found %d", len(h.Hashes))
	require.Eventually(t, func() bool {
		h, err = c.Holders(t.Context(), l)
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Len(t, h.Hashes, crowd)
}

// A server that comes back with all that it had numbers its holders anew.
func TestScanEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendfsync always")
	client := dial(t, server.URL)
	whole(t, client, crowded(t, client), func() {
		server.Kill()
		server.Start()
		require.Eventually(t, func() bool {
			return client.Do(t.Context(), client.B().Ping().Build()).Error() == nil
		}, 20*time.Second, 10*time.Millisecond)
	})
}

// A lane that moves to another master in the middle of a scan takes its holders with it,
// and leaves the cursor behind.
func TestScanEndsWhenItsSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, "appendonly no", "cluster-node-timeout 30000")
	client := dial(t, cluster.URL())
	l := crowded(t, client)
	whole(t, client, l, func() {
		from := cluster.Owner(key(l, "meta"))
		to := cluster.Nodes[0]
		if to == from {
			to = cluster.Nodes[1]
		}
		slot, target := from.Must("CLUSTER", "KEYSLOT", key(l, "meta")), to.Must("CLUSTER", "MYID")
		to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Must("CLUSTER", "MYID"))
		from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
		host, port, _ := strings.Cut(to.Addr, ":")
		from.Must("MIGRATE", host, port, "", "0", "20000", "KEYS", key(l, "meta"), key(l, "tray"), key(l, "buyers:1"))
		for _, node := range cluster.Nodes {
			node.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
		}
	})
}

// What a lane forgets while its holders are read may have been one of them.
func TestScanOfALaneThatForgets(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "appendonly no")
	client := dial(t, server.URL)
	l := crowded(t, client)
	c := open(t, &reader{Client: client, then: func() { server.Must("HINCRBY", key(l, "meta"), "seq", "-1") }})
	_, err := c.Holders(t.Context(), l)
	require.ErrorIs(t, err, stock.ErrStale)
}

// A lane whose tray, or whose group of judges, somebody has removed is no lane any more.
func TestLaneThatNobodyJudgesIsCold(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := dial(t, server.URL)
	c := open(t, client)
	for n, spoil := range map[sale.Number]func(tray string){
		1: func(tray string) { server.Must("DEL", tray) },
		2: func(tray string) { server.Must("XGROUP", "DESTROY", tray, "judge") },
	} {
		lost, whole := stock.Lane{Sale: n}, stock.Lane{Sale: n, Index: 1}
		for _, l := range []stock.Lane{lost, whole} {
			live(t, c, l, 10)
		}
		spoil(key(lost, "tray"))
		at, err := c.ReadAll(t.Context(), []stock.Lane{lost, whole})
		require.NoError(t, err)
		require.Equal(t, stock.Standing{State: stock.Cold, Epoch: 1}, at[0], "something of it is left")
		require.Equal(t, stock.Open, at[1].State)
		_, err = c.Freeze(t.Context(), lost, 9)
		require.NoError(t, err)
		frozen, err := c.Read(t.Context(), lost)
		require.NoError(t, err)
		require.Equal(t, stock.Frozen, frozen.State, "a builder brings back what was lost")
	}
}
