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

// parliament is five servers, of which the fourth is also reached through a proxy.
type parliament struct {
	direct []rueidis.Client
	proxy  *testenv.Proxy
	x, y   *lock.Locker // through the proxy, and directly
}

func newParliament(t *testing.T) *parliament {
	t.Helper()
	servers, direct := five(t)
	p := &parliament{direct: direct, proxy: testenv.NewProxy(t, servers[3].Addr)}
	through := append([]rueidis.Client{}, direct...)
	through[3] = single(t, p.proxy.Addr)
	p.x = locker(t, quorum(t, through, redislock.Options{}), lock.Config{})
	p.y = locker(t, quorum(t, direct, redislock.Options{}), lock.Config{})
	// Each server knows the scripts, each client has its connections, and nothing is on
	// its way any more, which could not be said of locks of the quorum.
	for _, c := range append(through, direct...) {
		warm, err := locker(t, store(t, c, redislock.Options{}), lock.Config{}).Lock(t.Context(), "warm")
		require.NoError(t, err)
		require.NoError(t, warm.Check(t.Context()))
		require.NoError(t, warm.Unlock(t.Context()))
	}
	return p
}

// hold takes the vote of one server away.
func (p *parliament) hold(t *testing.T, i int) *lock.Lease {
	t.Helper()
	lease, err := locker(t, store(t, p.direct[i], redislock.Options{}), lock.Config{}).Lock(t.Context(), "n")
	require.NoError(t, err)
	return lease
}

// vote is the owner that has the vote of one server.
func (p *parliament) vote(t *testing.T, i int, name string) lock.Owner {
	t.Helper()
	info, err := store(t, p.direct[i], redislock.Options{}).Inspect(t.Context(), lock.Mutex, name)
	require.NoError(t, err)
	if len(info.Holders) == 0 {
		return ""
	}
	return info.Holders[0].Owner
}

// What one round gives back late is not the vote of the next one.
func TestQuorumLateUndo(t *testing.T) {
	t.Parallel()
	p := newParliament(t)
	one, two, four := p.hold(t, 1), p.hold(t, 2), p.hold(t, 4)
	held := p.proxy.Hold(testenv.Replies)
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, _ := p.x.Lock(t.Context(), "n")
		got <- lease
	}()
	happens(t, held)
	require.NoError(t, one.Unlock(t.Context()))
	require.Eventually(t, func() bool { return p.vote(t, 1, "n") != "" }, time.Minute, time.Millisecond)
	p.proxy.Pass()
	x := <-got
	require.NotNil(t, x)
	require.NoError(t, two.Unlock(t.Context()))
	require.NoError(t, four.Unlock(t.Context()))
	_, err := p.y.TryLock(t.Context(), "n", lock.WithWait(500*time.Millisecond))
	require.ErrorIs(t, err, lock.ErrNotAcquired, "another majority")
	require.NoError(t, x.Check(t.Context()))
}

// A vote that comes when the majority has already refused is given back.
func TestQuorumLateVote(t *testing.T) {
	t.Parallel()
	p := newParliament(t)
	for _, i := range []int{0, 1, 2, 4} {
		p.hold(t, i)
	}
	held := p.proxy.Hold(testenv.Replies)
	_, err := p.x.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	happens(t, held)
	require.Eventually(t, func() bool { return p.vote(t, 3, "n") != "" }, time.Minute, time.Millisecond)
	p.proxy.Pass()
	require.Eventually(t, func() bool { return p.vote(t, 3, "n") == "" }, time.Minute, time.Millisecond)
}

// Answers of a majority get lost, of each call in turn.
func TestQuorumLostAnswers(t *testing.T) {
	t.Parallel()
	servers, _ := five(t)
	proxies, clients := make([]*testenv.Proxy, 5), make([]rueidis.Client, 5)
	for i, s := range servers {
		proxies[i] = testenv.NewProxy(t, s.Addr)
		clients[i] = single(t, proxies[i].Addr)
	}
	l := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{})
	lose := func(d testenv.Direction) {
		for _, p := range proxies[:3] {
			p.Lose(d, 1, "EVALSHA")
		}
	}
	for _, d := range []testenv.Direction{testenv.Requests, testenv.Replies} {
		warm, err := l.Lock(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, persist(t, func() error { return warm.Check(t.Context()) }))
		require.NoError(t, warm.Unlock(t.Context()))
		lose(d)
		lease, err := l.Lock(t.Context(), "n")
		require.NoError(t, err)
		lose(d)
		require.NoError(t, persist(t, func() error { return lease.Check(t.Context()) }))
		lose(d)
		require.NoError(t, lease.Unlock(t.Context()))
		next, err := l.Lock(within(t, time.Minute), "n") // before the lease of a vote of nobody ends
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
	}
}

// Two of five servers are killed while a lease is held, and nobody notices; with
// the third, it is lost.
func TestQuorumServersDieUnderALease(t *testing.T) {
	t.Parallel()
	servers, clients := five(t)
	l := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{Lease: 2 * time.Second})
	lease, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	servers[0].Kill()
	servers[3].Kill()
	end := lease.ValidUntil()
	require.Eventually(t, func() bool { return lease.ValidUntil().After(end) }, time.Minute, time.Millisecond, "it is renewed")
	require.NoError(t, lease.Unlock(t.Context()))
	next, err := l.Lock(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), lease.Fence())
	servers[4].Kill()
	happens(t, next.Context().Done())
	require.ErrorIs(t, next.Err(), lock.ErrLost)
	_, err = l.TryLock(t.Context(), "n")
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// Lockers fight for one name while two of five servers are killed, one after the
// other, and a third stands still for a moment.
func TestQuorumCrowd(t *testing.T) {
	t.Parallel()
	servers, clients := five(t)
	history := locktest.NewHistory()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	const each = 8
	for range 4 {
		l := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{Lease: 2 * time.Second, CallTimeout: 200 * time.Millisecond})
		work.Go(func() {
			for range each {
				lease, err := history.Lock(ctx, l, "n")
				if err != nil {
					continue
				}
				_ = history.Unlock(ctx, lease)
			}
		})
	}
	look := locker(t, quorum(t, clients, redislock.Options{}), lock.Config{})
	moves := func() {
		was, _ := look.Inspect(ctx, "n")
		require.Eventually(t, func() bool {
			now, err := look.Inspect(ctx, "n")
			return err == nil && now.Fence > was.Fence
		}, time.Minute, time.Millisecond)
	}
	moves()
	servers[1].Kill()
	moves()
	servers[2].Pause()
	servers[2].Resume()
	servers[4].Kill()
	work.Wait()
	history.Require(t)
	last, err := look.Lock(ctx, "n")
	require.NoError(t, err)
	require.NoError(t, last.Unlock(ctx))
}
