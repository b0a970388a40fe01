package handover

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Stranded moves sales where there is no counter, as on an instance that was started
// without Redis since that is gone: off the fast path, and not onto it.
type Stranded struct{ ledger ledger.Ledger }

// NewStranded returns one over a ledger.
func NewStranded(l ledger.Ledger) *Stranded { return &Stranded{ledger: l} }

// Preheat is refused: CodeIllegalState.
func (*Stranded) Preheat(context.Context, string) (sale.Sale, error) {
	return sale.Sale{}, sale.IllegalState("this server has no fast path", "name a Redis in redis.url of its configuration and start it again")
}

// Route takes a sale to the direct path at once, as Keeper does where the counter does
// not answer: whoever is queued there is judged when it does, if units are left.
// CodeIllegalState for the fast path.
func (s *Stranded) Route(ctx context.Context, slug string, version int64, to sale.Path) (sale.Sale, error) {
	if to == sale.PathFast {
		return s.Preheat(ctx, slug)
	}
	now, err := s.ledger.Sale(ctx, slug)
	if err != nil {
		return sale.Sale{}, err
	}
	if now.Preferred != to || version != 0 && version != now.Version {
		now, err = s.ledger.ChangeSale(ctx, slug, version, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Preferred: &to}})
		if err != nil {
			return sale.Sale{}, err
		}
	}
	if now.Path == to {
		return now, nil
	}
	b, err := s.ledger.StartBuild(ctx, now.Number, now.Epoch)
	if err != nil {
		return sale.Sale{}, err
	}
	return s.ledger.GoDirect(ctx, now.Number, now.Epoch, b.Token)
}
