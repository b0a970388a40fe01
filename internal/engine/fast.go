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

// maxGatherings is how often a batch that is short of units goes to the other lanes.
const maxGatherings = 8

// take has the fast counter decide a batch: the fast path. The slips of what is
// taken lie in the tray when it returns. With an error it returns those that are not
// answered.
func (l *lane) take(ctx context.Context, v *View, batch []*try) ([]*try, error) {
	if l.stand.counter == nil || l.index >= len(v.Salts) {
		return batch, sale.Unavailable(errNoCounter)
	}
	for range maxGatherings {
		t := taking{lane: l, view: v, batch: batch}
		err := t.run(ctx)
		batch = t.batch
		if len(batch) == 0 || err != nil {
			return batch, err
		}
	}
	return batch, sale.Busy()
}

// taking is one call of the fast counter.
type taking struct {
	*lane
	view   *View
	batch  []*try // not answered yet
	call   stock.Call
	reply  stock.Reply
	took   time.Duration
	learnt lesson
}

// run makes the call and answers whom it can. Who is short of what other lanes may
// have stays in the batch.
func (t *taking) run(ctx context.Context) error {
	l, s, v := t.lane, t.stand, t.view
	t.call = l.call(v, t.batch)
	heard, started := l.memory.heard(), s.opts.Clock()
	reply, err := s.counter.Take(ctx, t.call)
	if err == nil && reply.State == stock.Open && (len(reply.Results) != len(t.batch) || len(reply.Left) > len(v.Items)) {
		err = errReply
	}
	ended := s.opts.Clock()
	s.opts.Observer.Batched(FromCounter, len(t.batch), ended.Sub(started), err)
	if err != nil {
		// Somebody may hold something now; then nothing is refused from memory before
		// a later reply, after which the holders are loaded again.
		l.memory.doubt(hashes(t.batch, all))
		return infrastructure(err)
	}
	if reply.State != stock.Open {
		return l.refused(ctx, v, &reply)
	}
	l.mark.saw(v.Epoch, reply.Seq)
	switch {
	case reply.Version > v.Version:
		s.catalog.moved(s.number)
	case reply.Version < v.Version:
		l.catchUp(ctx, v)
	}
	t.reply, t.took = reply, ended.Sub(started)
	t.learnt = lesson{
		epoch: v.Epoch, version: v.Version, heard: heard, now: ended, left: reply.Left,
		stamp: stamp{reply.Generation, reply.Seq},
		holders: hashes(t.batch, func(i int) bool {
			return reply.Results[i].Verdict == sale.Taken || reply.Results[i].Verdict == sale.Replayed
		}),
	}
	if len(v.Salts) > 1 {
		return t.gather(ctx)
	}
	t.learn(ctx)
	for i := range t.batch {
		t.answer(i)
	}
	t.line.wake(t.batch)
	t.batch = nil
	return nil
}

func (t *taking) learn(ctx context.Context) {
	if t.memory.learn(&t.learnt) {
		t.load(ctx, t.view)
	}
}

// answer says what came of attempt i, for wake to tell.
func (t *taking) answer(i int) {
	r, a := &t.reply.Results[i], &t.call.Attempts[i]
	t.batch[i].set(outcome{
		Result: ledger.Result{Verdict: r.Verdict, Left: r.Left, RetryAt: r.RetryAt},
		view:   t.view, source: FromCounter, call: callTime{stock: t.took},
		slip: stock.Slip{
			ID: a.ID, User: a.User, Item: r.Record.Item, Quantity: r.Record.Quantity, Epoch: t.call.Epoch, Terms: t.call.Terms,
			AskedAt: t.call.AskedAt, TakenAt: r.Record.TakenAt, MAC: a.MAC,
		},
	}, nil)
}

// call puts a batch into the counter's words.
func (l *lane) call(v *View, batch []*try) stock.Call {
	c := stock.Call{
		Lane: stock.Lane{Sale: v.Number, Index: l.index, Salt: v.Salts[l.index]}, Epoch: v.Epoch, Terms: v.Terms,
		AskedAt: l.stand.now().Truncate(time.Millisecond), Seen: l.mark.of(v.Epoch), Attempts: make([]stock.Attempt, len(batch)),
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

// catchUp brings the lane the rules that are known here, in the background and once a
// second: it has not heard of a change yet, or its server has gone back in time.
func (l *lane) catchUp(ctx context.Context, v *View) {
	s, now := l.stand, l.stand.opts.Clock()
	if !l.synced.IsZero() && now.Sub(l.synced) < memoryLife {
		return
	}
	l.synced = now
	s.lines.calls.Go(func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.CallTimeout)
		defer cancel()
		_ = s.sync(own, v, l.index) // the observer hears; couriers see to it as well
	})
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
		l.stand.stale(v)
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
	seen := l.mark.of(v.Epoch)
	h, err := s.counter.Holders(ctx, stock.Lane{Sale: v.Number, Index: l.index, Salt: v.Salts[l.index]})
	switch {
	case err != nil:
	case h.Epoch != v.Epoch:
		err = stock.ErrEpoch
	case h.Seq < seen:
		err = stock.ErrStale
	}
	if errors.Is(err, stock.ErrStale) {
		s.stale(v)
	}
	if err != nil {
		return census{}, err
	}
	l.mark.saw(v.Epoch, h.Seq)
	return census{users: h.Hashes, at: stamp{h.Generation, h.Seq}}, nil
}
