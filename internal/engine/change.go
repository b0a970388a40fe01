package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// CreateSale enters a draft.
func (e *Engine) CreateSale(ctx context.Context, s sale.Sale) (sale.Sale, error) {
	created, err := e.ledger.CreateSale(ctx, s)
	return created, infrastructure(err)
}

// Changed is a sale after a change.
type Changed struct {
	sale.Sale
	// Outstanding lists the lanes of the fast counter that have not confirmed the
	// change in time, in order of index: there the old rules apply until the journal
	// brings the new ones. Nil if all sell by it.
	Outstanding []int
}

// ChangeSale applies one change; version 0 stands for any. When it returns, this
// instance sells by the new rules, and so do all lanes but the outstanding ones.
func (e *Engine) ChangeSale(ctx context.Context, slug string, version int64, c sale.Change) (Changed, error) {
	changed, err := e.change(ctx, slug, version, c)
	if err != nil {
		return Changed{}, infrastructure(err)
	}
	out := Changed{Sale: changed}
	if e.counter != nil && c.Action != sale.ActionDelete {
		out.Outstanding = e.syncAll(ctx, &View{Sale: changed})
	}
	return out, nil
}

// change applies a change in the ledger.
func (e *Engine) change(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error) {
	switch {
	case c.Action == sale.ActionDelete && e.opts.Clear != nil:
		return e.putAway(ctx, slug, version, c)
	case e.opts.WhileFrozen == nil || c.Action != sale.ActionRestock && c.Patch.LimitRule == nil:
		return e.ledger.ChangeSale(ctx, slug, version, c)
	}
	for range maxMoves + 1 {
		changed, err := e.rearrange(ctx, slug, version, c)
		if !errors.Is(err, ledger.ErrWrongEpoch) {
			return changed, err
		}
	}
	return sale.Sale{}, sale.Busy()
}

// putAway deletes a sale, whose lanes are cleared first: whoever is queued in them would
// be so for ever.
func (e *Engine) putAway(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error) {
	s, err := e.ledger.Sale(ctx, slug)
	if err != nil {
		return sale.Sale{}, err
	}
	if version == 0 || version == s.Version { // else the ledger says best what is wrong
		if err = e.opts.Clear(ctx, &s); err != nil {
			return sale.Sale{}, err
		}
	}
	return e.ledger.ChangeSale(ctx, slug, version, c)
}

// rearranges reports whether a change is more than rules to the lanes of a fast sale. A
// lane has no part in the others' units, so while the stock of several is cut none of
// them may sell. And what an order that has ended counts stands in the records of its
// buyer, by the rule of then.
func rearranges(s *sale.Sale, c *sale.Change) bool {
	if c.Action == sale.ActionRestock {
		return len(s.Salts) > 1
	}
	return c.Patch.LimitRule != nil && *c.Patch.LimitRule != s.LimitRule
}

// rearrange makes a change that lanes may have to be built anew for: then it is made on
// the direct path, and nowhere else. ledger.ErrWrongEpoch if the sale has left it again.
func (e *Engine) rearrange(ctx context.Context, slug string, version int64, c sale.Change) (changed sale.Sale, err error) {
	s, err := e.ledger.Sale(ctx, slug)
	if err != nil {
		return sale.Sale{}, err
	}
	given := version
	if c.Patch.LimitRule != nil && version == 0 {
		version = s.Version // another rule meanwhile would be another matter
		defer func() {
			if given == 0 && sale.CodeOf(err) == sale.CodeVersionMismatch {
				err = ledger.ErrWrongEpoch
			}
		}()
	}
	anew := rearranges(&s, &c)
	if s.Path != sale.PathFast || anew {
		c.Path = sale.PathDirect
	}
	outdated := version != 0 && version != s.Version // which the ledger says best
	if s.Path != sale.PathFast || !anew || outdated {
		return e.ledger.ChangeSale(ctx, slug, version, c)
	}
	err = e.opts.WhileFrozen(ctx, &s, func(ctx context.Context) (err error) {
		changed, err = e.ledger.ChangeSale(ctx, slug, version, c)
		return err
	})
	if err != nil {
		return sale.Sale{}, err
	}
	if now, err := e.ledger.SaleByNumber(ctx, s.Number); err == nil { // with the path that it is on again
		changed = now
	}
	return changed, nil
}

// syncAll brings the rules of a fast sale to its lanes and returns those that have
// not confirmed. A caller who leaves does not stop it.
func (e *Engine) syncAll(ctx context.Context, v *View) []int {
	if e.counter == nil || v.Path != sale.PathFast || len(v.Salts) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	failed := make([]error, len(v.Salts))
	var asked sync.WaitGroup
	for i := range v.Salts {
		asked.Go(func() {
			own, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
			defer cancel()
			failed[i] = syncLane(own, e.counter, v, i)
		})
	}
	asked.Wait()
	var outstanding []int
	for i, err := range failed {
		e.opts.Observer.Mirrored(err)
		if err != nil {
			outstanding = append(outstanding, i)
		}
	}
	e.sellsAgain(ctx, v)
	return outstanding
}

// sync brings the rules of a sale as it is known to one lane.
func (s *stand) sync(ctx context.Context, v *View, index int) error {
	err := syncLane(ctx, s.counter, v, index)
	s.opts.Observer.Mirrored(err)
	return err
}

func syncLane(ctx context.Context, c stock.Counter, v *View, index int) error {
	lanes := stock.LanesOf(&v.Sale)
	rules := stock.RulesOf(&v.Sale)
	for i := range rules.Stock {
		rules.Stock[i] = stock.Share(rules.Stock[i], index, len(lanes))
	}
	_, err := c.Sync(ctx, lanes[index], v.Epoch, rules)
	return err
}

// saleNow returns the sale with a number as the ledger has it now.
func (e *Engine) saleNow(ctx context.Context, n sale.Number) (*View, error) {
	found, err := e.ledger.SaleByNumber(ctx, n)
	if err != nil {
		return nil, infrastructure(err)
	}
	return &View{Sale: found}, nil
}
