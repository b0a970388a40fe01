package bench

import (
	"context"
	"errors"
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
// checks that each gets its order again, whatever has become of it.
func replays(ctx context.Context, api *client.Client, sale string, script *buyers.Script, told []buyers.Order, cast *buyers.Cast) (Check, error) {
	c := Check{Promise: "P4", Text: "the same click again gets the same order, when all is over"}
	var picked []*buyers.Order
	step := max(1, len(told)/mostReplays)
	for i := 0; i < len(told) && len(picked) < mostReplays; i += step {
		if told[i].Click >= 0 {
			picked = append(picked, &told[i])
		}
	}
	errs := make([]error, len(picked))
	var all sync.WaitGroup
	var mu sync.Mutex
	turns := make(chan struct{}, atOnce)
	for i, o := range picked {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			got, err := api.As(cast.Token(o.Buyer)).Buy(ctx, sale, script.Key(o.Buyer, o.Click), script.Attempt())
			if late, was := client.Rejection(err); was {
				got.Order, got.Replayed, err = late, true, nil
			}
			e, failed := errors.AsType[*client.Error](err)
			if failed && trouble(e) {
				errs[i] = err
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if failed {
				c.check(false, "%s clicked again for order %s and was told %s", cast.User(o.Buyer), o.ID, e.Code)
				return
			}
			c.check(got.Replayed && got.Order.ID == o.ID, "%s clicked again for order %s and got order %s (replayed: %t)", cast.User(o.Buyer), o.ID, got.Order.ID, got.Replayed)
		})
	}
	all.Wait()
	return c, errors.Join(errs...)
}

// trouble reports whether an error says nothing of the order: no answer, or one that
// says to come again.
func trouble(e *client.Error) bool {
	switch client.CodeError(e.Code) {
	case client.ErrUnreachable, client.ErrNoAnswer, client.ErrBadAnswer, client.ErrStopped, client.ErrBusy, client.ErrUnavailable, client.ErrRateLimited:
		return true
	}
	return false
}
