package redisconn_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// Replies as servers word them, sent by a real one.
func TestReasonsOfReplies(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL})
	for reply, want := range map[string]struct {
		reason      redisconn.Reason
		notExecuted bool
	}{
		"LOADING Redis is loading the dataset in memory":                                       {redisconn.Loading, true},
		"READONLY You can't write against a read only replica. script: 0a, on @user_script:1.": {redisconn.ReadOnly, true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":     {redisconn.ReadOnly, true},
		"CLUSTERDOWN Hash slot not served":                                                     {redisconn.ClusterDown, true},
		"MOVED 3999 127.0.0.1:6381":                                                            {redisconn.Moving, true},
		"ASK 3999 127.0.0.1:6381":                                                              {redisconn.Moving, true},
		"TRYAGAIN Multiple keys request during rehashing of slot":                              {redisconn.Moving, true},
		"OOM command not allowed when used memory > 'maxmemory'.":                              {redisconn.OutOfMemory, true},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to":      {redisconn.NotSaving, true},
		"NOREPLICAS Not enough good replicas to write.":                                        {redisconn.NoReplicas, true},
		"BUSY Redis is busy running a script.":                                                 {redisconn.Busy, true},
		"NOSCRIPT No matching script. Please use EVAL.":                                        {redisconn.NoScript, true},
		"NOAUTH Authentication required.":                                                      {redisconn.Denied, true},
		"WRONGPASS invalid username-password pair or user is disabled.":                        {redisconn.Denied, true},
		"NOPERM this user has no permissions to access one of the keys used as arguments":      {redisconn.Denied, false},
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 0a":         {redisconn.Failed, false},
		"ERR user_script:1: attempt to index a nil value script: 0a, on @user_script:1.":       {redisconn.Failed, false},
		"NOGROUP No such key 'k' or consumer group 'g' in XREADGROUP with GROUP option":        {redisconn.Failed, false},
		"LOADINGX": {redisconn.Failed, false},
	} {
		err := call(t, client, "EVAL", "return redis.error_reply(ARGV[1])", "0", reply)
		e, ok := errors.AsType[*redisconn.Error](err)
		require.True(t, ok, reply)
		require.Equal(t, want.reason, e.Reason, reply)
		require.Equal(t, want.notExecuted, errors.Is(err, redisconn.ErrNotExecuted), reply)
		require.ErrorIs(t, err, redisconn.ErrUnavailable)
		require.Equal(t, "EVAL", e.Call)
		require.Contains(t, err.Error(), strings.TrimPrefix(reply, "ERR "))
		wrapped := fmt.Errorf("take: %w", err)
		require.Equal(t, want.reason, redisconn.ReasonOf(wrapped))
		require.Equal(t, wrapped, redisconn.Trouble("other", wrapped), "trouble is named once")
	}
}

func TestWhatIsNoTrouble(t *testing.T) {
	t.Parallel()
	require.NoError(t, redisconn.Trouble("GET", nil))
	require.Equal(t, error(rueidis.Nil), redisconn.Trouble("GET", rueidis.Nil))
	require.Equal(t, redisconn.Failed, redisconn.ReasonOf(errors.New("other")))
}

func TestOtherErrors(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL})
	require.NoError(t, call(t, client, "SET", "k", "x"))
	_, err := client.Do(t.Context(), client.B().Get().Key("k").Build()).AsInt64()
	require.Equal(t, redisconn.Failed, redisconn.ReasonOf(redisconn.Trouble("GET", err)))
	require.NotErrorIs(t, redisconn.Trouble("GET", err), redisconn.ErrNotExecuted)
	require.Equal(t, redisconn.Unreachable, redisconn.ReasonOf(redisconn.Trouble("GET", rueidis.ErrNoSlot)))

	s.Kill()
	require.Eventually(t, func() bool { // once the end of the old connection is noticed
		return errors.Is(call(t, client, "SET", "k", "x"), redisconn.ErrNotExecuted)
	}, patience, 5*time.Millisecond)
	require.Equal(t, redisconn.Unreachable, redisconn.ReasonOf(call(t, client, "SET", "k", "x")))
	s.Start()
	eventually(t, client, "SET", "k", "x")
	client.Close()
	err = call(t, client, "SET", "k", "x")
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
}

// writer writes what it is told, one key after the other, deleting first: a
// deletion is allowed where growth is not.
const writer = "redis.call('DEL', KEYS[1]) for i = 1, 3 do redis.call('HSET', KEYS[1], i, ARGV[1]) end return 1"

func write(t *testing.T, client rueidis.Client) error {
	t.Helper()
	_, err := redisconn.NewScript("writer", writer, redisconn.ScriptOptions{Timeout: patience}).Run(t.Context(), client, []string{"k"}, []string{"v"})
	return err
}

// refuses expects that nothing of the script was done.
func refuses(t *testing.T, err error, reason redisconn.Reason) {
	t.Helper()
	require.ErrorIs(t, err, redisconn.ErrNotExecuted)
	require.Equal(t, reason, redisconn.ReasonOf(err), "%v", err)
}

func TestReplicaRefusesScripts(t *testing.T) {
	t.Parallel()
	primary := plain(t)
	primary.Must("HSET", "k", "old", "1")
	replica := plain(t, testenv.ReplicaOf(primary))
	replica.AwaitInfo("master_link_status", "up")
	refuses(t, write(t, open(t, redisconn.Options{URL: replica.URL})), redisconn.ReadOnly)
	require.Equal(t, "old\n1", replica.Must("HGETALL", "k"))
}

func TestLonePrimaryRefusesScripts(t *testing.T) {
	t.Parallel()
	s := plain(t)
	s.Must("HSET", "k", "old", "1")
	s.Must("CONFIG", "SET", "min-replicas-to-write", "1")
	refuses(t, write(t, open(t, redisconn.Options{URL: s.URL})), redisconn.NoReplicas)
	require.Equal(t, "old\n1", s.Must("HGETALL", "k"))
}

// A full server refuses the first write that may grow. One that came after a
// write of another kind, such as the deletion here, passes: a script that has
// begun ends.
func TestFullServerRefusesScripts(t *testing.T) {
	t.Parallel()
	s := plain(t)
	s.Must("HSET", "k", "old", "1")
	s.Must("CONFIG", "SET", "maxmemory", "1")
	client := open(t, redisconn.Options{URL: s.URL})
	grow := redisconn.NewScript("grow", "redis.call('HSET', KEYS[1], 'new', 1) return 1", redisconn.ScriptOptions{Timeout: patience})
	_, err := grow.Run(t.Context(), client, []string{"k"}, nil)
	refuses(t, err, redisconn.OutOfMemory)
	require.Equal(t, "old\n1", s.Must("HGETALL", "k"))
	require.NoError(t, write(t, client))
	require.Equal(t, "3", s.Must("HLEN", "k"))
}

func TestServerWithAForeverScript(t *testing.T) {
	t.Parallel()
	s := plain(t, "busy-reply-threshold 1")
	client := open(t, redisconn.Options{URL: s.URL})
	ended := make(chan error, 1)
	go func() { ended <- s.Do(t.Context(), "EVAL", "while true do end", "0").Error() }()
	require.Eventually(t, func() bool { return redisconn.ReasonOf(write(t, client)) == redisconn.Busy }, patience, 5*time.Millisecond)
	refuses(t, call(t, client, "SET", "refused", "v"), redisconn.Busy)
	require.NoError(t, call(t, client, "SCRIPT", "KILL"))
	require.Error(t, <-ended)
	require.Equal(t, "0", s.Must("EXISTS", "refused"))
}

// The server is slowed down while it reads its snapshot after a start.
func TestLoadingServer(t *testing.T) {
	t.Parallel()
	s := plain(t, "rdbcompression no")
	for i := range 40 {
		s.Must("SET", "k"+strconv.Itoa(i), strings.Repeat(strconv.Itoa(i), 1000))
	}
	s.Must("SAVE")
	s.Kill()
	s.Configure("key-load-delay 100000", "loading-process-events-interval-bytes 1024")
	s.Begin()
	s.AwaitListening()
	client := open(t, redisconn.Options{URL: s.URL})
	err := call(t, client, "SET", "k1", "v")
	require.Equal(t, redisconn.Loading, redisconn.ReasonOf(err), "%v", err)
	require.ErrorIs(t, err, redisconn.ErrNotExecuted)
	_, err = redisconn.Check(t.Context(), client, nil)
	require.Equal(t, redisconn.Loading, redisconn.ReasonOf(err), "%v", err)
	require.NoError(t, call(t, client, "CONFIG", "SET", "key-load-delay", "0"))
	eventually(t, client, "SET", "k1", "v")
	require.Equal(t, "40", s.Must("DBSIZE"))
}

func TestClusterDown(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no")
	client := open(t, redisconn.Options{URL: c.URL()})
	var own string
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if c.Owner(key) == c.Nodes[0] {
			own = key
		}
	}
	c.Nodes[1].Kill()
	require.Eventually(t, func() bool { return redisconn.ReasonOf(call(t, client, "SET", own, "v")) == redisconn.ClusterDown },
		patience, 20*time.Millisecond, "a cluster that has lost slots serves none")
	err := call(t, client, "SET", own, "v")
	refuses(t, err, redisconn.ClusterDown)
}
