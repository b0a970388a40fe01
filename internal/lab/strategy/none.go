package strategy

import "context"

// none reads, checks and writes, as code does that was tried with one buyer at a time.
// Between the reading and the writing of one, others read the same number; each of them
// writes that number less one, so that ten sales may cost the stock one unit. A buyer
// whose two clicks arrive together passes the check of what he has twice.
func none() Strategy {
	return Strategy{
		Info: Info{
			Name: "none", Title: "Read, check, write",
			Why: "Everybody who reads before the first has written sees the same stock and takes the same last unit; " +
				"the count written back then forgets all sales but one. A double click passes the check of the buyer twice.",
			Expect: Fails, Accident: Oversold,
		},
		open: func(w *World) (Shop, error) {
			return &guarded{w: w, guard: func(ctx context.Context, work func(context.Context) error) error {
				return work(ctx)
			}}, nil
		},
	}
}
