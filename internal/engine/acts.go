package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// returnTimeout bounds what a caller waits for so that the next buyer need not
	// wait for the journal.
	returnTimeout = 500 * time.Millisecond
	// judgeWait is how long an act on an order that is not in the ledger waits for
	// its judgement.
	judgeWait = 2 * time.Second
)

// Cancel ends a reserved order, or one that is still queued. An empty user stands
// for the shop; what is queued it can cancel as soon as it is judged.
func (e *Engine) Cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	o, err := e.cancel(ctx, id, user)
	if err != nil {
		return sale.Order{}, infrastructure(err)
	}
	e.giveBack(ctx, &o)
	return e.whole(ctx, o), nil
}

func (e *Engine) cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	if e.counter == nil {
		return e.ledger.Cancel(ctx, id, user)
	}
	if user == "" {
		return onceJudged(ctx, e, id, func() (sale.Order, error) { return e.ledger.Cancel(ctx, id, user) })
	}
	o, err := e.ledger.Cancel(ctx, id, user)
	if err == nil || sale.CodeOf(err) != sale.CodeOrderNotFound {
		return o, err
	}
	r, laneErr := e.recorded(ctx, id, user)
	switch {
	case laneErr != nil && sale.CodeOf(laneErr) == sale.CodeOrderNotFound:
		return e.ledger.Cancel(ctx, id, user) // it may have been judged, and its lane cleared, meanwhile
	case laneErr != nil:
		return o, laneErr
	}
	queue := queued(r.view, &r.slip)
	return e.ledger.CancelQueued(ctx, ledger.Attempt{
		ID: id, User: user, SKU: queue.SKU, Quantity: queue.Quantity,
		Slip: &ledger.Slip{Epoch: r.slip.Epoch, Terms: r.slip.Terms, TakenAt: r.slip.TakenAt},
	})
}

// Pay books a payment notice. A notice about an order that is still queued waits
// for its judgement, for two seconds; then it is CodeBusy: repeat it.
func (e *Engine) Pay(ctx context.Context, p sale.Payment) (ledger.Paid, error) {
	paid, err := onceJudged(ctx, e, p.Order, func() (ledger.Paid, error) { return e.ledger.Pay(ctx, p) })
	return paid, infrastructure(err)
}

// Refund ends a paid order.
func (e *Engine) Refund(ctx context.Context, id sale.OrderID, restock bool) (sale.Order, error) { //nolint:revive // restock is the shop's own choice, carried through
	o, err := e.refund(ctx, id, restock)
	if err != nil {
		return sale.Order{}, infrastructure(err)
	}
	if restock || e.cutFirst(ctx, id.Sale()) {
		e.giveBack(ctx, &o)
	}
	return o, nil
}

// refund ends a paid order in the ledger. Without restock that is a cut, and which of
// several lanes would lose the unit is not the one that gets it back: it would sell
// again. So none of them sells meanwhile, as with any other cut.
func (e *Engine) refund(ctx context.Context, id sale.OrderID, restock bool) (sale.Order, error) { //nolint:revive // as above
	if restock || e.opts.WhileFrozen == nil {
		return e.ledger.Refund(ctx, id, ledger.Refunding{Restock: restock})
	}
	for range maxMoves + 1 {
		o, err := e.writeOff(ctx, id)
		if !errors.Is(err, ledger.ErrWrongEpoch) {
			return o, err
		}
	}
	return sale.Order{}, sale.Busy()
}

// writeOff refunds an order whose units leave the stock, while no lane sells if there
// are several. ledger.ErrWrongEpoch if the sale has changed its path in the meantime.
func (e *Engine) writeOff(ctx context.Context, id sale.OrderID) (o sale.Order, err error) {
	anywhere := func() (sale.Order, error) { return e.ledger.Refund(ctx, id, ledger.Refunding{}) }
	s, err := e.ledger.SaleByNumber(ctx, id.Sale())
	if err != nil {
		return anywhere() // it says what there is to say
	}
	onDirect := ledger.Refunding{Path: sale.PathDirect}
	switch {
	case s.Path == sale.PathDirect:
		return e.ledger.Refund(ctx, id, onDirect)
	case len(s.Salts) < 2:
		return anywhere()
	}
	found, err := e.ledger.OrdersByID(ctx, []sale.OrderID{id})
	if err != nil || found[id].State != sale.Paid { // nothing will change
		return anywhere()
	}
	begun := false
	err = e.opts.WhileFrozen(ctx, &s, func(ctx context.Context) (err error) {
		begun = true
		o, err = e.ledger.Refund(ctx, id, onDirect)
		return err
	})
	if !begun { // a counter that does not answer keeps nobody from his money
		return anywhere()
	}
	return o, err
}

// cutFirst brings the stock without the units of a refunded order to the lanes,
// before the units themselves, so that nobody takes them; it reports whether it
// could.
func (e *Engine) cutFirst(ctx context.Context, n sale.Number) bool {
	if e.counter == nil {
		return false
	}
	v, err := e.saleNow(ctx, n)
	return err == nil && len(e.syncAll(ctx, v)) == 0
}

// onceJudged carries out an act of the shop's on an order. Where the ledger does
// not know the order though its sale has lanes, the order may be queued: then its
// judgement is waited for. CodeBusy if it may still be queued after that.
func onceJudged[T any](ctx context.Context, e *Engine, id sale.OrderID, act func() (T, error)) (T, error) {
	done, err := act()
	if err == nil || e.counter == nil || sale.CodeOf(err) != sale.CodeOrderNotFound {
		return done, err
	}
	v, viewErr := e.laned(ctx, id.Sale())
	switch {
	case viewErr != nil && sale.CodeOf(viewErr) != sale.CodeSaleNotFound:
		return done, viewErr // it may be queued: that it is unknown would be a lie
	case viewErr != nil || len(v.Salts) == 0:
		return done, err
	}
	w := e.room.enter(id)
	if w != nil {
		defer e.room.leave(w)
	}
	empty := e.traysEmpty(ctx, v)
	if !empty && w != nil {
		e.room.wait(ctx, w, judgeWait)
		empty = e.traysEmpty(ctx, v)
	}
	done, err = act()
	if err != nil && sale.CodeOf(err) == sale.CodeOrderNotFound && !empty {
		err = sale.StillQueued()
	}
	return done, err
}

// traysEmpty reports whether every slip that was taken by now has been judged.
func (e *Engine) traysEmpty(ctx context.Context, v *View) bool {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	for _, l := range stock.LanesOf(&v.Sale) {
		standing, err := e.counter.Read(ctx, l)
		if err != nil || standing.Queued > 0 {
			return false
		}
	}
	return true
}

// giveBack returns to the lane at once what an order that has ended held, so that
// the next buyer need not wait for the journal to bring it.
func (e *Engine) giveBack(ctx context.Context, o *sale.Order) {
	if e.counter == nil || o.State != sale.Cancelled && o.State != sale.Refunded {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	known := e.saleOf
	if o.State == sale.Refunded {
		known = e.saleNow // what it counts stays: the journal's own row changes nothing any more
	}
	v, err := known(ctx, o.ID.Sale())
	if err != nil || v.Path != sale.PathFast || len(v.Salts) == 0 {
		return
	}
	item := slices.IndexFunc(v.Items, func(i sale.Item) bool { return i.SKU == o.SKU })
	if item < 0 {
		return
	}
	act := stock.Act{Kind: stock.ActReturn, ID: o.ID, User: o.User, Item: item}
	if o.State == sale.Refunded && v.LimitRule == sale.LimitEverPaid {
		act.Counted = o.Quantity
	}
	lanes := stock.LanesOf(&v.Sale)
	err = e.counter.Return(ctx, lanes[stock.Home(o.User, len(lanes))], v.Epoch, []stock.Act{act})
	e.opts.Observer.Mirrored(err)
	if err == nil {
		e.sellsAgain(ctx, v)
	}
}

// sellsAgain has every instance forget that the sale was sold out, this one at
// once.
func (e *Engine) sellsAgain(ctx context.Context, v *View) {
	if s := e.known(v.Number); s != nil {
		s.sellsAgain()
	}
	e.tell(ctx, stock.Message{Kind: stock.KindSellsAgain, Sale: v.Number})
}
