package ledgertest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// copy returns a state that shares no map and no slice that can change with s.
func (s *state) copy() *state {
	c := &state{
		last:     s.last,
		sales:    make(map[sale.Number]*rows, len(s.sales)),
		payments: cloned(s.payments),
		refunds:  cloned(s.refunds),
		refunded: slices.Clone(s.refunded),
		letters:  cloned(s.letters),
		parked:   slices.Clone(s.parked),
		keys:     cloned(s.keys),
		gate:     s.gate.copy(),
	}
	for n, r := range s.sales {
		next := *r
		next.rec.Sale = r.rec.Clone()
		next.terms = slices.Clone(r.terms)
		next.orders, next.holders = cloned(r.orders), cloned(r.holders)
		next.entries = slices.Clone(r.entries)
		c.sales[n] = &next
	}
	return c
}

// cloned never returns nil, so that the copy can be written to.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	maps.Copy(c, m)
	return c
}

// memReader reads the state that at returns.
type memReader struct {
	store     *MemStore
	at        func() *state
	statement func(context.Context) error // counted, and aborted, before each read
}

func (r *memReader) rows(ctx context.Context, n sale.Number) (*rows, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	if found, ok := r.at().sales[n]; ok {
		return found, nil
	}
	return &rows{}, nil
}

func (r *rows) record() ledger.Record {
	rec := r.rec
	rec.Sale = r.rec.Clone()
	return rec
}

// SaleBySlug implements ledger.Reader; deleted sales have no slug.
func (r *memReader) SaleBySlug(ctx context.Context, slug string) (ledger.Record, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.Record{}, err
	}
	for _, found := range r.at().sales {
		if found.rec.Slug == slug && found.rec.State != sale.Deleted {
			return found.record(), nil
		}
	}
	return ledger.Record{}, sale.SaleNotFound()
}

// SaleByNumber implements ledger.Reader.
func (r *memReader) SaleByNumber(ctx context.Context, n sale.Number) (ledger.Record, error) {
	found, err := r.rows(ctx, n)
	if err != nil {
		return ledger.Record{}, err
	}
	if found.rec.Number == 0 {
		return ledger.Record{}, sale.SaleNotFound()
	}
	return found.record(), nil
}

// ListSales implements ledger.Reader.
func (r *memReader) ListSales(ctx context.Context, after sale.Number, limit int) ([]ledger.Record, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	var out []ledger.Record
	s := r.at()
	for _, n := range slices.Sorted(maps.Keys(s.sales)) {
		if n > after && s.sales[n].rec.State != sale.Deleted && len(out) < limit {
			out = append(out, s.sales[n].record())
		}
	}
	return out, nil
}

// SaleNumbers implements ledger.Reader.
func (r *memReader) SaleNumbers(ctx context.Context) ([]sale.Number, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.at().sales)), nil
}

// TermsOf implements ledger.Reader.
func (r *memReader) TermsOf(ctx context.Context, n sale.Number) ([]ledger.Terms, error) {
	found, err := r.rows(ctx, n)
	return slices.Clone(found.terms), err
}

// OrdersByID implements ledger.Reader.
func (r *memReader) OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	out := make(map[sale.OrderID]sale.Order)
	for _, id := range ids {
		found, known := r.at().sales[id.Sale()]
		if !known {
			continue
		}
		if o, ok := found.orders[id]; ok {
			out[id] = o
		}
	}
	return out, nil
}

// AnyReserved implements ledger.Reader.
func (r *memReader) AnyReserved(ctx context.Context, n sale.Number) (bool, error) {
	found, err := r.ListOrders(ctx, ledger.OrderFilter{Sale: n, State: sale.Reserved, Limit: 1})
	return len(found) > 0, err
}

// ListOrders implements ledger.Reader.
func (r *memReader) ListOrders(ctx context.Context, f ledger.OrderFilter) ([]sale.Order, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	var out []sale.Order
	for n, found := range r.at().sales {
		if f.Sale != 0 && f.Sale != n {
			continue
		}
		for _, o := range found.orders {
			if f.User != "" && o.User != f.User || f.State != "" && o.State != f.State {
				continue
			}
			if f.Before != (ledger.Cursor{}) && newest(o, sale.Order{ReservedAt: f.Before.At, ID: f.Before.ID}) <= 0 {
				continue
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, newest)
	return out[:min(len(out), f.Limit)], nil
}

// newest orders by time, then id, both descending.
func newest(a, b sale.Order) int {
	if c := b.ReservedAt.Compare(a.ReservedAt); c != 0 {
		return c
	}
	return bytes.Compare(b.ID[:], a.ID[:])
}

// EachOrder implements ledger.Reader.
func (r *memReader) EachOrder(ctx context.Context, n sale.Number, fn func(sale.Order) error) error {
	found, err := r.rows(ctx, n)
	if err != nil {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(found.orders), func(a, b sale.OrderID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		if err := fn(found.orders[id]); err != nil {
			return err
		}
	}
	return nil
}

// Due implements ledger.Reader.
func (r *memReader) Due(ctx context.Context, from, now time.Time, limit int) (page ledger.DuePage, err error) {
	if err := r.statement(ctx); err != nil {
		return page, err
	}
	var due []sale.Order
	for _, found := range r.at().sales {
		for _, o := range found.orders {
			if o.State == sale.Reserved && !now.Before(o.ExpiresAt) && !o.ExpiresAt.Before(from) {
				due = append(due, o)
			}
		}
	}
	slices.SortFunc(due, func(a, b sale.Order) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	due = due[:min(len(due), limit)]
	for i := range due {
		page.IDs = append(page.IDs, due[i].ID)
	}
	if n := len(due); n > 0 {
		page.First, page.Last = due[0].ExpiresAt, due[n-1].ExpiresAt
	}
	return page, nil
}

// Buyers implements ledger.Reader.
func (r *memReader) Buyers(ctx context.Context, n sale.Number) ([]uint64, error) {
	found, err := r.rows(ctx, n)
	if err != nil {
		return nil, err
	}
	users := make(map[string]bool)
	for _, o := range found.orders {
		users[o.User] = true
	}
	out := make([]uint64, 0, len(users))
	for user := range users {
		out = append(out, sale.UserHash(user))
	}
	return out, nil
}

// Holders implements ledger.Reader.
func (r *memReader) Holders(ctx context.Context, n sale.Number, users []string) (map[string]ledger.Holder, error) {
	found, err := r.rows(ctx, n)
	if err != nil {
		return nil, err
	}
	out := make(map[string]ledger.Holder)
	for _, user := range users {
		if h, ok := found.holders[user]; ok {
			out[user] = h
		}
	}
	return out, nil
}

// EachHolder implements ledger.Reader.
func (r *memReader) EachHolder(ctx context.Context, n sale.Number, fn func(ledger.Holder) error) error {
	found, err := r.rows(ctx, n)
	if err != nil {
		return err
	}
	for _, user := range slices.Sorted(maps.Keys(found.holders)) {
		if err := fn(found.holders[user]); err != nil {
			return err
		}
	}
	return nil
}

// Payment implements ledger.Reader.
func (r *memReader) Payment(ctx context.Context, id string) (ledger.PaymentRow, bool, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.PaymentRow{}, false, err
	}
	p, ok := r.at().payments[id]
	return p, ok, nil
}

// EachPayment implements ledger.Reader.
func (r *memReader) EachPayment(ctx context.Context, n sale.Number, fn func(ledger.PaymentRow) error) error {
	if err := r.statement(ctx); err != nil {
		return err
	}
	s := r.at()
	for _, id := range slices.Sorted(maps.Keys(s.payments)) {
		if s.payments[id].Order.Sale() != n {
			continue
		}
		if err := fn(s.payments[id]); err != nil {
			return err
		}
	}
	return nil
}

// Refund implements ledger.Reader.
func (r *memReader) Refund(ctx context.Context, id sale.RefundID) (sale.Refund, error) {
	if err := r.statement(ctx); err != nil {
		return sale.Refund{}, err
	}
	if found, ok := r.at().refunds[id]; ok {
		return found, nil
	}
	return sale.Refund{}, sale.RefundNotFound()
}

// ListRefunds implements ledger.Reader.
func (r *memReader) ListRefunds(ctx context.Context, f ledger.RefundFilter) ([]sale.Refund, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	s := r.at()
	from := 0
	if f.After != (sale.RefundID{}) {
		from = slices.Index(s.refunded, f.After) + 1
	}
	var out []sale.Refund
	for _, id := range s.refunded[from:] {
		if (f.State == "" || s.refunds[id].State == f.State) && len(out) < f.Limit {
			out = append(out, s.refunds[id])
		}
	}
	return out, nil
}

// EachRefund implements ledger.Reader.
func (r *memReader) EachRefund(ctx context.Context, n sale.Number, fn func(sale.Refund) error) error {
	if err := r.statement(ctx); err != nil {
		return err
	}
	s := r.at()
	for _, id := range s.refunded {
		if s.refunds[id].Order.Sale() != n {
			continue
		}
		if err := fn(s.refunds[id]); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements ledger.Reader.
func (r *memReader) Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	found, err := r.rows(ctx, n)
	if err != nil {
		return nil, err
	}
	var out []ledger.Entry
	for i := range found.entries {
		if found.entries[i].Seq > after && len(out) < limit {
			out = append(out, found.entries[i])
		}
	}
	return out, nil
}

// APIKey implements ledger.Reader.
func (r *memReader) APIKey(ctx context.Context, id string) (ledger.APIKey, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.APIKey{}, err
	}
	if k, ok := r.at().keys[id]; ok {
		return k, nil
	}
	return ledger.APIKey{}, keyNotFound()
}

// ListAPIKeys implements ledger.Reader.
func (r *memReader) ListAPIKeys(ctx context.Context) ([]ledger.APIKey, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	s := r.at()
	out := make([]ledger.APIKey, 0, len(s.keys))
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		out = append(out, s.keys[id])
	}
	return out, nil
}

func keyNotFound() error {
	return &sale.Error{Code: sale.CodeKeyNotFound, Message: "there is no such API key"}
}
