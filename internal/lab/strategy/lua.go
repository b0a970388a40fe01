package strategy

import (
	"context"
	"strconv"
)

// lua asks and counts in one script: has this buyer one, is there one left, then take it
// and note the buyer. Redis runs scripts one after the other, so nothing comes between,
// and a refusal costs the database nothing. The order is then inserted into PostgreSQL,
// before the buyer is told. Between the two lies the one hole: a process that dies there,
// or a Redis that forgets its last second, leaves both to disagree, and nothing here would
// notice.
func lua() Strategy {
	return Strategy{
		Info: Info{
			Name: "lua", Title: "A script, then INSERT",
			Why: "Check, count and buyer are one script, which nothing comes between, and those who get nothing never reach the database. " +
				"It holds while nothing dies: between script and INSERT two stores are written without one transaction.",
			Expect: Holds, Redis: true,
		},
		counts: true, prepare: prepareCounter,
		open: func(w *World) (Shop, error) { return scripted{w}, nil },
	}
}

func prepareCounter(ctx context.Context, w *World, stock int64) error {
	return w.redis.Do(ctx, w.redis.B().Set().Key(w.key("stock")).Value(strconv.FormatInt(stock, 10)).Build()).Error()
}

type scripted struct{ w *World }

// Buy implements Shop.
func (s scripted) Buy(ctx context.Context, c Click) (string, error) {
	calls, done := working(ctx)
	defer done()
	if err := s.w.count(calls, c.Buyer); err != nil {
		return "", err
	}
	return s.w.enter(calls, c)
}

// Cancel implements Shop.
func (s scripted) Cancel(ctx context.Context, order string) error {
	calls, done := working(ctx)
	defer done()
	buyer, err := s.w.end(calls, order)
	if err != nil {
		return err
	}
	return s.w.uncount(calls, buyer)
}

// count takes a unit off for a buyer who has none.
func (w *World) count(ctx context.Context, buyer string) error {
	answer, err := w.take.Run(ctx, w.redis, []string{w.key("stock"), w.key("buyers")}, []string{buyer})
	if err != nil {
		return err
	}
	switch n, err := answer.AsInt64(); {
	case err != nil:
		return err
	case n < 0:
		return limitReached()
	case n == 0:
		return soldOut()
	}
	return nil
}

// uncount puts the unit of a buyer back.
func (w *World) uncount(ctx context.Context, buyer string) error {
	_, err := w.giveBack.Run(ctx, w.redis, []string{w.key("stock"), w.key("buyers")}, []string{buyer})
	return err
}
