package handover

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// progress is how far a build was seen to have come.
type progress struct {
	token int64
	// seq is of the lanes that it has frozen, together. Each of its calls raises it, and
	// nobody else's but those of judges, who come to an end with what was queued.
	seq   uint64
	moved time.Time // when that was last seen to have grown; zero if never
}

// atWork reports whether the builder whose token a sale bears gets on, as one may for
// longer than its lease where there are many orders: who begins again each time is never
// done. One that has not been watched has the lease alone.
func (k *Keeper) atWork(ctx context.Context, s *sale.Sale) bool {
	lanes, err := k.lanesOf(ctx, s)
	if err != nil {
		return false
	}
	at, err := k.counter.ReadAll(ctx, lanes)
	if err != nil {
		return false
	}
	now := progress{token: s.BuildToken}
	held := false
	for i := range at {
		if at[i].State == stock.Frozen && at[i].FrozenBy == s.BuildToken { // others may sell, if their builder got no further
			now.seq += at[i].Seq
			held = true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.builds[s.Number]; last.token == now.token {
		now.moved = last.moved
		if now.seq > last.seq {
			now.moved = k.opts.Clock()
		}
	}
	k.builds[s.Number] = now
	return held && !now.moved.IsZero() && k.opts.Clock().Sub(now.moved) < ledger.BuildLease
}
