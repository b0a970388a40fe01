package lock

import "context"

// RW is a read-write lock: many readers or one writer, in the order in which they
// came. A writer that waits keeps later readers behind it, and readers in a row
// enter together, so neither side starves.
//
// What holds the write lock may read: RLock with its context is a re-entry.
// Releasing the write lock first makes it a reader, and lets others read. What
// reads cannot write: Lock with its context is refused with ErrUpgrade at once.
type RW struct {
	l    *Locker
	name string
}

// ReadWrite returns the read-write lock of a name. It costs nothing.
func (l *Locker) ReadWrite(name string) *RW { return &RW{l: l, name: name} }

func (rw *RW) request(count int64) Request {
	return Request{Kind: ReadWrite, Name: rw.name, Limit: Everything, Count: count}
}

// RLock waits until it may read; see Locker.Lock.
func (rw *RW) RLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return rw.l.take(ctx, rw.request(1), forever, opts)
}

// TryRLock does the same in one attempt, or for as long as WithWait says.
func (rw *RW) TryRLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return rw.l.take(ctx, rw.request(1), 0, opts)
}

// Lock waits until it may write; see Locker.Lock.
func (rw *RW) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return rw.l.take(ctx, rw.request(Everything), forever, opts)
}

// TryLock does the same in one attempt, or for as long as WithWait says.
func (rw *RW) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return rw.l.take(ctx, rw.request(Everything), 0, opts)
}

// Inspect looks at it. A writer's Count is Everything.
func (rw *RW) Inspect(ctx context.Context) (Info, error) {
	return rw.l.inspect(ctx, ReadWrite, rw.name)
}

// Break takes it away from the owner that Inspect showed; see Locker.Break.
func (rw *RW) Break(ctx context.Context, seen Owner) error {
	return rw.l.breaks(ctx, rw.request(1), seen)
}
