package strategy

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// mutex lets one request of this process do its work at a time: synchronized, a
// ReentrantLock, a sync.Mutex. With one process that is right. Here are two, as in every
// shop that must not stop when one machine does, and neither knows of the other's: two
// at a time read the same stock, which sells nearly twice what there is.
func mutex() Strategy {
	return Strategy{
		Info: Info{
			Name: "mutex", Title: "A mutex in each process",
			Why: "A mutex guards the memory of one process. Two processes have two of them, " +
				"so two buyers at a time read the same stock: with 100 units, up to 200 orders.",
			Expect: Fails, Accident: Oversold,
		},
		open: func(w *World) (Shop, error) {
			mu := make(chan struct{}, 1) // a mutex for which one can wait with a limit
			return &guarded{w: w, guard: func(ctx context.Context, work func(context.Context) error) error {
				select {
				case mu <- struct{}{}:
					defer func() { <-mu }()
					return work(ctx)
				case <-ctx.Done():
					return sale.Busy()
				}
			}}, nil
		},
	}
}
