package redisconn_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

func incr() *redisconn.Script {
	return redisconn.NewScript("incr", "return redis.call('INCR', KEYS[1])", redisconn.ScriptOptions{Timeout: patience})
}

func TestLostReplyIsExecutedOnceAndNotRepeated(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client, p := through(t, s)
	script := incr()
	msg, err := script.Run(t.Context(), client, []string{"n"}, nil)
	require.NoError(t, err)
	n, err := msg.AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	lost := p.Lose(testenv.Replies, 1, "EVALSHA")
	_, err = script.Run(t.Context(), client, []string{"n"}, nil)
	happens(t, lost)
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
	require.NotErrorIs(t, err, redisconn.ErrNotExecuted)
	require.Equal(t, redisconn.Lost, redisconn.ReasonOf(err))
	require.Equal(t, "2", s.Must("GET", "n"))

	lost = p.Lose(testenv.Replies, 1, "INCRBY")
	err = call(t, client, "INCRBY", "n", "1")
	happens(t, lost)
	require.Equal(t, redisconn.Lost, redisconn.ReasonOf(err))
	require.Equal(t, "3", s.Must("GET", "n"))

	lost = p.Lose(testenv.Replies, 1, "GET")
	err = call(t, client, "GET", "n")
	happens(t, lost)
	require.Equal(t, redisconn.Lost, redisconn.ReasonOf(err), "reads are not repeated either: the caller knows how long it may wait")
	require.NoError(t, call(t, client, "GET", "n"))
}

// The server has forgotten the script; the answer to the second, whole sending
// gets lost.
func TestLostReplyToTheWholeScript(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client, p := through(t, s)
	lost := p.Lose(testenv.Replies, 1, "return redis.call('INCR'")
	_, err := incr().Run(t.Context(), client, []string{"n"}, nil)
	happens(t, lost)
	require.NotErrorIs(t, err, redisconn.ErrNotExecuted)
	require.Equal(t, redisconn.Lost, redisconn.ReasonOf(err))
	require.Equal(t, "1", s.Must("GET", "n"))
}

func TestLostRequestLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client, p := through(t, s)
	lost := p.Lose(testenv.Requests, 1, "EVALSHA")
	_, err := incr().Run(t.Context(), client, []string{"n"}, nil)
	happens(t, lost)
	require.NotErrorIs(t, err, redisconn.ErrNotExecuted, "nobody here can know")
	require.Empty(t, s.Must("GET", "n"))
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client, p := through(t, s)
	held := p.Hold(testenv.Replies)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held
		cancel()
	}()
	_, err := incr().Run(ctx, client, []string{"n"}, nil)
	require.Equal(t, redisconn.Cancelled, redisconn.ReasonOf(err))
	require.NotErrorIs(t, err, redisconn.ErrNotExecuted)

	short := redisconn.NewScript("short", "return redis.call('INCR', KEYS[1])", redisconn.ScriptOptions{Timeout: 20 * time.Millisecond})
	_, err = short.Run(t.Context(), client, []string{"n"}, nil)
	require.Equal(t, redisconn.Timeout, redisconn.ReasonOf(err))
	require.NotErrorIs(t, err, redisconn.ErrNotExecuted)

	_, err = incr().Run(ctx, client, []string{"n"}, nil)
	require.ErrorIs(t, err, redisconn.ErrNotExecuted, "its time was over before anything was sent")
	require.Equal(t, redisconn.Cancelled, redisconn.ReasonOf(err))
}

// A caller whose time is up must not take the connection from the others.
func TestImpatientCallerDisturbsNobody(t *testing.T) {
	t.Parallel()
	s := plain(t)
	p := testenv.NewProxy(t, s.Addr)
	client := open(t, redisconn.Options{URL: "redis://" + p.Addr, CallTimeout: time.Minute})
	require.Eventually(t, func() bool { // calls choose one of two connections
		return call(t, client, "SET", "impatient", "0") == nil && p.Links() == 2
	}, patience, time.Millisecond)
	held := p.Hold(testenv.Replies)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	impatient, patient := make(chan error, 1), make(chan error, 8)
	go func() { impatient <- client.Do(ctx, client.B().Incr().Key("impatient").Build()).Error() }()
	happens(t, held)
	for i := range cap(patient) {
		key := "patient" + strconv.Itoa(i)
		forwarded := p.Forwarded(key)
		go func() { patient <- call(t, client, "INCR", key) }()
		select { // with a connection of its own for the first call, some are never sent
		case <-forwarded:
		case err := <-patient:
			t.Fatalf("a call ended with the first one: %v", err)
		}
	}
	require.ErrorIs(t, <-impatient, context.DeadlineExceeded)
	p.Pass()
	for range cap(patient) {
		require.NoError(t, <-patient)
	}
	require.Equal(t, "1", s.Must("GET", "impatient"))
}

// A server that hangs with open connections is given up, and used again later.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL, CallTimeout: 2 * time.Second})
	require.NoError(t, call(t, client, "SET", "k", "v"))
	s.Pause()
	err := call(t, client, "SET", "k", "w")
	require.ErrorIs(t, err, redisconn.ErrUnavailable)
	require.Equal(t, redisconn.Timeout, redisconn.ReasonOf(err), "long before the caller's own deadline")
	s.Resume()
	eventually(t, client, "SET", "k", "x")
}

func TestScript(t *testing.T) {
	t.Parallel()
	s := plain(t)
	client := open(t, redisconn.Options{URL: s.URL})
	type seen struct {
		name string
		took time.Duration
		err  error
	}
	var calls []seen
	script := redisconn.NewScript("echo", "if ARGV[1] == '' then return nil end return {ARGV[1], KEYS[2]}", redisconn.ScriptOptions{
		Observe: func(name string, took time.Duration, err error) { calls = append(calls, seen{name, took, err}) },
	})
	require.Equal(t, "echo", script.Name())
	ask := func(keys []string, word string) (rueidis.RedisMessage, error) {
		return script.Run(t.Context(), client, keys, []string{word})
	}
	for range 2 {
		msg, err := ask([]string{"{k}1", "{k}2"}, "hello")
		require.NoError(t, err)
		words, err := msg.AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{"hello", "{k}2"}, words)
		s.Must("SCRIPT", "FLUSH")
	}
	msg, err := ask([]string{"k", "k"}, "")
	require.NoError(t, err)
	require.True(t, msg.IsNil())
	for _, keys := range [][]string{{"a", "b"}, {"{a}", "{b}"}, {"{a}x", "a{x}"}, {"{}a", "{}b"}} {
		_, err = ask(keys, "x")
		require.ErrorContains(t, err, "one hash tag")
		require.ErrorIs(t, err, redisconn.ErrNotExecuted)
	}
	_, err = ask([]string{"a{x}b{y}", "{x}"}, "x")
	require.NoError(t, err)
	require.Len(t, calls, 8)
	require.Equal(t, "echo", calls[0].name)
	require.Positive(t, calls[0].took)
	require.NoError(t, calls[0].err)
	require.ErrorIs(t, calls[3].err, redisconn.ErrUnavailable)
}
