package httpapi

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time or with the request. Its timer is
// made when somebody first waits for it: most answers come from memory, wait for
// nothing, and need none.
type deadline struct {
	parent context.Context //nolint:containedctx // it is a context itself
	at     time.Time

	mu     sync.Mutex
	timed  context.Context //nolint:containedctx // nil until somebody waits
	cancel context.CancelFunc
}

func withDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{parent: parent, at: at}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(d.parent, d.at)
	}
	return d.timed.Done()
}

// Err implements context.Context.
func (d *deadline) Err() error { return d.inner().Err() }

// Value implements context.Context.
func (d *deadline) Value(key any) any { return d.inner().Value(key) }

func (d *deadline) inner() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed != nil {
		return d.timed
	}
	return d.parent
}

// stop lets the timer go; whoever still waits is told that it is over.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}
