package strategy

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// forUpdate locks the row of the stock while it reads, checks and writes. That is right,
// for all processes, and also when one of them dies: its transaction is rolled back. The
// price is that everybody, also those who will get nothing, waits in turn for one row,
// each holding a connection meanwhile; when the pool is empty, the pages that have
// nothing to do with the sale wait too.
func forUpdate() Strategy {
	return Strategy{
		Info: Info{
			Name: "for_update", Title: "SELECT … FOR UPDATE",
			Why: "The database lets one buyer at a time look at the stock, so nothing is sold twice. " +
				"But each waits with a connection in his hand, also for the news that nothing is left: " +
				"the queue is as long as the crowd, and the rest of the shop stands in it.",
			Expect: Must,
		},
		open: func(w *World) (Shop, error) { return rowLock{w}, nil },
	}
}

type rowLock struct{ w *World }

// Buy implements Shop.
func (s rowLock) Buy(ctx context.Context, c Click) (string, error) {
	conn, err := s.w.conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	ctx, done := working(ctx)
	defer done()
	order := newOrder()
	return order, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var units, has int64
		if err := tx.QueryRow(ctx, `SELECT units FROM stock FOR UPDATE`).Scan(&units); err != nil {
			return err
		}
		if units <= 0 {
			return soldOut()
		}
		// A statement of its own: the one that waited sees what was there before it
		// waited, without the order of this buyer's other click.
		err := tx.QueryRow(ctx, `SELECT count(*) FROM orders WHERE buyer = $1 AND state = 'reserved'`, c.Buyer).Scan(&has)
		if err != nil {
			return err
		}
		if has > 0 {
			return limitReached()
		}
		return write(ctx, tx, units-1, c, order)
	})
}

// Cancel implements Shop. Its one statement waits for the row by itself.
func (s rowLock) Cancel(ctx context.Context, order string) error { return s.w.cancel(ctx, order) }
