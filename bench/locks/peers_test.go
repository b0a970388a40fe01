package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
	ours "github.com/doorbuster/doorbuster/lock/redislock"
)

// peer is a library behind one face: section runs fn while it holds the lock.
type peer func(ctx context.Context, name string, fn func()) error

const lease = 8 * time.Second

// rueidisClient is what docs/locks.md advises.
func rueidisClient(b *testing.B, addr string) rueidis.Client {
	b.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		AlwaysPipelining: true, PipelineMultiplex: -1, MaxFlushDelay: 20 * time.Microsecond,
	})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

func goredisClient(b *testing.B, addr string) *goredis.Client {
	b.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 80})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func ourLocker(b *testing.B, store lock.Store) peer {
	b.Helper()
	l, err := lock.New(store, lock.Config{Lease: lease})
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close(context.WithoutCancel(b.Context())) })
	return func(ctx context.Context, name string, fn func()) error {
		held, err := l.Lock(ctx, name)
		if err != nil {
			return err
		}
		fn()
		return held.Unlock(ctx)
	}
}

func doorbuster(b *testing.B, addr string) peer {
	b.Helper()
	store, err := ours.New(rueidisClient(b, addr), ours.Options{})
	require.NoError(b, err)
	return ourLocker(b, store)
}

func doorbusterQuorum(b *testing.B, addrs []string) peer {
	b.Helper()
	var clients []rueidis.Client
	for _, addr := range addrs {
		clients = append(clients, rueidisClient(b, addr))
	}
	store, err := ours.NewQuorum(clients, ours.Options{})
	require.NoError(b, err)
	return ourLocker(b, store)
}

// redsyncOf is redsync with its own choice of delays, and as many tries as it takes.
func redsyncOf(b *testing.B, addrs ...string) peer {
	b.Helper()
	var pools []redsyncpool.Pool
	for _, addr := range addrs {
		pools = append(pools, redsyncredis.NewPool(goredisClient(b, addr)))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, name string, fn func()) error {
		m := rs.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1<<20))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		fn()
		if ok, err := m.UnlockContext(ctx); err != nil || !ok {
			return errors.Join(errors.New("redsync: not unlocked"), err)
		}
		return nil
	}
}

// redislockOf is redislock as its examples have it: asking again every 100 ms.
func redislockOf(b *testing.B, addr string) peer {
	b.Helper()
	c := redislock.New(goredisClient(b, addr))
	return func(ctx context.Context, name string, fn func()) error {
		held, err := c.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		if err != nil {
			return err
		}
		fn()
		return held.Release(ctx)
	}
}
