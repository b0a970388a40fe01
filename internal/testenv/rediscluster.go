package testenv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// RedisNodes is a Redis Cluster of three masters.
type RedisNodes struct {
	Nodes    [3]*RedisServer
	Replicas []*RedisServer // one for each node after AddReplicas, in the same order

	tb       testing.TB
	settings []string
	env      []string // of every node
}

const slots = 16_384

// RedisCluster starts three masters with further settings, gives each a third of
// the slots, and waits until all of them call the cluster complete.
func RedisCluster(tb testing.TB, settings ...string) *RedisNodes {
	tb.Helper()
	return (&RedisNodes{tb: tb, settings: settings}).start()
}

// RedisClusterWithClock does the same for nodes that have one wall clock, which the
// test can set (libfaketime). Nodes measure each other's silence with it: they bear
// steps of days, and no node ever calls another one failed.
func RedisClusterWithClock(tb testing.TB, settings ...string) (*RedisNodes, *Clock) {
	tb.Helper()
	clock := newClock(tb)
	return (&RedisNodes{
		tb: tb, settings: append([]string{"cluster-node-timeout 2000000000"}, settings...), env: clock.env(),
	}).start(), clock
}

func (c *RedisNodes) start() *RedisNodes {
	c.tb.Helper()
	c.settings = append([]string{"cluster-enabled yes", "cluster-node-timeout 1000", "cluster-replica-validity-factor 0"}, c.settings...)
	for i := range c.Nodes {
		c.Nodes[i] = c.node()
		c.Nodes[i].Must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		c.Nodes[i].Must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(c.firstSlot(i)), strconv.Itoa(c.firstSlot(i+1)-1))
	}
	for _, n := range c.Nodes[1:] {
		c.Nodes[0].meet(n)
	}
	c.await(c.Nodes[:]...)
	return c
}

func (c *RedisNodes) node() *RedisServer {
	c.tb.Helper()
	return startRedis(c.tb, newRedis(c.tb, c.settings), c.env)
}

// firstSlot returns the first slot of the i-th node.
func (c *RedisNodes) firstSlot(i int) int { return i * slots / len(c.Nodes) }

func (s *RedisServer) meet(other *RedisServer) {
	s.tb.Helper()
	s.Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port))
}

// await waits until every node given sees the whole cluster in order.
func (c *RedisNodes) await(nodes ...*RedisServer) {
	c.tb.Helper()
	for _, n := range nodes {
		await(c.tb, "node "+n.Addr+" calls the cluster complete", func() error {
			info := n.Must("CLUSTER", "INFO")
			known := strconv.Itoa(len(c.Nodes) + len(c.Replicas))
			for field, want := range map[string]string{
				"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(slots), "cluster_known_nodes": known, "cluster_size": strconv.Itoa(len(c.Nodes)),
			} {
				if got := infoField(info, field); got != want {
					return fmt.Errorf("%s is %q, not %q", field, got, want)
				}
			}
			return nil
		})
	}
}

// AddReplicas starts a replica for each master and waits until it follows.
func (c *RedisNodes) AddReplicas() {
	c.tb.Helper()
	for range c.Nodes {
		c.Replicas = append(c.Replicas, c.node())
	}
	for _, r := range c.Replicas {
		c.Nodes[0].meet(r)
	}
	c.await(append(c.Nodes[:], c.Replicas...)...)
	for i, r := range c.Replicas {
		r.Must("CLUSTER", "REPLICATE", c.Nodes[i].Must("CLUSTER", "MYID"))
		r.AwaitInfo("master_link_status", "up")
	}
}

// Addrs returns the addresses of the masters.
func (c *RedisNodes) Addrs() []string {
	out := make([]string, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		out = append(out, n.Addr)
	}
	return out
}

// URL returns the cluster's redis.url: redis://node,node,node?cluster=true.
func (c *RedisNodes) URL() string { return "redis://" + strings.Join(c.Addrs(), ",") + "?cluster=true" }

// MoveSlot gives the slot of a key from one master to another, with its keys, one
// after the other. between, if not nil, is called in each state that callers meet:
// before the first key moves, after each, and when the slot has its new master.
func (c *RedisNodes) MoveSlot(key string, from, to *RedisServer, between func()) {
	c.tb.Helper()
	if between == nil {
		between = func() {}
	}
	slot := from.Must("CLUSTER", "KEYSLOT", key)
	source, target := from.Must("CLUSTER", "MYID"), to.Must("CLUSTER", "MYID")
	to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	between()
	for from.Must("CLUSTER", "COUNTKEYSINSLOT", slot) != "0" {
		moved := from.Must("CLUSTER", "GETKEYSINSLOT", slot, "1")
		from.Must("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), moved, "0", "5000")
		between()
	}
	for _, node := range append([]*RedisServer{to, from}, c.Nodes[:]...) {
		node.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	}
	between()
}

// Owner returns the master that serves a key, as long as its slot has not moved.
func (c *RedisNodes) Owner(key string) *RedisServer {
	c.tb.Helper()
	slot, err := strconv.Atoi(c.Nodes[0].Must("CLUSTER", "KEYSLOT", key))
	if err != nil {
		c.tb.Fatalf("CLUSTER KEYSLOT: %v", err)
	}
	i := len(c.Nodes) - 1
	for slot < c.firstSlot(i) {
		i--
	}
	return c.Nodes[i]
}
