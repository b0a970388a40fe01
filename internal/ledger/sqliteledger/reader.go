package sqliteledger

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// source lends a reader the connection that it reads on.
type source interface {
	with(ctx context.Context, fn func(*conn) error) error
}

// pinned is the one connection of a transaction.
type pinned struct {
	c    *conn
	over atomic.Bool
}

func (p *pinned) with(_ context.Context, fn func(*conn) error) error {
	if p.over.Load() {
		return errOver
	}
	return fn(p.c)
}

// reader is a ledger.Reader. Each method is one statement, or one per chunk of a
// long list of keys, so that it sees one instant also outside of a transaction.
type reader struct {
	source
	onCorrupt func(error)
}

var _ ledger.Reader = (*reader)(nil)

// get runs a query for few rows on a connection of the source; see conn.get.
func (r *reader) get(ctx context.Context, name string, bind func(*args), each func(*row) error) error {
	return r.with(ctx, func(c *conn) error { return c.get(ctx, variant{name, 1}, bind, each) })
}

// scan runs a query that may read much; see conn.scan.
func (r *reader) scan(ctx context.Context, name string, bind func(*args), each func(*row) error) error {
	return r.with(ctx, func(c *conn) error { return c.scan(ctx, name, bind, each) })
}

// list collects rows that a page shows. One that is unreadable is left out and
// reported, so that it never hides the others.
func list[T any](r *reader, out *[]T, decode func(*row) (T, error)) func(*row) error {
	return func(row *row) error {
		v, err := decode(row)
		if err != nil {
			r.onCorrupt(err)
			return nil
		}
		*out = append(*out, v)
		return nil
	}
}

// full reads a page of at most limit entries. Where rows of it cannot be read it
// asks for more, so that a short page always is the last one and nobody who turns
// pages stops before the end.
func full[T any](limit int, read func(limit int, out *[]T) (rows int, err error)) ([]T, error) {
	limit = max(limit, 0)
	for more := limit; ; more *= 2 {
		var out []T
		rows, err := read(more, &out)
		if err != nil {
			return nil, err
		}
		if len(out) >= limit || rows < more {
			return out[:min(len(out), limit)], nil
		}
	}
}

// counted counts the rows that each is called with.
func counted(rows *int, each func(*row) error) func(*row) error {
	return func(row *row) error {
		*rows++
		return each(row)
	}
}

// each hands rows that must all be seen to fn; an unreadable one is an error.
func each[T any](fn func(T) error, decode func(*row) (T, error)) func(*row) error {
	return func(row *row) error {
		v, err := decode(row)
		if err != nil {
			return err
		}
		return fn(v)
	}
}

// listWidths are the lengths that a list of keys is padded to, so that few
// statements serve every length.
func listWidths() [4]int { return [4]int{1, 16, 64, 256} }

// chunks calls run with parts of n keys and the width of the statement for each.
func chunks(n int, run func(from, to, width int) error) error {
	widths := listWidths()
	for from := 0; from < n; {
		width := widths[len(widths)-1]
		for _, w := range widths {
			if w >= n-from {
				width = w
				break
			}
		}
		to := min(n, from+width)
		if err := run(from, to, width); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// SaleBySlug implements ledger.Reader.
func (r *reader) SaleBySlug(ctx context.Context, slug string) (ledger.Record, error) {
	return r.oneSale(ctx, "sale_by_slug", func(a *args) { a.text(slug) })
}

// SaleByNumber implements ledger.Reader.
func (r *reader) SaleByNumber(ctx context.Context, n sale.Number) (ledger.Record, error) {
	return r.oneSale(ctx, "sale_by_number", func(a *args) { a.int(int64(n)) })
}

func (r *reader) oneSale(ctx context.Context, name string, bind func(*args)) (ledger.Record, error) {
	var found sales
	if err := r.get(ctx, name, bind, found.add); err != nil {
		return ledger.Record{}, err
	}
	if len(found.list) == 0 {
		return ledger.Record{}, sale.SaleNotFound()
	}
	return found.list[0].record, found.list[0].err
}

// ListSales implements ledger.Reader. A sale that cannot be read is left out and
// reported to Options.OnCorrupt; asked for by name, it is an error.
func (r *reader) ListSales(ctx context.Context, after sale.Number, limit int) ([]ledger.Record, error) {
	return full(limit, func(limit int, out *[]ledger.Record) (int, error) {
		var found sales
		err := r.scan(ctx, "sale_list", func(a *args) {
			a.int(int64(after))
			a.int(int64(limit))
		}, found.add)
		for i := range found.list {
			if damage := found.list[i].err; damage != nil {
				r.onCorrupt(damage)
				continue
			}
			*out = append(*out, found.list[i].record)
		}
		return len(found.list), err
	})
}

// SaleNumbers implements ledger.Reader.
func (r *reader) SaleNumbers(ctx context.Context) ([]sale.Number, error) {
	var out []sale.Number
	err := r.scan(ctx, "sale_numbers", nil, func(row *row) error {
		out = append(out, sale.Number(row.int())) //nolint:gosec // the table holds it in range
		return row.done()
	})
	return out, err
}

// TermsOf implements ledger.Reader.
func (r *reader) TermsOf(ctx context.Context, n sale.Number) ([]ledger.Terms, error) {
	var out []ledger.Terms
	err := r.get(ctx, "terms_of_sale", func(a *args) { a.int(int64(n)) }, func(row *row) error {
		t := ledger.Terms{Number: row.int(), Currency: row.text(), Hold: row.duration()}
		if len(out) == 0 || out[len(out)-1].Number != t.Number {
			out = append(out, t)
		}
		last := &out[len(out)-1]
		last.Prices = append(last.Prices, row.int())
		if err := row.done(); err != nil {
			return fmt.Errorf("terms %d of sale %d: %w", t.Number, n, err)
		}
		return nil
	})
	return out, err
}

// Rows implements ledger.Reader.
func (r *reader) Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	return r.journal(ctx, "journal_rows", stretch{n, after, limit})
}

// LaneRows implements ledger.Reader.
func (r *reader) LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	return r.journal(ctx, "lane_rows", stretch{n, after, limit})
}

// stretch is a part of a sale's journal.
type stretch struct {
	sale  sale.Number
	after uint64
	limit int
}

func (r *reader) journal(ctx context.Context, name string, of stretch) ([]ledger.Entry, error) {
	if of.after >= math.MaxInt64 {
		return nil, nil
	}
	var out []ledger.Entry
	err := r.get(ctx, name, func(a *args) {
		a.int(int64(of.sale))
		a.int(int64(of.after)) //nolint:gosec // checked above
		a.int(int64(of.limit))
	}, func(row *row) error {
		e, err := decodeEntry(of.sale, row)
		out = append(out, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// APIKey implements ledger.Reader.
func (r *reader) APIKey(ctx context.Context, id string) (ledger.APIKey, error) {
	var found []ledger.APIKey
	err := r.get(ctx, "key_by_id", func(a *args) { a.text(id) }, each(func(k ledger.APIKey) error {
		found = append(found, k)
		return nil
	}, decodeKey))
	if err != nil {
		return ledger.APIKey{}, err
	}
	if len(found) == 0 {
		return ledger.APIKey{}, keyNotFound()
	}
	return found[0], nil
}

// ListAPIKeys implements ledger.Reader.
func (r *reader) ListAPIKeys(ctx context.Context) ([]ledger.APIKey, error) {
	var out []ledger.APIKey
	err := r.scan(ctx, "key_list", nil, list(r, &out, decodeKey))
	return out, err
}

func keyNotFound() error {
	return &sale.Error{Code: sale.CodeKeyNotFound, Message: "there is no such API key", Hint: "list them with: doorbuster key list"}
}
