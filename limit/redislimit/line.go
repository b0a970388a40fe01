package redislimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/doorbuster/doorbuster/limit"
)

const (
	// maxBatch bounds the jobs of one call, and maxKeys what they ask for, but for
	// the last of them.
	maxBatch = 128
	maxKeys  = 512
	// maxPending bounds those that wait for the next one; who finds more waiting is
	// decided by the policies.
	maxPending = 8192
)

// job is some rates that are decided together.
type job struct {
	keys, args []string
	done       chan struct{} // closed when the rest is there

	answers []answer
	err     error
}

// line gathers jobs while a call is under way, and sends them in the next one. It
// knows whether the store answers.
type line struct {
	limiter *Limiter
	// until is when a store that has failed may be tried again, in ns of the
	// limiter's clock; 0 is a store that answers.
	until atomic.Int64
	// late is when a call was found to be late; 0 after any that was not.
	late atomic.Int64

	mu      sync.Mutex
	pending []*job
	running bool
}

var (
	errResting = fmt.Errorf("%w: it has failed a moment ago", limit.ErrUnavailable)
	errCrowded = fmt.Errorf("%w: too many calls wait for it", limit.ErrUnavailable)
)

// ready reports whether a call may be sent: the store answers, or this is the call
// that tries whether it does again.
func (l *line) ready() bool {
	until := l.until.Load()
	if until == 0 {
		return true
	}
	now := l.limiter.clock()
	return now >= until && l.until.CompareAndSwap(until, now+int64(l.limiter.o.Probe))
}

// heard notes what came of a call that was sent at some time, and reports whether
// the store rests now. One late call is no outage: it takes another that was sent
// after the first was given up. What is wrong with the connection, or what the server
// calls an error, is one.
func (l *line) heard(sent int64, err error) (rests bool) {
	if err == nil {
		if l.late.Load() != 0 {
			l.late.Store(0)
		}
		if l.until.Load() != 0 {
			l.until.Store(0)
		}
		return false
	}
	now := l.limiter.clock()
	if rests = l.until.Load() != 0 || !errors.Is(err, context.DeadlineExceeded); !rests {
		first := l.late.Load()
		rests = first != 0 && sent >= first
	}
	if rests {
		l.until.Store(now + int64(l.limiter.o.Probe))
	} else {
		l.late.CompareAndSwap(0, now)
	}
	l.limiter.o.OnTrouble(err)
	return rests
}

// do has a job done and waits for it. A job whose caller has gone is done all the
// same.
func (l *line) do(ctx context.Context, j *job) error {
	if !l.ready() {
		return errResting
	}
	j.done = make(chan struct{})
	if err := l.join(j); err != nil { //nolint:contextcheck // a batch outlives each of its callers
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) join(j *job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.limiter.closed.Load(): // else callers could keep a line running after Close
		return limit.ErrClosed
	case len(l.pending) >= maxPending:
		return errCrowded
	}
	l.pending = append(l.pending, j)
	if !l.running {
		if !l.limiter.begin() {
			l.pending = l.pending[:len(l.pending)-1]
			return limit.ErrClosed
		}
		l.running = true
		go l.run()
	}
	return nil
}

// run sends batches until nobody waits.
func (l *line) run() {
	defer l.limiter.end()
	for batch := l.next(); batch != nil; batch = l.next() {
		ctx, cancel := context.WithTimeout(context.Background(), l.limiter.o.Timeout)
		sent := l.limiter.clock()
		l.limiter.execute(ctx, batch)
		cancel()
		l.deliver(sent, batch)
	}
}

func (l *line) next() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for keys := 0; n < min(len(l.pending), maxBatch) && keys < maxKeys; n++ {
		keys += len(l.pending[n].keys)
	}
	if n == 0 {
		l.running, l.pending = false, nil
		return nil
	}
	batch := l.pending[:n:n]
	if l.pending = l.pending[n:]; len(l.pending) == 0 {
		l.pending = make([]*job, 0, maxBatch)
	}
	return batch
}

// deliver answers a batch. If the store rests then, those who wait have failed, too.
func (l *line) deliver(sent int64, batch []*job) {
	rests := l.heard(sent, worst(batch))
	for _, j := range batch {
		close(j.done)
	}
	if !rests {
		return
	}
	l.mu.Lock()
	rest := l.pending
	l.pending = nil
	l.mu.Unlock()
	for _, j := range rest {
		j.err = errResting
		close(j.done)
	}
}

// worst is an error of a batch, and one that is more than being late if there is one.
func worst(batch []*job) (err error) {
	for _, j := range batch {
		if j.err != nil && (err == nil || errors.Is(err, context.DeadlineExceeded)) {
			err = j.err
		}
	}
	return err
}
