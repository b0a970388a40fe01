package redislimit_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/limittest"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// TestMain looks for what was left running. The client of a Cluster lets connections
// to nodes that it has lost live five seconds longer than itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// patient is a timeout that even a busy machine keeps.
const patient = 10 * time.Second

func client(tb testing.TB, o rueidis.ClientOption) rueidis.Client {
	tb.Helper()
	o.DisableCache, o.AlwaysPipelining = true, true
	c, err := rueidis.NewClient(o)
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c
}

func single(tb testing.TB, addr string) rueidis.Client {
	tb.Helper()
	return client(tb, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
}

func open(tb testing.TB, c rueidis.Client, o redislimit.Options) *redislimit.Limiter {
	tb.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	l, err := redislimit.New(c, o)
	require.NoError(tb, err)
	tb.Cleanup(l.Close)
	return l
}

// prefixes returns one after the other.
func prefixes() func() string {
	var n atomic.Int64
	return func() string { return "t" + strconv.FormatInt(n.Add(1), 10) + ":" }
}

// wait lets real time pass.
func wait(d time.Duration) { <-time.NewTimer(d).C }

// real is a world in which time passes.
func real(c rueidis.Client) func(*testing.T, func(*testing.T, *limittest.World)) {
	next := prefixes()
	return func(t *testing.T, run func(*testing.T, *limittest.World)) {
		t.Helper()
		prefix := next()
		run(t, &limittest.World{
			Open: func(tb testing.TB) limit.Limiter {
				tb.Helper()
				return open(tb, c, redislimit.Options{Prefix: prefix})
			},
			Shared: true, Advance: wait,
		})
	}
}

func TestSingle(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	limittest.Run(t, real(single(t, s.Addr)))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no")
	limittest.Run(t, real(cluster(t, c)))
}

// still is a server whose clock stands still.
type still struct {
	*testenv.RedisServer
	clock *testenv.Clock
	now   time.Time
}

func newStill(t *testing.T) *still {
	t.Helper()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	out := &still{RedisServer: s, clock: clock, now: time.Now().Truncate(time.Microsecond)}
	clock.Freeze(out.now)
	return out
}

func (s *still) advance(d time.Duration) {
	if d != 0 {
		s.now = s.now.Add(d)
		s.clock.Freeze(s.now)
	}
}

// TestStill examines with clocks that only the test moves. Refusals are not
// remembered: that is the business of the clock that goes on.
func TestStill(t *testing.T) {
	t.Parallel()
	servers := make(chan *still, 2)
	for range cap(servers) {
		servers <- newStill(t)
	}
	next := prefixes()
	limittest.Run(t, func(t *testing.T, run func(*testing.T, *limittest.World)) {
		t.Helper()
		s := <-servers
		defer func() { servers <- s }()
		prefix := next()
		c := single(t, s.Addr)
		run(t, &limittest.World{
			Open: func(tb testing.TB) limit.Limiter {
				tb.Helper()
				return open(tb, c, redislimit.Options{Prefix: prefix, MaxDeny: -1})
			},
			Shared: true, Advance: s.advance, Still: true,
		})
	})
}

func cluster(tb testing.TB, c *testenv.RedisNodes) rueidis.Client {
	tb.Helper()
	return client(tb, rueidis.ClientOption{InitAddress: c.Addrs()})
}
