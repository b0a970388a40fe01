package stocktest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Give implements stock.Counter.
func (m *Mem) Give(ctx context.Context, l stock.Lane, t stock.Transfer) (stock.Transfer, error) {
	if err := t.Check(); err != nil {
		return stock.Transfer{}, err
	}
	return call(ctx, m, func() (stock.Transfer, error) {
		x, err := m.opened(l, t.Epoch)
		if err != nil {
			return stock.Transfer{}, err
		}
		if last, any := x.meta.given[t.To]; any && last.Number >= t.Number {
			last.From = t.From
			return last, nil
		}
		if t.From < t.To && m.clock().Before(x.meta.wanted) {
			return stock.Transfer{}, stock.ErrWanted
		}
		if t.Item >= len(x.meta.left) || x.meta.left[t.Item] <= 0 {
			t.Units = 0
			return t, nil
		}
		t.Units = min(t.Units, x.meta.left[t.Item])
		x.move(t.Item, -t.Units)
		if x.meta.given == nil {
			x.meta.given = make(map[int]stock.Transfer)
		}
		kept := t
		kept.From = 0
		x.meta.given[t.To] = kept
		return t, nil
	})
}

func (x *memLane) move(item int, units int64) {
	x.meta.left[item] += units
	x.meta.moved[item] += units
	x.meta.seq++
	x.meta.generation++
}

// Receive implements stock.Counter.
func (m *Mem) Receive(ctx context.Context, l stock.Lane, t stock.Transfer) error {
	if err := t.Check(); err != nil {
		return err
	}
	return do(ctx, m, func() error {
		x, err := m.opened(l, t.Epoch)
		if err != nil {
			return err
		}
		last := x.meta.received[t.From]
		switch {
		case t.Number <= last:
			return nil
		case t.Number != last+1:
			return stock.ErrStale
		case t.Item >= len(x.meta.left):
			return fmt.Errorf("%w: item %d of %d", stock.ErrInvalid, t.Item, len(x.meta.left))
		}
		x.move(t.Item, t.Units)
		if x.meta.received == nil {
			x.meta.received = make(map[int]uint64)
		}
		x.meta.received[t.From] = t.Number
		return nil
	})
}

// Want implements stock.Counter.
func (m *Mem) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	return do(ctx, m, func() error {
		x, err := m.opened(l, epoch)
		if err != nil {
			return err
		}
		x.meta.wanted = time.Time{}
		if d > 0 {
			x.meta.wanted = m.clock().Add(d)
		}
		return nil
	})
}

// Salts implements stock.Counter: there is one server.
func (m *Mem) Salts(ctx context.Context, first stock.Lane, lanes int) ([]uint32, error) {
	return call(ctx, m, func() ([]uint32, error) { return slices.Repeat([]uint32{first.Salt}, lanes), nil })
}
