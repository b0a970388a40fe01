package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// nearEnd is how many journal rows may be left for the part of a build that
	// runs while the sale is locked.
	nearEnd = 500
	// beats is how often a builder shows that it is at work, at least, in the time of a
	// lease.
	beats = 5
)

// load reads every order of the sale at one instant into the counter.
func (w *work) load(ctx context.Context) error {
	if err := w.loadAll(ctx); err != nil {
		return err
	}
	for i := range w.lanes {
		call, cancel := w.call(ctx)
		err := w.remembers(call, i)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshotWait is how long others may have what snapshots there can be.
const snapshotWait = 25 * time.Second

// errSilent says that the ledger stopped telling the orders of a sale.
var errSilent = errors.New("handover: the ledger does not answer")

func (w *work) loadAll(ctx context.Context) error {
	l, err := w.readAll(ctx)
	if err != nil {
		return err
	}
	return l.flush(ctx)
}

// readAll hands every order to a loader. That takes as long as there are orders, but the
// ledger may not be silent for longer than a call may take.
func (w *work) readAll(ctx context.Context) (l *loader, err error) {
	if err = w.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-w.k.readers }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := w.k.opts.CallTimeout
	silence := time.AfterFunc(limit+snapshotWait, func() { cancel(errSilent) })
	defer silence.Stop()
	put := func(a stock.Act, sku string) error {
		silence.Stop() // while the counter is waited for
		defer silence.Reset(limit)
		return l.put(ctx, a, sku)
	}
	err = w.k.ledger.Snapshot(ctx, func(r ledger.Reader) error {
		silence.Reset(limit)
		rec, failed := r.SaleByNumber(ctx, w.build.Sale.Number)
		if failed != nil {
			return failed
		}
		w.seq, w.orders, w.read = rec.Seq, 0, rec.Sale
		l = w.loader(&rec.Sale)
		failed = r.EachOrder(ctx, rec.Number, func(o sale.Order) error {
			w.orders++
			return put(recordOf(&o, o.ReservedAt, rec.LimitRule))
		})
		if failed != nil {
			return failed
		}
		return r.EachHolder(ctx, rec.Number, func(h ledger.Holder) error {
			if h.CoolUntil.IsZero() {
				silence.Reset(limit)
				return l.beat(ctx)
			}
			return put(stock.Act{Kind: stock.ActReturn, User: h.User, CoolUntil: h.CoolUntil}, "")
		})
	})
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return l, err
}

// enter waits for its turn to read, and shows other keepers meanwhile that the build is
// not left behind.
func (w *work) enter(ctx context.Context) error {
	l := w.loader(&w.build.Sale)
	for {
		turn := time.NewTimer(ledger.BuildLease / beats)
		select {
		case w.k.readers <- struct{}{}:
			turn.Stop()
			return nil
		case <-turn.C:
			if err := l.send(ctx, 0); err != nil {
				return err
			}
		case <-ctx.Done():
			turn.Stop()
			return context.Cause(ctx)
		}
	}
}

// loader hands records to the lanes of their users.
type loader struct {
	w     *work
	items map[string]int
	ready [][]stock.Act
	sent  time.Time // the last of them
}

func (w *work) loader(s *sale.Sale) *loader {
	l := &loader{w: w, items: make(map[string]int, len(s.Items)), ready: make([][]stock.Act, len(w.lanes)), sent: w.k.opts.Clock()}
	for i := range s.Items {
		l.items[s.Items[i].SKU] = i
	}
	return l
}

// recordOf returns the record that stands for an order, and the SKU of its item.
func recordOf(o *sale.Order, takenAt time.Time, rule sale.LimitRule) (stock.Act, string) {
	a := stock.Act{Kind: stock.ActReturn, ID: o.ID, User: o.User, TakenAt: takenAt}
	switch {
	case o.State.Live():
		a.Kind, a.Quantity, a.Counted = stock.ActAdopt, o.Quantity, o.Quantity
	case o.State == sale.Refunded && rule == sale.LimitEverPaid:
		a.Counted = o.Quantity
	}
	return a, o.SKU
}

func (l *loader) put(ctx context.Context, a stock.Act, sku string) error {
	a.Item = l.items[sku] // a SKU that is gone can only be of an order that has ended
	i := stock.Home(a.User, len(l.ready))
	l.ready[i] = append(l.ready[i], a)
	if len(l.ready[i]) < stock.MaxActs {
		return nil
	}
	return l.send(ctx, i)
}

// beat shows other keepers that the build gets on where the ledger has much to tell and
// the lanes need nothing of it.
func (l *loader) beat(ctx context.Context) error {
	if l.w.k.opts.Clock().Sub(l.sent) < ledger.BuildLease/beats {
		return nil
	}
	return l.send(ctx, 0)
}

func (l *loader) send(ctx context.Context, i int) error {
	call, cancel := l.w.call(ctx)
	defer cancel()
	err := l.w.k.counter.Load(call, l.w.lanes[i], l.w.build.Token, l.ready[i])
	l.ready[i], l.sent = l.ready[i][:0], l.w.k.opts.Clock()
	if err == nil {
		l.w.steps[i]++
	}
	return err
}

func (l *loader) flush(ctx context.Context) error {
	for i := range l.ready {
		if len(l.ready[i]) == 0 {
			continue
		}
		if err := l.send(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// rows brings journal rows after the reading into the records: each order as the
// row left it, in order, so the last row of an order wins.
func (w *work) rows(ctx context.Context, s *sale.Sale, rows []ledger.Entry) error {
	l := w.loader(s)
	for i := range rows {
		e := &rows[i]
		w.seq = e.Seq
		if !e.Kind.OfOrder() {
			continue
		}
		var b ledger.OrderBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return fmt.Errorf("row %d of the journal: %w", e.Seq, err)
		}
		o := sale.Order{ID: e.Order, User: b.User, SKU: b.SKU, Quantity: b.Quantity, State: b.State}
		act, sku := recordOf(&o, e.At, s.LimitRule)
		act.CoolUntil = ledger.FromMillis(b.CoolUntil)
		if err := l.put(ctx, act, sku); err != nil {
			return err
		}
	}
	return l.flush(ctx)
}

// catchUp brings the records near the end of the journal before the sale is locked.
func (w *work) catchUp(ctx context.Context) error {
	for {
		call, cancel := w.call(ctx)
		rows, err := w.k.ledger.Rows(call, w.build.Sale.Number, w.seq, pageSize)
		cancel()
		if err != nil {
			return err
		}
		if len(rows) <= nearEnd {
			return nil
		}
		if err := w.rows(ctx, &w.read, rows); err != nil {
			return err
		}
	}
}
