package sqliteledger

import (
	"context"
	"math"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// OrdersByID implements ledger.Reader.
func (r *reader) OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	out := make(map[sale.OrderID]sale.Order)
	err := r.with(ctx, func(c *conn) error {
		return chunks(len(ids), func(from, to, width int) error {
			return c.get(ctx, variant{"orders_by_id", width}, func(a *args) {
				for i := from; i < to; i++ {
					a.blob(ids[i][:])
				}
				for range width - (to - from) {
					a.null()
				}
			}, each(func(o sale.Order) error {
				out[o.ID] = o
				return nil
			}, decodeOrder))
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ListOrders implements ledger.Reader. An order that cannot be read is left out
// and reported to Options.OnCorrupt.
func (r *reader) ListOrders(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	return full(f.Limit, func(limit int, out *[]sale.Order) (rows int, err error) {
		f.Limit = limit
		name, bind := pageOf(f)
		err = r.scan(ctx, name, bind, counted(&rows, list(r, out, decodeOrder)))
		return rows, err
	})
}

// pageOf picks the statement that finds a page of orders along an index.
func pageOf(f ledger.OrderFilter) (name string, bind func(*args)) {
	at, id := ledger.Millis(f.Before.At), f.Before.ID
	if f.Before == (ledger.Cursor{}) {
		at = math.MaxInt64
	}
	before := func(a *args) {
		a.int(at)
		a.blob(id[:])
	}
	rest := func(a *args) {
		before(a)
		a.text(string(f.State))
		a.int(int64(f.Limit))
	}
	switch {
	case f.User != "":
		return "orders_of_user", func(a *args) {
			a.text(f.User)
			a.int(int64(f.Sale))
			rest(a)
		}
	case f.Sale != 0 && f.State == sale.Reserved:
		return "orders_reserved", func(a *args) {
			a.int(int64(f.Sale))
			before(a)
			a.int(int64(f.Limit))
		}
	case f.Sale != 0:
		return "orders_of_sale", func(a *args) {
			a.int(int64(f.Sale))
			rest(a)
		}
	}
	return "orders_of_all", rest
}

// AnyReserved implements ledger.Reader.
func (r *reader) AnyReserved(ctx context.Context, n sale.Number) (found bool, err error) {
	err = r.scan(ctx, "orders_any_reserved", func(a *args) { a.int(int64(n)) }, func(*row) error {
		found = true
		return nil
	})
	return found, err
}

// EachOrder implements ledger.Reader. An order that cannot be read is an error.
func (r *reader) EachOrder(ctx context.Context, n sale.Number, fn func(sale.Order) error) error {
	return r.scan(ctx, "orders_each", within(n), each(fn, decodeOrder))
}

// within binds the range of the ids that belong to a sale.
func within(n sale.Number) func(*args) {
	first, last := saleRange(n)
	return func(a *args) {
		a.blob(first[:])
		a.blob(last[:])
	}
}

// Due implements ledger.Reader. It reads ids and times only, so an order or a
// sale that is damaged elsewhere is due like any other; an order without a
// readable id is left out and reported to Options.OnCorrupt.
func (r *reader) Due(ctx context.Context, from, now time.Time, limit int) (page ledger.DuePage, err error) {
	type hold struct {
		id  sale.OrderID
		end time.Time
	}
	due, err := full(limit, func(limit int, out *[]hold) (rows int, err error) {
		err = r.scan(ctx, "orders_due", func(a *args) {
			a.time(from)
			a.time(now)
			a.int(int64(limit))
		}, counted(&rows, list(r, out, func(row *row) (hold, error) {
			h := hold{id: row.id(), end: row.time()}
			if row.err == nil && h.id.IsZero() {
				row.err = corrupt("a due order has no id")
			}
			return h, row.done()
		})))
		return rows, err
	})
	if err != nil || len(due) == 0 {
		return page, err
	}
	for i := range due {
		page.IDs = append(page.IDs, due[i].id)
	}
	page.First, page.Last = due[0].end, due[len(due)-1].end
	return page, nil
}

// Buyers implements ledger.Reader.
func (r *reader) Buyers(ctx context.Context, n sale.Number) ([]uint64, error) {
	var out []uint64
	err := r.scan(ctx, "buyers", func(a *args) { a.int(int64(n)) }, func(row *row) error {
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
	err := r.holders(ctx, n, users, func(h holder) { out[h.User] = h.Holder })
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (r *reader) holders(ctx context.Context, n sale.Number, users []string, found func(holder)) error {
	return r.with(ctx, func(c *conn) error {
		return chunks(len(users), func(from, to, width int) error {
			return c.get(ctx, variant{"holders_by_user", width}, func(a *args) {
				a.int(int64(n))
				for _, user := range users[from:to] {
					a.text(user)
				}
				for range width - (to - from) {
					a.null()
				}
			}, each(func(h holder) error {
				found(h)
				return nil
			}, decodeHolder))
		})
	})
}

// EachHolder implements ledger.Reader. Whoever has an order has a row, also one
// who counts for nothing.
func (r *reader) EachHolder(ctx context.Context, n sale.Number, fn func(ledger.Holder) error) error {
	return r.scan(ctx, "holders_each", func(a *args) { a.int(int64(n)) }, each(func(h holder) error {
		return fn(h.Holder)
	}, decodeHolder))
}
