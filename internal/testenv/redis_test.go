package testenv_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
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

// Wall and monotonic clock of a server are two: only the first one jumps.
func TestRedisClockJumps(t *testing.T) {
	t.Parallel()
	s, clock := testenv.RedisWithClock(t, "appendonly no")
	at := func() time.Time {
		sec, micro, found := strings.Cut(s.Must("TIME"), "\n")
		require.True(t, found)
		a, err := strconv.ParseInt(sec, 10, 64)
		require.NoError(t, err)
		b, err := strconv.ParseInt(micro, 10, 64)
		require.NoError(t, err)
		return time.Unix(a, b*1000)
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		clock.Set(ahead)
		require.WithinDuration(t, time.Now().Add(ahead), at(), time.Minute)
	}
	s.Kill()
	clock.Set(-time.Hour)
	s.Start()
	require.WithinDuration(t, time.Now().Add(-time.Hour), at(), time.Minute)
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

const redisOrphanFile = "TESTENV_REDIS_ORPHAN_FILE"

// TestRedisOrphanChild is the process that TestRedisDiesWithItsTest kills.
func TestRedisOrphanChild(t *testing.T) { //nolint:paralleltest // a process of its own, or nothing
	file := os.Getenv(redisOrphanFile)
	if file == "" {
		return
	}
	s := testenv.Redis(t)
	require.NoError(t, os.WriteFile(file+".new", []byte(s.Info("process_id")), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	<-t.Context().Done() // never: it is killed
}

func TestRedisDiesWithItsTest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("only Linux kills the children of a process that is killed")
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRedisOrphanChild$") //nolint:gosec // ourselves
	child.Env = append(os.Environ(), redisOrphanFile+"="+file, "TMPDIR="+dir)                 // it will not clean up
	require.NoError(t, child.Start())
	var raw []byte
	require.Eventually(t, func() bool {
		var err error
		raw, err = os.ReadFile(file)
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
	pid, err := strconv.Atoi(string(raw))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP), "not even a stopped one stays")
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 30*time.Second, 20*time.Millisecond)
}
