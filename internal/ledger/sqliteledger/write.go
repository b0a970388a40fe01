package sqliteledger

import (
	"context"
	"fmt"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Write implements ledger.Tx. Every guard is a condition of the statement that
// writes, or a CHECK of its table; a part that does not hold fails the whole.
func (t *tx) Write(ctx context.Context, c *ledger.Changes) error {
	for _, part := range []func(context.Context, *ledger.Changes) error{
		t.writeJournal, t.writeOrders, t.writeSold, t.writeHolders, t.writeMoney, t.writeLetters, t.writeSale,
	} {
		if err := part(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ledger.ErrConstraint, fmt.Sprintf(format, args...))
}

// writeJournal moves the end of the journal on, if it is where the writer
// believes, and appends the rows that lead there.
func (t *tx) writeJournal(ctx context.Context, c *ledger.Changes) error {
	err := t.must(ctx, "sale_advance", func(a *args) {
		a.int(int64(c.Seq)) //nolint:gosec // a journal does not reach 2^63 rows
		a.blob(c.Head[:])
		a.int(int64(c.Sale))
		a.int(int64(c.FromSeq)) //nolint:gosec // as above
	})
	if err != nil {
		return err
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Sale != c.Sale || e.Seq != c.FromSeq+uint64(i)+1 {
			return refused("row %d of the journal of sale %d does not follow", e.Seq, e.Sale)
		}
		err := t.must(ctx, "journal_append", func(a *args) {
			a.int(int64(e.Sale))
			a.int(int64(e.Seq)) //nolint:gosec // as above
			a.time(e.At)
			a.text(string(e.Kind))
			a.id((*[16]byte)(&e.Order))
			a.blob(e.Body)
			a.blob(e.Hash[:])
		})
		if err != nil {
			return err
		}
	}
	if n := len(c.Entries); c.Seq != c.FromSeq+uint64(n) || n > 0 && c.Entries[n-1].Hash != c.Head {
		return refused("%d rows after %d do not lead to the journal's new end", n, c.FromSeq)
	}
	return nil
}

func (t *tx) writeOrders(ctx context.Context, c *ledger.Changes) error {
	if err := t.learnBuyers(ctx, c); err != nil {
		return err
	}
	for i := range c.Orders {
		from, o := c.Orders[i].From, &c.Orders[i].After
		if o.ID.Sale() != c.Sale {
			return refused("order %v is of another sale", o.ID)
		}
		if from == sale.Queued || from == "" {
			if err := t.insertOrder(ctx, c.Sale, o); err != nil {
				return err
			}
			continue
		}
		err := t.must(ctx, "order_move", func(a *args) {
			a.text(string(o.State))
			a.int(o.Version)
			a.time(o.ExpiresAt)
			a.time(o.EndedAt)
			a.text(o.PaymentID)
			a.blob(o.ID[:])
			a.text(string(from))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// learnBuyers looks up the newest orders of those buyers whose holder nobody
// has loaded in this transaction.
func (t *tx) learnBuyers(ctx context.Context, c *ledger.Changes) error {
	var unknown []string
	for i := range c.Orders {
		user := c.Orders[i].After.User
		if _, known := t.newest[buyer{c.Sale, user}]; !known {
			unknown = append(unknown, user)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return t.learn(ctx, c.Sale, unknown, func(holder) {})
}

func (t *tx) insertOrder(ctx context.Context, n sale.Number, o *sale.Order) error {
	who := buyer{n, o.User}
	_, row, err := t.exec(ctx, "order_insert", func(a *args) {
		a.blob(o.ID[:])
		a.int(int64(n))
		a.text(o.User)
		a.text(o.SKU)
		a.int(o.Quantity)
		a.int(o.Terms)
		a.int(o.Amount)
		a.text(o.Currency)
		a.text(string(o.State))
		a.int(o.Epoch)
		a.int(o.Version)
		a.time(o.ReservedAt)
		a.time(o.ExpiresAt)
		a.time(o.EndedAt)
		a.text(string(o.Reason))
		a.text(o.PaymentID)
		a.id((*[16]byte)(&o.Replaces))
		bindRow(a, t.newest[who])
	})
	t.newest[who] = row
	return err
}

// bindRow gives the number of an order's row; 0 becomes NULL.
func bindRow(a *args, row int64) {
	if row == 0 {
		a.null()
		return
	}
	a.int(row)
}

// writeSold adds to what the items have sold; their table holds it in bounds.
func (t *tx) writeSold(ctx context.Context, c *ledger.Changes) error {
	for i, units := range c.Sold {
		if units == 0 {
			continue
		}
		err := t.must(ctx, "item_sold", func(a *args) {
			a.int(units)
			a.int(int64(c.Sale))
			a.int(int64(i))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) writeHolders(ctx context.Context, c *ledger.Changes) error {
	listed := make(map[string]bool, len(c.Holders))
	for i := range c.Holders {
		h := &c.Holders[i]
		listed[h.User] = true
		err := t.must(ctx, "holder_put", func(a *args) {
			a.int(int64(c.Sale))
			a.text(h.User)
			a.int(h.Live)
			a.int(h.Refunded)
			a.int(h.Unpaid)
			a.int(h.Cap)
			a.time(h.CoolUntil)
			bindRow(a, t.newest[buyer{c.Sale, h.User}])
		})
		if err != nil {
			return err
		}
	}
	for i := range c.Orders {
		user := c.Orders[i].After.User
		if listed[user] || c.Orders[i].From.Live() {
			continue
		}
		listed[user] = true
		err := t.must(ctx, "holder_newest", func(a *args) {
			a.int(int64(c.Sale))
			a.text(user)
			a.int(t.newest[buyer{c.Sale, user}])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) writeMoney(ctx context.Context, c *ledger.Changes) error {
	for i := range c.Payments {
		p := &c.Payments[i]
		err := t.must(ctx, "payment_put", func(a *args) {
			a.text(p.ID)
			a.blob(p.Order[:])
			a.text(string(p.Status))
			a.int(p.Amount)
			a.text(p.Currency)
			a.text(string(p.Outcome))
			a.id((*[16]byte)(&p.PaidOrder))
			a.time(p.At)
		})
		if err != nil {
			return err
		}
	}
	for i := range c.Refunds {
		f := &c.Refunds[i]
		err := t.must(ctx, "refund_put", func(a *args) {
			a.blob(f.ID[:])
			a.text(f.PaymentID)
			a.blob(f.Order[:])
			a.int(f.Amount)
			a.text(f.Currency)
			a.text(string(f.Reason))
			a.text(string(f.State))
			a.time(f.CreatedAt)
			a.time(f.DoneAt)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) writeSale(ctx context.Context, c *ledger.Changes) error {
	if c.NewTerms != nil {
		if err := t.insertTerms(ctx, c.Sale, c.NewTerms); err != nil {
			return err
		}
	}
	next := c.Revised
	if next == nil {
		return nil
	}
	err := t.must(ctx, "sale_revise", func(a *args) {
		a.text(next.Slug)
		bindRules(a, &next.Rules)
		bindStanding(a, next)
		a.time(next.UpdatedAt)
		a.int(int64(c.Sale))
	})
	for i := 0; err == nil && i < len(next.Items); i++ {
		it := &next.Items[i]
		err = t.must(ctx, "item_revise", func(a *args) {
			a.text(it.Title)
			a.int(it.Stock)
			a.int(it.Price)
			a.int(int64(c.Sale))
			a.int(int64(i))
			a.text(it.SKU)
		})
	}
	return err
}
