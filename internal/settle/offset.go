package settle

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// Measure compares the lane's clock with the ledger's and corrects what the lane
// knows of their distance. A correction of more than a second is Trouble: what
// was taken before it carries wrong times. A lane that is behind what this courier
// brought it, in rows or in rules, gets that again.
func (c *Courier) Measure(ctx context.Context) error {
	call, cancel := c.call(ctx)
	defer cancel()
	at, err := c.counter.Read(call, c.lane)
	if err != nil {
		return err
	}
	if at.State == stock.Cold {
		return stock.ErrCold
	}
	if at.State == stock.Frozen {
		return stock.ErrFrozen // its builder measures
	}
	if at.Epoch == c.sale.Epoch && (at.Applied < c.applied || at.Version < c.sale.Version) {
		// Its server went back in time, and what it had is missing there. Rules may be
		// missing where rows are not: those that were on their way came after it.
		c.known = false
		c.Nudge()
	}
	offset, doubt, err := c.distance(call)
	if err != nil {
		return err
	}
	c.opts.Observer.Offset(c.lane, offset, doubt)
	correction := (offset - at.Offset).Abs()
	if correction <= max(doubt, time.Millisecond) {
		return nil // less than what the measuring itself can be wrong by
	}
	if correction > maxLeap {
		c.opts.Trouble(c.lane.Sale)
	}
	return c.counter.SetOffset(call, c.lane, c.sale.Epoch, offset)
}

// distance returns how far the lane's clock is ahead of the ledger's, and by how
// much that may be wrong. Each reading is taken to be of the middle of its call.
func (c *Courier) distance(ctx context.Context) (offset, doubt time.Duration, err error) {
	sent := c.opts.Clock()
	lane, err := c.counter.Clock(ctx, c.lane)
	if err != nil {
		return 0, 0, err
	}
	now, err := c.ledger.Now(ctx)
	if err != nil {
		return 0, 0, err
	}
	doubt = c.opts.Clock().Sub(sent) / 2
	return lane.Add(doubt).Sub(now).Truncate(time.Millisecond), doubt, nil
}
