package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// stand is where one sale is sold: its lanes and what they share.
type stand struct {
	number  sale.Number
	slug    string
	key     sale.Key
	items   int
	ledger  ledger.Ledger
	counter stock.Counter // nil: no fast path here
	opts    *Options
	catalog *catalog
	lines   *lineRules
	atEnd   func(f func()) (callOff func() bool) // as the engine's
	scribes sync.Pool                            // of *scribe
	first   *lane                                // all that most sales need
	// receipts gathers slips that buyers bring, for the judge.
	receipts line[ledger.Attempt, ledger.Result]

	mu     sync.Mutex
	others []*lane // from index 1 on
	closed bool
	used   atomic.Bool // somebody came since tidy last looked
	reread time.Time   // when the sale was last read again because it had moved
}

func newStand(e *Engine, v *View) *stand {
	s := &stand{
		number: v.Number, slug: v.Slug, key: v.Key, items: len(v.Items), ledger: e.ledger, counter: e.counter,
		opts: &e.opts, catalog: e.catalog, lines: &e.lines, atEnd: e.atEnd,
	}
	s.first = newLane(s, 0)
	s.receipts.rules, s.receipts.send = s.lines, s.judge
	return s
}

// lane returns the lane with an index, setting it up at first use.
func (s *stand) lane(index int) *lane {
	if index == 0 {
		return s.first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.others) < index {
		l := newLane(s, len(s.others)+1)
		if s.closed {
			l.line.close()
		}
		s.others = append(s.others, l)
	}
	return s.others[index-1]
}

// lanes returns the lanes that have been set up.
func (s *stand) lanes() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*lane{s.first}, s.others...)
}

func (s *stand) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, l := range s.lanes() {
		l.line.close()
	}
	s.receipts.close()
}

func (s *stand) sellsAgain() {
	for _, l := range s.lanes() {
		l.memory.sellsAgain()
	}
}

func (s *stand) now() time.Time { return s.catalog.now() }

func (s *stand) trouble() {
	if s.opts.Trouble != nil {
		s.opts.Trouble(s.number)
	}
}

// stale says that a lane has forgotten something of the sale's epoch.
func (s *stand) stale(v *View) {
	if s.opts.Stale != nil {
		s.opts.Stale(v.Number, v.Epoch)
	}
}

// scribe derives and signs under the sale's key.
type scribe struct {
	*sale.Namer
	*stock.Signer
}

// scribe lends a scribe of the sale; put it back into scribes.
func (s *stand) scribe() *scribe {
	if lent, ok := s.scribes.Get().(*scribe); ok {
		return lent
	}
	return &scribe{sale.NewNamer(s.key, s.number), stock.NewSigner(s.key, s.number)}
}

// orderID returns the id of the order that a user's key stands for.
func (s *stand) orderID(user, key string) sale.OrderID {
	w := s.scribe()
	defer s.scribes.Put(w)
	return w.OrderID(user, key)
}

// ask consults memory. item is −1 for a SKU that the sale does not have.
func (s *stand) ask(ctx context.Context, v *View, q *question) (answer, error) {
	l := s.lane(home(v, q.user))
	switch v.Status(s.now().Add(startMargin)) {
	case sale.StatusScheduled:
		if l.stranger(ctx, v, q.user) {
			return answer{refuse: sale.NotStarted}, nil
		}
		return answer{}, nil
	case sale.StatusEnded, sale.StatusClosed:
		l.memory.forget()
		return answer{}, nil
	case sale.StatusPaused:
		return answer{}, nil // the judge of the attempts says so, after the look-up
	case sale.StatusDraft, sale.StatusLive, sale.StatusDeleted:
	}
	if q.item < 0 || q.quantity > v.PerUserLimit { // whatever is left
		if !s.opts.Alone || !l.stranger(ctx, v, q.user) {
			return answer{}, nil
		}
		if q.item < 0 {
			return answer{refuse: sale.NoSuchItem}, nil
		}
		return answer{refuse: sale.BadQuantity}, nil
	}
	for waited := false; ; waited = true {
		a, wait := l.memory.ask(q, s.opts.Clock())
		if wait == nil || waited { // a probe that failed sends those who waited on their way
			return a, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return answer{}, sale.Unavailable(context.Cause(ctx))
		}
	}
}

// over reports whether nothing can be sold here any more, as far as we know: the
// sale has ended, is closed, or is not the one under its slug.
func (s *stand) over() bool {
	v := s.catalog.peek(s.slug)
	if v == nil {
		return false // forgotten by the cache, which says nothing of the sale
	}
	status := v.Status(s.now())
	return v.Number != s.number || status == sale.StatusEnded || status == sale.StatusClosed || status == sale.StatusDeleted
}

// view returns the sale as it is known, however old that is; a call that is sent
// under it names its epoch, so nothing wrong can come of it.
func (s *stand) view(ctx context.Context) (*View, error) {
	if v := s.catalog.peek(s.slug); v != nil && v.Number == s.number {
		return v, nil
	}
	if v, err := s.catalog.get(ctx, s.slug); err == nil && v.Number == s.number {
		return v, nil
	}
	found, err := s.ledger.SaleByNumber(ctx, s.number) // deleted, and its slug perhaps another's
	if err != nil {
		return nil, infrastructure(err)
	}
	return &View{Sale: found, ReadAt: s.now()}, nil
}

// later returns the sale as it is after a call has found old to be outdated. A
// lane that refuses every call costs the ledger no more than a few reads a second.
func (s *stand) later(ctx context.Context, old *View) (*View, error) {
	if v := s.catalog.peek(s.slug); v != nil && v.Number == s.number && v != old {
		return v, nil
	}
	now := s.opts.Clock()
	s.mu.Lock()
	due := s.reread.IsZero() || now.Sub(s.reread) >= rereadInterval
	if due {
		s.reread = now
	}
	s.mu.Unlock()
	if due {
		s.catalog.changed(s.number)
	}
	if _, err := s.catalog.get(ctx, s.slug); err != nil && sale.CodeOf(err) != sale.CodeSaleNotFound {
		return nil, err
	}
	return s.view(ctx)
}
