package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// watcher counts and logs what goes wrong in the feed.
type watcher struct {
	*obs.Feed
	log *slog.Logger
}

func (w watcher) Failed(n sale.Number, err error) {
	w.Feed.Failed(n, err)
	w.log.Warn("the journal cannot be read", slog.Any("sale_number", n), slog.Any("error", err))
}

func (w watcher) CutOff(n sale.Number) {
	w.Feed.CutOff(n)
	w.log.Debug("a reader of events did not keep up", slog.Any("sale_number", n))
}

// sweeps counts and logs what goes wrong in the sweeper.
type sweeps struct {
	*obs.Sweeper
	log *slog.Logger
}

func (s *sweeps) Refused(id sale.OrderID, err error) {
	s.Sweeper.Refused(id, err)
	if id.IsZero() {
		s.log.Warn("a sweep for overdue holds failed", slog.Any("error", err))
		return
	}
	s.log.Error("an overdue hold cannot be ended", slog.String("order", id.String()), slog.Any("error", err))
}

// batches counts the engine's calls and remembers whether the ledger takes them.
type batches struct {
	*obs.Engine

	mu       sync.Mutex
	failedAt time.Time
	err      error
}

// troubleLasts is how long a failed call makes the instance unready: long enough
// to be seen, short enough to let the next attempts find out.
const troubleLasts = 3 * time.Second

func (b *batches) Batched(by engine.Source, attempts int, took time.Duration, err error) {
	b.Engine.Batched(by, attempts, took, err)
	if by != engine.FromLedger {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	if err != nil {
		b.failedAt = time.Now()
	}
}

func (b *batches) trouble() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil || time.Since(b.failedAt) > troubleLasts {
		return nil
	}
	return fmt.Errorf("the ledger did not take a batch: %w", b.err)
}

// probe remembers the last look at the ledger for a moment, so that many callers
// cost one transaction.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const probeLasts = 250 * time.Millisecond

func (p *probe) look(ctx context.Context, try func(context.Context) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) > probeLasts {
		p.err = try(ctx)
		p.at = time.Now()
	}
	return p.err
}
