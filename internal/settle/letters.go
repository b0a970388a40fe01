package settle

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// DeadLetters lets an operator decide about slips that could not be judged.
// Methods are safe for concurrent use and may be repeated.
type DeadLetters struct{ ledger ledger.Ledger }

// NewDeadLetters returns the dead letters of a ledger.
func NewDeadLetters(l ledger.Ledger) *DeadLetters { return &DeadLetters{ledger: l} }

// Replay has an open letter judged as if the buyer presented the slip now: what it
// once took has gone back, so it competes afresh and may be rejected. The order is
// returned, and the letter is closed. Repeated, it returns the same order.
//
// CodeLetterNotFound; CodeIllegalState for a letter that was dropped, even in the
// meantime, is not authentic, has an order that has ended, or is refused by the database still: the
// letter stays as it is.
func (d *DeadLetters) Replay(ctx context.Context, id ledger.LetterID) (sale.Order, error) {
	l, err := d.ledger.Letter(ctx, id)
	if err != nil {
		return sale.Order{}, err
	}
	switch {
	case l.State == ledger.LetterDropped:
		return sale.Order{}, sale.IllegalState("the letter has been dropped", "the buyer can try again with a new key while the sale runs")
	case l.Attempt == nil || l.Attempt.Slip == nil:
		return sale.Order{}, sale.IllegalState("no instance of this house made the slip", "drop it, and find out who can write to the counter")
	}
	found, err := d.ledger.OrdersByID(ctx, []sale.OrderID{l.Attempt.ID})
	if err != nil {
		return sale.Order{}, err
	}
	o, known := found[l.Attempt.ID]
	switch {
	case known && (o.State.Live() || l.State == ledger.LetterReplayed): // done before, by us or by another way
	case known:
		return sale.Order{}, sale.IllegalState("the slip's order is "+string(o.State)+" already, and stays so", "drop the letter; the buyer can try again with a new key while the sale runs")
	default:
		if o, err = d.judge(ctx, &l); err != nil {
			return sale.Order{}, err
		}
	}
	closed, err := d.ledger.CloseLetter(ctx, id, ledger.LetterReplayed)
	if err == nil && closed.State != ledger.LetterReplayed {
		err = sale.IllegalState("somebody dropped the letter while it was replayed: its order "+o.ID.String()+" is "+string(o.State),
			"cancel the order if nobody is to have it")
	}
	return o, err
}

func (d *DeadLetters) judge(ctx context.Context, l *ledger.Letter) (sale.Order, error) {
	now, err := d.ledger.Now(ctx)
	if err != nil {
		return sale.Order{}, err
	}
	a, slip := *l.Attempt, *l.Attempt.Slip
	slip.TakenAt, slip.Presented = now, true
	a.Slip = &slip
	out, err := d.ledger.Reserve(ctx, ledger.Batch{Sale: l.Sale, Attempts: []ledger.Attempt{a}})
	if err != nil {
		return sale.Order{}, err
	}
	if r := &out.Results[0]; r.Err == nil {
		return r.Order, nil
	}
	refused := sale.IllegalState("the database refuses the order still", "see the cause in the letter and in the log of the database, mend it, and replay again")
	refused.Err = out.Results[0].Err
	return sale.Order{}, refused
}

// Drop closes an open letter for good. Its units went back when it was parked.
// Repeated, it changes nothing. The letter is returned as it is then.
// CodeLetterNotFound; CodeIllegalState for one that was replayed.
func (d *DeadLetters) Drop(ctx context.Context, id ledger.LetterID) (ledger.Letter, error) {
	l, err := d.ledger.CloseLetter(ctx, id, ledger.LetterDropped)
	if err == nil && l.State != ledger.LetterDropped {
		err = sale.IllegalState("the letter has been replayed", "cancel or refund its order instead")
	}
	return l, err
}
