package strategy

import "context"

// plainDel takes the lock and its lease in one step and lets go with DEL. That deletes
// whatever lock is there. A holder who was slow (after his work was done: no harm until
// here) has lost his lease by then, and deletes the lock of the next one. Now two are
// inside, and it does not end there: each of them, when he leaves, deletes the lock of
// the one who came after. compare_delete is the same but for the deletion.
func plainDel() Strategy {
	return Strategy{
		Info: Info{
			Name: "plain_del", Title: "SET NX PX, then DEL",
			Fault: "some holders pause for longer than the lease, between their work and the DEL",
			Why: "Whoever comes late deletes a lock that is another's by now, and lets a third one in. " +
				"From then on each of the two inside deletes the other's, until the sale is over.",
			Expect: Fails, Accident: Oversold, Redis: true,
		},
		open: func(w *World) (Shop, error) {
			return &guarded{w: w, guard: func(ctx context.Context, work func(context.Context) error) error {
				if err := w.lock(ctx, newOwner()); err != nil {
					return err
				}
				err := work(ctx)
				calls, done := working(ctx)
				defer done()
				if err == nil {
					_ = w.slow(calls, justTooLong)
				}
				_ = w.redis.Do(calls, w.redis.B().Del().Key(w.key("lock")).Build()).Error() // the lease ends by itself
				return err
			}}, nil
		},
	}
}
