package strategy

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Books are the orders of a run, as the table holds them.
type Books struct {
	Orders []Order
	Struck int64 // how often Info.Fault happened
}

// Order is one row.
type Order struct {
	ID    string
	Buyer string
	Key   string // the idempotency key of the click
	Live  bool   // not cancelled
}

// Quantity is how many units an order is about: one, in every strategy.
func (Order) Quantity() int64 { return 1 }

// Sold returns the units of the live orders.
func (b *Books) Sold() int64 {
	var n int64
	for _, o := range b.Orders {
		if o.Live {
			n += o.Quantity()
		}
	}
	return n
}

// Duplicates returns how many live orders there are beyond the first of each buyer.
func (b *Books) Duplicates() int64 {
	var n int64
	buyers := make(map[string]struct{}, len(b.Orders))
	for _, o := range b.Orders {
		if !o.Live {
			continue
		}
		if _, has := buyers[o.Buyer]; has {
			n++
		}
		buyers[o.Buyer] = struct{}{}
	}
	return n
}

// Recount reads the orders, after all that is still on its way to them has arrived.
// That needs a shop that runs, and ctx bounds the waiting.
func (w *World) Recount(ctx context.Context) (*Books, error) {
	if w.settle != nil {
		if err := w.settle(ctx, w); err != nil {
			return nil, fmt.Errorf("strategy: wait for the books: %w", err)
		}
	}
	rows, err := w.pool.Query(ctx, `SELECT id, buyer, click, state = 'reserved' FROM orders ORDER BY made_at, id`)
	if err != nil {
		return nil, fmt.Errorf("strategy: recount: %w", err)
	}
	orders, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Order])
	if err != nil {
		return nil, fmt.Errorf("strategy: recount: %w", err)
	}
	struck, err := w.struck(ctx)
	if err != nil {
		return nil, fmt.Errorf("strategy: recount the faults: %w", err)
	}
	return &Books{Orders: orders, Struck: struck}, nil
}
