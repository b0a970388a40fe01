package engine

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// listenAgain is the pause before a subscription that failed is tried again.
const listenAgain = time.Second

// listen hears what other instances tell until ctx ends.
func (e *Engine) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.counter.Listen(ctx, e.hear); err == nil {
			return
		}
		pause(ctx, listenAgain)
	}
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hear takes in one message of another instance, or of this one.
func (e *Engine) hear(m stock.Message) {
	switch m.Kind {
	case stock.KindJudged:
		e.room.judged(m.IDs)
	case stock.KindSellsAgain:
		e.catalog.moved(m.Sale)
		if s := e.known(m.Sale); s != nil {
			s.sellsAgain()
		}
	case stock.KindGap:
		e.catalog.movedAll()
		for _, s := range e.all() {
			s.sellsAgain()
		}
		e.room.lookAgain()
	}
}

// tell sends a message to every instance. It is a nudge, so its failure only
// costs others a second.
func (e *Engine) tell(ctx context.Context, m stock.Message) {
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	e.opts.Observer.Mirrored(e.counter.Tell(ctx, m))
}

// heard is told of every committed journal row of this process.
func (e *Engine) heard(rows []ledger.Entry) {
	var last sale.Number
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Kind.OfSale():
			e.catalog.changed(r.Sale)
			e.leave(r)
		case r.Sale == last || !returnsUnits(r.Kind):
			continue
		default:
			e.catalog.moved(r.Sale)
			last = r.Sale
		}
		if s := e.known(r.Sale); s != nil {
			s.sellsAgain()
		}
	}
	e.room.heard(rows)
}

func returnsUnits(k ledger.Kind) bool {
	return k == ledger.OrderKind(sale.Cancelled) || k == ledger.OrderKind(sale.Expired) || k == ledger.OrderKind(sale.Refunded)
}
