package pgledger

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// OrdersByID implements ledger.Reader. In a write transaction the orders are locked.
func (r *reader) OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	out := make(map[sale.OrderID]sale.Order)
	if len(ids) == 0 {
		return out, nil
	}
	wanted := column(ids, func(id *sale.OrderID) [16]byte { return *id })
	slices.SortFunc(wanted, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }) // the lock order
	err := r.query(ctx, cmp.Or(r.byID, "orders_by_id"), []any{wanted}, func(row *row) error {
		o, err := decodeOrder(row)
		out[o.ID] = o
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ListOrders implements ledger.Reader. An order that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListOrders(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	if !storable(f.User) {
		return nil, nil
	}
	return full(f.Limit, func(limit int, out *[]sale.Order) (rows int, err error) {
		f.Limit = limit
		name, args := pageOf(f)
		err = r.query(ctx, name, args, counted(&rows, list(r, out, decodeOrder)))
		return rows, err
	})
}

// AnyReserved implements ledger.Reader.
func (r *reader) AnyReserved(ctx context.Context, n sale.Number) (found bool, err error) {
	before, last := saleRange(n)
	err = r.query(ctx, "orders_any_reserved", []any{before, last}, func(*row) error {
		found = true
		return nil
	})
	return found, err
}

// pageOf picks the statement that finds a page of orders along an index.
func pageOf(f ledger.OrderFilter) (name string, args []any) {
	at, id := ledger.Millis(f.Before.At), [16]byte(f.Before.ID)
	if f.Before == (ledger.Cursor{}) {
		at = math.MaxInt64
	}
	switch {
	case f.User != "":
		return "orders_of_user", []any{f.User, int64(f.Sale), at, id, string(f.State), f.Limit}
	case f.Sale != 0 && f.State == sale.Reserved:
		return "orders_reserved", []any{int64(f.Sale), at, id, f.Limit}
	case f.Sale != 0:
		return "orders_of_sale", []any{int64(f.Sale), at, id, string(f.State), f.Limit}
	}
	return "orders_of_all", []any{at, id, string(f.State), f.Limit}
}

// EachOrder implements ledger.Reader. An order that cannot be read is an error.
func (r *reader) EachOrder(ctx context.Context, n sale.Number, fn func(sale.Order) error) error {
	before, end := saleRange(n)
	return every(ctx, r.source, question[sale.Order]{name: "orders_each", decode: decodeOrder, args: func(last *sale.Order) []any {
		if last != nil {
			before = last.ID
		}
		return []any{before, end}
	}}, fn)
}

// Due implements ledger.Reader. It reads ids and times only, so an order or a
// sale that is damaged elsewhere is due like any other. Outside of a snapshot it
// leaves out what is being written to at this moment.
func (r *reader) Due(ctx context.Context, from, now time.Time, limit int) (ledger.DuePage, error) {
	type hold struct {
		id  sale.OrderID
		end time.Time
	}
	var due []hold
	err := r.query(ctx, r.due, []any{ledger.Millis(from), ledger.Millis(now), limit}, all(&due, func(row *row) (hold, error) {
		h := hold{id: row.id(), end: row.time()}
		return h, row.done()
	}))
	if err != nil || len(due) == 0 {
		return ledger.DuePage{}, err
	}
	ids := column(due, func(h *hold) sale.OrderID { return h.id })
	return ledger.DuePage{IDs: ids, First: due[0].end, Last: due[len(due)-1].end}, nil
}

// Buyers implements ledger.Reader.
func (r *reader) Buyers(ctx context.Context, n sale.Number) ([]uint64, error) {
	var out []uint64
	err := r.query(ctx, "buyers", []any{int64(n)}, func(row *row) error {
		out = append(out, sale.UserHash(row.text()))
		return row.done()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Holders implements ledger.Reader.
func (r *reader) Holders(ctx context.Context, n sale.Number, users []string) (map[string]ledger.Holder, error) {
	out := make(map[string]ledger.Holder)
	if len(users) == 0 {
		return out, nil
	}
	err := r.query(ctx, "holders_by_user", []any{int64(n), users}, func(row *row) error {
		h, err := decodeHolder(row)
		out[h.User] = h
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EachHolder implements ledger.Reader.
func (r *reader) EachHolder(ctx context.Context, n sale.Number, fn func(ledger.Holder) error) error {
	return every(ctx, r.source, question[ledger.Holder]{name: "holders_each", decode: decodeHolder, args: func(last *ledger.Holder) []any {
		after := ""
		if last != nil {
			after = last.User
		}
		return []any{int64(n), after}
	}}, fn)
}
