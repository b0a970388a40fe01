package strategy

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// turns is how many of one process ask Redis for a lock at once. More would wait
	// no shorter, and keep Redis busy with asking.
	turns = 16
	// Somebody who did not get the lock asks again after a moment between these.
	againMin, againMax = 2 * time.Millisecond, 8 * time.Millisecond
)

//go:embed lua/delete_own.lua
var deleteOwnLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/give_back.lua
var giveBackLua string

// scripts are those of lua/.
type scripts struct {
	deleteOwn, take, giveBack *redisconn.Script
}

func newScripts() scripts {
	o := redisconn.ScriptOptions{Timeout: workTime}
	return scripts{
		deleteOwn: redisconn.NewScript("delete_own", deleteOwnLua, o),
		take:      redisconn.NewScript("take", takeLua, o),
		giveBack:  redisconn.NewScript("give_back", giveBackLua, o),
	}
}

// turn waits for a place among those of this process who ask for a lock, until
// turnOver.
func (w *World) turn(ctx context.Context) error {
	select {
	case w.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return sale.Busy()
	}
}

func (w *World) turnOver() { <-w.turns }

// until asks for a lock again and again until it is had or ctx ends, which is
// CodeBusy. try is not cut off by that end: whoever stopped listening would not know
// that the lock is his.
func (w *World) until(ctx context.Context, try func(context.Context) (bool, error)) error {
	if err := w.turn(ctx); err != nil {
		return err
	}
	defer w.turnOver()
	calls, done := working(ctx)
	defer done()
	for {
		had, err := try(calls)
		if had || err != nil {
			return err
		}
		if rest(ctx, againMin+rand.N(againMax-againMin)) != nil { //nolint:gosec // spreads calls, guards nothing
			return sale.Busy()
		}
	}
}

// lock waits for the lock of the run, with a lease: SET … NX PX, in one step.
func (w *World) lock(ctx context.Context, owner string) error {
	return w.until(ctx, func(ctx context.Context) (bool, error) {
		return set(w.redis.Do(ctx, w.redis.B().Set().Key(w.key("lock")).Value(owner).Nx().Px(lease).Build()).Error())
	})
}

// set says what the error of a SET … NX means.
func set(err error) (bool, error) {
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

// unlock deletes the lock if it is still the owner's. Where that fails, the lease ends by
// itself, and what was done under the lock is done.
func (w *World) unlock(ctx context.Context, owner string) {
	ctx, done := working(ctx)
	defer done()
	_, _ = w.deleteOwn.Run(ctx, w.redis, []string{w.key("lock")}, []string{owner})
}
