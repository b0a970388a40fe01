package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Locker takes locks in a store. One per process and store is enough; it is safe
// for concurrent use.
type Locker struct {
	store   Store
	config  Config
	id      string
	drawn   atomic.Uint64
	waiters waiters
	topics  topics
	turns   turns
	closed  chan struct{}
	work    sync.WaitGroup // of everything that runs for this Locker

	mu    sync.Mutex
	ended bool
	holds map[*hold]struct{}
}

// New returns a Locker over a store. Errors are ErrInvalid.
func New(store Store, config Config) (*Locker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Locker{store: store, config: config, id: rand.Text(), closed: make(chan struct{}), holds: map[*hold]struct{}{}}
	l.waiters.init()
	l.turns.init()
	l.topics.init(l)
	return l, nil
}

// Lock waits for the lock of a name until the context or WithWait ends, and
// returns it held. The lease keeps itself alive until Unlock. An error is an
// ErrNotAcquired, and then nothing is held and nobody is queued, not even if the
// context ended at the very moment of success. Where the context comes from a
// lease of the same name, the result is a re-entry: it costs no call, has the
// same fence, and the lock is given back with the last of them.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, mutex(name), forever, opts)
}

// TryLock does the same in one attempt, or for as long as WithWait says.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return l.take(ctx, mutex(name), 0, opts)
}

// Do runs fn while it holds the lock. The context that fn gets is the lease's: it
// ends when the lock is lost, with ErrLost as its cause. The result is the error
// of fn, joined with ErrLost if the lock was lost before fn returned, or the
// error of Lock, and then fn has not run. The lock is given back also if fn
// panics.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	lease, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.run(ctx, fn)
}

// Inspect looks at the mutex of a name.
func (l *Locker) Inspect(ctx context.Context, name string) (Info, error) {
	return l.inspect(ctx, Mutex, name)
}

func (l *Locker) inspect(ctx context.Context, kind Kind, name string) (Info, error) {
	if err := validName(name); err != nil {
		return Info{}, err
	}
	if !l.begin() {
		return Info{}, ErrClosed
	}
	defer l.work.Done()
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	return l.store.Inspect(ctx, kind, name)
}

// Break takes the mutex of a name away from the owner that Inspect showed, and
// hands it to the next waiter. If that owner does not hold it any more, nothing
// happens and the error is ErrNotHeld: whoever came after it is not meant. The
// broken holder, if it is not of this Locker, learns of it at its next renewal;
// only the fence stops what it does until then.
func (l *Locker) Break(ctx context.Context, name string, seen Owner) error {
	return l.breaks(ctx, mutex(name), seen)
}

func (l *Locker) breaks(ctx context.Context, r Request, seen Owner) error {
	if err := validName(r.Name); err != nil {
		return err
	}
	if !l.begin() {
		return ErrClosed
	}
	defer l.work.Done()
	r.Owner, r.By = seen, l.id
	own := l.find(seen)
	if own != nil { // it must not take this release for its own
		own.mu.Lock()
		if own.state == held {
			own.lose(ErrLost)
		}
		own.mu.Unlock()
		own.tell()
	}
	outcome, err := l.giveBack(ctx, &r)
	if err == nil && !outcome.Released {
		return ErrNotHeld
	}
	return err
}

// find returns what is held here by an owner, or nil.
func (l *Locker) find(owner Owner) *hold {
	if owner.Locker() != l.id {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.holds {
		if h.r.Owner == owner {
			return h
		}
	}
	return nil
}

// Close ends waiting and releases everything that is held. It returns when all
// is done or the context ends; what could not be released then ends with its
// lease. Calling it again does nothing.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	holds := slices.Collect(maps.Keys(l.holds))
	l.mu.Unlock()
	if !first {
		return nil
	}
	close(l.closed)
	var failed []error
	for _, h := range holds { // everybody stops at once, however long what follows takes
		h.mu.Lock()
		if h.state == held {
			h.end(leaving, errTaken)
		}
		h.mu.Unlock()
	}
	for _, h := range holds {
		if err := h.release(ctx, errTaken); err != nil && !errors.Is(err, ErrNotHeld) {
			failed = append(failed, err)
		}
		h.tell()
	}
	l.topics.close()
	if err := l.drain(ctx); err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (l *Locker) drain(ctx context.Context) error {
	idle := make(chan struct{})
	go func() {
		l.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin counts a piece of work that Close waits for; false after Close.
func (l *Locker) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.work.Add(1)
	return true
}

// keep counts a hold that Close will release; false after Close.
func (l *Locker) keep(h *hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.holds[h] = struct{}{}
	}
	return !l.ended
}

func (l *Locker) forget(h *hold) {
	l.mu.Lock()
	delete(l.holds, h)
	l.mu.Unlock()
}

func (l *Locker) owner() Owner {
	id := append(make([]byte, 0, 40), l.id...)
	return Owner(strconv.AppendUint(append(id, '.'), l.drawn.Add(1), 36))
}

// Locker returns the id of the Locker that drew an owner: what stands before the
// dot.
func (o Owner) Locker() string {
	for i := range len(o) {
		if o[i] == '.' {
			return string(o[:i])
		}
	}
	return string(o)
}

// callTimeout leaves a renewal two more tries.
func (l *Locker) callTimeout(lease time.Duration) time.Duration {
	return min(l.config.CallTimeout, max(lease/3, 20*time.Millisecond))
}

// forever is a wait without a bound of its own.
const forever = time.Duration(-1)

func mutex(name string) Request { return Request{Kind: Mutex, Name: name, Limit: 1, Count: 1} }
