package locktest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
)

// Features is what an implementation offers.
type Features struct {
	// Queue says that waiters are served in their order.
	Queue bool
	// Exact says that a grant has one fence, whomever one asks. Where a majority
	// decides, another majority may have seen a larger one.
	Exact bool
	// Shared says that there are read-write locks and semaphores.
	Shared bool
	// Local says that the store knows no other time than that of the process, and
	// waits for nothing outside of it; it is examined in a bubble of fake time.
	Local bool
}

// Run examines an implementation. Open returns an empty store, which other stores
// that it has returned know nothing of; it may clean up when its test ends.
func Run(t *testing.T, f Features, open func(testing.TB) lock.Store) {
	t.Helper()
	groups := []struct {
		name  string
		cases map[string]func(*testing.T, *world)
		runs  bool
	}{
		{"Store", storeCases(), true},
		{"Lease", leaseCases(), true},
		{"Error", errorCases(), true},
		{"Race", raceCases(), true},
		{"Wait", waitCases(), true},
		{"Multi", multiCases(), true},
		{"Loss", lossCases(), true},
		{"Queue", queueCases(), f.Queue},
		{"Shared", sharedCases(), f.Shared},
	}
	for _, g := range groups {
		if !g.runs {
			continue
		}
		for name, run := range g.cases {
			t.Run(g.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				examine := func(t *testing.T) {
					run(t, &world{store: open(t), exact: f.Exact, queue: f.Queue})
				}
				if f.Local {
					synctest.Test(t, examine)
				} else {
					examine(t)
				}
			})
		}
	}
}

// world is what a case has for itself.
type world struct {
	store lock.Store
	exact bool
	queue bool
	lossy bool // calls get lost
}

// same asserts that two looks at one grant agree.
func (w *world) same(t *testing.T, want, got lock.Fence) {
	t.Helper()
	if w.exact {
		require.Equal(t, want, got)
	}
	require.NotZero(t, got)
}

// short is a lease that a test can wait for, and that a slow machine can renew.
const short = 400 * time.Millisecond

// renewed is a lease that even a busy machine renews in time.
const renewed = 2 * time.Second

// limit is a lease or a wait whose end no test sees.
const limit = 20 * time.Second

// patience ends what hangs, on the slowest of machines.
const patience = time.Minute

// locker returns a new Locker, as another process would have it.
func (w *world) locker(t *testing.T) *lock.Locker {
	t.Helper()
	if w.lossy {
		return w.with(t, lock.Config{Lease: renewed})
	}
	return w.with(t, lock.Config{})
}

func (w *world) with(t *testing.T, c lock.Config) *lock.Locker {
	t.Helper()
	l, err := lock.New(w.store, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		require.NoError(t, l.Close(ctx))
	})
	return l
}

// ctx ends what hangs.
func ctx(t *testing.T) context.Context {
	t.Helper()
	out, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return out
}

// must is Lock that succeeds.
func must(t *testing.T, l *lock.Locker, name string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	lease, err := l.Lock(ctx(t), name, opts...)
	require.NoError(t, err)
	return lease
}

// free asserts that nobody holds a name.
func free(t *testing.T, l *lock.Locker, name string) {
	t.Helper()
	lease, err := l.TryLock(ctx(t), name)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx(t)))
}

// taken asserts that somebody holds it.
func taken(t *testing.T, l *lock.Locker, name string) {
	t.Helper()
	_, err := l.TryLock(ctx(t), name)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
}

// done waits for the end of a context and returns its cause.
func done(t *testing.T, c context.Context) error { //nolint:revive // the test comes first
	t.Helper()
	select {
	case <-c.Done():
		return context.Cause(c)
	case <-time.After(limit): //nolint:forbidigo // it ends what hangs
		require.FailNow(t, "the context does not end")
		return nil
	}
}

// until waits for something that nothing signals.
func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	require.Eventually(t, check, limit, time.Millisecond, what)
}

// lasts waits for what time alone brings about: the end of a lease or a place by
// the clock of a store. A wait that takes longer than it should does no harm.
func lasts(d time.Duration) {
	<-time.NewTimer(d).C
}

// sound asserts that a lease is held in the store, as long as it should be.
func sound(t *testing.T, lease *lock.Lease) {
	t.Helper()
	promised := lease.ValidUntil()
	if err := lease.Check(ctx(t)); time.Now().Before(promised) {
		require.NoError(t, err)
	}
}

// spy is a store that knows when somebody waits.
type spy struct {
	lock.Store
	once    sync.Once
	refused chan struct{} // closed when something was not free
}

func (s *spy) Acquire(c context.Context, r *lock.Request) (lock.Grant, error) {
	g, err := s.Store.Acquire(c, r)
	if err == nil && g.Fence == 0 {
		s.once.Do(func() { close(s.refused) })
	}
	return g, err
}

// waiting locks in the background, in another process, and returns when it waits.
func (w *world) waiting(t *testing.T, opts ...lock.Option) <-chan locked {
	t.Helper()
	s := &spy{Store: w.store, refused: make(chan struct{})}
	out := background(ctx(t), (&world{store: s}).locker(t), opts...)
	select {
	case <-s.refused:
	case <-ctx(t).Done():
		require.FailNow(t, "nobody waits")
	}
	return out
}

// queued waits until n owners wait.
func queued(t *testing.T, l *lock.Locker, n int) {
	t.Helper()
	until(t, "the queue is as long as it should be", func() bool {
		info, err := l.Inspect(ctx(t), "n")
		require.NoError(t, err)
		return info.Waiters == n
	})
}
