package redislock_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

var soak = flag.Duration("soak", 3*time.Second, "how long the soak test lasts")

// TestSoak lets lockers fight for one name through proxies that lose, hold, delay
// and cut, while the server forgets its scripts and stands still, and looks at the
// history: no two held the lock at once, and no fence went back.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "appendonly no")
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	history := locktest.NewHistory()
	var witness soakWitness
	proxies := make([]*testenv.Proxy, 0, 4)
	var work sync.WaitGroup
	for range 4 {
		p := testenv.NewProxy(t, s.Addr)
		proxies = append(proxies, p)
		l := locker(t, store(t, single(t, p.Addr), redislock.Options{}), lock.Config{CallTimeout: 200 * time.Millisecond})
		for range 3 {
			work.Go(func() { fight(ctx, l, history, &witness) })
		}
	}
	work.Go(func() { harm(ctx, s, proxies) })
	work.Wait()
	require.Positive(t, witness.entries)
	require.Zero(t, witness.backward)
	history.Require(t)
	t.Logf("%d sections, %d leases lost", witness.entries, witness.lost)
}

type soakWitness struct {
	mu                      sync.Mutex
	register                locktest.Register
	entries, lost, backward int
}

// fight locks, works for a moment, and unlocks.
func fight(ctx context.Context, l *lock.Locker, history *locktest.History, w *soakWitness) {
	for ctx.Err() == nil {
		lease, err := history.Lock(ctx, l, "n", lock.WithLease(600*time.Millisecond))
		if err != nil {
			continue
		}
		pause := time.NewTimer(time.Duration(rand.IntN(2000)) * time.Microsecond)
		select {
		case <-pause.C:
		case <-lease.Context().Done():
		}
		if lease.Err() == nil {
			ok := w.register.Write(lease.Fence(), string(lease.Owner()))
			w.mu.Lock()
			w.entries++
			if !ok && lease.Err() == nil {
				w.backward++ // somebody with a later fence worked while this one held
			}
			w.mu.Unlock()
		}
		if history.Unlock(context.WithoutCancel(ctx), lease) != nil {
			w.mu.Lock()
			w.lost++
			w.mu.Unlock()
		}
	}
}

// harm does something bad every few milliseconds, and makes it good at the end.
func harm(ctx context.Context, s *testenv.RedisServer, proxies []*testenv.Proxy) {
	for ctx.Err() == nil {
		p := proxies[rand.IntN(len(proxies))]
		long := time.Duration(rand.IntN(100)) * time.Millisecond
		switch rand.IntN(8) {
		case 0:
			p.Lose(testenv.Requests, 1+rand.IntN(3), "EVALSHA")
		case 1:
			p.Lose(testenv.Replies, 1+rand.IntN(3), "EVALSHA")
		case 2:
			p.Hold(testenv.Replies)
		case 3:
			p.Hold(testenv.Requests)
		case 4:
			p.Cut()
		case 5:
			p.Delay(testenv.Replies, long/4)
		case 6:
			_ = s.Do(ctx, "SCRIPT", "FLUSH").Error()
		case 7:
			s.Pause()
			wait(ctx, long)
			s.Resume()
		}
		wait(ctx, long)
		p.Delay(testenv.Replies, 0)
		p.Pass()
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
