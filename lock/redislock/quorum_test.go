package redislock_test

import (
	"testing"

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
