package testenv_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

func TestRedisKeepsItsDataOverACrash(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendfsync always")
	require.Equal(t, "OK", s.Must("SET", "k", "v"))
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, s.Do(ctx, "GET", "k").Error())
	s.Start()
	require.Equal(t, "v", s.Must("GET", "k"))
	require.Empty(t, s.Must("GET", "other"))
	require.Equal(t, "maxmemory-policy\nnoeviction", s.Must("CONFIG", "GET", "maxmemory-policy"))
	require.Equal(t, "1", s.Info("aof_enabled"))
	s.Stop()
	s.Configure("maxmemory-policy allkeys-lru")
	s.Start()
	require.Equal(t, "allkeys-lru", s.Info("maxmemory_policy"))
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	require.Equal(t, "PONG", s.Must("PING"))
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Do(ctx, "INCR", "n").Error(), context.DeadlineExceeded)
	s.Resume()
	require.Equal(t, "PONG", s.Must("PING"))
}

func TestReplicaFollows(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	primary.Must("SET", "k", "v")
	replica := testenv.Redis(t, testenv.ReplicaOf(primary))
	replica.AwaitInfo("master_link_status", "up")
	require.Equal(t, "v", replica.Must("GET", "k"))
	require.Equal(t, "slave", replica.Info("role"))
}

func TestClusterWithReplicas(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t)
	for _, key := range []string{"a", "b", "c", "{x}1", "foo", "bar"} {
		require.Equal(t, "OK", c.Owner(key).Must("SET", key, "1"))
	}
	c.AddReplicas()
	require.Len(t, c.Replicas, 3)
	for _, r := range c.Replicas {
		require.Equal(t, "slave", r.Info("role"))
	}
}

func TestSentinelPromotesTheReplica(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t)
	first, second := g.Primary(), g.Replica()
	require.Equal(t, "OK", first.Must("SET", "k", "v"))
	require.Equal(t, "1", first.Must("WAIT", "1", "5000"))
	first.Kill()
	g.AwaitPrimary(second)
	require.Equal(t, "v", second.Must("GET", "k"))
	require.Same(t, second, g.Primary())
	require.Same(t, first, g.Replica())
}
