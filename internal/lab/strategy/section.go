package strategy

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/doorbuster/doorbuster/internal/sale"
)

const insertOrder = `INSERT INTO orders (id, buyer, click) VALUES ($1, $2, $3)`

// guarded sells by reading, checking and writing: does this buyer have one already, is
// there stock, then write both. That is right as long as nobody writes in between, and
// to see to that is the business of guard.
type guarded struct {
	w *World
	// guard runs work when it is alone, as far as it can tell, or returns an error
	// and does not.
	guard func(ctx context.Context, work func(context.Context) error) error
	// midway runs between reading and writing; nil: nothing does.
	midway func(ctx context.Context) error
}

// Buy implements Shop.
func (g *guarded) Buy(ctx context.Context, c Click) (string, error) {
	order := newOrder()
	return order, g.guard(ctx, func(ctx context.Context) error { return g.sell(ctx, c, order) })
}

// Cancel implements Shop.
func (g *guarded) Cancel(ctx context.Context, order string) error {
	return g.guard(ctx, func(ctx context.Context) error { return g.w.cancel(ctx, order) })
}

// sell is the section that needs the guard.
func (g *guarded) sell(ctx context.Context, c Click, order string) error {
	conn, err := g.w.conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, done := working(ctx)
	defer done()
	var units, has int64
	err = conn.QueryRow(ctx, `
		SELECT units, (SELECT count(*) FROM orders WHERE buyer = $1 AND state = 'reserved') FROM stock`, c.Buyer).Scan(&units, &has)
	switch {
	case err != nil:
		return err
	case has > 0:
		return limitReached()
	case units <= 0:
		return soldOut()
	}
	if g.midway != nil {
		if err = g.midway(ctx); err != nil {
			return err
		}
	}
	return write(ctx, conn, units-1, c, order)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// write sets the stock to what was computed and enters the order, in one transaction and
// one round trip.
func write(ctx context.Context, conn querier, units int64, c Click, order string) error {
	var batch pgx.Batch
	batch.Queue(`UPDATE stock SET units = $1`, units)
	batch.Queue(insertOrder, order, c.Buyer, c.Key)
	return conn.SendBatch(ctx, &batch).Close()
}

// cancel ends an order and puts its unit back.
func (w *World) cancel(ctx context.Context, order string) error {
	conn, err := w.conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, done := working(ctx)
	defer done()
	return endOrder(ctx, conn, order)
}

// endOrder does that in one statement.
func endOrder(ctx context.Context, conn querier, order string) error {
	var ended int64
	err := conn.QueryRow(ctx, `
		WITH ended AS (UPDATE orders SET state = 'cancelled' WHERE id = $1 AND state = 'reserved' RETURNING 1)
		UPDATE stock SET units = units + (SELECT count(*) FROM ended) RETURNING (SELECT count(*) FROM ended)`, order).Scan(&ended)
	if err == nil && ended == 0 {
		err = sale.OrderNotFound()
	}
	return err
}

// newOrder returns the id of an order to be made.
func newOrder() string { return "ord_" + rand.Text() }

// newOwner returns a name that no other holder of a lock has.
func newOwner() string { return rand.Text() }

// isCode reports whether PostgreSQL has refused with this code.
func isCode(err error, code string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == code
}
