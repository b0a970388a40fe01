package pgledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Write implements ledger.Tx: one statement for each table, all in one go. Every
// guard is a condition of the statement that writes, counted, or a CHECK of its
// table; a part that does not hold fails the whole.
func (t *tx) Write(ctx context.Context, c *ledger.Changes) error {
	journal, err := writeJournal(c)
	if err != nil {
		return err
	}
	orders, err := writeOrders(c)
	if err != nil {
		return err
	}
	letters, err := writeLetters(c)
	if err != nil {
		return err
	}
	steps := slices.Concat(journal, orders, writeSold(c), t.writeHolders(c), writePayments(c), writeRefunds(c), letters, writeSale(c))
	if err := t.run(ctx, steps...); err != nil {
		return err
	}
	t.tell(ledger.Span{Sale: c.Sale, From: c.FromSeq, To: c.Seq})
	return nil
}

// tell notes rows that the others shall hear of.
func (t *tx) tell(s ledger.Span) {
	if s.From == s.To {
		return
	}
	if n := len(t.spans); n > 0 && t.spans[n-1].Sale == s.Sale && t.spans[n-1].To == s.From {
		t.spans[n-1].To = s.To
		return
	}
	t.spans = append(t.spans, s)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ledger.ErrConstraint, fmt.Sprintf(format, args...))
}

// runs cuts a list into stretches in which no key comes twice. One statement sees
// each row once, so what happens twice to one row takes two statements.
func runs[T any, K comparable](rows []T, key func(*T) K) [][]T {
	var out [][]T
	seen := make(map[K]bool, len(rows))
	from := 0
	for i := range rows {
		k := key(&rows[i])
		if seen[k] {
			out = append(out, rows[from:i])
			clear(seen)
			from = i
		}
		seen[k] = true
	}
	if from < len(rows) {
		out = append(out, rows[from:])
	}
	return out
}

// each makes the steps of every stretch, in order.
func each[T any](runs [][]T, write func([]T) []step) []step {
	out := make([]step, 0, 2*len(runs))
	for _, run := range runs {
		out = append(out, write(run)...)
	}
	return out
}

// writeJournal moves the end of the journal on, if it is where the writer
// believes, and appends the rows that lead there.
func writeJournal(c *ledger.Changes) ([]step, error) {
	for i := range c.Entries {
		if e := &c.Entries[i]; e.Sale != c.Sale || e.Seq != c.FromSeq+uint64(i)+1 {
			return nil, refused("row %d of the journal of sale %d does not follow", e.Seq, e.Sale)
		}
	}
	n := len(c.Entries)
	if c.Seq != c.FromSeq+uint64(n) || n > 0 && c.Entries[n-1].Hash != c.Head {
		return nil, refused("%d rows after %d do not lead to the journal's new end", n, c.FromSeq)
	}
	advance := step{name: "sale_advance", want: 1, args: []any{int64(c.Sale), int64(c.FromSeq), int64(c.Seq), c.Head[:]}} //nolint:gosec // a journal does not reach 2^63 rows
	if n == 0 {
		return []step{advance}, nil
	}
	return []step{advance, {name: "journal_append", want: int64(n), args: []any{
		int64(c.Sale),
		column(c.Entries, func(e *ledger.Entry) int64 { return int64(e.Seq) }), //nolint:gosec // as above
		column(c.Entries, func(e *ledger.Entry) int64 { return ledger.Millis(e.At) }),
		column(c.Entries, func(e *ledger.Entry) string { return string(e.Kind) }),
		column(c.Entries, func(e *ledger.Entry) [16]byte { return e.Order }),
		column(c.Entries, func(e *ledger.Entry) []byte { return e.Body }),
		column(c.Entries, func(e *ledger.Entry) []byte { return e.Hash[:] }),
	}}}, nil
}

func writeOrders(c *ledger.Changes) ([]step, error) {
	var steps []step
	for _, run := range runs(c.Orders, func(o *ledger.OrderChange) sale.OrderID { return o.After.ID }) {
		var born, moved []*ledger.OrderChange
		for i := range run {
			switch {
			case run[i].After.ID.Sale() != c.Sale:
				return nil, refused("order %v is of another sale", run[i].After.ID)
			case run[i].From == sale.Queued || run[i].From == "":
				born = append(born, &run[i])
			default:
				moved = append(moved, &run[i])
			}
		}
		byID := func(a, b *ledger.OrderChange) int { return bytes.Compare(a.After.ID[:], b.After.ID[:]) }
		slices.SortFunc(born, byID) // the lock order
		slices.SortFunc(moved, byID)
		if len(born) > 0 {
			steps = append(steps, insertOrders(c.Sale, born))
		}
		if len(moved) > 0 {
			steps = append(steps, moveOrders(moved))
		}
	}
	return steps, nil
}

func insertOrders(n sale.Number, born []*ledger.OrderChange) step {
	type change = ledger.OrderChange
	return step{name: "orders_insert", want: int64(len(born)), args: []any{
		int64(n),
		columnOf(born, func(o *change) [16]byte { return o.After.ID }),
		columnOf(born, func(o *change) string { return o.After.User }),
		columnOf(born, func(o *change) string { return o.After.SKU }),
		columnOf(born, func(o *change) int64 { return o.After.Quantity }),
		columnOf(born, func(o *change) int64 { return o.After.Terms }),
		columnOf(born, func(o *change) int64 { return o.After.Amount }),
		columnOf(born, func(o *change) string { return o.After.Currency }),
		columnOf(born, func(o *change) string { return string(o.After.State) }),
		columnOf(born, func(o *change) int64 { return o.After.Epoch }),
		columnOf(born, func(o *change) int64 { return o.After.Version }),
		columnOf(born, func(o *change) int64 { return ledger.Millis(o.After.ReservedAt) }),
		columnOf(born, func(o *change) int64 { return ledger.Millis(o.After.ExpiresAt) }),
		columnOf(born, func(o *change) int64 { return ledger.Millis(o.After.EndedAt) }),
		columnOf(born, func(o *change) string { return string(o.After.Reason) }),
		columnOf(born, func(o *change) string { return o.After.PaymentID }),
		columnOf(born, func(o *change) [16]byte { return o.After.Replaces }),
	}}
}

func moveOrders(moved []*ledger.OrderChange) step {
	type change = ledger.OrderChange
	return step{name: "orders_move", want: int64(len(moved)), args: []any{
		columnOf(moved, func(o *change) [16]byte { return o.After.ID }),
		columnOf(moved, func(o *change) string { return string(o.From) }),
		columnOf(moved, func(o *change) string { return string(o.After.State) }),
		columnOf(moved, func(o *change) int64 { return o.After.Version }),
		columnOf(moved, func(o *change) int64 { return ledger.Millis(o.After.ExpiresAt) }),
		columnOf(moved, func(o *change) int64 { return ledger.Millis(o.After.EndedAt) }),
		columnOf(moved, func(o *change) string { return o.After.PaymentID }),
	}}
}

// writeSold adds to what the items have sold; their table holds it in bounds.
func writeSold(c *ledger.Changes) []step {
	var positions, units []int64
	for i, n := range c.Sold {
		if n != 0 {
			positions, units = append(positions, int64(i)), append(units, n)
		}
	}
	if len(units) == 0 {
		return nil
	}
	return []step{{name: "items_sold", want: int64(len(units)), args: []any{int64(c.Sale), positions, units}}}
}

// writeHolders enters those who are known to have no row, so that a crowd of new
// buyers need not be looked for once more, and puts the others.
func (t *tx) writeHolders(c *ledger.Changes) []step {
	type holder = ledger.Holder
	return each(runs(c.Holders, func(h *holder) string { return h.User }), func(run []holder) []step {
		run = slices.Clone(run)
		slices.SortFunc(run, func(a, b holder) int { return strings.Compare(a.User, b.User) }) // the lock order
		var fresh, others []holder
		for i := range run {
			row := holding{c.Sale, run[i].User}
			if t.unknown[row] {
				fresh = append(fresh, run[i])
				delete(t.unknown, row)
			} else {
				others = append(others, run[i])
			}
		}
		return slices.Concat(holderRows("holders_insert", c.Sale, fresh), holderRows("holders_put", c.Sale, others))
	})
}

func holderRows(statement string, n sale.Number, rows []ledger.Holder) []step {
	type holder = ledger.Holder
	if len(rows) == 0 {
		return nil
	}
	return []step{{name: statement, want: int64(len(rows)), args: []any{
		int64(n),
		column(rows, func(h *holder) string { return h.User }),
		column(rows, func(h *holder) int64 { return h.Live }),
		column(rows, func(h *holder) int64 { return h.Refunded }),
		column(rows, func(h *holder) int64 { return h.Unpaid }),
		column(rows, func(h *holder) int64 { return h.Cap }),
		column(rows, func(h *holder) int64 { return ledger.Millis(h.CoolUntil) }),
	}}}
}

// writeSale enters new terms and replaces the rules of the sale.
func writeSale(c *ledger.Changes) []step {
	var steps []step
	if c.NewTerms != nil {
		steps = insertTerms(c.Sale, c.NewTerms)
	}
	next := c.Revised
	if next == nil {
		return steps
	}
	args := append([]any{int64(c.Sale), next.Slug}, standing(next)...)
	steps = append(steps, step{name: "sale_revise", want: 1, args: append(args, ledger.Millis(next.UpdatedAt))})
	return append(steps, step{name: "items_revise", want: int64(len(next.Items)), args: []any{
		int64(c.Sale), positions(len(next.Items)),
		column(next.Items, func(it *sale.Item) string { return it.SKU }),
		column(next.Items, func(it *sale.Item) string { return it.Title }),
		column(next.Items, func(it *sale.Item) int64 { return it.Stock }),
		column(next.Items, func(it *sale.Item) int64 { return it.Price }),
	}})
}

func insertItems(n sale.Number, items []sale.Item) step {
	return step{name: "items_insert", want: int64(len(items)), args: []any{
		int64(n), positions(len(items)),
		column(items, func(it *sale.Item) string { return it.SKU }),
		column(items, func(it *sale.Item) string { return it.Title }),
		column(items, func(it *sale.Item) int64 { return it.Stock }),
		column(items, func(it *sale.Item) int64 { return it.Sold }),
		column(items, func(it *sale.Item) int64 { return it.Price }),
	}}
}

func insertTerms(n sale.Number, t *ledger.Terms) []step {
	return []step{
		{name: "terms_insert", want: 1, args: []any{int64(n), t.Number, t.Currency, t.Hold.Milliseconds()}},
		{name: "prices_insert", want: int64(len(t.Prices)), args: []any{int64(n), t.Number, positions(len(t.Prices)), t.Prices}},
	}
}

// positions counts n places from 0.
func positions(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}
