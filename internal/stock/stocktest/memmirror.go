package stocktest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// opened returns the lane if the ledger's acts may reach it.
func (m *Mem) opened(l stock.Lane, epoch int64) (*memLane, error) {
	x := m.lane(l)
	switch {
	case x.meta == nil:
		return nil, stock.ErrCold
	case x.meta.frozenBy != 0:
		return nil, stock.ErrFrozen
	case x.meta.epoch != epoch:
		return nil, stock.ErrEpoch
	}
	return x, nil
}

// Apply implements stock.Counter.
func (m *Mem) Apply(ctx context.Context, l stock.Lane, a stock.Acts) (uint64, error) {
	if err := a.Check(l); err != nil {
		return 0, err
	}
	return call(ctx, m, func() (uint64, error) {
		x, err := m.opened(l, a.Epoch)
		if err != nil {
			return 0, err
		}
		if x.meta.applied != a.From || a.To == a.From {
			return x.meta.applied, nil
		}
		if _, err := x.carry(a.Acts); err != nil {
			return 0, err
		}
		x.meta.seq++
		x.meta.applied = a.To
		return a.To, nil
	})
}

// Return implements stock.Counter.
func (m *Mem) Return(ctx context.Context, l stock.Lane, epoch int64, acts []stock.Act) error {
	if err := checkReturns(l, acts); err != nil {
		return err
	}
	return do(ctx, m, func() error {
		x, err := m.opened(l, epoch)
		if err != nil {
			return err
		}
		wrote, err := x.carry(acts)
		if wrote {
			x.meta.seq++
		}
		return err
	})
}

func checkReturns(l stock.Lane, acts []stock.Act) error {
	for i := range acts {
		if acts[i].Kind != stock.ActReturn {
			return fmt.Errorf("%w: act %d is %q, only returns go ahead of the journal", stock.ErrInvalid, i, acts[i].Kind)
		}
	}
	return stock.CheckActs(l, acts)
}

// carry carries out acts and reports whether anything changed; a lane that lacks
// an item of them is left as it was.
func (x *memLane) carry(acts []stock.Act) (wrote bool, err error) {
	for i := range acts {
		if a := &acts[i]; a.Kind == stock.ActAdopt && a.Item >= len(x.meta.left) {
			return false, fmt.Errorf("%w: item %d of %d", stock.ErrInvalid, a.Item, len(x.meta.left))
		}
	}
	moved := false
	for i := range acts {
		a := &acts[i]
		buyer, found := x.buyers[x.meta.epoch][a.User]
		cooler := buyer.cool(a.CoolUntil)
		acted := false
		if !a.ID.IsZero() {
			buyer.orders = slices.Clone(buyer.orders)
			acted = x.act(&buyer, a)
		}
		if acted || cooler || found {
			x.of(x.meta.epoch)[a.User] = buyer
		}
		wrote, moved = wrote || acted || cooler, moved || acted
	}
	if moved {
		x.meta.generation++
	}
	return wrote, nil
}

func (x *memLane) act(buyer *memBuyer, a *stock.Act) bool {
	at := slices.IndexFunc(buyer.orders, func(r stock.Record) bool { return r.ID == a.ID })
	switch {
	case a.Kind == stock.ActReturn && at >= 0 && buyer.orders[at].Quantity > 0:
		r := &buyer.orders[at]
		x.meta.left[r.Item] += r.Quantity
		x.meta.returned += r.Quantity
		r.Quantity, r.Counted = 0, a.Counted
		return true
	case a.Kind == stock.ActAdopt && a.Quantity > 0 && (at < 0 || buyer.orders[at].Quantity == 0):
		x.meta.left[a.Item] -= a.Quantity
		x.meta.taken += a.Quantity
		buyer.put(a)
		return true
	}
	return false
}

// put records what the act says, in the place of the same order.
func (b *memBuyer) put(a *stock.Act) {
	r := stock.Record{ID: a.ID, Item: a.Item, Quantity: a.Quantity, Counted: a.Counted, TakenAt: millis(a.TakenAt)}
	if at := slices.IndexFunc(b.orders, func(r stock.Record) bool { return r.ID == a.ID }); at >= 0 {
		b.orders[at] = r
		return
	}
	b.orders = append(b.orders, r)
}

func (b *memBuyer) cool(until time.Time) bool {
	if until.IsZero() || !millis(until).After(b.coolUntil) {
		return false
	}
	b.coolUntil = millis(until)
	return true
}

// Sync implements stock.Counter.
func (m *Mem) Sync(ctx context.Context, l stock.Lane, epoch int64, r stock.Rules) (int64, error) {
	return call(ctx, m, func() (int64, error) {
		x, err := m.opened(l, epoch)
		if err != nil {
			return 0, err
		}
		old := x.meta.rules
		if r.Version <= old.Version {
			return old.Version, nil
		}
		if len(r.Stock) < len(old.Stock) {
			return 0, fmt.Errorf("%w: %d items, there were %d", stock.ErrInvalid, len(r.Stock), len(old.Stock))
		}
		for i, total := range r.Stock {
			if i == len(x.meta.left) {
				x.meta.left, x.meta.moved = append(x.meta.left, total), append(x.meta.moved, 0)
				continue
			}
			x.meta.left[i] += total - old.Stock[i]
		}
		x.meta.rules = cloneRules(&r)
		x.meta.seq++
		x.meta.generation++
		return r.Version, nil
	})
}

func cloneRules(r *stock.Rules) stock.Rules {
	c := *r
	c.Stock = slices.Clone(r.Stock)
	return c
}

// SetOffset implements stock.Counter.
func (m *Mem) SetOffset(ctx context.Context, l stock.Lane, epoch int64, offset time.Duration) error {
	return do(ctx, m, func() error {
		switch x := m.lane(l); {
		case x.meta == nil:
			return stock.ErrCold
		case x.meta.frozenBy != 0:
			return stock.ErrFrozen
		case x.meta.epoch != epoch:
			return stock.ErrEpoch
		default:
			x.meta.offset = offset.Truncate(time.Millisecond)
			x.meta.seq++
			return nil
		}
	})
}
