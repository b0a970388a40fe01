package engine

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// gather answers whom the lane could, and has units brought from the other lanes for
// those who are short. Who may be served then stays in the batch.
func (t *taking) gather(ctx context.Context) error {
	t.learnt.gone = make([]bool, len(t.reply.Left))
	t.learn(ctx)
	g, short := t.shortages()
	var waiting []int
	var done []*try
	for i := range t.batch {
		if _, is := short[i]; is {
			waiting = append(waiting, i)
			continue
		}
		t.answer(i)
		done = append(done, t.batch[i])
	}
	t.line.wake(done)
	var out []stock.Gathered
	var err error
	if len(waiting) > 0 {
		started := t.stand.opts.Clock()
		out, err = stock.Gather(ctx, t.stand.counter, g)
		t.stand.opts.Observer.Gathered(t.stand.opts.Clock().Sub(started), err)
	}
	var stay, refused []*try
	if err == nil {
		t.gone(ctx, g, out)
	}
	for _, i := range waiting {
		if err == nil && out[short[i]].Short {
			r := &t.reply.Results[i]
			r.Left = out[short[i]].Left
			r.Verdict = shortage(r.Left)
			t.answer(i)
			refused = append(refused, t.batch[i])
		} else {
			stay = append(stay, t.batch[i])
		}
	}
	t.line.wake(refused)
	t.batch = stay
	return t.explain(err)
}

// shortages returns what the lane lacks, and which lack is whose.
func (t *taking) shortages() (*stock.Gathering, map[int]int) {
	v := t.view
	g := &stock.Gathering{
		Lanes: stock.LanesOf(&v.Sale), Epoch: v.Epoch, Home: t.index, Generation: t.reply.Generation,
		Seen: func(i int) uint64 { return t.stand.lane(i).mark.of(v.Epoch) },
		Saw:  func(i int, seq uint64) { t.stand.lane(i).mark.saw(v.Epoch, seq) },
	}
	byItem, short := make(map[int]int), make(map[int]int)
	for i := range t.batch {
		a := &t.call.Attempts[i]
		if verdict := t.reply.Results[i].Verdict; verdict != sale.SoldOut && verdict != sale.Insufficient {
			continue
		}
		k, known := byItem[a.Item]
		if !known {
			k = len(g.Short)
			byItem[a.Item] = k
			g.Short = append(g.Short, stock.Shortage{Item: a.Item, Least: a.Quantity})
		}
		g.Short[k].Least = min(g.Short[k].Least, a.Quantity)
		g.Short[k].Most += a.Quantity
		short[i] = k
	}
	return g, short
}

// gone takes note of the items that no lane has any more. Where the home lane still
// had one when it answered, somebody has it by now whom memory may not know.
func (t *taking) gone(ctx context.Context, g *stock.Gathering, out []stock.Gathered) {
	found := false
	for k := range out {
		item := g.Short[k].Item
		if out[k].Short && out[k].Left == 0 && item < len(t.learnt.left) && t.learnt.left[item] == 0 {
			t.learnt.gone[item], found = true, true
		}
	}
	if found {
		t.learn(ctx)
	}
}

// explain says what follows from an error of a gathering.
func (t *taking) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stock.ErrContended):
		return sale.Busy()
	case errors.Is(err, stock.ErrEpoch):
		return errMoved
	case errors.Is(err, stock.ErrStale):
		t.stand.stale(t.view)
		return errTroubled
	case errors.Is(err, stock.ErrCold), errors.Is(err, stock.ErrFrozen):
		return errTroubled
	}
	return infrastructure(err)
}
