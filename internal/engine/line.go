package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// line gathers the attempts on one sale: while one batch is being decided the
// next one forms behind it. Its goroutine lives as long as somebody waits.
type line struct {
	stand *stand

	mu      sync.Mutex
	waiting []*ticket
	running bool
	closed  bool
}

// ticket is one attempt in a line.
type ticket struct {
	attempt ledger.Attempt
	since   time.Time
	done    chan outcome // receives exactly once, unless the ticket is withdrawn
}

// outcome is what comes back for a ticket.
type outcome struct {
	ledger.Result
	queue, call time.Duration
}

// decide queues the attempt and waits for its outcome. If ctx ends first the
// attempt is withdrawn, unless its batch is already under way; then it is
// decided all the same and its key tells the outcome.
func (l *line) decide(ctx context.Context, a ledger.Attempt) (outcome, error) {
	t := &ticket{attempt: a, since: l.stand.clock(), done: make(chan outcome, 1)}
	if err := l.join(ctx, t); err != nil {
		return outcome{}, err
	}
	select {
	case out := <-t.done:
		return out, infrastructure(out.Err)
	case <-ctx.Done():
		l.withdraw(t)
		return outcome{}, sale.Unavailable(context.Cause(ctx))
	}
}

func (l *line) join(ctx context.Context, t *ticket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return sale.Unavailable(errClosed)
	case len(l.waiting) >= l.stand.opts.MaxQueue:
		return sale.Busy()
	}
	l.waiting = append(l.waiting, t)
	if !l.running {
		l.running = true
		l.stand.calls.Add(1)
		go l.run(context.WithoutCancel(ctx))
	}
	return nil
}

func (l *line) withdraw(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, t); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// close refuses further attempts; those in line are still decided.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *line) run(ctx context.Context) {
	defer l.stand.calls.Done()
	for {
		batch := l.next()
		if batch == nil {
			return
		}
		l.send(ctx, batch)
	}
}

// next takes the batch that has formed, or nil and the end of the run.
func (l *line) next() []*ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), l.stand.opts.MaxBatch)
	if n == 0 {
		l.running, l.waiting = false, nil
		return nil
	}
	batch := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return batch
}

func (l *line) send(ctx context.Context, batch []*ticket) {
	attempts := make([]ledger.Attempt, len(batch))
	for i, t := range batch {
		attempts[i] = t.attempt
	}
	started := l.stand.clock()
	results, err := l.stand.reserve(ctx, attempts)
	took := l.stand.clock().Sub(started)
	l.stand.observer.Batched(len(batch), took, err)
	for i, t := range batch {
		out := outcome{queue: started.Sub(t.since), call: took}
		if err != nil {
			out.Err = err
		} else {
			out.Result = results[i]
		}
		t.done <- out
	}
}
