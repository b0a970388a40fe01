package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

// The classic mistakes, each beside what this library does in the same accident.

// naive is a lock as it is often written by hand.
type naive struct{ c rueidis.Client }

func (n naive) setNX(t *testing.T, owner string) bool {
	t.Helper()
	ok, err := n.c.Do(t.Context(), n.c.B().Setnx().Key("naive").Value(owner).Build()).AsBool()
	require.NoError(t, err)
	return ok
}

func (n naive) setNXPX(t *testing.T, owner string, lease time.Duration) bool {
	t.Helper()
	err := n.c.Do(t.Context(), n.c.B().Set().Key("naive").Value(owner).Nx().Px(lease).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false
	}
	require.NoError(t, err)
	return true
}

func (n naive) del(t *testing.T) {
	t.Helper()
	require.NoError(t, n.c.Do(t.Context(), n.c.B().Del().Key("naive").Build()).Error())
}

// eventually takes the naive lock as soon as it is free.
func (n naive) eventually(t *testing.T, owner string, lease time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return n.setNXPX(t, owner, lease) }, time.Minute, 2*time.Millisecond)
}

// SETNX and then EXPIRE: whoever dies between the two holds the lock for ever.
func TestMistakeExpireAfterwards(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	n := naive{single(t, s.Addr)}
	require.True(t, n.setNX(t, "dead")) // and here it dies
	require.Equal(t, "-1", s.Must("PTTL", "naive"), "nothing will ever end it")

	dead := lock.Request{Kind: lock.Mutex, Name: "n", Owner: "dead.1", Limit: 1, Count: 1, Lease: 200 * time.Millisecond}
	ours := store(t, n.c, redislock.Options{})
	_, err := ours.Acquire(t.Context(), &dead) // and here it dies, too
	require.NoError(t, err)
	_, err = locker(t, ours, lock.Config{}).Lock(within(t, time.Minute), "n")
	require.NoError(t, err)
}

// A plain DEL: who is late deletes the lock of the next holder, and a third one
// works beside that.
func TestMistakePlainDelete(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	n := naive{single(t, s.Addr)}
	require.True(t, n.setNXPX(t, "a", 50*time.Millisecond))
	n.eventually(t, "b", time.Minute)
	n.del(t) // a is done, and late
	require.True(t, n.setNXPX(t, "c", time.Minute), "c works while b does")

	ours := store(t, n.c, redislock.Options{})
	la, lb, lc := locker(t, ours, lock.Config{}), locker(t, ours, lock.Config{}), locker(t, ours, lock.Config{})
	a, err := la.Lock(t.Context(), "n", lock.WithFixedLease(50*time.Millisecond))
	require.NoError(t, err)
	b, err := lb.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.ErrorIs(t, a.Unlock(t.Context()), lock.ErrLost)
	_, err = lc.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, b.Check(t.Context()))
}

// No renewal: work that takes longer than the lease is done by two at once.
func TestMistakeNoRenewal(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	n := naive{single(t, s.Addr)}
	require.True(t, n.setNXPX(t, "a", 50*time.Millisecond)) // and a works on
	n.eventually(t, "b", time.Minute)

	ours := store(t, n.c, redislock.Options{})
	la, lb := locker(t, ours, lock.Config{}), locker(t, ours, lock.Config{})
	a, err := la.Lock(t.Context(), "n", lock.WithLease(time.Second))
	require.NoError(t, err)
	_, err = lb.TryLock(t.Context(), "n", lock.WithWait(2500*time.Millisecond))
	require.ErrorIs(t, err, lock.ErrNotAcquired, "not in two and a half leases")
	require.NoError(t, a.Err())
}

// No fence: the late write of a holder that was paused is the last one.
func TestMistakeNoFence(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	n := naive{single(t, s.Addr)}
	require.True(t, n.setNXPX(t, "a", 50*time.Millisecond)) // and is paused
	n.eventually(t, "b", time.Minute)
	s.Must("SET", "data", "of b")
	s.Must("SET", "data", "of a") // awake again
	require.Equal(t, "of a", s.Must("GET", "data"))

	ours := store(t, n.c, redislock.Options{})
	la, lb := locker(t, ours, lock.Config{}), locker(t, ours, lock.Config{})
	a, err := la.Lock(t.Context(), "n", lock.WithFixedLease(50*time.Millisecond))
	require.NoError(t, err)
	b, err := lb.Lock(t.Context(), "n")
	require.NoError(t, err)
	write := func(lease *lock.Lease, value string) bool {
		ok, err := n.c.Do(t.Context(), n.c.B().Eval().Script(fenced).Numkeys(1).Key("guarded").
			Arg(decimal(lease.Fence()), value).Build()).AsBool()
		require.NoError(t, err)
		return ok
	}
	require.True(t, write(b, "of b"))
	require.False(t, write(a, "of a"))
	require.Equal(t, "of b", s.Must("HGET", "guarded", "value"))
}

// fenced writes only with a fence that is not smaller than the last one.
const fenced = `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1`

// Key and owner guard a write in the same slot without a fence.
func TestGuardByOwner(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	c := single(t, s.Addr)
	ours := store(t, c, redislock.Options{})
	l := locker(t, ours, lock.Config{})
	lease, err := l.Lock(t.Context(), "{account:7}")
	require.NoError(t, err)
	write := func(value string) bool {
		ok, err := c.Do(t.Context(), c.B().Eval().Script(owned).Numkeys(2).Key(ours.Key("{account:7}"), "balance{account:7}").
			Arg(string(lease.Owner()), value).Build()).AsBool()
		require.NoError(t, err)
		return ok
	}
	require.True(t, write("1"))
	require.NoError(t, l.Break(t.Context(), "{account:7}", lease.Owner()))
	require.False(t, write("2"))
	require.Equal(t, "1", s.Must("GET", "balance{account:7}"))
}

const owned = `
if redis.call('HGET', KEYS[1], 'o') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`
