package engine

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

var errClosed = errors.New("engine: closed")

// Request is one request to buy by an authenticated user.
type Request struct {
	Sale     string // slug
	User     string
	Key      string // idempotency key
	SKU      string // empty for the only item
	Quantity int64
	// Expected, if set, is the amount and currency the buyer agreed to.
	Expected *ledger.Money
}

// Decision is the answer to a request.
type Decision struct {
	Verdict sale.Verdict
	Order   sale.Order // for Taken and Replayed
	View    *View      // the sale as the engine knows it; nil for NoSuchSale
	Left    int64      // for Insufficient: what may still be had
	RetryAt time.Time  // for CoolDown
	// Queue is how long the attempt waited for its call and Ledger how long the
	// call took; both zero when memory answered.
	Queue, Ledger time.Duration
}

// Buy decides one request. Business refusals are verdicts; an error is bad
// input (CodeInvalid, CodeInvalidQuantity), a full line (CodeBusy), or
// CodeUnavailable, after which the same key tells what has happened.
func (e *Engine) Buy(ctx context.Context, r Request) (Decision, error) {
	if err := r.check(); err != nil {
		return Decision{}, err
	}
	d, err := e.buy(ctx, r)
	if err == nil && d.Verdict == sale.NoSuchSale && d.View != nil {
		// The sale that we knew under this slug is gone; perhaps it has a successor.
		e.catalog.changed(d.View.Number)
		d, err = e.buy(ctx, r)
	}
	if d.Verdict == sale.NoSuchSale {
		d.View = nil
	}
	return d, err
}

func (r *Request) check() error {
	if err := sale.CheckUser(r.User); err != nil {
		return err
	}
	if err := sale.CheckIdempotencyKey(r.Key); err != nil {
		return err
	}
	if r.Quantity < 1 || r.Quantity > sale.MaxPerUserLimit {
		return sale.InvalidQuantity(sale.MaxPerUserLimit)
	}
	return nil
}

func (e *Engine) buy(ctx context.Context, r Request) (Decision, error) {
	v, err := e.Sale(ctx, r.Sale)
	if err != nil {
		if sale.CodeOf(err) == sale.CodeSaleNotFound {
			e.observer.Decided(sale.NoSuchSale, FromMemory)
			return Decision{Verdict: sale.NoSuchSale}, nil
		}
		return Decision{}, err
	}
	s, err := e.stand(v)
	if err != nil {
		return Decision{}, err
	}
	item, itemErr := v.Item(r.SKU)
	if itemErr != nil {
		item = -1
	}
	a, err := s.ask(ctx, item, r.Quantity, r.User)
	if err != nil {
		return Decision{}, err
	}
	if a.refuse != "" {
		e.observer.Decided(a.refuse, FromMemory)
		return Decision{Verdict: a.refuse, View: v, Left: a.left}, nil
	}
	out, err := s.line.decide(ctx, ledger.Attempt{
		ID: v.OrderID(r.User, r.Key), User: r.User, SKU: r.SKU, Quantity: r.Quantity, Expected: r.Expected,
	})
	if a.probe != nil {
		s.memory.probed(a.probe)
	}
	if err != nil {
		return Decision{}, err
	}
	e.observer.Decided(out.Verdict, FromLedger)
	if out.Verdict == sale.Replayed {
		out.Order = e.whole(ctx, out.Order)
	}
	return Decision{
		Verdict: out.Verdict, Order: out.Order, View: v, Left: out.Left, RetryAt: out.RetryAt,
		Queue: out.queue, Ledger: out.call,
	}, nil
}

// whole returns an order with the one that took its place, which only orders that
// ended unpaid can have. It is an extra; without the ledger it is left out.
func (e *Engine) whole(ctx context.Context, o sale.Order) sale.Order {
	if o.State != sale.Cancelled && o.State != sale.Expired {
		return o
	}
	if full, err := e.ledger.Order(ctx, o.ID); err == nil {
		return full
	}
	return o
}

// infrastructure gives errors without a code the code of infrastructure trouble.
func infrastructure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*sale.Error](err); ok {
		return err
	}
	return sale.Unavailable(err)
}
