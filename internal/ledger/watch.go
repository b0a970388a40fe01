package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Notifier is what a Store offers whose database serves other processes as well.
// Through it Book.Watch also hears of rows that they commit.
type Notifier interface {
	// Listen calls fn with the journal rows of each transaction that others commit,
	// one call at a time, until ctx ends or the store is closed, and returns why it
	// ended. What is committed while it has no connection is never heard of, so
	// nothing may depend on it.
	Listen(ctx context.Context, fn func(Span)) error
}

// Span is a stretch of a sale's journal: the rows above From, up to To. Where no
// sale is named it is a stretch of the gate's versions.
type Span struct {
	Sale     sale.Number
	From, To uint64
}

const (
	// maxSpans is how many spans of others wait to be read; further ones are
	// dropped, and found by those who look for themselves.
	maxSpans = 1024
	// readSpan is how long the reading of one page of a span may take.
	readSpan = 5 * time.Second
)

// watchers are those who are told of committed rows, and of changes of the gate.
type watchers struct {
	mu   sync.RWMutex
	fns  map[int]func([]Entry)
	gate map[int]func(version int64)
	next int
	// stop ends the listening to other processes and waits for its end; nil until
	// it has begun.
	stop func()
}

// Watch implements Ledger. The first call begins to listen to other processes,
// where the store can.
func (b *Book) Watch(fn func([]Entry)) func() { return watch(b, b.watchers.fns, fn) }

// WatchGate implements Gate; it listens as Watch does.
func (b *Book) WatchGate(fn func(version int64)) func() { return watch(b, b.watchers.gate, fn) }

// watch enters fn among those of its kind.
func watch[F any](b *Book, fns map[int]F, fn F) (stop func()) {
	w := &b.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	fns[id] = fn
	if n, can := b.store.(Notifier); can && w.stop == nil {
		w.stop = b.listen(n)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(fns, id)
	}
}

func (w *watchers) tell(rows []Entry) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, fn := range w.fns {
		fn(rows)
	}
}

func (w *watchers) tellGate(version int64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, fn := range w.gate {
		fn(version)
	}
}

// deafen ends the listening for good.
func (w *watchers) deafen() {
	w.mu.Lock()
	stop := w.stop
	w.stop = func() {}
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// listen tells the watchers of what others commit, until stop is called.
func (b *Book) listen(n Notifier) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	spans := make(chan Span, maxSpans)
	var running sync.WaitGroup
	running.Go(func() {
		defer close(spans)
		_ = n.Listen(ctx, func(s Span) { // it ends with ctx or with the store
			select {
			case spans <- s:
			default:
			}
		})
	})
	running.Go(func() {
		for s := range spans {
			if s.Sale == 0 {
				b.watchers.tellGate(int64(s.To)) //nolint:gosec // a version does not reach 2^63
				continue
			}
			b.relay(ctx, s)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// relay reads the rows of a span and tells them. What cannot be read is left to
// those who look for themselves.
func (b *Book) relay(ctx context.Context, s Span) {
	for s.From < s.To && ctx.Err() == nil {
		rows, err := b.page(ctx, s)
		if err != nil || len(rows) == 0 {
			return
		}
		b.watchers.tell(rows)
		s.From = rows[len(rows)-1].Seq
	}
}

func (b *Book) page(ctx context.Context, s Span) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readSpan)
	defer cancel()
	return b.store.Read().Rows(ctx, s.Sale, s.From, int(min(s.To-s.From, maxPage)))
}
