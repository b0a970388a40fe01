package stocktest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Freeze implements stock.Counter.
func (m *Mem) Freeze(ctx context.Context, l stock.Lane, token int64) (stock.Standing, error) {
	if token < 1 {
		return stock.Standing{}, fmt.Errorf("%w: token %d", stock.ErrInvalid, token)
	}
	return call(ctx, m, func() (stock.Standing, error) {
		x := m.made(l)
		if x.meta == nil {
			x.meta = &memMeta{}
		}
		switch {
		case token <= x.meta.epoch || token < x.meta.frozenBy:
			return stock.Standing{}, stock.ErrFrozen
		case token == x.meta.frozenBy:
			return x.standing(), nil
		}
		delete(x.buyers, x.meta.frozenBy)
		x.tray.exists = true
		x.meta.frozenBy, x.meta.ready, x.meta.steps = token, false, 0
		x.meta.seq++
		return x.standing(), nil
	})
}

// held returns the lane while it is frozen by the token.
func (m *Mem) held(l stock.Lane, token int64) (*memLane, error) {
	x := m.lane(l)
	if x.meta == nil || x.meta.frozenBy == 0 || x.meta.frozenBy != token {
		return nil, stock.ErrFrozen
	}
	return x, nil
}

// Load implements stock.Counter.
func (m *Mem) Load(ctx context.Context, l stock.Lane, token int64, acts []stock.Act) error {
	if err := stock.CheckLoad(l, acts); err != nil {
		return err
	}
	return do(ctx, m, func() error {
		x, err := m.held(l, token)
		if err != nil {
			return err
		}
		for i := range acts {
			a := &acts[i]
			buyer := x.of(token)[a.User]
			buyer.orders = slices.Clone(buyer.orders)
			buyer.cool(a.CoolUntil)
			if !a.ID.IsZero() {
				buyer.put(a)
			}
			x.of(token)[a.User] = buyer
		}
		x.meta.seq++
		x.meta.steps++
		return nil
	})
}

// Set implements stock.Counter.
func (m *Mem) Set(ctx context.Context, l stock.Lane, token int64, s stock.Setting) error {
	if err := s.Check(); err != nil {
		return err
	}
	return do(ctx, m, func() error {
		x, err := m.held(l, token)
		if err != nil {
			return err
		}
		x.meta.rules, x.meta.left = cloneRules(&s.Rules), slices.Clone(s.Left)
		x.meta.applied, x.meta.maxQueued = s.Applied, s.MaxQueued
		x.meta.offset = s.Offset.Truncate(time.Millisecond)
		x.meta.taken, x.meta.returned = 0, 0
		for i := range s.Left {
			x.meta.taken += s.Stock[i] - s.Left[i]
		}
		x.meta.moved, x.meta.given, x.meta.received, x.meta.wanted = make([]int64, len(s.Left)), nil, nil, time.Time{}
		x.settle()
		x.meta.ready = true
		x.meta.seq++
		x.meta.steps++
		return nil
	})
}

// settle corrects the number of queued slips where it can be known.
func (x *memLane) settle() {
	if len(x.tray.entries) == 0 {
		x.meta.queued = 0
	}
}

// Unfreeze implements stock.Counter.
func (m *Mem) Unfreeze(ctx context.Context, l stock.Lane, token int64) error {
	return do(ctx, m, func() error {
		x := m.lane(l)
		switch {
		case x.meta == nil:
			return stock.ErrCold
		case x.meta.frozenBy == 0 && x.meta.epoch == token:
			return nil
		case x.meta.frozenBy == 0 || x.meta.frozenBy != token:
			return stock.ErrFrozen
		case !x.meta.ready:
			return stock.ErrCold
		}
		delete(x.buyers, x.meta.epoch)
		x.meta.epoch, x.meta.frozenBy, x.meta.ready, x.meta.steps = token, 0, false, 0
		x.meta.seq++
		x.meta.generation++
		return nil
	})
}

// Clear implements stock.Counter.
func (m *Mem) Clear(ctx context.Context, l stock.Lane, token int64) error {
	return do(ctx, m, func() error {
		x := m.lane(l)
		switch {
		case x.meta == nil:
			return nil
		case x.meta.frozenBy == 0 || x.meta.frozenBy != token:
			return stock.ErrFrozen
		case len(x.tray.entries) > 0:
			return stock.ErrTray
		}
		delete(m.lanes, l)
		return nil
	})
}
