package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// lookTimeout is how long the ledger is waited for where a lane can answer in
	// its place.
	lookTimeout = time.Second
	// maxAsked bounds the lanes that one listing of a buyer's orders asks.
	maxAsked = 32
)

// Order returns an order, also a queued one if user is its buyer; a user who does
// not own it learns as much as from an unknown id. An empty user stands for the
// shop, which sees what the ledger holds.
func (e *Engine) Order(ctx context.Context, id sale.OrderID, user string) (sale.Order, error) {
	o, found, err := e.seek(ctx, id, user)
	if err != nil || found {
		return o, err
	}
	o, err = e.ledger.Order(ctx, id) // it may be a dead letter, or have come meanwhile
	if err != nil {
		return sale.Order{}, infrastructure(err)
	}
	if user != "" && o.User != user {
		return sale.Order{}, sale.OrderNotFound()
	}
	return o, nil
}

// seek looks an order up as Order does, but leaves out what needs a reading for this
// caller alone: dead letters, and what comes to the ledger while it looks.
func (e *Engine) seek(ctx context.Context, id sale.OrderID, user string) (o sale.Order, found bool, err error) {
	kept, err := e.find(ctx, id)
	if err == nil && kept.found {
		if user != "" && kept.order.User != user {
			return sale.Order{}, false, sale.OrderNotFound()
		}
		return e.whole(ctx, kept.order), true, nil
	}
	if e.counter == nil || user == "" {
		return sale.Order{}, false, err
	}
	q, laneErr := e.recorded(ctx, id, user)
	switch {
	case laneErr == nil && q.slip.Quantity > 0:
		return queued(q.view, &q.slip), true, nil
	case err == nil && laneErr != nil && sale.CodeOf(laneErr) != sale.CodeOrderNotFound:
		err = laneErr // it may be queued: that it is unknown would be a lie
	}
	return sale.Order{}, false, err
}

// Await returns the order as Order does, and if it is queued waits up to d, or
// until ctx ends, for its judgement.
func (e *Engine) Await(ctx context.Context, id sale.OrderID, user string, d time.Duration) (sale.Order, error) {
	w := e.room.enter(id)
	if w != nil {
		defer e.room.leave(w)
	}
	o, err := e.Order(ctx, id, user)
	if err != nil || o.State != sale.Queued || w == nil {
		return o, err
	}
	if judged, ok := e.room.wait(ctx, w, d); ok && judged.User == o.User {
		return judged, nil
	}
	return o, nil
}

// OrderByReceipt returns the order as Order does. An order that neither ledger nor
// counter knows is judged by its receipt, like a slip from the tray, if this house
// has signed it for this order and user; else it stays unknown.
func (e *Engine) OrderByReceipt(ctx context.Context, id sale.OrderID, user, receipt string) (sale.Order, error) {
	o, err := e.Order(ctx, id, user)
	if err == nil || user == "" {
		return o, err
	}
	v, viewErr := e.saleOf(ctx, id.Sale())
	if viewErr != nil {
		return sale.Order{}, err
	}
	slip, readErr := openReceipt(v, receipt)
	if readErr != nil || slip.ID != id || slip.User != user {
		return sale.Order{}, err
	}
	s, standErr := e.stand(v)
	if standErr != nil {
		return sale.Order{}, err
	}
	t, err := s.receipts.ask(ctx, ledger.Attempt{
		ID: id, User: user, SKU: v.Items[slip.Item].SKU, Quantity: slip.Quantity,
		Slip: &ledger.Slip{Epoch: slip.Epoch, Terms: slip.Terms, TakenAt: slip.TakenAt, Presented: true},
	})
	if err != nil {
		return sale.Order{}, err
	}
	if t.answer.Order.User != user {
		return sale.Order{}, sale.OrderNotFound()
	}
	return e.whole(ctx, t.answer.Order), nil
}

// openReceipt returns the slip that a receipt is the copy of.
func openReceipt(v *View, receipt string) (stock.Slip, error) {
	signer := stock.NewSigner(v.Key, v.Number)
	slip, err := signer.Open(receipt)
	if err == nil && (!signer.Check(&slip) || slip.Item >= len(v.Items)) {
		err = stock.ErrUnreadable
	}
	return slip, err
}

// judge has the ledger judge a batch of receipts.
func (s *stand) judge(ctx context.Context, batch []*ticket[ledger.Attempt, ledger.Result]) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	attempts := make([]ledger.Attempt, len(batch))
	for i, t := range batch {
		attempts[i] = t.ask
	}
	out, err := s.ledger.Reserve(ctx, ledger.Batch{Sale: s.number, Attempts: attempts})
	for i, t := range batch {
		if err != nil {
			t.reply(ledger.Result{}, err)
			continue
		}
		t.reply(out.Results[i], out.Results[i].Err)
	}
}

// Orders returns a buyer's orders that match, newest first; what is still queued
// in a fast counter leads the first page. Lanes that do not answer in time are
// left out: what they hold shows up as soon as it is judged.
func (e *Engine) Orders(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	first, err := e.waiting(ctx, f)
	if err != nil || f.State == sale.Queued {
		return first, err
	}
	found, err := e.ledger.ListOrders(ctx, f)
	if err != nil {
		return nil, infrastructure(err)
	}
	return append(first, found...), nil
}

// waiting returns what the lanes have recorded of a buyer and the ledger does not
// hold yet, newest first.
func (e *Engine) waiting(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	if e.counter == nil || f.User == "" || f.Before != (ledger.Cursor{}) || f.State != "" && f.State != sale.Queued {
		return nil, nil
	}
	views, err := e.catalog.list(ctx)
	if err != nil {
		return nil, err
	}
	views = slices.DeleteFunc(slices.Clone(views), func(v *View) bool {
		return v.Path != sale.PathFast || len(v.Salts) == 0 || f.Sale != 0 && f.Sale != v.Number
	})
	slices.Reverse(views) // the newest sales first
	views = views[:min(len(views), maxAsked)]
	if len(views) == 0 {
		return nil, nil
	}
	records := make([][]record, len(views))
	var asked sync.WaitGroup
	for i, v := range views {
		asked.Go(func() { records[i], _ = e.records(ctx, v, f.User) })
	}
	asked.Wait()
	all := slices.Concat(records...)
	ids := make([]sale.OrderID, len(all))
	for i := range all {
		ids[i] = all[i].slip.ID
	}
	if len(ids) == 0 {
		return nil, nil
	}
	held, err := e.ledger.OrdersByID(ctx, ids)
	if err != nil {
		return nil, infrastructure(err)
	}
	slices.SortFunc(all, func(a, b record) int { return b.slip.TakenAt.Compare(a.slip.TakenAt) })
	var out []sale.Order
	for i := range all {
		if _, judged := held[all[i].slip.ID]; !judged && all[i].slip.Quantity > 0 {
			out = append(out, queued(all[i].view, &all[i].slip))
		}
	}
	return out, nil
}

// record is what a lane remembers of one order.
type record struct {
	view *View
	slip stock.Slip // without what is not remembered: terms, MAC, and when it was asked for
}

// records returns what a user's home lane has recorded of him; nothing for a lane
// that is cold.
func (e *Engine) records(ctx context.Context, v *View, user string) ([]record, error) {
	ctx, cancel := context.WithTimeout(ctx, min(lookTimeout, e.opts.CallTimeout))
	defer cancel()
	lanes := stock.LanesOf(&v.Sale)
	found, err := e.counter.Records(ctx, lanes[stock.Home(user, len(lanes))], user)
	if err != nil {
		return nil, infrastructure(err)
	}
	out := make([]record, len(found.Orders))
	for i, r := range found.Orders {
		out[i] = record{view: v, slip: stock.Slip{
			ID: r.ID, User: user, Item: r.Item, Quantity: r.Quantity, Epoch: found.Epoch, Terms: v.Terms, TakenAt: r.TakenAt,
		}}
	}
	return out, nil
}

// recorded returns what the user's lane has recorded of one order;
// CodeOrderNotFound if nothing, or if the sale has no lanes.
func (e *Engine) recorded(ctx context.Context, id sale.OrderID, user string) (record, error) {
	v, err := e.laned(ctx, id.Sale())
	if err != nil {
		if sale.CodeOf(err) == sale.CodeSaleNotFound {
			err = sale.OrderNotFound()
		}
		return record{}, err
	}
	if len(v.Salts) == 0 {
		return record{}, sale.OrderNotFound()
	}
	all, err := e.records(ctx, v, user)
	if err != nil {
		return record{}, err
	}
	i := slices.IndexFunc(all, func(r record) bool { return r.slip.ID == id })
	if i < 0 {
		return record{}, sale.OrderNotFound()
	}
	return all[i], nil
}

// saleOf returns the sale with a number as it is known; deleted ones too.
func (e *Engine) saleOf(ctx context.Context, n sale.Number) (*View, error) {
	if s := e.known(n); s != nil {
		return s.view(ctx)
	}
	if v, err := e.catalog.number(ctx, n); err == nil {
		return v, nil
	}
	found, err := e.ledger.SaleByNumber(ctx, n)
	if err != nil {
		return nil, infrastructure(err)
	}
	return &View{Sale: found, ReadAt: e.Now()}, nil
}

// laned returns the sale with a number. One that is not known to have lanes is read
// again, for it may have got them since, and then its orders may be queued.
func (e *Engine) laned(ctx context.Context, n sale.Number) (*View, error) {
	v, err := e.saleOf(ctx, n)
	if err != nil || len(v.Salts) > 0 {
		return v, err
	}
	return e.saleNow(ctx, n)
}

// find looks an order up in the ledger together with whoever else asks now.
func (e *Engine) find(ctx context.Context, id sale.OrderID) (entry, error) {
	if e.counter != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(lookTimeout, e.opts.CallTimeout))
		defer cancel()
	}
	return e.clerk.find(ctx, id)
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
