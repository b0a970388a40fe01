package strategy

import "context"

// noRenewal is the lock of compare_delete, with holders who pause after they have read
// the stock and before they write it: a collection of garbage, a disk, a call that
// hangs. The lease ends meanwhile, as nobody renews it, and others sell. When the slow
// one goes on, he writes a stock that is long untrue, and what was sold meanwhile is
// sold once more. He then finds that the lock is not his any more, too late.
func noRenewal() Strategy {
	return Strategy{
		Info: Info{
			Name: "no_renewal", Title: "SET NX PX without renewal",
			Fault: "some holders pause for longer than the lease, between reading and writing",
			Why: "The lease ends while its holder is at work, and others sell. " +
				"Then he writes the stock that he had read before, and their units are sold a second time.",
			Expect: Fails, Accident: Oversold, Redis: true,
		},
		open: func(w *World) (Shop, error) {
			guard := func(ctx context.Context, work func(context.Context) error) error {
				owner := newOwner()
				if err := w.lock(ctx, owner); err != nil {
					return err
				}
				defer w.unlock(ctx, owner)
				return work(ctx)
			}
			return &guarded{w: w, guard: guard, midway: func(ctx context.Context) error {
				return w.slow(ctx, muchTooLong)
			}}, nil
		},
	}
}
