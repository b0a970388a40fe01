package redislimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

func rate(a limit.Algorithm, quota int64, window time.Duration) limit.Rate {
	return limit.Rate{Name: "r", Algorithm: a, Quota: quota, Window: window}
}

func counting(quota int64, window time.Duration) []limit.Rate {
	return []limit.Rate{rate(limit.FixedWindow, quota, window), rate(limit.SlidingWindow, quota, window), rate(limit.TokenBucket, quota, window)}
}

func allow(t *testing.T, l *redislimit.Limiter, r limit.Rate) limit.Decision {
	t.Helper()
	d, err := l.Allow(t.Context(), "s", 1, r)
	require.NoError(t, err)
	require.False(t, d.Degraded)
	return d
}

func acquire(t *testing.T, l *redislimit.Limiter, r limit.Rate) limit.Slot {
	t.Helper()
	slot, d, err := l.Acquire(t.Context(), "s", r)
	require.NoError(t, err)
	require.False(t, d.Degraded)
	return slot
}

// keys returns all keys of a server.
func keys(s *testenv.RedisServer) []string {
	return strings.Fields(s.Must("KEYS", "*"))
}

// Every key has an expiry after every kind of call, and one that was taken away
// comes back, also where the call is refused.
func TestC45_L9_EveryKeyExpires(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{MaxDeny: -1})
	leaky, slots := rate(limit.LeakyBucket, 2, time.Hour), rate(limit.Concurrency, 2, time.Hour)
	for round := range 3 {
		for _, r := range append(counting(2, time.Hour), leaky) {
			for range 3 {
				allow(t, l, r)
			}
			require.NoError(t, l.Refund(t.Context(), "s", 1, r))
			_, err := l.Peek(t.Context(), "s", r)
			require.NoError(t, err)
			require.True(t, round > 0 || allow(t, l, r).Allowed || r == leaky)
			allow(t, l, r)
		}
		for range 3 {
			acquire(t, l, slots)
		}
		found := keys(s)
		require.Len(t, found, 5)
		for _, key := range found {
			ttl := s.Must("PTTL", key)
			require.False(t, strings.HasPrefix(ttl, "-"), "%s of %s", ttl, key)
			s.Must("PERSIST", key)
		}
	}
}

// A key that somebody else wrote, or that is damaged, counts as none.
func TestC45_L9_DamagedKeysAreReplaced(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	l := open(t, single(t, s.Addr), redislimit.Options{MaxDeny: -1})
	rates := append(counting(2, time.Hour), rate(limit.LeakyBucket, 2, time.Hour))
	for _, r := range rates {
		allow(t, l, r)
	}
	acquire(t, l, rate(limit.Concurrency, 2, time.Hour))
	names := keys(s)
	require.Len(t, names, 5)
	bytes := func(fill string, n int) string { return strings.Repeat(fill, n) }
	nan, minus, huge, half := "\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x00\x00\x00\x00\x00\x00\xf0\xbf", "\xff\xff\xff\xff\xff\xff\xef\x7f", "\x00\x00\x00\x00\x00\x00\xe0\x3f"
	damages := make([][]string, 0, 24)
	damages = append(damages, [][]string{{"RPUSH", "x"}, {"HSET", "f", "x"}, {"SADD", "x"}, {"SET", ""}, {"SET", "17"}, {"ZADD", "1", "x"}}...)
	for _, fill := range []string{nan, minus, huge, half, "\x00\x00\x00\x00\x00\x00\x00\x00", "12345678"} {
		for _, n := range []int{2, 4, 20} {
			damages = append(damages, []string{"SET", bytes(fill, n)})
		}
	}
	for _, damage := range damages {
		for _, key := range names {
			s.Must("DEL", key)
			s.Must(append([]string{damage[0], key}, damage[1:]...)...)
		}
		for _, r := range rates {
			about := fmt.Sprintf("%q %s", damage, r.Algorithm)
			require.True(t, allow(t, l, r).Allowed, about)
			if r.Algorithm != limit.LeakyBucket {
				require.True(t, allow(t, l, r).Allowed, about)
			}
			require.False(t, allow(t, l, r).Allowed, about)
			require.NoError(t, l.Refund(t.Context(), "s", 1, r), about)
		}
		r := rate(limit.Concurrency, 2, time.Hour)
		require.NotNil(t, acquire(t, l, r), damage)
		for _, key := range keys(s) {
			require.False(t, strings.HasPrefix(s.Must("PTTL", key), "-"), "%q %s", damage, key)
		}
		require.NoError(t, l.Reset(t.Context(), "s", append(rates, r)...))
		require.Empty(t, keys(s))
	}
}

// After a clock was set back by a day, a subject that was at its limit waits for no
// longer than ever.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	s := stillSingle(t)
	l := open(t, s.client, redislimit.Options{MaxDeny: -1})
	const window = 100 * time.Second
	slots := rate(limit.Concurrency, 2, window)
	rates := append(counting(2, window), rate(limit.LeakyBucket, 2, window))
	for _, r := range rates {
		for range 3 {
			allow(t, l, r)
		}
		require.False(t, allow(t, l, r).Allowed)
	}
	acquire(t, l, slots)
	acquire(t, l, slots)
	s.advance(-24 * time.Hour)
	for _, r := range rates {
		d := allow(t, l, r)
		require.False(t, d.Allowed, "%s: nothing early", r.Algorithm)
		require.LessOrEqual(t, d.Binding.RetryAfter, window*17/16, r.Algorithm)
	}
	require.Nil(t, acquire(t, l, slots))
	s.advance(window*17/16 + time.Microsecond)
	for _, r := range rates {
		require.True(t, allow(t, l, r).Allowed, r.Algorithm)
	}
	require.NotNil(t, acquire(t, l, slots))
}

// A clock that is set forward counts as waiting, and nothing more.
func TestClockIsSetForward(t *testing.T) {
	t.Parallel()
	s := stillSingle(t)
	l := open(t, s.client, redislimit.Options{MaxDeny: -1})
	for _, r := range counting(2, 100*time.Second) {
		for range 3 {
			allow(t, l, r)
		}
		s.advance(24 * time.Hour)
		require.True(t, allow(t, l, r).Allowed, r.Algorithm)
		require.True(t, allow(t, l, r).Allowed, r.Algorithm)
		require.False(t, allow(t, l, r).Allowed, r.Algorithm)
		s.advance(-24 * time.Hour)
		require.False(t, allow(t, l, r).Allowed, r.Algorithm)
		s.advance(120 * time.Second)
		require.True(t, allow(t, l, r).Allowed, r.Algorithm)
	}
}

// Keys are as long as they are, whatever the subject, and tell nobody what it is.
func TestSubjectsAreNotInRedis(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	c := single(t, s.Addr)
	r := rate(limit.TokenBucket, 1, time.Hour)
	for _, key := range []string{"", "one", "two"} {
		l := open(t, c, redislimit.Options{HashKey: []byte(key)})
		for _, subject := range []string{"192.0.2.1", strings.Repeat("x", 1<<20)} {
			d, err := l.Allow(t.Context(), subject, 1, r)
			require.NoError(t, err)
			require.True(t, d.Allowed, "with another key, it is another subject")
		}
	}
	found := keys(s)
	require.Len(t, found, 6)
	for _, key := range found {
		require.Len(t, key, len("rl:1:{}:t:r")+22)
		require.NotContains(t, key, "192.0.2.1")
	}
}

// The caller's clock is nowhere in what is sent, so two processes whose clocks
// differ count alike. See also TestStill, where the server's clock is another one.
func TestL15_OnlyTheServersClock(t *testing.T) {
	t.Parallel()
	s := stillSingle(t)
	s.advance(-1000 * time.Hour) // all processes are far ahead of it
	a, b := open(t, s.client, redislimit.Options{}), open(t, s.client, redislimit.Options{})
	for _, r := range counting(2, time.Hour) {
		require.True(t, allow(t, a, r).Allowed)
		require.True(t, allow(t, b, r).Allowed)
		require.False(t, allow(t, a, r).Allowed)
		require.False(t, allow(t, b, r).Allowed)
	}
}
