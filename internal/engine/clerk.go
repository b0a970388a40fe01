package engine

import (
	"context"
	"sync"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// clerk looks orders up for many callers at once: while one reading is under way
// the next list of ids forms. Each caller sees what was true after he asked.
type clerk struct {
	ledger ledger.Ledger
	opts   *Options
	rules  lineRules
	line   line[sale.OrderID, entry]
}

// entry is what the ledger has under an id.
type entry struct {
	order sale.Order
	found bool
}

const (
	maxLookUp     = 1000
	maxLookUpLine = 65_536
)

func newClerk(l ledger.Ledger, o *Options, calls *sync.WaitGroup) *clerk {
	c := &clerk{ledger: l, opts: o}
	c.rules = lineRules{maxBatch: maxLookUp, maxQueue: maxLookUpLine, clock: o.Clock, calls: calls}
	c.line.rules, c.line.send = &c.rules, c.send
	return c
}

// find returns the order with an id and whether there is one. A replacement is
// not named.
func (c *clerk) find(ctx context.Context, id sale.OrderID) (entry, error) {
	t, err := c.line.ask(ctx, id)
	if err != nil {
		return entry{}, err
	}
	return t.answer, nil
}

func (c *clerk) send(ctx context.Context, batch []*ticket[sale.OrderID, entry]) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	ids := make([]sale.OrderID, len(batch))
	for i, t := range batch {
		ids[i] = t.ask
	}
	found, err := c.ledger.OrdersByID(ctx, ids)
	for _, t := range batch {
		o, ok := found[t.ask]
		t.reply(entry{o, ok}, err)
	}
}
