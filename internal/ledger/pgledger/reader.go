package pgledger

import (
	"context"
	"fmt"
	"math"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// source runs the statements of a reader.
type source interface {
	// query runs one statement and calls each with its rows, while nothing else can
	// be asked of the connection.
	query(ctx context.Context, name string, args []any, each func(*row) error) error
	// instant calls fn with a reader whose statements all see the same instant.
	instant(ctx context.Context, fn func(*reader) error) error
}

// instant implements source. A snapshot is one; in a write transaction everything
// that belongs to a locked sale stands still.
func (s *session) instant(_ context.Context, fn func(*reader) error) error {
	return fn(&reader{source: s})
}

// reader is a ledger.Reader. Each method but the Each ones is one statement.
type reader struct {
	source
	due       string // the statement that finds due orders
	byID      string // the statement that finds orders by id; empty is orders_by_id
	onCorrupt func(error)
}

var _ ledger.Reader = (*reader)(nil)

// pageRows is how many rows the Each methods read at once.
const pageRows = 1000

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

// all collects rows that must all be seen; an unreadable one is an error.
func all[T any](out *[]T, decode func(*row) (T, error)) func(*row) error {
	return func(row *row) error {
		v, err := decode(row)
		if err != nil {
			return err
		}
		*out = append(*out, v)
		return nil
	}
}

// question is a statement whose pages an Each method turns.
type question[T any] struct {
	name   string
	decode func(*row) (T, error)
	// args asks for the rows after last, or for the first ones where it is nil.
	args func(last *T) []any
}

// every calls fn with every row of a question. Rows are read by pages of one
// instant, and none while fn runs, so that fn may read by the same connection.
func every[T any](ctx context.Context, s source, q question[T], fn func(T) error) error {
	return s.instant(ctx, func(r *reader) error {
		var last *T
		for {
			var page []T
			if err := r.query(ctx, q.name, append(q.args(last), pageRows), all(&page, q.decode)); err != nil {
				return err
			}
			for i := range page {
				if err := fn(page[i]); err != nil {
					return err
				}
			}
			if len(page) < pageRows {
				return nil
			}
			last = &page[len(page)-1]
		}
	})
}

// SaleBySlug implements ledger.Reader.
func (r *reader) SaleBySlug(ctx context.Context, slug string) (ledger.Record, error) {
	if !storable(slug) {
		return ledger.Record{}, sale.SaleNotFound()
	}
	return r.oneSale(ctx, "sale_by_slug", slug)
}

// SaleByNumber implements ledger.Reader.
func (r *reader) SaleByNumber(ctx context.Context, n sale.Number) (ledger.Record, error) {
	return r.oneSale(ctx, "sale_by_number", int64(n))
}

func (r *reader) oneSale(ctx context.Context, name string, key any) (ledger.Record, error) {
	var found sales
	if err := r.query(ctx, name, []any{key}, found.add); err != nil {
		return ledger.Record{}, err
	}
	return found.one()
}

// ListSales implements ledger.Reader. A sale that cannot be read is left out and
// reported to Options.OnCorrupt; asked for by name, it is an error.
func (r *reader) ListSales(ctx context.Context, after sale.Number, limit int) ([]ledger.Record, error) {
	return full(limit, func(limit int, out *[]ledger.Record) (int, error) {
		var found sales
		err := r.query(ctx, "sale_list", []any{int64(after), limit}, found.add)
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
	err := r.query(ctx, "sale_numbers", nil, func(row *row) error {
		out = append(out, sale.Number(row.int())) //nolint:gosec // the table holds it in range
		return row.done()
	})
	return out, err
}

// TermsOf implements ledger.Reader.
func (r *reader) TermsOf(ctx context.Context, n sale.Number) ([]ledger.Terms, error) {
	var out []ledger.Terms
	err := r.query(ctx, "terms_of_sale", []any{int64(n)}, func(row *row) error {
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
	err := r.query(ctx, name, []any{int64(of.sale), int64(of.after), of.limit}, all(&out, func(row *row) (ledger.Entry, error) {
		return decodeEntry(of.sale, row)
	}))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// APIKey implements ledger.Reader.
func (r *reader) APIKey(ctx context.Context, id string) (ledger.APIKey, error) {
	if !storable(id) {
		return ledger.APIKey{}, keyNotFound()
	}
	k, found, err := one(ctx, r, step{name: "key_by_id", args: []any{id}}, decodeKey)
	if err == nil && !found {
		err = keyNotFound()
	}
	return k, err
}

// ListAPIKeys implements ledger.Reader.
func (r *reader) ListAPIKeys(ctx context.Context) ([]ledger.APIKey, error) {
	var out []ledger.APIKey
	err := r.query(ctx, "key_list", nil, list(r, &out, decodeKey))
	return out, err
}

// one reads the only row of a statement, if there is one.
func one[T any](ctx context.Context, r *reader, st step, decode func(*row) (T, error)) (v T, found bool, err error) {
	var out []T
	if err := r.query(ctx, st.name, st.args, all(&out, decode)); err != nil || len(out) == 0 {
		return v, false, err
	}
	return out[0], true, nil
}

func keyNotFound() error {
	return &sale.Error{Code: sale.CodeKeyNotFound, Message: "there is no such API key", Hint: "list them with: doorbuster key list"}
}
