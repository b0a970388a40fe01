package lock

import (
	"context"
	"fmt"
	"time"
)

// Semaphore gives out a number of permits. Each one lives in a lease, so permits
// of a crashed holder come back when it ends.
type Semaphore struct {
	l       *Locker
	name    string
	permits int64
}

// Semaphore returns the semaphore of a name. The number of permits travels with
// each call: after it was lowered, nobody gets one until enough have come back.
// Processes should agree on it.
func (l *Locker) Semaphore(name string, permits int) *Semaphore {
	return &Semaphore{l: l, name: name, permits: int64(permits)}
}

// Acquire waits for n permits, in the order of callers: one that wants many is
// not overtaken for ever by those that want few. A semaphore is never re-entered.
func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...Option) (*Lease, error) {
	return s.take(ctx, n, forever, opts)
}

// TryAcquire does the same in one attempt, or for as long as WithWait says.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...Option) (*Lease, error) {
	return s.take(ctx, n, 0, opts)
}

func (s *Semaphore) take(ctx context.Context, n int, wait time.Duration, opts []Option) (*Lease, error) {
	if n < 1 || int64(n) > s.permits || s.permits >= Everything {
		return nil, notAcquired(fmt.Errorf("%w: %d permits of %d", ErrInvalid, n, s.permits))
	}
	return s.l.take(ctx, s.request(n), wait, opts)
}

func (s *Semaphore) request(n int) Request {
	return Request{Kind: Permits, Name: s.name, Limit: s.permits, Count: int64(n)}
}

// Inspect looks at the holders of permits.
func (s *Semaphore) Inspect(ctx context.Context) (Info, error) {
	return s.l.inspect(ctx, Permits, s.name)
}

// Break takes its permits away from the owner that Inspect showed; see
// Locker.Break.
func (s *Semaphore) Break(ctx context.Context, seen Owner) error {
	return s.l.breaks(ctx, s.request(1), seen)
}
