package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// SentinelGroup is a primary with one replica, watched by three sentinels that
// notice a silent primary after half a second.
type SentinelGroup struct {
	Name      string // of the primary, as the sentinels know it
	Servers   [2]*RedisServer
	Sentinels [3]*RedisServer
}

// Sentinel starts the group with further settings of the two servers, and waits
// until the replica follows and the sentinels know it and each other.
func Sentinel(tb testing.TB, settings ...string) *SentinelGroup {
	tb.Helper()
	g := &SentinelGroup{Name: "doorbuster"}
	g.Servers[0] = Redis(tb, settings...)
	g.Servers[1] = Redis(tb, append([]string{ReplicaOf(g.Servers[0])}, settings...)...)
	g.Servers[1].AwaitInfo("master_link_status", "up")
	for i := range g.Sentinels {
		g.Sentinels[i] = startSentinel(tb, g.Name, g.Servers[0])
	}
	for _, s := range g.Sentinels {
		await(tb, "sentinel "+s.Addr+" knows the others", func() error { return g.complete(s) })
	}
	return g
}

func startSentinel(tb testing.TB, name string, primary *RedisServer) *RedisServer {
	tb.Helper()
	s := newRedis(tb, nil)
	s.Args = []string{"--sentinel"}
	s.Settings = []string{
		"bind 127.0.0.1", "daemonize no",
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", name, primary.Port),
		"sentinel down-after-milliseconds " + name + " 500",
		"sentinel failover-timeout " + name + " 3000",
	}
	s.Start()
	// Sentinels find each other by messages that they send every two seconds
	// otherwise.
	s.Must("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100")
	s.Must("SENTINEL", "DEBUG", "INFO-PERIOD", "200")
	return s
}

// complete reports what a sentinel does not know yet.
func (g *SentinelGroup) complete(s *RedisServer) error {
	words := strings.Split(s.Must("SENTINEL", "MASTER", g.Name), "\n")
	for field, want := range map[string]string{"num-slaves": "1", "num-other-sentinels": "2", "flags": "master"} {
		if got := wordAfter(words, field); got != want {
			return fmt.Errorf("%s is %q, not %q", field, got, want)
		}
	}
	return nil
}

func wordAfter(words []string, name string) string {
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return ""
}

// Addrs returns the addresses of the sentinels.
func (g *SentinelGroup) Addrs() []string {
	out := make([]string, 0, len(g.Sentinels))
	for _, s := range g.Sentinels {
		out = append(out, s.Addr)
	}
	return out
}

// URL returns the group's redis.url: redis://sentinel,sentinel,sentinel?sentinel=NAME.
func (g *SentinelGroup) URL() string {
	return "redis://" + strings.Join(g.Addrs(), ",") + "?sentinel=" + g.Name
}

// Primary returns the server that the sentinels call the primary now.
func (g *SentinelGroup) Primary() *RedisServer {
	named := address(g.Sentinels[0], g.Name)
	for _, s := range g.Servers {
		if s.Addr == named {
			return s
		}
	}
	g.Servers[0].tb.Fatalf("the sentinels name an unknown primary: %s", named)
	return nil
}

// address asks a sentinel for the address of the primary.
func address(sentinel *RedisServer, name string) string {
	sentinel.tb.Helper()
	return strings.ReplaceAll(sentinel.Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name), "\n", ":")
}

// Replica returns the other one.
func (g *SentinelGroup) Replica() *RedisServer {
	if g.Primary() == g.Servers[0] {
		return g.Servers[1]
	}
	return g.Servers[0]
}

// AwaitPrimary waits until every sentinel calls a server the primary and it
// takes writes.
func (g *SentinelGroup) AwaitPrimary(s *RedisServer) {
	s.tb.Helper()
	for _, sentinel := range g.Sentinels {
		await(s.tb, "sentinel "+sentinel.Addr+" follows to "+s.Addr, func() error {
			if got := address(sentinel, g.Name); got != s.Addr {
				return fmt.Errorf("it names %q", got)
			}
			return nil
		})
	}
	s.AwaitInfo("role", "master")
}
