package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// line gathers questions: while one batch of them is being answered the next one
// forms behind it. Its goroutine lives as long as somebody waits.
type line[Q, A any] struct {
	rules *lineRules
	// send answers every ticket of a batch, or hands it to another line.
	send func(ctx context.Context, batch []*ticket[Q, A])

	mu      sync.Mutex
	waiting []*ticket[Q, A]
	running bool
	closed  bool
}

// lineRules is what the lines of an engine have in common.
type lineRules struct {
	maxBatch, maxQueue int
	clock              func() time.Time
	calls              *sync.WaitGroup
}

// ticket is one question in a line.
type ticket[Q, A any] struct {
	ask    Q
	since  time.Time
	queued time.Duration // how long it waited for its batch

	answer A
	err    error
	done   chan struct{} // closed when answer and err are there
}

// reply answers a ticket at once.
func (t *ticket[Q, A]) reply(a A, err error) {
	t.set(a, err)
	close(t.done)
}

// set gives a ticket its answer; wake tells.
func (t *ticket[Q, A]) set(a A, err error) { t.answer, t.err = a, err }

// wakeInline is how many are told one after the other rather than by a goroutine.
const wakeInline = 16

// wake tells those whose answers are set. A crowd is told beside the call of the
// next batch: otherwise that waits for the processors until each of them has run.
func (l *line[Q, A]) wake(batch []*ticket[Q, A]) {
	if len(batch) <= wakeInline {
		tell(batch)
		return
	}
	l.rules.calls.Go(func() { tell(batch) })
}

func tell[Q, A any](batch []*ticket[Q, A]) {
	for _, t := range batch {
		close(t.done)
	}
}

// ask queues the question and waits for its answer. If ctx ends first it is
// withdrawn, unless its batch is already under way; then it is answered all the
// same, and nobody listens.
func (l *line[Q, A]) ask(ctx context.Context, q Q) (*ticket[Q, A], error) {
	t := &ticket[Q, A]{ask: q, since: l.rules.clock(), done: make(chan struct{})}
	if err := l.join(ctx, t); err != nil {
		return nil, err
	}
	select {
	case <-t.done:
		return t, infrastructure(t.err)
	case <-ctx.Done():
		l.withdraw(t)
		return nil, sale.Unavailable(context.Cause(ctx))
	}
}

func (l *line[Q, A]) join(ctx context.Context, t *ticket[Q, A]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return sale.Unavailable(errClosed)
	case len(l.waiting) >= l.rules.maxQueue:
		return sale.Busy()
	}
	l.add(ctx, t)
	return nil
}

// takeIn receives a ticket that another line had accepted; it may exceed the bound.
func (l *line[Q, A]) takeIn(ctx context.Context, t *ticket[Q, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(ctx, t)
}

// add is called with the lock held.
func (l *line[Q, A]) add(ctx context.Context, t *ticket[Q, A]) {
	l.waiting = append(l.waiting, t)
	if !l.running {
		l.running = true
		own := context.WithoutCancel(ctx)
		l.rules.calls.Go(func() { l.run(own) })
	}
}

func (l *line[Q, A]) withdraw(t *ticket[Q, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, t); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// close refuses further questions; those in line are still answered.
func (l *line[Q, A]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *line[Q, A]) run(ctx context.Context) {
	for {
		batch := l.next()
		if batch == nil {
			return
		}
		l.send(ctx, batch)
	}
}

// next takes the batch that has formed, or nil and the end of the run.
func (l *line[Q, A]) next() []*ticket[Q, A] {
	l.mu.Lock()
	n := min(len(l.waiting), l.rules.maxBatch)
	if n == 0 {
		l.running = false
		l.mu.Unlock()
		return nil
	}
	batch := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.mu.Unlock()
	now := l.rules.clock()
	for _, t := range batch {
		t.queued = now.Sub(t.since)
	}
	return batch
}
