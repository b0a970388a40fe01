package strategy

import "context"

// setnxExpire takes the lock with SETNX and gives it an end with EXPIRE, in two steps. A
// process that dies between them leaves a lock without an end: nobody can take it, and
// nobody may delete it, since for all that is known its owner is at work. The sale
// stands still until somebody is woken up.
func setnxExpire() Strategy {
	return Strategy{
		Info: Info{
			Name: "setnx_expire", Title: "SETNX, then EXPIRE",
			Fault: "one of the two processes is killed between the two commands, at its 10th lock",
			Why: "The lock of the process that was killed has no end. Everybody else is told busy for ever, " +
				"while most of the stock lies there.",
			Expect: Fails, Accident: Undersold, Redis: true,
		},
		open: func(w *World) (Shop, error) {
			return &guarded{w: w, guard: func(ctx context.Context, work func(context.Context) error) error {
				key, owner := w.key("lock"), newOwner()
				err := w.until(ctx, func(ctx context.Context) (bool, error) {
					return w.redis.Do(ctx, w.redis.B().Setnx().Key(key).Value(owner).Build()).AsBool()
				})
				if err != nil {
					return err
				}
				w.crash(ctx, 1)
				calls, done := working(ctx)
				defer done()
				if err := w.redis.Do(calls, w.redis.B().Pexpire().Key(key).Milliseconds(lease.Milliseconds()).Build()).Error(); err != nil {
					return err
				}
				defer w.unlock(ctx, owner)
				return work(ctx)
			}}, nil
		},
	}
}
