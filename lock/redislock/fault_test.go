package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// bench is a server that two lockers use: one through a proxy, one directly.
type bench struct {
	server    *testenv.RedisServer
	proxy     *testenv.Proxy
	near, far *lock.Locker // directly, and through the proxy
}

func newBench(t *testing.T, settings ...string) *bench {
	t.Helper()
	b := &bench{server: testenv.Redis(t, append([]string{"appendonly no"}, settings...)...)}
	b.proxy = testenv.NewProxy(t, b.server.Addr)
	b.near = locker(t, store(t, single(t, b.server.Addr), redislock.Options{}), lock.Config{})
	b.far = locker(t, store(t, single(t, b.proxy.Addr), redislock.Options{}), lock.Config{})
	// Every script is known, so that what follows is one call each.
	for _, l := range []*lock.Locker{b.near, b.far} {
		lease, err := l.Lock(t.Context(), "warm")
		require.NoError(t, err)
		require.NoError(t, lease.Check(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	}
	return b
}

// free waits until nobody holds or wants a name.
func (b *bench) free(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := b.near.Inspect(t.Context(), name)
		require.NoError(t, err)
		return len(info.Holders) == 0 && info.Waiters == 0
	}, time.Minute, 5*time.Millisecond)
}

func happens(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute): //nolint:forbidigo // it ends what hangs
		require.FailNow(t, "it does not happen")
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]testenv.Direction{"Requests": testenv.Requests, "Replies": testenv.Replies} {
		t.Run("Acquire/"+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lost := b.proxy.Lose(direction, 1, "EVALSHA")
			lease, err := b.far.Lock(t.Context(), "n")
			happens(t, lost)
			require.NoError(t, err, "who may wait asks again")
			require.NoError(t, lease.Check(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
			b.free(t, "n")
		})
		t.Run("TryOnce/"+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lost := b.proxy.Lose(direction, 1, "EVALSHA")
			_, err := b.far.TryLock(t.Context(), "n")
			happens(t, lost)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			b.free(t, "n")
		})
		t.Run("Renew/"+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lease, err := b.far.Lock(t.Context(), "n", lock.WithLease(3*time.Second))
			require.NoError(t, err)
			end := lease.ValidUntil()
			lost := b.proxy.Lose(direction, 1, "EVALSHA")
			happens(t, lost)
			require.Eventually(t, func() bool { return lease.ValidUntil().After(end) }, time.Minute, time.Millisecond)
			require.NoError(t, lease.Unlock(t.Context()))
		})
		t.Run("Release/"+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lease, err := b.far.Lock(t.Context(), "n")
			require.NoError(t, err)
			lost := b.proxy.Lose(direction, 1, "EVALSHA")
			require.NoError(t, lease.Unlock(t.Context()), "a release that was repeated is a release")
			happens(t, lost)
			b.free(t, "n")
		})
		t.Run("HandOff/"+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lease, err := b.far.Lock(t.Context(), "n")
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() {
				_, err := b.far.Lock(t.Context(), "n")
				got <- err
			}()
			require.Eventually(t, func() bool {
				info, err := b.near.Inspect(t.Context(), "n")
				require.NoError(t, err)
				return info.Waiters == 1
			}, time.Minute, time.Millisecond)
			b.proxy.Lose(direction, 1, "EVALSHA")
			_ = lease.Unlock(t.Context())
			require.NoError(t, <-got, "the waiter finds out that it has the lock")
		})
	}
}

// N44: whoever could not release may try again.
func TestN44UnlockAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease, err := b.far.Lock(t.Context(), "n")
	require.NoError(t, err)
	b.proxy.Cut()
	err = lease.Unlock(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrNotHeld)
	b.proxy.Pass()
	require.NoError(t, lease.Unlock(t.Context()))
	require.ErrorIs(t, lease.Unlock(t.Context()), lock.ErrReleased)
	b.free(t, "n")
}

// N05: the answer comes when nobody waits for it any more.
func TestN05HeldAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.proxy.Hold(testenv.Replies)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := b.far.Lock(ctx, "n")
		done <- err
	}()
	happens(t, held)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	b.proxy.Pass()
	b.free(t, "n")
}

// N42: an answer that is older than its lease is no lock.
func TestN42AnswerAfterTheLease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.Delay(testenv.Replies, 2*lock.MinLease)
	_, err := b.far.TryLock(t.Context(), "n", lock.WithLease(lock.MinLease))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	b.proxy.Delay(testenv.Replies, 0)
	b.free(t, "n")
}

// N38: a slow network is no reason to fail.
func TestN38SlowNetwork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.Delay(testenv.Replies, 50*time.Millisecond)
	lease, err := b.far.Lock(t.Context(), "n", lock.WithLease(5*time.Second))
	require.NoError(t, err)
	require.NoError(t, lease.Check(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
}

// N39: Unlock is bounded by its context, and then the lease ends.
func TestN39UnlockIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease, err := b.far.Lock(t.Context(), "n", lock.WithLease(time.Second))
	require.NoError(t, err)
	b.proxy.Hold(testenv.Requests)
	require.ErrorIs(t, lease.Unlock(within(t, 100*time.Millisecond)), context.DeadlineExceeded)
	b.free(t, "n")
	b.proxy.Pass()
}

// N02: the holder knows of the loss before another one has the lock.
func TestN02CutHolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, err := b.far.Lock(t.Context(), "n", lock.WithLease(time.Second))
	require.NoError(t, err)
	b.proxy.Cut()
	next, err := b.near.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.ErrorIs(t, old.Err(), lock.ErrLost)
	happens(t, old.Context().Done())
	require.Greater(t, next.Fence(), old.Fence())
	b.proxy.Pass()
	require.ErrorIs(t, old.Unlock(t.Context()), lock.ErrLost)
	require.NoError(t, next.Check(t.Context()))
}

// A server that stands still past the lease costs the lock, and no more.
func TestServerStandsStill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, err := b.near.Lock(t.Context(), "n", lock.WithLease(500*time.Millisecond))
	require.NoError(t, err)
	b.server.Pause()
	happens(t, old.Context().Done())
	require.ErrorIs(t, old.Err(), lock.ErrLost)
	b.server.Resume()
	next, err := b.far.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), old.Fence())
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease, err := b.near.Lock(t.Context(), "n")
	require.NoError(t, err)
	for range 3 {
		b.server.Must("SCRIPT", "FLUSH")
		require.NoError(t, lease.Check(t.Context()))
	}
	b.server.Must("SCRIPT", "FLUSH")
	require.NoError(t, lease.Unlock(t.Context()))
	b.server.Must("SCRIPT", "FLUSH")
	_, err = b.near.Lock(t.Context(), "n")
	require.NoError(t, err)
}

// A server that forgets everything lets two hold the lock; the fence tells them
// apart, and the first one learns of it.
func TestForgetfulServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, err := b.near.Lock(t.Context(), "n", lock.WithLease(2*time.Second))
	require.NoError(t, err)
	b.server.Must("FLUSHALL")
	next, err := b.far.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), old.Fence())
	happens(t, old.Context().Done())
	require.ErrorIs(t, old.Err(), lock.ErrLost)
	require.NoError(t, next.Check(t.Context()))
}

// A restart keeps what was synced.
func TestRestart(t *testing.T) {
	t.Parallel()
	t.Run("Synced", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "appendonly yes", "appendfsync always")
		lease, err := b.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		b.server.Kill()
		b.server.Start()
		require.NoError(t, persist(t, func() error { return lease.Check(t.Context()) }))
		_, err = b.near.TryLock(t.Context(), "n", lock.WithWait(50*time.Millisecond))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	})
	t.Run("Unsynced", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		lease, err := b.far.Lock(t.Context(), "n")
		require.NoError(t, err)
		b.server.Kill()
		b.server.Start()
		require.ErrorIs(t, persist(t, func() error { return lease.Check(t.Context()) }), lock.ErrLost)
		next, err := b.near.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.Greater(t, next.Fence(), lease.Fence())
	})
}

// persist repeats a call until it has an answer of the store.
func persist(t *testing.T, call func() error) (err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		err = call()
		trouble := (*lock.StoreError)(nil)
		return !asTrouble(err, &trouble)
	}, time.Minute, 20*time.Millisecond)
	return err
}

// N49: a server that is not there is never a lock; N30: nor is one that does not
// let us.
func TestN49NoServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.Cut()
	_, err := b.far.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	impatient := locker(t, store(t, single(t, b.server.Addr), redislock.Options{}), lock.Config{Patience: 100 * time.Millisecond})
	b.server.Kill()
	_, err = impatient.Lock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

func TestN30NoRights(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	s.Must("ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha")
	c := client(t, rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, Username: "weak", Password: "secret"})
	l := locker(t, store(t, c, redislock.Options{}), lock.Config{})
	_, err := l.Lock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired, "it does not wait for rights")
	trouble := (*lock.StoreError)(nil)
	require.True(t, asTrouble(err, &trouble))
	require.True(t, trouble.Permanent)
}

// N23, N21: what is not used leaves nothing behind, and fences grow nevertheless.
func TestN23NothingLivesForEver(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := locker(t, store(t, single(t, s.Addr), shortLived), lock.Config{Lease: time.Second})
	first, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	permit, err := l.Semaphore("n", 3).Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, permit.Unlock(t.Context()))
	require.Eventually(t, func() bool { return s.Must("DBSIZE") == "0" }, time.Minute, 10*time.Millisecond)
	next, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), first.Fence())
	_, err = l.TryLock(t.Context(), "m", lock.WithLease(time.Minute))
	require.ErrorIs(t, err, lock.ErrInvalid, "a lease must not outlive its key")
}

// N11: many names need few connections.
func TestN11FewConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before := b.proxy.Links()
	const names = 200
	got := make(chan error, names)
	held := make([]*lock.Lease, names)
	for i := range names {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		lease, err := b.near.Lock(t.Context(), name)
		require.NoError(t, err)
		held[i] = lease
		go func() {
			_, err := b.far.Lock(t.Context(), name)
			got <- err
		}()
	}
	for _, lease := range held {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	for range names {
		require.NoError(t, <-got)
	}
	require.LessOrEqual(t, b.proxy.Links(), before+4)
}
