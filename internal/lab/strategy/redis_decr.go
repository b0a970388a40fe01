package strategy

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// redisDecr counts in Redis: DECR, and whoever sees a number below zero is too late. One
// command, nothing can come between, and a refusal never reaches the database. But DECR
// counts on for those who are refused. After two thousand of them the counter is far
// below zero, and a unit that comes back raises it by one, where nobody sees it. And it
// asks as little as conditional_update who buys.
func redisDecr() Strategy {
	return Strategy{
		Info: Info{
			Name: "redis_decr", Title: "DECR, and INCR when a unit comes back",
			Why: "Nothing is sold twice. But those who are refused have counted down too: " +
				"the counter is far below zero, and swallows each unit that comes back, so it is never sold again. Double clicks buy twice.",
			Expect: Fails, Accident: Undersold, Redis: true,
		},
		counts: true, prepare: prepareCounter,
		open: func(w *World) (Shop, error) { return decr{w}, nil },
	}
}

type decr struct{ w *World }

// Buy implements Shop.
func (s decr) Buy(ctx context.Context, c Click) (string, error) {
	calls, done := working(ctx)
	defer done()
	left, err := s.w.redis.Do(calls, s.w.redis.B().Decr().Key(s.w.key("stock")).Build()).AsInt64()
	if err != nil {
		return "", err
	}
	if left < 0 {
		return "", soldOut()
	}
	return s.w.enter(calls, c)
}

// Cancel implements Shop.
func (s decr) Cancel(ctx context.Context, order string) error {
	calls, done := working(ctx)
	defer done()
	if _, err := s.w.end(calls, order); err != nil {
		return err
	}
	return s.w.redis.Do(calls, s.w.redis.B().Incr().Key(s.w.key("stock")).Build()).Error()
}

// enter writes an order whose unit was counted off in Redis.
func (w *World) enter(ctx context.Context, c Click) (order string, err error) {
	order = newOrder()
	_, err = w.pool.Exec(ctx, insertOrder, order, c.Buyer, c.Key)
	return order, err
}

// end ends an order whose unit is counted in Redis, and returns its buyer.
func (w *World) end(ctx context.Context, order string) (buyer string, err error) {
	rows, err := w.pool.Query(ctx, `UPDATE orders SET state = 'cancelled' WHERE id = $1 AND state = 'reserved' RETURNING buyer`, order)
	if err != nil {
		return "", err
	}
	buyers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(buyers) == 0 {
		err = sale.OrderNotFound()
	}
	if err != nil {
		return "", err
	}
	return buyers[0], nil
}
