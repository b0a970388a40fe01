package engine

import (
	"context"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Options of an engine. Zero values take the defaults.
type Options struct {
	MaxBatch    int           // attempts in one transaction; default 256
	MaxQueue    int           // attempts waiting per sale, beyond which the engine is busy; default 4096
	CallTimeout time.Duration // deadline of one ledger call; default 5 s
	Refresh     time.Duration // age at which a cached sale is read again; default 1 s
	// Clock is the process's clock, with its monotonic reading; required. It
	// measures ages and, through an offset, tells the ledger's time.
	Clock    func() time.Time
	Observer Observer // nil: nobody watches
}

const (
	defaultMaxBatch    = 256
	defaultMaxQueue    = 4096
	defaultCallTimeout = 5 * time.Second
	defaultRefresh     = time.Second
	// memoryLife is how long a shortage is believed without asking again.
	memoryLife = time.Second
	// staleLimit is how old a cached sale may be shown while the ledger fails.
	staleLimit = 5 * time.Second
	// startMargin keeps refusals from memory away from the opening instant by
	// more than clocks may differ; within it the ledger judges.
	startMargin = 100 * time.Millisecond
)

// Observer is told what the engine does. Calls come from many goroutines and
// must return quickly.
type Observer interface {
	// Batched reports one ledger call: its size, how long it took, its error.
	Batched(attempts int, took time.Duration, err error)
	// Decided reports one verdict and whether memory gave it.
	Decided(v sale.Verdict, source Source)
}

// Source says who gave a verdict.
type Source string

// The sources of a verdict.
const (
	FromMemory Source = "memory"
	FromLedger Source = "ledger"
)

// Engine sells. Make it with New, end it with Close.
type Engine struct {
	ledger   ledger.Ledger
	opts     Options
	catalog  *catalog
	unwatch  func()
	calls    sync.WaitGroup // ledger calls and refreshes under way
	observer Observer

	mu     sync.RWMutex
	stands map[sale.Number]*stand
	closed bool
}

// New returns an engine that sells what the ledger holds.
func New(l ledger.Ledger, o Options) *Engine {
	o.MaxBatch = orDefault(o.MaxBatch, defaultMaxBatch)
	o.MaxQueue = orDefault(o.MaxQueue, defaultMaxQueue)
	o.CallTimeout = orDefault(o.CallTimeout, defaultCallTimeout)
	o.Refresh = orDefault(o.Refresh, defaultRefresh)
	e := &Engine{ledger: l, opts: o, observer: o.Observer, stands: make(map[sale.Number]*stand)}
	if e.observer == nil {
		e.observer = nobody{}
	}
	e.catalog = newCatalog(l, o, &e.calls)
	e.unwatch = l.Watch(e.heard)
	return e
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

type nobody struct{}

func (nobody) Batched(int, time.Duration, error) {}
func (nobody) Decided(sale.Verdict, Source)      {}

// Close takes no more attempts, answers those accepted, and waits for the calls
// under way or for ctx.
func (e *Engine) Close(ctx context.Context) error {
	e.unwatch()
	e.mu.Lock()
	e.closed = true
	for _, s := range e.stands {
		s.line.close()
	}
	e.mu.Unlock()
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

// Ledger returns the book of record, for reads that need no rule of the engine.
func (e *Engine) Ledger() ledger.Ledger { return e.ledger }

// Now tells the ledger's time without asking it: the process's clock corrected
// by the offset last measured, at most a few seconds ago while sales are read.
func (e *Engine) Now() time.Time { return e.catalog.now() }

// Sale returns the visible sale with this slug, at most Refresh old, or up to
// five seconds while the ledger fails. CodeSaleNotFound for drafts too.
func (e *Engine) Sale(ctx context.Context, slug string) (*View, error) {
	v, err := e.catalog.get(ctx, slug)
	if err != nil {
		return nil, err
	}
	if !v.Visible() {
		return nil, sale.SaleNotFound()
	}
	return v, nil
}

// Sales returns every visible sale in order of number, as fresh as Sale does.
func (e *Engine) Sales(ctx context.Context) ([]*View, error) { return e.catalog.list(ctx) }

// CreateSale enters a draft.
func (e *Engine) CreateSale(ctx context.Context, s sale.Sale) (sale.Sale, error) {
	created, err := e.ledger.CreateSale(ctx, s)
	return created, infrastructure(err)
}

// ChangeSale applies one change; version 0 stands for any. When it returns,
// this instance already sells by the new rules.
func (e *Engine) ChangeSale(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error) {
	changed, err := e.ledger.ChangeSale(ctx, slug, version, c)
	return changed, infrastructure(err)
}

// Cancel ends a reserved order. An empty user stands for the shop.
func (e *Engine) Cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	o, err := e.ledger.Cancel(ctx, id, user)
	if err != nil {
		return sale.Order{}, infrastructure(err)
	}
	return e.whole(ctx, o), nil
}

// Pay books a payment notice.
func (e *Engine) Pay(ctx context.Context, p sale.Payment) (ledger.Paid, error) {
	paid, err := e.ledger.Pay(ctx, p)
	return paid, infrastructure(err)
}

// Refund ends a paid order.
func (e *Engine) Refund(ctx context.Context, id sale.OrderID, restock bool) (sale.Order, error) {
	o, err := e.ledger.Refund(ctx, id, restock)
	return o, infrastructure(err)
}

// Order returns an order; a user who does not own it learns as much as from an
// unknown id. An empty user stands for the shop.
func (e *Engine) Order(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	o, err := e.ledger.Order(ctx, id)
	if err != nil {
		return sale.Order{}, infrastructure(err)
	}
	if user != "" && o.User != user {
		return sale.Order{}, sale.OrderNotFound()
	}
	return o, nil
}

// heard is told of every committed journal row of this process.
func (e *Engine) heard(rows []ledger.Entry) {
	var last sale.Number
	for i := range rows {
		r := &rows[i]
		if r.Kind.OfSale() {
			e.catalog.changed(r.Sale)
			e.leave(r)
		} else if r.Sale == last || !returnsUnits(r.Kind) {
			continue
		} else {
			e.catalog.moved(r.Sale)
			last = r.Sale
		}
		if s := e.known(r.Sale); s != nil {
			s.memory.sellsAgain()
		}
	}
}

func returnsUnits(k ledger.Kind) bool {
	return k == ledger.OrderKind(sale.Cancelled) || k == ledger.OrderKind(sale.Expired) || k == ledger.OrderKind(sale.Refunded)
}

func (e *Engine) known(n sale.Number) *stand {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.stands[n]
}

// stand returns the place where a sale is sold, setting it up at first use.
func (e *Engine) stand(v *View) (*stand, error) {
	if s := e.known(v.Number); s != nil {
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

// tidy lets go of sales that are over, with all that was remembered of them.
// Whoever is still in such a line is answered. e.mu is held.
func (e *Engine) tidy() {
	for n, s := range e.stands {
		if s.over() {
			delete(e.stands, n)
		}
	}
}
