package redislock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// confirmed is a store whose grants a replica must confirm.
var confirmed = redislock.Options{Replicas: 1, ReplicaTimeout: time.Second}

// pair starts a primary with a replica that follows.
func pair(t *testing.T) (primary, replica *testenv.RedisServer) {
	t.Helper()
	primary = testenv.Redis(t, "appendonly no")
	replica = testenv.Redis(t, testenv.ReplicaOf(primary), "appendonly no")
	replica.AwaitInfo("master_link_status", "up")
	return primary, replica
}

// Those who wait for the lock need few connections, although every grant that is
// to be confirmed has one of its own.
func TestReplicasFewConnections(t *testing.T) {
	t.Parallel()
	primary, _ := pair(t)
	proxy := testenv.NewProxy(t, primary.Addr)
	l := locker(t, store(t, single(t, proxy.Addr), confirmed), lock.Config{})
	held, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	const crowd = 150
	before := proxy.Links()
	var work sync.WaitGroup
	for range crowd {
		work.Go(func() {
			lease, failed := l.Lock(t.Context(), "n")
			if failed == nil {
				failed = lease.Unlock(t.Context())
			}
			if failed != nil {
				t.Error(failed)
			}
		})
	}
	require.Eventually(t, func() bool {
		info, failed := l.Inspect(t.Context(), "n")
		return failed == nil && info.Waiters == crowd
	}, time.Minute, time.Millisecond)
	require.LessOrEqual(t, proxy.Links(), before+18)
	require.NoError(t, held.Unlock(t.Context()))
	work.Wait()
	require.LessOrEqual(t, proxy.Links(), before+18)
}

// A renewal that no replica confirms is none: the lease is over in time.
func TestReplicaDoesNotConfirmARenewal(t *testing.T) {
	t.Parallel()
	primary, replica := pair(t)
	l := locker(t, store(t, single(t, primary.Addr), redislock.Options{Replicas: 1}), lock.Config{})
	for _, take := range []func() (*lock.Lease, error){
		func() (*lock.Lease, error) { return l.Lock(t.Context(), "n", lock.WithLease(2*time.Second)) },
		func() (*lock.Lease, error) {
			return l.ReadWrite("n").RLock(t.Context(), lock.WithLease(2*time.Second))
		},
	} {
		lease, err := take()
		require.NoError(t, err)
		require.NoError(t, lease.Check(t.Context()))
		replica.Pause()
		end := lease.ValidUntil()
		require.ErrorIs(t, lease.Check(t.Context()), lock.ErrReplication)
		require.Equal(t, end, lease.ValidUntil())
		happens(t, lease.Context().Done())
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
		replica.Resume()
	}
}

// In a Cluster each grant is confirmed by the replica of its own master.
func TestReplicasInACluster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no")
	c.AddReplicas()
	s := store(t, client(t, rueidis.ClientOption{InitAddress: c.Addrs()}), redislock.Options{Replicas: 1})
	l := locker(t, s, lock.Config{})
	lease, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, lease.Check(t.Context()))
	for i, node := range c.Nodes {
		if node == c.Owner(s.Key("n")) {
			c.Replicas[i].Pause()
			require.ErrorIs(t, lease.Check(t.Context()), lock.ErrReplication)
			c.Replicas[i].Resume()
		}
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

// What a replica has confirmed outlives the fail-over to it.
func TestReplicasBehindSentinels(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t, "appendonly no")
	c := behindSentinels(t, g)
	careful := locker(t, store(t, c, confirmed), lock.Config{})
	plain := locker(t, store(t, c, redislock.Options{}), lock.Config{})
	lease, err := careful.Lock(t.Context(), "n", lock.WithFixedLease(time.Minute))
	require.NoError(t, err)
	old, next := g.Primary(), g.Replica()
	old.Kill()
	g.AwaitPrimary(next)
	require.NoError(t, persist(t, func() error {
		_, failed := plain.Inspect(t.Context(), "n")
		return failed
	}))
	info, err := plain.Inspect(t.Context(), "n")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.Equal(t, lease.Owner(), info.Holders[0].Owner)
	_, err = plain.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, lease.Unlock(t.Context()), "a release needs no replica")
}
