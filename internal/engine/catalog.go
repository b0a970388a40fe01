package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// View is a sale as it was read at one instant. It never changes: a sale that
// has changed is another pointer, so a pointer may key what is derived from it.
type View struct {
	sale.Sale
	ReadAt time.Time // the ledger's clock
}

// Now tells the ledger's time without asking it: the process's clock corrected by
// the offset last measured, at most a few seconds ago while sales are read.
func (e *Engine) Now() time.Time { return e.catalog.now() }

// Ledger returns the book of record, for reads that need no rule of the engine.
func (e *Engine) Ledger() ledger.Ledger { return e.ledger }

// Sale returns the visible sale with this slug, at most Refresh old (twice that
// before its start), or up to five seconds while the ledger fails.
// CodeSaleNotFound for drafts too.
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

// catalog caches sales by slug. A sale is read again in the background when it
// is older than the refresh time, at once after a change by this process, and
// is shown stale for a few seconds while the ledger fails.
type catalog struct {
	ledger ledger.Ledger
	opts   *Options
	calls  *sync.WaitGroup
	ending sync.Mutex // of closed, beside which no read begins
	closed bool
	told   bool // other instances tell of what they change

	offset atomic.Int64 // ledger's clock − ours, ns

	mu      sync.RWMutex
	related time.Time // when offset was measured, our clock
	sales   map[string]*cached[*View]
	missing map[string]time.Time // slugs known not to exist, until when (our clock)
	changes uint64               // counts changes of sales, so that an older "missing" is not believed
	unknown int                  // slugs looked up since, of which nothing was known
	since   time.Time
	all     cached[listing]
}

// listing is every visible sale, in order of number, and their slugs.
type listing struct {
	views []*View
	slugs map[string]bool
}

const (
	// maxMissing bounds the memory of slugs that do not exist; beyond it the
	// whole memory is dropped, which costs one read per slug asked for again.
	maxMissing  = 1024
	missingLife = time.Second
	// maxUnknown is how many unknown slugs a second are looked up one by one. Who asks
	// for more is guessing: the list of all sales answers then, which is read once a
	// second.
	maxUnknown = 100
	// maxCached bounds the cached sales in the same way.
	maxCached = 4096
	pageSize  = 1000
	// clockLife is how long a measured distance between the clocks is used.
	clockLife = 5 * time.Second
	// restlessLife is how long a sale is shown before a message that its stock has
	// moved has it read again: units may come and go hundreds of times a second.
	restlessLife = 50 * time.Millisecond
	// earlyFactor is how much longer a sale that has not begun is good for: nothing
	// of it moves but by an operator, who is heard of.
	earlyFactor = 2
)

func newCatalog(l ledger.Ledger, o *Options, calls *sync.WaitGroup) *catalog {
	return &catalog{
		ledger: l, opts: o, calls: calls,
		sales: make(map[string]*cached[*View]), missing: make(map[string]time.Time),
	}
}

func (c *catalog) now() time.Time {
	return c.opts.Clock().Add(time.Duration(c.offset.Load()))
}

// get returns the sale with this slug, drafts included.
func (c *catalog) get(ctx context.Context, slug string) (*View, error) {
	if err := sale.CheckSlug(slug); err != nil {
		return nil, sale.SaleNotFound()
	}
	entry, missing, changes := c.entry(slug)
	if missing || entry == nil && c.guessed(ctx, slug) {
		return nil, sale.SaleNotFound()
	}
	if entry == nil {
		entry = c.enter(slug)
	}
	if v, fresh := entry.fresh(c, c.lifeOf); fresh {
		return v, nil
	}
	v, err := entry.get(ctx, c, c.lifeOf, func(ctx context.Context) (*View, error) { return c.read(ctx, slug) })
	if err != nil && sale.CodeOf(err) == sale.CodeSaleNotFound {
		c.forget(slug, entry, changes)
	}
	return v, infrastructure(err)
}

// list returns the visible sales.
func (c *catalog) list(ctx context.Context) ([]*View, error) {
	all, err := c.listing(ctx)
	return all.views, infrastructure(err)
}

func (c *catalog) listing(ctx context.Context) (listing, error) {
	return c.all.get(ctx, c, func(listing) time.Duration { return c.opts.Refresh }, c.readAll)
}

// guessed reports whether a slug of which nothing is known is one of too many, and in
// no list.
func (c *catalog) guessed(ctx context.Context, slug string) bool {
	now := c.opts.Clock()
	c.mu.Lock()
	if now.Sub(c.since) >= time.Second {
		c.since, c.unknown = now, 0
	}
	c.unknown++
	many := c.unknown > maxUnknown
	c.mu.Unlock()
	if !many {
		return false
	}
	all, err := c.listing(ctx)
	return err == nil && !all.slugs[slug]
}

// lifeOf returns how old a view may be before it is read again.
func (c *catalog) lifeOf(v *View) time.Duration {
	if c.told && v.Status(c.now()) == sale.StatusScheduled {
		return earlyFactor * c.opts.Refresh
	}
	return c.opts.Refresh
}

// number returns the visible sale with a number, or CodeSaleNotFound.
func (c *catalog) number(ctx context.Context, n sale.Number) (*View, error) {
	views, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearchFunc(views, n, func(v *View, n sale.Number) int { return cmp.Compare(v.Number, n) })
	if !found {
		return nil, sale.SaleNotFound()
	}
	return views[i], nil
}

// peek returns what is cached for a slug, however old, or nil.
func (c *catalog) peek(slug string) *View {
	c.mu.RLock()
	entry := c.sales[slug]
	c.mu.RUnlock()
	if entry == nil {
		return nil
	}
	return entry.peek()
}

// entry returns what is cached for a slug, nil if nothing is, and whether the slug is
// known not to exist.
func (c *catalog) entry(slug string) (entry *cached[*View], missing bool, changes uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	entry = c.sales[slug]
	until, gone := c.missing[slug]
	return entry, entry == nil && gone && c.opts.Clock().Before(until), c.changes
}

// enter makes room for a slug.
func (c *catalog) enter(slug string) *cached[*View] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry := c.sales[slug]; entry != nil {
		return entry
	}
	if len(c.sales) >= maxCached {
		clear(c.sales)
	}
	entry := &cached[*View]{}
	c.sales[slug] = entry
	return entry
}

// forget remembers that a slug does not exist, unless a sale has changed since
// the read began.
func (c *catalog) forget(slug string, entry *cached[*View], changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sales[slug] == entry {
		delete(c.sales, slug)
	}
	if c.changes != changes {
		return
	}
	if len(c.missing) >= maxMissing {
		clear(c.missing)
	}
	c.missing[slug] = c.opts.Clock().Add(missingLife)
}

// changed makes the next get of the sale, and of the list, wait for a fresh
// read; slugs believed missing may exist now.
func (c *catalog) changed(n sale.Number) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.missing)
	c.changes++
	c.all.void()
	for _, entry := range c.sales {
		if v := entry.peek(); v == nil || v.Number == n {
			entry.void()
		}
	}
}

// moved has the sale read again in the background at its next get.
func (c *catalog) moved(n sale.Number) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.all.age()
	for _, entry := range c.sales {
		if v := entry.peek(); v != nil && v.Number == n {
			entry.age()
		}
	}
}

// movedAll does the same for every sale.
func (c *catalog) movedAll() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.all.age()
	for _, entry := range c.sales {
		entry.age()
	}
}

func (c *catalog) read(ctx context.Context, slug string) (*View, error) {
	at, err := c.measure(ctx)
	if err != nil {
		return nil, err
	}
	s, err := c.ledger.Sale(ctx, slug)
	if err != nil {
		return nil, err
	}
	return &View{Sale: s, ReadAt: at}, nil
}

func (c *catalog) readAll(ctx context.Context) (listing, error) {
	at, err := c.measure(ctx)
	if err != nil {
		return listing{}, err
	}
	all := listing{views: []*View{}, slugs: make(map[string]bool)}
	for after := sale.Number(0); ; {
		page, err := c.ledger.ListSales(ctx, after, pageSize)
		if err != nil {
			return listing{}, err
		}
		for i := range page {
			after = page[i].Number
			if page[i].Visible() {
				all.views = append(all.views, &View{Sale: page[i], ReadAt: at})
				all.slugs[page[i].Slug] = true
			}
		}
		if len(page) < pageSize {
			return all, nil
		}
	}
}

// measure returns the ledger's time, relating its clock to ours if that was long
// ago.
func (c *catalog) measure(ctx context.Context) (time.Time, error) {
	sent := c.opts.Clock()
	c.mu.RLock()
	related := c.related
	c.mu.RUnlock()
	if c.told && !related.IsZero() && sent.Sub(related) < clockLife {
		return sent.Add(time.Duration(c.offset.Load())).Round(0), nil
	}
	at, err := c.ledger.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	got := c.opts.Clock()
	middle := sent.Add(got.Sub(sent) / 2)
	c.offset.Store(int64(at.Sub(middle.Round(0)))) // Round drops the monotonic reading: compare wall clocks
	c.mu.Lock()
	c.related = got
	c.mu.Unlock()
	return at, nil
}

// close lets no read begin any more. What is known can still be seen.
func (c *catalog) close() {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.closed = true
}

// begin runs a read, and reports false if the catalog is closed.
func (c *catalog) begin(read func()) bool {
	c.ending.Lock()
	defer c.ending.Unlock()
	if !c.closed {
		c.calls.Go(read)
	}
	return !c.closed
}

// cached is one value that is read again when it is old.
type cached[T any] struct {
	mu      sync.Mutex
	value   T
	filled  bool
	at      time.Time  // when value was asked for, our clock
	must    bool       // nobody may see value any more
	expired bool       // value is to be read again at the next get
	flight  *flight[T] // the read under way, nil if none
}

// flight is one read. What it finds is kept even where a change has arrived meanwhile,
// for those who asked before it began: a sale that moves faster than it can be read
// would never be read otherwise.
type flight[T any] struct {
	done     chan struct{}
	value    T
	err      error
	aged     bool // what it finds is to be read again at the next get
	outdated bool // nobody who asks later may see it
}

func (e *cached[T]) peek() T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.value
}

// age has the value read again at the next get, which may still see it.
func (e *cached[T]) age() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expired = true
	if e.flight != nil {
		e.flight.aged = true
	}
}

// void has the value read again before anybody sees it.
func (e *cached[T]) void() {
	e.age()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.must = true
	if e.flight != nil {
		e.flight.outdated = true
	}
}

// fresh returns the value if it need not be read again.
func (e *cached[T]) fresh(c *catalog, life func(T) time.Duration) (T, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fresh, _ := e.state(c, life)
	return e.value, fresh
}

// state reports whether the value need not be read again, and whether it may be
// shown while it is; e.mu is held.
func (e *cached[T]) state(c *catalog, life func(T) time.Duration) (fresh, usable bool) {
	age := c.opts.Clock().Sub(e.at)
	if !e.filled || e.must || age >= staleLimit {
		return false, false
	}
	if e.expired {
		return age < restlessLife, true
	}
	return age < life(e.value), true
}

// get returns the value, from a read of its own if need be. life says how old a
// value may be before it is read again. What a read finds that began after the
// question is an answer to it, whatever has changed since.
func (e *cached[T]) get(ctx context.Context, c *catalog, life func(T) time.Duration, read func(context.Context) (T, error)) (T, error) {
	for asked := false; ; asked = true {
		e.mu.Lock()
		fresh, usable := e.state(c, life)
		if fresh {
			defer e.mu.Unlock()
			return e.value, nil
		}
		f, later := e.flight, asked
		if f == nil {
			f, later = e.start(ctx, c, read), true
		}
		value := e.value
		e.mu.Unlock()
		if usable {
			return value, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return value, context.Cause(ctx)
		}
		if later || !f.outdated {
			return f.value, f.err
		}
	}
}

// start begins a read; e.mu is held.
func (e *cached[T]) start(ctx context.Context, c *catalog, read func(context.Context) (T, error)) *flight[T] {
	f := &flight[T]{done: make(chan struct{})}
	e.flight = f
	asked := c.opts.Clock()
	begun := c.begin(func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.CallTimeout)
		defer cancel()
		value, err := read(own)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.flight, f.value, f.err = nil, value, err
		if err == nil { // at worst newer than what was there
			e.value, e.filled, e.at, e.must, e.expired = value, true, asked, f.outdated, f.aged
		}
		close(f.done)
	})
	if !begun {
		e.flight, f.err = nil, sale.Unavailable(errClosed)
		close(f.done)
	}
	return f
}
