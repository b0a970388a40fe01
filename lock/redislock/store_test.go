package redislock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// shortLived are options of a store whose keys do not live long.
var shortLived = redislock.Options{Retention: 2 * time.Second}

// A lease that its key might not outlive is not given, by no way.
func TestLeaseBeyondRetention(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := locker(t, store(t, single(t, s.Addr), shortLived), lock.Config{Lease: time.Second})
	_, err := l.TryLock(t.Context(), "n", lock.WithLease(time.Minute))
	require.ErrorIs(t, err, lock.ErrInvalid)
	mutex, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	reader, err := l.ReadWrite("n").RLock(t.Context())
	require.NoError(t, err)
	for _, lease := range []*lock.Lease{mutex, reader} {
		require.ErrorIs(t, lease.Extend(t.Context(), time.Minute), lock.ErrInvalid)
		require.NoError(t, lease.Check(t.Context()), "it is held as before")
	}
}

// life is for how long a key lives.
func life(t *testing.T, s *testenv.RedisServer, key string) time.Duration {
	t.Helper()
	ms, err := strconv.ParseInt(s.Must("PTTL", key), 10, 64)
	require.NoError(t, err)
	require.Positive(t, ms, "%s is not there, or for ever", key)
	return time.Duration(ms) * time.Millisecond
}

// A lease that is renewed for longer than keys live is held all the same.
func TestLeaseOutlivesRetention(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := locker(t, store(t, single(t, s.Addr), shortLived), lock.Config{Lease: time.Second})
	mutex, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	reader, err := l.ReadWrite("n").RLock(t.Context())
	require.NoError(t, err)
	late := time.Now().Add(shortLived.Retention + 2*time.Second)
	for _, lease := range []*lock.Lease{mutex, reader} {
		require.Eventually(t, func() bool { return lease.ValidUntil().After(late) }, time.Minute, time.Millisecond)
		require.NoError(t, lease.Check(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// Whoever lets keys live for a short time does not shorten what others hold or
// wait for.
func TestShorterRetentionBesideALonger(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	c := single(t, s.Addr)
	long, short := store(t, c, redislock.Options{}), store(t, c, shortLived)
	for kind, keys := range map[lock.Kind][]string{
		lock.Mutex:     {"lk:m:{n}", "lk:mq:{n}", "lk:mw:{n}"},
		lock.ReadWrite: {"lk:s:{n}", "lk:sh:{n}", "lk:sq:{n}", "lk:sw:{n}"},
	} {
		ask := func(on *redislock.Store, owner string, count int64, times time.Duration) *lock.Request {
			r := &lock.Request{Kind: kind, Name: "n", Owner: lock.Owner(owner), By: owner[:1], Limit: 2, Count: count, Lease: times, Queue: times}
			_, err := on.Acquire(t.Context(), r)
			require.NoError(t, err)
			return r
		}
		one := ask(long, "a.1", 1, time.Hour)
		ask(long, "a.2", 2, time.Hour)
		ask(short, "b.1", 2, time.Second)
		two := ask(short, "b.2", 1, time.Second)
		two.Barging = true
		_, err := short.Acquire(t.Context(), two)
		require.NoError(t, err)
		_, err = short.Renew(t.Context(), two)
		require.NoError(t, err)
		_, err = short.Release(t.Context(), two)
		require.NoError(t, err)
		ok, err := long.Renew(t.Context(), one)
		require.NoError(t, err)
		require.True(t, ok)
		for _, key := range keys {
			require.Greater(t, life(t, s, key), 2*time.Hour, key)
		}
		_, err = short.Release(t.Context(), one) // which hands it to a.2
		require.NoError(t, err)
		require.Greater(t, life(t, s, keys[0]), 2*time.Hour)
	}
}

// On a server whose memory is full nobody gets a lock, but what is held is kept,
// given back and handed on.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	full := store(t, single(t, s.Addr), redislock.Options{})
	l := locker(t, full, lock.Config{Patience: time.Minute}) // who waits may ask while nobody has released yet
	mutex, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	reader, err := l.ReadWrite("n").RLock(t.Context())
	require.NoError(t, err)
	next := make(chan error, 1)
	go func() {
		_, failed := l.Lock(t.Context(), "n")
		next <- failed
	}()
	require.Eventually(t, func() bool {
		info, failed := l.Inspect(t.Context(), "n")
		return failed == nil && info.Waiters == 1
	}, time.Minute, time.Millisecond)
	s.Must("CONFIG", "SET", "maxmemory", "1mb")
	for _, lease := range []*lock.Lease{mutex, reader} {
		require.NoError(t, lease.Check(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.NoError(t, <-next)
	_, err = locker(t, full, lock.Config{Patience: 50 * time.Millisecond}).TryLock(t.Context(), "m")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// Without the right to publish nobody is told, and everything else works.
func TestNoChannelRights(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	s.Must("ACL", "SETUSER", "weak", "on", ">secret", "~*", "resetchannels", "+@all")
	c := client(t, rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, Username: "weak", Password: "secret"})
	a := locker(t, store(t, c, redislock.Options{}), lock.Config{})
	b := locker(t, store(t, c, redislock.Options{}), lock.Config{Waiter: 200 * time.Millisecond})
	for kind, take := range map[lock.Kind]func(*lock.Locker) (*lock.Lease, error){
		lock.Mutex:     func(l *lock.Locker) (*lock.Lease, error) { return l.Lock(t.Context(), "n") },
		lock.ReadWrite: func(l *lock.Locker) (*lock.Lease, error) { return l.ReadWrite("n").Lock(t.Context()) },
	} {
		held, err := take(a)
		require.NoError(t, err)
		next := make(chan error, 1)
		go func() {
			_, err := take(b)
			next <- err
		}()
		require.Eventually(t, func() bool {
			info, err := a.Inspect(t.Context(), "n")
			if kind == lock.ReadWrite {
				info, err = a.ReadWrite("n").Inspect(t.Context())
			}
			return err == nil && info.Waiters == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-next)
	}
}

// Metadata are bytes, also of a waiter to whom a release hands the lock.
func TestMetadataOfAWaiter(t *testing.T) {
	t.Parallel()
	const odd = "w\x00b:c\n\xff"
	s := testenv.Redis(t, "appendonly no")
	ours := store(t, single(t, s.Addr), redislock.Options{})
	for _, kind := range []lock.Kind{lock.Mutex, lock.ReadWrite} {
		ask := func(owner lock.Owner) *lock.Request {
			r := &lock.Request{Kind: kind, Name: "n", Owner: owner, By: "a", Limit: 1, Count: 1, Lease: time.Minute, Queue: time.Minute, Metadata: odd}
			_, err := ours.Acquire(t.Context(), r)
			require.NoError(t, err)
			return r
		}
		first := ask("a.1")
		ask("a.2")
		for _, owner := range []lock.Owner{"a.1", "a.2"} {
			info, err := ours.Inspect(t.Context(), kind, "n")
			require.NoError(t, err)
			require.Len(t, info.Holders, 1)
			require.Equal(t, owner, info.Holders[0].Owner)
			require.Equal(t, odd, info.Holders[0].Metadata)
			_, err = ours.Release(t.Context(), first)
			require.NoError(t, err)
		}
	}
}
