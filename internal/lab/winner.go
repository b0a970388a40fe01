package lab

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// lookEvery is how often a buyer whose hold is over looks at his order.
const lookEvery = 200 * time.Millisecond

// follow is what a buyer does with the order that his click made.
func (c *crowd) follow(ctx context.Context, b *buyer, o client.Order, key string) {
	if o.State != stateReserved {
		return // a click repeated late may show an order that is over
	}
	if b.manner == wantsTwo && o.Quantity == b.wants() {
		// He has his share and tries for more: a fresh click, so no replay.
		c.try(ctx, b, attempt{key: b.key(3), quantity: 1, phase: later, due: c.now()})
	}
	if !wait(ctx, b.think) {
		return
	}
	switch b.ending {
	case pays:
		c.pay(ctx, b, o, charge{id: paymentID(&o)})
	case paysTwice:
		var both sync.WaitGroup
		both.Go(func() { c.pay(ctx, b, o, charge{id: paymentID(&o)}) })
		c.pay(ctx, b, o, charge{id: paymentID(&o)})
		both.Wait()
	case cancels:
		c.cancel(ctx, b, o)
	case forgets:
		c.outlive(ctx, b, o)
		// The old click again, in the hope for a new order: it is the old one.
		c.try(ctx, b, attempt{key: key, quantity: o.Quantity, phase: later, due: c.now()})
	case paysLate:
		c.outlive(ctx, b, o)
		c.pay(ctx, b, o, charge{id: paymentID(&o), late: true})
	case endingCount:
	}
}

// charge is one charge of the payment provider.
type charge struct {
	id   string
	late bool
}

// paymentID returns the id of the one charge for an order.
func paymentID(o *client.Order) string { return "charge-" + o.ID }

// pay tells the shop of a charge and reports whether it paid an order.
func (c *crowd) pay(ctx context.Context, b *buyer, o client.Order, by charge) bool {
	sent := c.now()
	got, err := c.shop.Pay(ctx, o.ID, client.Payment{ID: by.id, Status: "succeeded", Amount: o.Amount, Currency: o.Currency})
	if err != nil {
		c.unexpected(ctx, b, "pay "+o.ID, err)
		return false
	}
	n := notice{payment: by.id, order: o.ID, amount: o.Amount, late: by.late, outcome: got.Outcome, after: got.Order}
	c.books.heardNotice(n, sighting{user: b.user, order: got.Order, sent: sent, heard: c.now()})
	return got.Outcome == outcomePaid || got.Outcome == outcomeAlreadyPaid
}

func (c *crowd) cancel(ctx context.Context, b *buyer, o client.Order) {
	sent := c.now()
	got, err := c.till.As(b.token).Cancel(ctx, o.ID)
	if errors.Is(err, client.ErrIllegalState) {
		c.look(ctx, b, o.ID) // the hold ran out while he thought
		return
	}
	if err != nil {
		c.unexpected(ctx, b, "cancel "+o.ID, err)
		return
	}
	c.books.saw(sighting{user: b.user, order: got, sent: sent, heard: c.now()})
}

// outlive looks at an order until its hold has been ended.
func (c *crowd) outlive(ctx context.Context, b *buyer, o client.Order) {
	if o.ExpiresAt != nil && !wait(ctx, time.Until(*o.ExpiresAt)) {
		return
	}
	for c.look(ctx, b, o.ID) == stateReserved {
		if !wait(ctx, lookEvery) {
			return
		}
	}
}

// look shows the buyer his order and returns its state, or an empty one.
func (c *crowd) look(ctx context.Context, b *buyer, id string) string {
	sent := c.now()
	o, err := c.till.As(b.token).Order(ctx, id)
	if err != nil {
		c.unexpected(ctx, b, "read "+id, err)
		return ""
	}
	c.books.saw(sighting{user: b.user, order: o, sent: sent, heard: c.now()})
	return o.State
}

// unexpected enters a call after the purchase that failed though it was
// repeated: such calls have no business refusal.
func (c *crowd) unexpected(ctx context.Context, b *buyer, what string, err error) {
	if ctx.Err() != nil {
		return // the demo is over, nobody waits for this
	}
	c.books.failed(trouble{user: b.user, what: what, code: asClientError(err).Code, status: asClientError(err).Status})
}

// asClientError returns the error of a client call as what it is.
func asClientError(err error) *client.Error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e
	}
	return &client.Error{Problem: client.Problem{Code: string(unanswered)}, Err: err}
}
