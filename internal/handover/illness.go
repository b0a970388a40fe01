package handover

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// ill returns what is wrong with the lanes of a fast sale, or nothing.
func (k *Keeper) ill(ctx context.Context, s *sale.Sale) (Why, error) {
	lanes := stock.LanesOf(s)
	seen := k.seen(lanes)
	before, err := k.read(ctx, lanes)
	if err != nil {
		return "", err
	}
	for i, l := range lanes {
		if why, failed := k.misplaced(ctx, s, l, &before[i]); why != "" || failed != nil {
			return why, failed
		}
	}
	if k.wentBack(lanes, seen, before) {
		return WhyStale, nil
	}
	// In this order: returned, then sold, then taken. In another, a healthy sale
	// looks wrong now and then.
	is, err := k.sale(ctx, s.Number)
	if err != nil || is.Epoch != s.Epoch || is.Path != s.Path {
		return "", err
	}
	after, err := k.read(ctx, lanes)
	if err != nil {
		return "", err
	}
	var returned, taken int64
	for i := range after {
		if after[i].State != stock.Open || after[i].Epoch != before[i].Epoch {
			return "", nil
		}
		returned += before[i].Returned
		taken += held(&after[i]) + after[i].Returned
	}
	switch {
	case taken-returned < sold(&is) && k.caughtUp(ctx, &is, before), adrift(before, after), k.mislaid(ctx, &is, before, after):
		return WhyLoss, nil
	case k.forgetful(&is):
		return WhyStale, nil
	}
	err = k.level(ctx, &is, lanes, after)
	if errors.Is(err, stock.ErrStale) {
		return WhyStale, nil
	}
	return "", err
}

// seen returns how far the lanes have been seen, before they are read again.
func (k *Keeper) seen(lanes []stock.Lane) []stock.Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]stock.Mark, len(lanes))
	for i, l := range lanes {
		out[i] = k.marks[l]
	}
	return out
}

// wentBack reports whether a lane is at a number below one that was seen in its epoch:
// its server has gone back in time. It takes note of how far the lanes have come.
func (k *Keeper) wentBack(lanes []stock.Lane, seen []stock.Mark, now []stock.Standing) (back bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range lanes {
		at := &now[i]
		back = back || at.Seq < seen[i].Of(at.Epoch)
		m := k.marks[l]
		m.Saw(at.Epoch, at.Seq)
		k.marks[l] = m
	}
	return back
}

// adrift reports whether lanes have moved units among them that nobody gave, or that
// nobody has received: one of them has forgotten a transfer. What is seen between
// two readings counts only if nothing came or went.
func adrift(before, after []stock.Standing) bool {
	moved := make(map[int]int64)
	for i := range after {
		if after[i].Generation != before[i].Generation {
			return false
		}
		for item, units := range after[i].Moved {
			moved[item] += units
		}
	}
	for _, t := range stock.Underway(after) {
		moved[t.Item] += t.Units
	}
	for _, units := range moved {
		if units != 0 {
			return true
		}
	}
	return false
}

// caughtUp reports whether the lanes know of every row that the ledger had; one
// that lags behind counts too little without having lost anything.
func (k *Keeper) caughtUp(ctx context.Context, s *sale.Sale, at []stock.Standing) bool {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	for i := range at {
		rows, err := k.ledger.LaneRows(call, s.Number, at[i].Applied, 1)
		if err != nil || len(rows.Rows) > 0 {
			return false
		}
	}
	return true
}

// mislaid reports whether lanes hold units for slips that no tray has any more, as
// after somebody has trimmed one: those buyers would be queued, and their units kept,
// for ever. It is so if the lanes hold more than the ledger had sold at a time when
// every tray was empty, every row had arrived, and nothing came or went.
func (k *Keeper) mislaid(ctx context.Context, s *sale.Sale, before, after []stock.Standing) bool {
	var units int64
	for i := range after {
		units += held(&after[i])
		if after[i].Seq != before[i].Seq {
			return false
		}
	}
	if units <= sold(s) || !k.caughtUp(ctx, s, after) {
		return false
	}
	lanes := stock.LanesOf(s)
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	for _, l := range lanes {
		if waiting, err := k.counter.Look(call, l, "", 1); err != nil || len(waiting) > 0 {
			return false
		}
	}
	again, err := k.read(ctx, lanes)
	if err != nil {
		return false
	}
	for i := range again {
		if again[i].Seq != before[i].Seq {
			return false
		}
	}
	return true
}

// misplaced looks at the state and the epoch of a lane.
func (k *Keeper) misplaced(ctx context.Context, s *sale.Sale, l stock.Lane, at *stock.Standing) (Why, error) {
	k.mu.Lock()
	first := k.frozen[l]
	if at.State != stock.Frozen {
		delete(k.frozen, l)
	} else if first.token != at.FrozenBy {
		first = since{at.FrozenBy, k.opts.Clock()}
		k.frozen[l] = first
	}
	k.mu.Unlock()
	switch {
	case at.State == stock.Cold:
		return WhyCold, nil
	case at.State == stock.Frozen && at.FrozenBy == s.Epoch:
		// Its builder has put it in force and did not come to open it.
		call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
		defer cancel()
		err := k.counter.Unfreeze(call, l, s.Epoch)
		if errors.Is(err, stock.ErrCold) { // its server went back to before it was loaded
			return WhyCold, nil
		}
		return "", err
	case at.State == stock.Frozen && k.opts.Clock().Sub(first.at) >= frozenLimit:
		return WhyFrozen, nil
	case at.State == stock.Open && at.Epoch != s.Epoch:
		is, err := k.sale(ctx, s.Number)
		if err != nil || is.Epoch != s.Epoch {
			return "", err // the sale has moved since it was read
		}
		return WhyEpoch, nil
	}
	return "", nil
}

// held is what a lane believes to be held by orders.
func held(at *stock.Standing) (units int64) {
	for i := range at.Stock {
		units += at.Stock[i] + at.Moved[i] - at.Left[i]
	}
	return units
}

func sold(s *sale.Sale) (units int64) {
	for i := range s.Items {
		units += s.Items[i].Sold
	}
	return units
}
