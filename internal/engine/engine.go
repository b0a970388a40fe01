package engine

import (
	"context"
	"sync"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Engine sells. Make it with New, end it with Close.
type Engine struct {
	ledger  ledger.Ledger
	counter stock.Counter // nil: no fast path
	opts    Options
	lines   lineRules
	catalog *catalog
	clerk   *clerk
	room    *room
	unwatch func()
	stop    context.CancelFunc // ends what the engine runs of its own
	// atEnd has f called when that ends, unless it is called off before.
	atEnd func(f func()) (callOff func() bool)
	calls sync.WaitGroup // calls, refreshes and own goroutines under way

	mu     sync.RWMutex
	stands map[sale.Number]*stand
	closed bool
}

// New returns an engine that sells what the ledger holds, through the counter
// where a sale is on the fast path. Without a counter (nil) such a sale is
// unavailable here. The caller closes both, after the engine.
func New(l ledger.Ledger, c stock.Counter, o Options) *Engine {
	o.fill(c)
	e := &Engine{ledger: l, counter: c, opts: o, stands: make(map[sale.Number]*stand)}
	e.lines = lineRules{maxBatch: o.MaxBatch, maxQueue: o.MaxQueue, clock: o.Clock, calls: &e.calls}
	e.catalog = newCatalog(l, &e.opts, &e.calls)
	e.clerk = newClerk(l, &e.opts, &e.calls)
	e.room = newRoom(l, &e.opts)
	e.unwatch = l.Watch(e.heard)
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.atEnd = func(f func()) func() bool { return context.AfterFunc(ctx, f) }
	if c != nil {
		e.catalog.told = true
		e.calls.Go(func() { e.room.run(ctx) })
		e.calls.Go(func() { e.listen(ctx) })
	}
	return e
}

// Close takes no more attempts, answers those accepted, and waits for the calls
// under way or for ctx. Who waits for the judge is told that his order is queued;
// nobody waits for holders that are being read.
func (e *Engine) Close(ctx context.Context) error {
	e.unwatch()
	e.mu.Lock()
	e.closed = true
	for _, s := range e.stands {
		s.close()
	}
	e.mu.Unlock()
	e.room.close()
	e.clerk.line.close()
	e.catalog.close()
	e.stop()
	done := make(chan struct{})
	go func() {
		e.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// known returns the stand of a sale, or nil.
func (e *Engine) known(n sale.Number) *stand {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.stands[n]
}

// all returns every stand.
func (e *Engine) all() []*stand {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]*stand, 0, len(e.stands))
	for _, s := range e.stands {
		out = append(out, s)
	}
	return out
}

// stand returns the place where a sale is sold, setting it up at first use.
func (e *Engine) stand(v *View) (*stand, error) {
	if s := e.known(v.Number); s != nil {
		if !s.used.Load() {
			s.used.Store(true)
		}
		return s, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, sale.Unavailable(errClosed)
	}
	s := e.stands[v.Number]
	if s == nil {
		e.tidy()
		s = newStand(e, v)
		s.used.Store(true)
		e.stands[v.Number] = s
	}
	return s, nil
}

// leave lets go of a sale that is deleted.
func (e *Engine) leave(r *ledger.Entry) {
	if r.Kind != ledger.SaleKind(sale.ActionDelete) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.stands, r.Sale)
}

// tidy lets go of sales that are over, with all that was remembered of them, unless
// somebody came since it last looked: whoever gathers at one must not have another
// made beside it. Whoever is still in such a line is answered. e.mu is held.
func (e *Engine) tidy() {
	for n, s := range e.stands {
		if s.over() && !s.used.Swap(false) {
			delete(e.stands, n)
		}
	}
}
