package bench

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
)

const (
	// mostReplays is how many clicks are sent once more when all is over.
	mostReplays = 200
	atOnce      = 8
)

// replays sends some of the clicks that became orders once more, with their keys, and
// checks that each gets its order again, whatever has become of it. The error is one
// of those that kept a click from being compared.
func (b *bench) replays(ctx context.Context, told []buyers.Order) (Check, error) {
	c := Check{Promise: "P4", Text: "the same click again gets the same order, when all is over"}
	var picked []*buyers.Order
	step := max(1, len(told)/mostReplays)
	for i := 0; i < len(told) && len(picked) < mostReplays; i += step {
		if told[i].Click >= 0 {
			picked = append(picked, &told[i])
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var missing error
	turns := make(chan struct{}, atOnce)
	for _, o := range picked {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			got, err := b.stage.admin.As(b.cast.Token(o.Buyer)).Buy(ctx, b.stage.sale.ID, b.script.Key(o.Buyer, o.Click), b.script.Attempt())
			if late, was := client.Rejection(err); was {
				got.Order, got.Replayed, err = late, true, nil
			}
			mu.Lock()
			defer mu.Unlock()
			e, failed := errors.AsType[*client.Error](err)
			switch user := b.cast.User(o.Buyer); {
			case failed && trouble(e):
				missing = err
			case failed:
				c.check(false, "%s clicked again for order %s and was told %s", user, o.ID, e.Code)
			default:
				c.check(got.Replayed && got.Order.ID == o.ID, "%s clicked again for order %s and got order %s (replayed: %t)", user, o.ID, got.Order.ID, got.Replayed)
			}
		})
	}
	all.Wait()
	return c, missing
}

// trouble reports whether an error says nothing of the order: no answer, or one that
// says to come again.
func trouble(e *client.Error) bool {
	return slices.Contains([]client.CodeError{
		client.ErrUnreachable, client.ErrNoAnswer, client.ErrBadAnswer, client.ErrStopped, client.ErrBusy, client.ErrUnavailable, client.ErrRateLimited,
	}, client.CodeError(e.Code))
}
