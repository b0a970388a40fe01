package redislock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

func behindSentinels(t *testing.T, g *testenv.SentinelGroup) rueidis.Client {
	t.Helper()
	return client(t, rueidis.ClientOption{InitAddress: g.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: g.Name}})
}

// crowd locks and unlocks one name from several lockers until it is stopped, and
// returns how to stop it. Every holder writes to a register with its fence.
func crowd(t *testing.T, s lock.Store, h *locktest.History, r *locktest.Register) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for range 3 {
		l := locker(t, s, lock.Config{})
		for range 3 {
			work.Go(func() {
				for ctx.Err() == nil {
					lease, err := h.Lock(ctx, l, "n", lock.WithLease(2*time.Second))
					if err != nil {
						continue
					}
					if r.Write(lease.Fence(), string(lease.Owner())) {
						mu.Lock()
						written++
						mu.Unlock()
					}
					wait(ctx, 5*time.Millisecond) // histories take long to look at
					_ = h.Unlock(context.WithoutCancel(ctx), lease)
				}
			})
		}
	}
	return func() int {
		cancel()
		work.Wait()
		return written
	}
}

// A fail-over in the middle of a crowd: the lock goes on, the register never goes
// back, and no two hold the lock but those whose grant the new primary may have
// missed.
func TestFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t, "appendonly no")
	var register locktest.Register
	s := store(t, behindSentinels(t, g), redislock.Options{})
	history := locktest.NewHistory()
	stop := crowd(t, s, history, &register)
	written := func(after lock.Fence) lock.Fence {
		var fence lock.Fence
		require.Eventually(t, func() bool { _, fence = register.Read(); return fence > after }, 60*time.Second, time.Millisecond)
		return fence
	}
	before := written(0)
	old, next := g.Primary(), g.Replica()
	history.Damage(func() {
		old.Kill()
		g.AwaitPrimary(next)
	})
	_, now := register.Read()
	require.GreaterOrEqual(t, now, before)
	written(now)
	require.Positive(t, stop())
	history.Require(t)
}

// N24: a replica that has not heard of the last grant is promoted. Two hold the
// lock then, which no setting can prevent; the fence is larger nevertheless, and
// the first holder's write is refused.
func TestN24UnsyncedReplica(t *testing.T) {
	t.Parallel()
	g := testenv.Sentinel(t, "appendonly no")
	s := store(t, behindSentinels(t, g), redislock.Options{})
	a, b := locker(t, s, lock.Config{}), locker(t, s, lock.Config{})
	first, err := a.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	old, next := g.Primary(), g.Replica()
	next.Pause()
	old.Must("CLIENT", "KILL", "TYPE", "replica") // else the grant waits in its socket
	lost, err := a.Lock(t.Context(), "n", lock.WithFixedLease(time.Minute))
	require.NoError(t, err)
	old.Kill()
	next.Resume()
	g.AwaitPrimary(next)
	second, err := b.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, lost.Err(), "the first holder cannot know")
	require.Greater(t, second.Fence(), lost.Fence())
	var register locktest.Register
	require.True(t, register.Write(second.Fence(), "second"))
	require.False(t, register.Write(lost.Fence(), "first"), "the fence stops it")
	require.ErrorIs(t, lost.Check(t.Context()), lock.ErrLost)
}

// N15, N51: a grant that no replica confirms is none, and leaves nothing behind.
func TestN15N51ReplicaDoesNotConfirm(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t, "appendonly no")
	replica := testenv.Redis(t, testenv.ReplicaOf(primary), "appendonly no")
	replica.AwaitInfo("master_link_status", "up")
	careful := locker(t, store(t, single(t, primary.Addr), redislock.Options{Replicas: 1}), lock.Config{})
	other := locker(t, store(t, single(t, primary.Addr), redislock.Options{}), lock.Config{})
	// A replica that has just joined confirms with its next heartbeat only.
	lease, err := careful.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, lease.Check(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	replica.Pause()
	for range 3 {
		require.Eventually(t, func() bool {
			info, failed := other.Inspect(t.Context(), "n")
			return failed == nil && len(info.Holders) == 0
		}, time.Minute, time.Millisecond)
		_, err = careful.TryLock(t.Context(), "n")
		require.ErrorIs(t, err, lock.ErrReplication)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	}
	_, err = other.Lock(within(t, 10*time.Second), "n")
	require.NoError(t, err, "another client locks")
	replica.Resume()
}

// A grant that a release hands to a waiter must be confirmed as well.
func TestReplicaDoesNotConfirmAHandOff(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.ReadWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			primary := testenv.Redis(t, "appendonly no")
			replica := testenv.Redis(t, testenv.ReplicaOf(primary), "appendonly no")
			replica.AwaitInfo("master_link_status", "up")
			l := locker(t, store(t, single(t, primary.Addr), redislock.Options{Replicas: 1}), lock.Config{})
			take, look := l.Lock, l.Inspect
			if kind == lock.ReadWrite {
				take = func(ctx context.Context, name string, o ...lock.Option) (*lock.Lease, error) {
					return l.ReadWrite(name).Lock(ctx, o...)
				}
				look = func(ctx context.Context, name string) (lock.Info, error) { return l.ReadWrite(name).Inspect(ctx) }
			}
			first, err := take(t.Context(), "n")
			require.NoError(t, err)
			got := make(chan *lock.Lease, 1)
			go func() {
				lease, _ := take(t.Context(), "n")
				got <- lease
			}()
			require.Eventually(t, func() bool {
				info, failed := look(t.Context(), "n")
				return failed == nil && info.Waiters == 1
			}, time.Minute, time.Millisecond)
			replica.Pause()
			require.NoError(t, first.Unlock(t.Context()))
			require.Eventually(t, func() bool {
				info, failed := look(t.Context(), "n")
				return failed == nil && info.Waiters == 0 && len(info.Holders) == 1
			}, time.Minute, time.Millisecond, "the waiter has it in the primary")
			select {
			case <-got:
				require.FailNow(t, "a lease that no replica has")
			case <-within(t, 300*time.Millisecond).Done():
			}
			replica.Resume()
			next := <-got
			require.NotNil(t, next)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// A slot moves to another master while its lock is held and wanted.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, "appendonly no")
	s := store(t, client(t, rueidis.ClientOption{InitAddress: c.Addrs()}), redislock.Options{})
	a, b := locker(t, s, lock.Config{}), locker(t, s, lock.Config{})
	held, err := a.Lock(t.Context(), "n")
	require.NoError(t, err)
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, _ := b.Lock(t.Context(), "n")
		got <- lease
	}()
	require.Eventually(t, func() bool {
		info, failed := a.Inspect(t.Context(), "n")
		return failed == nil && info.Waiters == 1
	}, time.Minute, time.Millisecond)
	from := c.Owner(s.Key("n"))
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	c.MoveSlot(s.Key("n"), from, to, nil)
	require.NoError(t, persist(t, func() error { return held.Check(t.Context()) }))
	require.NoError(t, held.Unlock(t.Context()))
	next := <-got
	require.NotNil(t, next)
	require.Greater(t, next.Fence(), held.Fence())
}
