package handover

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// level brings home what gatherings left on its way, and units to lanes that are
// below zero, so that nobody takes elsewhere what those owe.
func (k *Keeper) level(ctx context.Context, s *sale.Sale, lanes []stock.Lane, at []stock.Standing) error {
	if len(lanes) == 1 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	for _, t := range stock.Underway(at) {
		if err := k.counter.Receive(call, lanes[t.To], t); err != nil && !between(err) {
			return err
		}
	}
	for i := range at {
		g := stock.Gathering{Lanes: lanes, Epoch: s.Epoch, Home: i, Generation: at[i].Generation}
		for item, left := range at[i].Left {
			if left < 0 {
				g.Short = append(g.Short, stock.Shortage{Item: item})
			}
		}
		if len(g.Short) == 0 {
			continue
		}
		if _, err := stock.Gather(call, k.counter, &g); err != nil && !between(err) {
			return err
		}
	}
	return nil
}

// between reports whether an error only says that the lanes have gone on meanwhile.
func between(err error) bool {
	return errors.Is(err, stock.ErrFrozen) || errors.Is(err, stock.ErrEpoch) || errors.Is(err, stock.ErrCold) || errors.Is(err, stock.ErrContended)
}
