package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// store is the database: the reference store, but by the clock of the simulation,
// with sale keys that depend on the seed alone, and a copy of every committed
// change for the books.
type store struct {
	*ledgertest.MemStore
	key       sale.Key
	committed []*ledger.Changes // since the books were last written
	refuses   string            // a user whose orders the database refuses
}

func (s *store) now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Now implements ledger.Clock.
func (s *store) Now(context.Context) (time.Time, error) { return s.now(), nil }

// Update implements ledger.Store.
func (s *store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	var written []*ledger.Changes
	err := s.MemStore.Update(ctx, func(tx ledger.Tx) error {
		written = nil
		return fn(&transaction{Tx: tx, of: s, written: &written})
	})
	if err == nil {
		s.committed = append(s.committed, written...)
	}
	return err
}

// transaction is one on a store.
type transaction struct {
	ledger.Tx
	of      *store
	written *[]*ledger.Changes
}

func (t *transaction) Now() time.Time { return t.of.now() }

func (t *transaction) InsertSale(ctx context.Context, r ledger.Record) (sale.Number, error) {
	r.Key = t.of.key
	return t.Tx.InsertSale(ctx, r)
}

func (t *transaction) Write(ctx context.Context, c *ledger.Changes) error {
	for i := range c.Orders {
		if c.Orders[i].After.User == t.of.refuses {
			return fmt.Errorf("%w: orders of %s", ledger.ErrConstraint, t.of.refuses)
		}
	}
	*t.written = append(*t.written, c)
	return t.Tx.Write(ctx, c)
}
