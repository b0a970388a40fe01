package redislock_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/locktest"
	"github.com/doorbuster/doorbuster/lock/redislock"
)

var soak = flag.Duration("soak", 3*time.Second, "how long the soak test lasts")

// round is how long lockers fight for one name before its history is looked at;
// the time that takes grows with the square of the history.
const round = 3 * time.Second

// TestSoak lets lockers fight for one name through proxies that lose, hold, delay
// and cut, while the server forgets its scripts or everything, stands still, also
// for longer than a lease, and is killed, and looks at the history: no two held the
// lock at once but when the server had forgotten the first, and no fence went back;
// no writer was beside another holder, and no more permits were out than there are.
// Every round has a name of its own.
func TestSoak(t *testing.T) {
	t.Parallel()
	// The log is rewritten as it grows: else each start takes longer than the one before.
	s := testenv.Redis(t, "appendfsync always", "auto-aof-rewrite-percentage 100", "auto-aof-rewrite-min-size 1mb")
	proxies := make([]*testenv.Proxy, 0, 4)
	lockers := make([]*lock.Locker, 0, 4)
	for range 4 {
		p := testenv.NewProxy(t, s.Addr)
		proxies = append(proxies, p)
		// Whoever is cut off keeps the others waiting for a short time only.
		lockers = append(lockers, locker(t, store(t, single(t, p.Addr), redislock.Options{Claim: 100 * time.Millisecond}),
			lock.Config{CallTimeout: 200 * time.Millisecond, Waiter: 300 * time.Millisecond}))
	}
	sections, shares, lost, end := 0, 0, 0, time.Now().Add(*soak)
	for i := 0; i == 0 || time.Now().Before(end); i++ {
		w := newSoakWitness("n" + strconv.Itoa(i))
		ctx, cancel := context.WithTimeout(t.Context(), round)
		var work sync.WaitGroup
		for _, l := range lockers {
			for range 3 {
				work.Go(func() { fight(ctx, l, w) })
			}
			work.Go(func() { w.readWrite.fight(ctx, l, w.name) })
			work.Go(func() { w.permits.fight(ctx, l, w.name) })
		}
		harm(ctx, s, proxies, w)
		work.Wait()
		cancel()
		require.Zero(t, w.backward)
		w.history.Require(t)
		for _, shared := range []*shared{w.readWrite, w.permits} {
			require.Zero(t, shared.overlaps)
			shares += shared.entries
		}
		sections, lost = sections+w.entries, lost+w.lost
	}
	// A round may have nothing but bad luck; all of them together may not.
	require.Positive(t, sections)
	require.Positive(t, shares)
	t.Logf("%d sections and %d shares, %d leases lost", sections, shares, lost)
}

type soakWitness struct {
	name                    string
	history                 *locktest.History
	register                locktest.Register
	readWrite, permits      *shared
	mu                      sync.Mutex
	entries, lost, backward int
	oblivion                atomic.Int64 // counts how often the server began or ended to forget
}

func newSoakWitness(name string) *soakWitness {
	return &soakWitness{
		name: name, history: locktest.NewHistory(), readWrite: newShared(lock.ReadWrite, lock.Everything), permits: newShared(lock.Permits, 3),
	}
}

// forget lets the server forget everything.
func (w *soakWitness) forget(ctx context.Context, s *testenv.RedisServer) {
	w.history.Damage(func() {
		w.readWrite.damage(func() {
			w.permits.damage(func() {
				w.oblivion.Add(1)
				_ = s.Do(ctx, "FLUSHALL").Error()
				w.oblivion.Add(1)
			})
		})
	})
}

// fight locks, works for a moment, and unlocks.
func fight(ctx context.Context, l *lock.Locker, w *soakWitness) {
	for ctx.Err() == nil {
		before := w.oblivion.Load()
		lease, err := w.history.Lock(ctx, l, w.name, lock.WithLease(soakLease))
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
			if !ok && lease.Err() == nil && w.oblivion.Load() == before {
				w.backward++ // somebody with a later fence worked while this one held
			}
			w.mu.Unlock()
		}
		if w.history.Unlock(context.WithoutCancel(ctx), lease) != nil {
			w.mu.Lock()
			w.lost++
			w.mu.Unlock()
		}
	}
}

const soakLease = 600 * time.Millisecond

// harm does something bad every few milliseconds until ctx ends, and makes it good
// each time.
func harm(ctx context.Context, s *testenv.RedisServer, proxies []*testenv.Proxy, w *soakWitness) {
	for ctx.Err() == nil {
		p := proxies[rand.IntN(len(proxies))]
		long := time.Duration(rand.IntN(100)) * time.Millisecond
		switch rand.IntN(40) {
		case 0, 1, 2, 3:
			p.Lose(testenv.Requests, 1+rand.IntN(3), "EVALSHA")
		case 4, 5, 6, 7:
			p.Lose(testenv.Replies, 1+rand.IntN(3), "EVALSHA")
		case 8, 9, 10, 11:
			p.Hold(testenv.Replies)
		case 12, 13, 14, 15:
			p.Hold(testenv.Requests)
		case 16, 17, 18, 19:
			p.Cut()
		case 20, 21, 22, 23:
			p.Delay(testenv.Replies, long/4)
		case 24, 25, 26, 27:
			_ = s.Do(ctx, "SCRIPT", "FLUSH").Error()
		case 28, 29, 30, 31:
			s.Pause()
			wait(ctx, long)
			s.Resume()
		case 32: // past every lease
			s.Pause()
			wait(ctx, soakLease+long)
			s.Resume()
		case 33:
			s.Kill()
			wait(ctx, long)
			s.Start() //nolint:contextcheck // it starts within the time of the test
		case 34:
			w.forget(ctx, s)
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
