package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// five starts independent servers, each with a client.
func five(t *testing.T) (servers []*testenv.RedisServer, clients []rueidis.Client) {
	t.Helper()
	for range 5 {
		s := testenv.Redis(t, "appendonly no")
		servers = append(servers, s)
		clients = append(clients, single(t, s.Addr))
	}
	return servers, clients
}

func quorum(tb testing.TB, clients []rueidis.Client, o redislock.Options) *redislock.Quorum {
	tb.Helper()
	q, err := redislock.NewQuorum(clients, o)
	require.NoError(tb, err)
	return q
}

func freshQuorum(clients []rueidis.Client, o redislock.Options) func(testing.TB) lock.Store {
	next := prefixes()
	return func(tb testing.TB) lock.Store {
		tb.Helper()
		o := o
		o.Prefix = next()
		return quorum(tb, clients, o)
	}
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	_, clients := five(t)
	locktest.Run(t, locktest.Features{}, freshQuorum(clients, redislock.Options{}))
}

func TestQuorumOfTheRest(t *testing.T) {
	t.Parallel()
	servers, clients := five(t)
	servers[1].Kill()
	servers[3].Kill()
	locktest.Run(t, locktest.Features{}, freshQuorum(clients, redislock.Options{ConfirmFence: true}))
}

// N28: a server that stands still delays nobody.
func TestN28OneServerStandsStill(t *testing.T) {
	t.Parallel()
	servers, clients := five(t)
	l := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{CallTimeout: 5 * time.Second})
	lease, err := l.Lock(t.Context(), "warm")
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	servers[2].Pause()
	start := time.Now()
	for range 3 {
		lease, err = l.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, lease.Check(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.Less(t, time.Since(start), 5*time.Second, "each of nine calls would have waited for a second")
	servers[2].Resume()
}

// N14: what others hold does not count.
func TestN14MinorityIsNoLock(t *testing.T) {
	t.Parallel()
	_, clients := five(t)
	q := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{})
	leases := make([]*lock.Lease, 0, 3)
	for _, c := range clients[:3] {
		lease, err := locker(t, store(t, c, redislock.Options{}), lock.Config{}).Lock(t.Context(), "n")
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	_, err := q.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, leases[0].Unlock(t.Context()))
	held, err := q.Lock(t.Context(), "n")
	require.NoError(t, err, "the votes of the attempt before were given back")
	require.NoError(t, held.Unlock(t.Context()))
}

// Fences of a quorum grow, also where one server's clock is ahead and the next
// majority has but one server in common with the last.
func TestQuorumFencesGrow(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"Confirmed": time.Minute, "Unconfirmed": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, clients := make([]*testenv.RedisServer, 5), make([]rueidis.Client, 5)
			for i := range servers {
				var clock *testenv.Clock
				servers[i], clock = testenv.RedisWithClock(t, "appendonly no")
				if i == 0 {
					clock.Set(ahead)
				}
				clients[i] = single(t, servers[i].Addr)
			}
			l := locker(t, quorum(t, clients, redislock.Options{ConfirmFence: ahead > 0}), lock.Config{})
			var last lock.Fence
			for _, down := range [][]int{{3, 4}, {0, 1}, {3, 4}, {0, 2}, {1, 4}} {
				for _, i := range down {
					servers[i].Pause()
				}
				// It is not given back, which would tell the servers of the fence.
				lease, err := l.Lock(t.Context(), "n", lock.WithFixedLease(300*time.Millisecond))
				require.NoError(t, err)
				require.Greater(t, lease.Fence(), last)
				last = lease.Fence()
				for _, i := range down {
					servers[i].Resume()
				}
			}
		})
	}
}

func TestQuorumOptions(t *testing.T) {
	t.Parallel()
	servers, all := five(t)
	c, same := all[0], single(t, servers[0].Addr)
	for _, clients := range [][]rueidis.Client{nil, {c}, all[:2], all[:4], {c, c, c}, {c, all[1], same}} {
		_, err := redislock.NewQuorum(clients, redislock.Options{})
		require.ErrorIs(t, err, lock.ErrInvalid)
	}
	l := locker(t, quorum(t, all[:3], redislock.Options{}), lock.Config{})
	_, err := l.Semaphore("n", 2).Acquire(t.Context(), 1)
	require.ErrorIs(t, err, lock.ErrUnsupported)
	for _, o := range []redislock.Options{{Prefix: "{x}"}, {Retention: time.Millisecond}, {Claim: time.Nanosecond}, {Replicas: -1}, {ReplicaTimeout: -1}} {
		_, err := redislock.New(c, o)
		require.ErrorIs(t, err, lock.ErrInvalid)
	}
}
