package engine

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

var (
	errNoCounter = errors.New("engine: the sale is on the fast path, and this instance has no fast counter")
	errReply     = errors.New("engine: the fast counter's reply does not fit the call")
)

// take has the fast counter decide a batch: the fast path. The slips of what is
// taken lie in the tray when it returns.
func (l *lane) take(ctx context.Context, v *View, batch []*try) error {
	s := l.stand
	if s.counter == nil || l.index >= len(v.Salts) {
		return sale.Unavailable(errNoCounter)
	}
	call := l.call(v, batch)
	heard, started := l.memory.heard(), s.opts.Clock()
	reply, err := s.counter.Take(ctx, call)
	if err == nil && reply.State == stock.Open && (len(reply.Results) != len(batch) || len(reply.Left) > len(v.Items)) {
		err = errReply
	}
	ended := s.opts.Clock()
	s.opts.Observer.Batched(FromCounter, len(batch), ended.Sub(started), err)
	if err != nil {
		// Somebody may hold something now; then nothing is refused from memory before
		// a later reply, after which the holders are loaded again.
		return infrastructure(err)
	}
	if reply.State != stock.Open {
		return l.refused(ctx, v, &reply)
	}
	l.seenEpoch, l.seen = v.Epoch, max(call.Seen, reply.Seq)
	if reply.Version > v.Version {
		s.catalog.moved(s.number)
	}
	seen := lesson{
		epoch: v.Epoch, version: v.Version, heard: heard, now: ended, left: reply.Left,
		stamp: stamp{reply.Generation, reply.Seq},
		holders: hashes(batch, func(i int) bool {
			return reply.Results[i].Verdict == sale.Taken || reply.Results[i].Verdict == sale.Replayed
		}),
	}
	if l.memory.learn(&seen) {
		l.load(ctx, v)
	}
	for i, t := range batch {
		r, a := &reply.Results[i], &call.Attempts[i]
		t.reply(outcome{
			Result: ledger.Result{Verdict: r.Verdict, Left: r.Left, RetryAt: r.RetryAt},
			view:   v, source: FromCounter, call: callTime{stock: ended.Sub(started)},
			slip: stock.Slip{
				ID: a.ID, User: a.User, Item: r.Record.Item, Quantity: r.Record.Quantity, Epoch: call.Epoch, Terms: call.Terms,
				AskedAt: call.AskedAt, TakenAt: r.Record.TakenAt, MAC: a.MAC,
			},
		}, nil)
	}
	return nil
}

// call puts a batch into the counter's words.
func (l *lane) call(v *View, batch []*try) stock.Call {
	c := stock.Call{
		Lane: stock.Lane{Sale: v.Number, Index: l.index, Salt: v.Salts[l.index]}, Epoch: v.Epoch, Terms: v.Terms,
		AskedAt: l.stand.now().Truncate(time.Millisecond), Attempts: make([]stock.Attempt, len(batch)),
	}
	if l.seenEpoch == v.Epoch {
		c.Seen = l.seen
	}
	signer := l.stand.scribe()
	defer l.stand.scribes.Put(signer)
	slip := stock.Slip{Epoch: c.Epoch, Terms: c.Terms, AskedAt: c.AskedAt}
	for i, t := range batch {
		a := stock.Attempt{ID: t.ask.ID, User: t.ask.User, Item: -1, Quantity: t.ask.Quantity}
		if item, err := v.Item(t.ask.SKU); err == nil {
			a.Item = item
			e := t.ask.Expected
			a.OtherTerms = e != nil && (e.Currency != v.Currency || e.Amount != v.Items[item].Price*a.Quantity)
		}
		slip.ID, slip.User, slip.Item, slip.Quantity = a.ID, a.User, a.Item, a.Quantity
		a.MAC = signer.Sign(&slip)
		c.Attempts[i] = a
	}
	return c
}

// refused says what follows from a refusal of the whole call.
func (l *lane) refused(ctx context.Context, v *View, r *stock.Reply) error {
	switch r.State {
	case stock.Full:
		return sale.Busy()
	case stock.WrongEpoch:
		return errMoved
	case stock.WrongTerms:
		if r.Version < v.Version && l.stand.sync(ctx, v, l.index) != nil {
			break
		}
		return errMoved
	case stock.Stale:
		if l.stand.opts.Stale != nil {
			l.stand.opts.Stale(v.Number, v.Epoch)
		}
	case stock.Open, stock.Cold, stock.Frozen:
	}
	return errTroubled
}

// holders reads whom the counter's lane has recorded.
func (l *lane) holders(ctx context.Context, v *View) (census, error) {
	s := l.stand
	if s.counter == nil || l.index >= len(v.Salts) {
		return census{}, errNoCounter
	}
	now, _ := l.memory.from()
	h, err := s.counter.Holders(ctx, stock.Lane{Sale: v.Number, Index: l.index, Salt: v.Salts[l.index]})
	if err == nil && h.Epoch != v.Epoch {
		err = stock.ErrEpoch
	}
	return census{users: h.Hashes, at: stamp{h.Generation, now.seq}}, err
}
