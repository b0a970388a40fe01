package redislimit_test

import (
	"flag"
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
//
// Most tests wait, for a clock or for a store of their own, so more of them run at a
// time than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n != nil && n.Value.String() == n.DefValue {
		_ = n.Value.Set("6") // it is a number
	}
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

// TestSingle examines with a clock that goes on, and with refusals remembered.
func TestSingle(t *testing.T) {
	t.Parallel()
	c := single(t, testenv.Redis(t, "appendonly no").Addr)
	next := prefixes()
	limittest.Run(t, limittest.Kind{Shared: true}, func(t *testing.T, run func(*testing.T, *limittest.World)) {
		t.Helper()
		prefix := next()
		run(t, &limittest.World{
			Open: func(tb testing.TB) limit.Limiter {
				tb.Helper()
				return open(tb, c, redislimit.Options{Prefix: prefix})
			},
			Advance: wait,
		})
	})
}

// still is a clock of servers that stands still, and a client of them.
type still struct {
	clock  *testenv.Clock
	now    time.Time
	client rueidis.Client
}

func newStill(c rueidis.Client, clock *testenv.Clock) *still {
	out := &still{clock: clock, now: time.Now().Truncate(time.Microsecond), client: c}
	clock.Freeze(out.now)
	return out
}

func stillSingle(t *testing.T) *still {
	t.Helper()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	return newStill(single(t, s.Addr), clock)
}

func (s *still) advance(d time.Duration) {
	if d != 0 {
		s.now = s.now.Add(d)
		s.clock.Freeze(s.now)
	}
}

// examine runs the cases, each of them alone with one of the stores. Refusals are not
// remembered: that is the business of the clock that goes on.
func examine(t *testing.T, stores ...*still) {
	t.Helper()
	free := make(chan *still, len(stores))
	for _, s := range stores {
		free <- s
	}
	next := prefixes()
	limittest.Run(t, limittest.Kind{Shared: true, Still: true}, func(t *testing.T, run func(*testing.T, *limittest.World)) {
		t.Helper()
		s := <-free
		defer func() { free <- s }()
		prefix := next()
		run(t, &limittest.World{
			Open: func(tb testing.TB) limit.Limiter {
				tb.Helper()
				return open(tb, s.client, redislimit.Options{Prefix: prefix, MaxDeny: -1})
			},
			Advance: s.advance,
		})
	})
}

// TestStill examines with clocks that only the test moves.
func TestStill(t *testing.T) {
	t.Parallel()
	examine(t, stillSingle(t), stillSingle(t))
}

// TestCluster does the same in a Cluster, whose nodes have one such clock.
func TestCluster(t *testing.T) {
	t.Parallel()
	c, clock := testenv.RedisClusterWithClock(t, "appendonly no")
	examine(t, newStill(cluster(t, c), clock))
}

func cluster(tb testing.TB, c *testenv.RedisNodes) rueidis.Client {
	tb.Helper()
	return client(tb, rueidis.ClientOption{InitAddress: c.Addrs()})
}
