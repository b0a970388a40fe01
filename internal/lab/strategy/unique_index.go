package strategy

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// uniqueIndex leaves it to an index that no buyer has two orders, and puts all in a
// transaction, so that order and stock are written together or not at all. The index
// holds what it promises. The stock is read, checked and written as ever: at READ
// COMMITTED, the level that databases start with, a transaction does not keep two others
// from reading the same number.
func uniqueIndex() Strategy {
	return Strategy{
		Info: Info{
			Name: "unique_index", Title: "A unique index on the buyer",
			Why: "No buyer gets two, that is what the index is for. " +
				"It says nothing of the stock: a hundred different buyers may read the same last unit, each in a transaction of his own.",
			Expect: Fails, Accident: Oversold,
		},
		prepare: func(ctx context.Context, w *World, _ int64) error {
			_, err := w.pool.Exec(ctx, `CREATE UNIQUE INDEX one_each ON orders (buyer) WHERE state = 'reserved'`)
			return err
		},
		open: func(w *World) (Shop, error) { return indexed{w}, nil },
	}
}

type indexed struct{ w *World }

// Buy implements Shop.
func (s indexed) Buy(ctx context.Context, c Click) (string, error) {
	conn, err := s.w.conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	ctx, done := working(ctx)
	defer done()
	order := newOrder()
	trouble := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var units int64
		if err := tx.QueryRow(ctx, `SELECT units FROM stock`).Scan(&units); err != nil {
			return err
		}
		if units <= 0 {
			return soldOut()
		}
		return write(ctx, tx, units-1, c, order)
	})
	const uniqueViolation = "23505"
	if isCode(trouble, uniqueViolation) {
		return "", limitReached()
	}
	return order, trouble
}

// Cancel implements Shop.
func (s indexed) Cancel(ctx context.Context, order string) error { return s.w.cancel(ctx, order) }
