package strategy

import "context"

// compareDelete lets go with a script that deletes the lock only if it is still its
// owner's, so that the slow holders who ruin plain_del do no harm here. This is the lock
// of the textbooks, and it holds as long as the work is done within the lease. Nothing
// sees to that: no_renewal is the same lock with a pause at a worse moment.
func compareDelete() Strategy {
	return Strategy{
		Info: Info{
			Name: "compare_delete", Title: "SET NX PX, deleted by its owner only",
			Fault: "some holders pause for longer than the lease, between their work and the release, as in plain_del",
			Why: "A late holder finds that the lock is not his and leaves it alone. It holds as long as all work ends within the lease, " +
				"which is luck, and sells no faster than one buyer at a time.",
			Expect: Holds, Redis: true,
		},
		open: func(w *World) (Shop, error) {
			return &guarded{w: w, guard: func(ctx context.Context, work func(context.Context) error) error {
				owner := newOwner()
				if err := w.lock(ctx, owner); err != nil {
					return err
				}
				defer w.unlock(ctx, owner)
				err := work(ctx)
				if err == nil {
					calls, done := working(ctx)
					defer done()
					_ = w.slow(calls, justTooLong)
				}
				return err
			}}, nil
		},
	}
}
