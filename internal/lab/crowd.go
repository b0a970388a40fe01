package lab

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// crowd is everybody who wants a unit of one sale.
type crowd struct {
	sale   string
	buyers []buyer // at the door when it opens
	late   []buyer
	door   *client.Client // the buyers' connections; one try a call
	till   *client.Client // connections of their own for what follows a purchase
	shop   *client.Client // the same connections, with the shop's key
	books  *books
	opens  time.Time // the start of the sale

	answered atomic.Int64   // buyers at the door who know
	after    sync.WaitGroup // winners who are not done
}

const (
	// lateEvery is the pause between two clicks of one latecomer.
	lateEvery = 300 * time.Millisecond
	// lateAfter is how long after the opening the latecomers come.
	lateAfter = time.Second
	// lateRate bounds what all latecomers together ask for in a second.
	lateRate = 1000
	// againAfter is the pause before a click that was left open is repeated, if
	// the server named none.
	againAfter = 50 * time.Millisecond
)

// now returns the time since the opening; it is negative before.
func (c *crowd) now() time.Duration { return time.Since(c.opens) }

// run lives the sale through: the rush, what winners do, and the latecomers. It
// returns when everybody is done, or early when ctx ends. workers is how many
// buyers can be asking at the same time.
func (c *crowd) run(ctx context.Context, workers int) {
	var late sync.WaitGroup
	pause := max(lateEvery, time.Duration(len(c.late))*time.Second/lateRate)
	for i := range c.late {
		// Spread over the pause, so that latecomers are no second rush.
		first := lateAfter + pause*time.Duration(i)/time.Duration(len(c.late))
		late.Go(func() { c.linger(ctx, &c.late[i], first, pause) })
	}
	c.rush(ctx, workers)
	late.Wait()
	c.after.Wait()
}

// rush sends all buyers at the instant of the opening. More buyers than workers
// stand behind each other, and their waiting counts.
func (c *crowd) rush(ctx context.Context, workers int) {
	var next atomic.Int64
	var all sync.WaitGroup
	open := make(chan struct{})
	for range workers {
		all.Go(func() {
			<-open
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(c.buyers) {
					return
				}
				c.arrive(ctx, &c.buyers[i])
			}
		})
	}
	wait(ctx, -c.now())
	close(open)
	all.Wait()
}

// arrive is what one buyer does at the door. If he gets something, the rest of
// his story goes on beside the rush.
func (c *crowd) arrive(ctx context.Context, b *buyer) {
	a := c.firstMove(ctx, b)
	c.answered.Add(1)
	if a.order == nil {
		return
	}
	c.after.Go(func() { c.follow(ctx, b, *a.order, a.key) })
}

// firstMove returns the answer that counts for the buyer.
func (c *crowd) firstMove(ctx context.Context, b *buyer) answer {
	first := attempt{key: b.key(1), quantity: b.wants()}
	switch b.manner {
	case doubleClick:
		return c.twice(ctx, b, first)
	case impatient:
		c.hasty(ctx, b, first)
	case wantsTwo:
		a := c.decided(ctx, b, first)
		if a.verdict == verdict(client.ErrInsufficient) {
			return c.decided(ctx, b, attempt{key: b.key(2), quantity: 1})
		}
		return a
	case singleClick, mannerCount:
	}
	return c.decided(ctx, b, first)
}

// twice sends one click twice at once.
func (c *crowd) twice(ctx context.Context, b *buyer, t attempt) answer {
	var second answer
	var both sync.WaitGroup
	both.Go(func() { second = c.decided(ctx, b, t) })
	first := c.decided(ctx, b, t)
	both.Wait()
	if first.order == nil {
		return second
	}
	return first
}

// hasty sends a click and hangs up when the buyer's patience is over.
func (c *crowd) hasty(ctx context.Context, b *buyer, t attempt) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	c.try(ctx, b, t)
}

// linger is what one latecomer does: a fresh click every pause until he has paid
// a unit or all units are paid.
func (c *crowd) linger(ctx context.Context, b *buyer, due, pause time.Duration) {
	for clicks := 1; ; due += pause {
		if !c.waitUnsold(ctx, due) {
			return
		}
		a := c.try(ctx, b, attempt{key: b.key(clicks), quantity: 1, phase: later, due: due})
		if a.verdict.decided() {
			clicks++
		}
		if a.order != nil && a.order.State == stateReserved && c.pay(ctx, b, *a.order, charge{id: paymentID(a.order)}) {
			return
		}
		due = max(due, c.now()-pause) // a slow answer costs a click, not a burst of them
	}
}

// waitUnsold waits until the instant due and reports whether there is still
// something to wait for.
func (c *crowd) waitUnsold(ctx context.Context, due time.Duration) bool {
	timer := time.NewTimer(due - c.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.books.allPaid:
		return false
	case <-ctx.Done():
		return false
	}
}

// attempt is one question to the server.
type attempt struct {
	key      string
	quantity int64
	phase    phase
	due      time.Duration
}

// decided repeats a click with its key until the server has decided it, or ctx
// ends.
func (c *crowd) decided(ctx context.Context, b *buyer, t attempt) answer {
	for {
		a := c.try(ctx, b, t)
		if a.verdict.decided() || !wait(ctx, max(againAfter, a.pause)) {
			return a
		}
	}
}

// try asks once and enters the answer into the books.
func (c *crowd) try(ctx context.Context, b *buyer, t attempt) answer {
	a := answer{user: b.user, key: t.key, quantity: t.quantity, phase: t.phase, due: t.due, sent: c.now()}
	got, err := c.door.As(b.token).Buy(ctx, c.sale, t.key, client.Attempt{Quantity: t.quantity})
	a.heard = c.now()
	if o, was := client.Rejection(err); was { // a click repeated late may show what became of it
		got.Order, got.Replayed, err = o, true, nil
	}
	switch {
	case err == nil && got.Replayed:
		a.verdict, a.order = replayed, &got.Order
	case err == nil:
		a.verdict, a.order = taken, &got.Order
	default:
		a.refused(ctx, err)
	}
	c.books.heardAnswer(&a)
	if err == nil && got.Order.State == stateQueued {
		c.await(ctx, b, &a, got)
	}
	return a
}

// await waits until a queued order is judged and puts it into the answer.
func (c *crowd) await(ctx context.Context, b *buyer, a *answer, got client.Bought) {
	sent := c.now()
	o, err := c.till.As(b.token).Follow(ctx, got)
	if r, was := client.Rejection(err); was {
		o, err = r, nil
	}
	if err != nil {
		c.unexpected(ctx, b, "follow "+got.Order.ID, err)
		return
	}
	a.order = &o
	c.books.saw(sighting{user: b.user, order: o, sent: sent, heard: c.now()})
}

// refused enters an attempt that ended with an error.
func (a *answer) refused(ctx context.Context, err error) {
	e := asClientError(err)
	a.status, a.pause, a.verdict = e.Status, e.RetryAfter, verdict(e.Code)
	if ours(client.CodeError(e.Code)) {
		a.verdict = unanswered
		if ctx.Err() != nil && e.Status < http.StatusInternalServerError {
			a.verdict = gaveUp
		}
	}
}

// ours reports whether a code was given on this side, for want of an answer.
func ours(code client.CodeError) bool {
	return code == client.ErrNoAnswer || code == client.ErrBadAnswer || code == client.ErrUnreachable ||
		code == client.ErrStopped || code == client.CodeError(unanswered)
}

// wait waits for d and reports whether it did; not if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
