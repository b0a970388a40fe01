package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
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
	// Wait is how long the caller would wait for a queued order to be judged; 20 s at
	// most, zero not at all.
	Wait time.Duration
	// Receipt, if set, is what an earlier answer to the same request carried. The
	// order that it stands for is honoured even where the fast counter has lost it.
	Receipt string
	// Admit, if set, is asked before an attempt joins the line, and not for one that
	// is answered from memory. Its refusal is the answer, unless the key has an order
	// already; one of the load (CodeRateLimited) is the answer at once.
	Admit func(context.Context) error
}

// Decision is the answer to a request.
type Decision struct {
	Verdict sale.Verdict
	// Order is there for Taken and Replayed. On the fast path it is queued, unless
	// it was judged while the caller waited; then it may be a rejected one.
	Order sale.Order
	// Receipt is the buyer's signed copy of what was taken, while the order is
	// queued; else empty.
	Receipt string
	View    *View     // the sale as the engine knows it; nil for NoSuchSale
	Left    int64     // for Insufficient: what may still be had
	RetryAt time.Time // for CoolDown
	Times   Times
}

// Times says how long the stages of an answer took.
type Times struct {
	Queue  time.Duration // waiting for a call
	Stock  time.Duration // the fast counter's call
	Ledger time.Duration // the ledger's calls
	Wait   time.Duration // waiting for the judge
}

// callTime is how long the call took that decided an attempt; one of the two.
type callTime struct {
	stock, ledger time.Duration
}

// Buy decides one request. Business refusals are verdicts; an error is bad
// input (CodeInvalid, CodeInvalidQuantity), a full line or a sale between two
// paths (CodeBusy: nothing was done), or CodeUnavailable, after which the same
// key tells what has happened.
func (e *Engine) Buy(ctx context.Context, r Request) (Decision, error) {
	if err := r.check(); err != nil {
		return Decision{}, err
	}
	d, err := e.buy(ctx, &r)
	if err == nil && d.Verdict == sale.NoSuchSale && d.View != nil {
		// The sale that we knew under this slug is gone; perhaps it has a successor.
		e.catalog.changed(d.View.Number)
		d, err = e.buy(ctx, &r)
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

func (e *Engine) buy(ctx context.Context, r *Request) (Decision, error) {
	v, err := e.Sale(ctx, r.Sale)
	if err != nil {
		if sale.CodeOf(err) == sale.CodeSaleNotFound {
			e.opts.Observer.Decided(sale.NoSuchSale, FromMemory)
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
	if r.Receipt != "" {
		if d, known := e.presented(ctx, v, r, item); known {
			return d, nil
		}
	}
	a, err := s.ask(ctx, v, &question{epoch: v.Epoch, item: item, quantity: r.Quantity, user: r.User})
	if err != nil {
		return Decision{}, err
	}
	if a.refuse != "" {
		e.opts.Observer.Decided(a.refuse, FromMemory)
		return Decision{Verdict: a.refuse, View: v, Left: a.left}, nil
	}
	looked := func() {}
	if a.probe != nil {
		m := s.lane(home(v, r.User)).memory
		looked = sync.OnceFunc(func() { m.probed(a.probe) })
		defer looked() // also after a panic
	}
	if r.Admit != nil {
		if err := r.Admit(ctx); err != nil {
			looked() // somebody else shall look
			return e.notAdmitted(ctx, v, r, item, err)
		}
	}
	return e.enter(ctx, v, s, r, looked)
}

// notAdmitted answers an attempt that the gate refuses. Look-up precedes every
// refusal but those of the load. A crowd that is refused shares its readings.
func (e *Engine) notAdmitted(ctx context.Context, v *View, r *Request, item int, refusal error) (Decision, error) {
	ofTheBuyer := []sale.Code{sale.CodeBanned, sale.CodeChallengeRequired, sale.CodePassRequired, sale.CodePassInvalid}
	if !slices.Contains(ofTheBuyer, sale.CodeOf(refusal)) {
		return Decision{}, infrastructure(refusal)
	}
	id := v.OrderID(r.User, r.Key)
	o, found, err := e.seek(ctx, id, r.User)
	if err == nil && !found && v.Path == sale.PathFast { // it may have been judged meanwhile
		var kept entry
		kept, err = e.find(ctx, id)
		o, found = kept.order, kept.found
	}
	switch {
	case err == nil && found:
		return e.again(ctx, v, r, item, o), nil
	case err == nil || sale.CodeOf(err) == sale.CodeOrderNotFound:
		return Decision{}, refusal
	}
	return Decision{}, infrastructure(err)
}

// again is the answer to a request that has an order already.
func (e *Engine) again(ctx context.Context, v *View, r *Request, item int, o sale.Order) Decision {
	d := Decision{Verdict: sale.Replayed, Order: o, View: v}
	if item < 0 || o.SKU != v.Items[item].SKU || o.Quantity != r.Quantity {
		d.Verdict, d.Order = sale.KeyMismatch, sale.Order{}
	}
	e.opts.Observer.Decided(d.Verdict, FromLedger)
	if d.Order.State == sale.Queued {
		d.Receipt = r.Receipt
		if r.Wait > 0 {
			e.awaitNow(ctx, r.Wait, &d)
		}
	}
	return d
}

// enter sends an attempt through the line of its lane.
func (e *Engine) enter(ctx context.Context, v *View, s *stand, r *Request, looked func()) (Decision, error) {
	id := s.orderID(r.User, r.Key)
	var w *waiter
	if r.Wait > 0 && v.Path == sale.PathFast {
		if w = e.room.enter(id); w != nil { // before the judge can be done with it
			defer e.room.leave(w)
		}
	}
	l := s.lane(home(v, r.User))
	t, err := l.line.ask(ctx, ledger.Attempt{ID: id, User: r.User, SKU: r.SKU, Quantity: r.Quantity, Expected: r.Expected})
	looked()
	if err != nil {
		return Decision{}, err
	}
	out := &t.answer
	d := Decision{
		Verdict: out.Verdict, Order: out.Order, View: out.view, Left: out.Left, RetryAt: out.RetryAt,
		Times: Times{Queue: t.queued, Stock: out.call.stock, Ledger: out.call.ledger},
	}
	if out.source == FromCounter {
		err = e.queue(ctx, s, r, out, &d)
	} else if d.Verdict == sale.Replayed {
		d.Order = e.whole(ctx, out.Order)
	}
	if err != nil {
		return Decision{}, err
	}
	e.opts.Observer.Decided(d.Verdict, out.source)
	if d.Order.State == sale.Queued && w != nil {
		e.await(ctx, w, r.Wait, &d)
	}
	return d, nil
}

// queue completes a decision of the fast counter's.
func (e *Engine) queue(ctx context.Context, s *stand, r *Request, out *outcome, d *Decision) error {
	switch d.Verdict {
	case sale.Taken:
	case sale.Replayed:
		started := e.opts.Clock()
		o, err := e.replayed(ctx, out)
		d.Times.Ledger = e.opts.Clock().Sub(started)
		if err != nil {
			return err
		}
		if o.State != sale.Queued {
			d.Order = o
			// The counter does not know any more what an ended order held.
			if item, err := out.view.Item(r.SKU); err != nil || o.SKU != out.view.Items[item].SKU || o.Quantity != r.Quantity {
				d.Verdict, d.Order = sale.KeyMismatch, sale.Order{}
			}
			return nil
		}
	case sale.SoldOut, sale.Insufficient, sale.LimitReached, sale.CoolDown, sale.NotStarted, sale.Ended, sale.PausedNow,
		sale.ClosedNow, sale.TermsChanged, sale.KeyMismatch, sale.NoSuchSale, sale.NoSuchItem, sale.BadQuantity:
		return nil
	}
	d.Order = queued(out.view, &out.slip)
	if d.Verdict == sale.Taken { // the counter does not keep under what terms an earlier one was
		signer := s.scribe()
		defer s.scribes.Put(signer)
		d.Receipt = signer.Receipt(&out.slip)
	}
	return nil
}

// queued returns the order that a slip stands for until it is judged. Its amount
// is what the terms in force make it.
func queued(v *View, slip *stock.Slip) sale.Order {
	o := sale.Order{
		ID: slip.ID, Slug: v.Slug, User: slip.User, Quantity: slip.Quantity, Terms: v.Terms, Currency: v.Currency,
		State: sale.Queued, Epoch: slip.Epoch, TakenAt: slip.TakenAt,
	}
	if slip.Item >= 0 && slip.Item < len(v.Items) {
		o.SKU, o.Amount = v.Items[slip.Item].SKU, v.Items[slip.Item].Price*slip.Quantity
	}
	return o
}

// await waits for the judge, up to d.
func (e *Engine) await(ctx context.Context, w *waiter, limit time.Duration, d *Decision) {
	started := e.opts.Clock()
	if o, judged := e.room.wait(ctx, w, limit); judged {
		d.Order, d.Receipt = o, ""
	}
	d.Times.Wait = e.opts.Clock().Sub(started)
}

// awaitNow enters the room and waits there. The order may be judged just before,
// which the room's net finds.
func (e *Engine) awaitNow(ctx context.Context, limit time.Duration, d *Decision) {
	if w := e.room.enter(d.Order.ID); w != nil {
		defer e.room.leave(w)
		e.await(ctx, w, limit, d)
	}
}

// errTombstone says that the counter knows of the end of an order that the ledger
// does not hold.
var errTombstone = errors.New("engine: the fast counter remembers an order that the ledger does not hold")

// replayed returns the order that the counter has recorded, as it is now: by the
// ledger if it is judged, else queued. While the ledger does not answer, the
// record answers alone.
func (e *Engine) replayed(ctx context.Context, out *outcome) (sale.Order, error) {
	found, err := e.find(ctx, out.slip.ID)
	switch {
	case err == nil && found.found:
		return e.whole(ctx, found.order), nil
	case out.slip.Quantity > 0:
		return queued(out.view, &out.slip), nil
	case err != nil:
		return sale.Order{}, err
	}
	// The end of an order reaches the lane after it is in the ledger, so this can
	// only be one whose row the database refused.
	o, err := e.ledger.Order(ctx, out.slip.ID)
	if err != nil && sale.CodeOf(err) == sale.CodeOrderNotFound {
		err = sale.Unavailable(errTombstone)
	}
	return o, infrastructure(err)
}

// presented answers a repeated request by the order that its receipt stands for.
func (e *Engine) presented(ctx context.Context, v *View, r *Request, item int) (Decision, bool) {
	id := v.OrderID(r.User, r.Key)
	o, err := e.OrderByReceipt(ctx, id, r.User, r.Receipt)
	if err != nil {
		return Decision{}, false // the attempt tells
	}
	return e.again(ctx, v, r, item, o), true
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
