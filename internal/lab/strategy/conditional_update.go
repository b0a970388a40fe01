package strategy

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// conditionalUpdate lets the database check and write in one statement, which no other
// comes between. The stock never goes below zero, with any number of processes, and
// there is no lock to be lost. But the statement only knows the stock: who asks, and
// whether this is the second time that the same click arrives, nobody has looked at. A
// look before the statement would be the race of none again.
func conditionalUpdate() Strategy {
	return Strategy{
		Info: Info{
			Name: "conditional_update", Title: "UPDATE … WHERE units > 0",
			Why: "Check and write are one statement, so the stock is right. " +
				"It does not ask who buys: a click that is sent twice buys twice, and a bot buys what it likes.",
			Expect: Fails, Accident: Duplicates,
		},
		open: func(w *World) (Shop, error) { return conditional{w}, nil },
	}
}

type conditional struct{ w *World }

// Buy implements Shop.
func (s conditional) Buy(ctx context.Context, c Click) (string, error) {
	conn, err := s.w.conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	ctx, done := working(ctx)
	defer done()
	order := newOrder()
	return order, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		taken, err := tx.Exec(ctx, `UPDATE stock SET units = units - 1 WHERE units > 0`)
		if err != nil {
			return err
		}
		if taken.RowsAffected() == 0 {
			return soldOut()
		}
		_, err = tx.Exec(ctx, insertOrder, order, c.Buyer, c.Key)
		return err
	})
}

// Cancel implements Shop.
func (s conditional) Cancel(ctx context.Context, order string) error { return s.w.cancel(ctx, order) }
