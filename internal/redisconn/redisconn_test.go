package redisconn_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// patience is more than a busy machine needs.
const patience = 20 * time.Second

// open connects as the product does, but with more patience.
func open(t *testing.T, o redisconn.Options) rueidis.Client {
	t.Helper()
	if o.CallTimeout == 0 {
		o.CallTimeout = patience
	}
	client, err := redisconn.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// call sends one command and names the trouble with it.
func call(t *testing.T, client rueidis.Client, words ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := client.B().Arbitrary(words[0])
	if len(words) > 1 {
		cmd = cmd.Keys(words[1])
	}
	if len(words) > 2 {
		cmd = cmd.Args(words[2:]...)
	}
	return redisconn.Trouble(words[0], client.Do(ctx, cmd.Build()).Error())
}

// eventually repeats a call until it succeeds: a client learns of a new topology
// by itself, some time later.
func eventually(t *testing.T, client rueidis.Client, words ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return call(t, client, words...) == nil }, patience, 20*time.Millisecond)
}

// plain starts a server that writes nothing to the disk.
func plain(t *testing.T, settings ...string) *testenv.RedisServer {
	t.Helper()
	return testenv.Redis(t, append([]string{"appendonly no"}, settings...)...)
}

// through opens a client that goes through a proxy.
func through(t *testing.T, s *testenv.RedisServer) (rueidis.Client, *testenv.Proxy) {
	t.Helper()
	p := testenv.NewProxy(t, s.Addr)
	return open(t, redisconn.Options{URL: "redis://" + p.Addr}), p
}

func happens(t *testing.T, what <-chan struct{}) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-what:
	case <-limit.C:
		t.Fatal("it did not happen")
	}
}
