package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// hooked is a store in memory whose answers a test may decide on. A hook that is
// nil leaves the call alone. Hooks are set by set, for calls may be on their way.
type hooked struct {
	*memlock.Store
	mu      sync.Mutex
	acquire func(context.Context, *lock.Request) (lock.Grant, error)
	renew   func(context.Context, *lock.Request) (bool, error)
	release func(context.Context, *lock.Request) (lock.Outcome, error)
	before  func() // a subscription
}

func (h *hooked) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *hooked) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	h.mu.Lock()
	hook := h.acquire
	h.mu.Unlock()
	if hook != nil {
		return hook(ctx, r)
	}
	return h.Store.Acquire(ctx, r)
}

func (h *hooked) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	h.mu.Lock()
	hook := h.renew
	h.mu.Unlock()
	if hook != nil {
		return hook(ctx, r)
	}
	return h.Store.Renew(ctx, r)
}

func (h *hooked) Release(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
	h.mu.Lock()
	hook := h.release
	h.mu.Unlock()
	if hook != nil {
		return hook(ctx, r)
	}
	return h.Store.Release(ctx, r)
}

func (h *hooked) Subscribe(ctx context.Context, topic string, ready func(), wake func(lock.Owner)) error {
	h.mu.Lock()
	hook := h.before
	h.mu.Unlock()
	if hook != nil {
		hook()
	}
	return h.Store.Subscribe(ctx, topic, ready, wake)
}

// pair is two lockers of one store; what the near one asks goes past the hooks.
type pair struct {
	near, far *lock.Locker
	store     *hooked
	events    *lock.Stats // of near
}

// together runs a test in a bubble of fake time.
func together(t *testing.T, c lock.Config, run func(*testing.T, *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{store: &hooked{Store: memlock.New()}, events: &lock.Stats{}}
		var err error
		if c.Observe == nil {
			c.Observe = p.events.Observe
		}
		p.near, err = lock.New(p.store, c)
		require.NoError(t, err)
		p.far, err = lock.New(p.store.Store, lock.Config{})
		require.NoError(t, err)
		run(t, p)
		p.store.set(func() { p.store.acquire, p.store.renew, p.store.release = nil, nil, nil })
		require.NoError(t, p.near.Close(t.Context()))
		require.NoError(t, p.far.Close(t.Context()))
		synctest.Wait()
	})
}

// silent is a call that is lost on its way.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// idle asserts that nobody holds or wants a name.
func (p *pair) idle(t *testing.T, kind lock.Kind, name string) {
	t.Helper()
	info, err := p.store.Inspect(t.Context(), kind, name)
	require.NoError(t, err)
	require.Empty(t, info.Holders)
	require.Zero(t, info.Waiters)
}
