package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stand is where one sale is sold: its line and its memory.
type stand struct {
	number   sale.Number
	slug     string
	ledger   ledger.Ledger
	opts     Options
	clock    func() time.Time
	catalog  *catalog
	observer Observer
	calls    *sync.WaitGroup

	memory *memory
	line   line
}

func newStand(e *Engine, v *View) *stand {
	s := &stand{
		number: v.Number, slug: v.Slug, ledger: e.ledger, opts: e.opts, clock: e.opts.Clock,
		catalog: e.catalog, observer: e.observer, calls: &e.calls, memory: newMemory(v.Items),
	}
	s.line.stand = s
	return s
}

// answer is what memory says to an attempt: refuse it, or let it pass, perhaps
// as the probe on which others wait.
type answer struct {
	refuse sale.Verdict
	left   int64
	probe  *shelf
}

// ask consults memory. item is −1 for a SKU that the sale does not have.
func (s *stand) ask(ctx context.Context, item int, quantity int64, user string) (answer, error) {
	switch s.status() {
	case sale.StatusScheduled:
		if s.stranger(ctx, user) {
			return answer{refuse: sale.NotStarted}, nil
		}
		return answer{}, nil
	case sale.StatusEnded, sale.StatusClosed:
		s.memory.forget()
		return answer{}, nil
	case sale.StatusPaused:
		return answer{}, nil // the ledger says so, after the look-up
	case sale.StatusDraft, sale.StatusLive, sale.StatusDeleted:
	}
	if item < 0 {
		if s.stranger(ctx, user) {
			return answer{refuse: sale.NoSuchItem}, nil
		}
		return answer{}, nil
	}
	if limit := s.limit(); limit > 0 && quantity > limit && s.stranger(ctx, user) {
		return answer{refuse: sale.BadQuantity}, nil // whatever is left
	}
	for waited := false; ; waited = true {
		a, wait := s.memory.ask(item, quantity, user, s.clock())
		if wait == nil || waited { // a probe that failed sends those who waited to the ledger
			return a, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return answer{}, sale.Unavailable(context.Cause(ctx))
		}
	}
}

// status returns the sale's status as far as we know, looking ahead by the
// margin by which clocks may differ.
func (s *stand) status() sale.Status {
	v := s.catalog.peek(s.slug)
	if v == nil || v.Number != s.number {
		return sale.StatusLive // the ledger knows better
	}
	return v.Status(s.catalog.now().Add(startMargin))
}

// over reports whether nothing can be sold here any more, as far as we know: the
// sale has ended, is closed, or is not the one under its slug.
func (s *stand) over() bool {
	v := s.catalog.peek(s.slug)
	if v == nil {
		return false // forgotten by the cache, which says nothing of the sale
	}
	status := v.Status(s.catalog.now())
	return v.Number != s.number || status == sale.StatusEnded || status == sale.StatusClosed || status == sale.StatusDeleted
}

// limit returns the limit per user as far as we know, or 0.
func (s *stand) limit() int64 {
	if v := s.catalog.peek(s.slug); v != nil && v.Number == s.number {
		return v.PerUserLimit
	}
	return 0
}

// stranger reports whether the user is known to have no order in the sale. The
// first question starts the loading of the buyers; until it is done nobody is.
func (s *stand) stranger(ctx context.Context, user string) bool {
	known, load := s.memory.stranger(user)
	if load {
		s.loadBuyers(ctx)
	}
	return known
}

func (s *stand) loadBuyers(ctx context.Context) {
	s.calls.Go(func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.CallTimeout)
		defer cancel()
		hashes, err := s.ledger.Buyers(own, s.number)
		s.memory.loaded(hashes, err)
	})
}

// reserve has one batch decided and teaches memory what came of it. The ledger
// may have moved to another epoch; then the sale is read again, once.
func (s *stand) reserve(ctx context.Context, attempts []ledger.Attempt) ([]ledger.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	for again := false; ; again = true {
		epoch := int64(0)
		if v := s.catalog.peek(s.slug); v != nil && v.Number == s.number {
			epoch = v.Epoch
		}
		seen := s.memory.generations()
		out, err := s.ledger.Reserve(ctx, ledger.Batch{Sale: s.number, Epoch: epoch, Attempts: attempts})
		switch {
		case err == nil:
			if s.memory.learn(seen, attempts, out.Results, s.clock()) {
				s.loadBuyers(ctx)
			}
			return out.Results, nil
		case !errors.Is(err, ledger.ErrWrongEpoch) || again:
			s.memory.doubt(attempts)
			return nil, err
		}
		s.catalog.changed(s.number)
		if _, err := s.catalog.get(ctx, s.slug); err != nil {
			return nil, err
		}
	}
}
