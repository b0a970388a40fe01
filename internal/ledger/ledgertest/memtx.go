package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// memTx is a write transaction on a copy of the state.
type memTx struct {
	memReader
	now    time.Time
	locked map[sale.Number]bool
	gated  bool // the gate is locked
	plan   plan
	steps  int
}

var _ ledger.Tx = (*memTx)(nil)

// step counts a statement and aborts the one that the plan names.
func (tx *memTx) step(ctx context.Context) error {
	tx.steps++
	if tx.steps == tx.plan.abortAt {
		tx.plan.fired.Store(true)
		return ErrAborted
	}
	return tx.store.check(ctx)
}

// Now implements ledger.Tx.
func (tx *memTx) Now() time.Time { return tx.now }

// LockSale implements ledger.Tx.
func (tx *memTx) LockSale(ctx context.Context, n sale.Number) (ledger.Record, error) {
	rec, err := tx.SaleByNumber(ctx, n)
	if err == nil {
		tx.locked[rec.Number] = true
	}
	return rec, err
}

// LockSlug implements ledger.Tx.
func (tx *memTx) LockSlug(ctx context.Context, slug string) (ledger.Record, error) {
	rec, err := tx.SaleBySlug(ctx, slug)
	if err == nil {
		tx.locked[rec.Number] = true
	}
	return rec, err
}

// InsertSale implements ledger.Tx.
func (tx *memTx) InsertSale(ctx context.Context, r ledger.Record) (sale.Number, error) {
	_, err := tx.SaleBySlug(ctx, r.Slug)
	switch {
	case err == nil:
		return 0, &sale.Error{Code: sale.CodeSaleExists, Field: "sale", Message: "there is a sale with this id"}
	case sale.CodeOf(err) != sale.CodeSaleNotFound:
		return 0, err
	}
	if err := tx.step(ctx); err != nil {
		return 0, err
	}
	s := tx.at()
	s.last++
	r.Sale = stored(r.Clone())
	r.Number = s.last
	terms := ledger.Terms{Number: r.Terms, Currency: r.Currency, Hold: r.Hold}
	for i := range r.Items {
		terms.Prices = append(terms.Prices, r.Items[i].Price)
	}
	s.sales[r.Number] = &rows{
		rec: r, terms: []ledger.Terms{terms},
		orders: make(map[sale.OrderID]sale.Order), holders: make(map[string]ledger.Holder),
	}
	tx.locked[r.Number] = true
	return r.Number, nil
}

// refused is the deterministic refusal by the "database".
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ledger.ErrConstraint, fmt.Sprintf(format, args...))
}

// Write implements ledger.Tx: all guards of ledger.Changes, one by one.
func (tx *memTx) Write(ctx context.Context, c *ledger.Changes) error {
	if !tx.locked[c.Sale] {
		return fmt.Errorf("ledgertest: sale %d is written but not locked", c.Sale)
	}
	r := tx.at().sales[c.Sale]
	for _, write := range []func(context.Context, *rows, *ledger.Changes) error{
		tx.writeJournal, tx.writeOrders, tx.writeSold, tx.writeHolders, tx.writeMoney, tx.writeLetters, tx.writeSale,
	} {
		if err := write(ctx, r, c); err != nil {
			return err
		}
	}
	return nil
}

func (tx *memTx) writeJournal(ctx context.Context, r *rows, c *ledger.Changes) error {
	if r.rec.Seq != c.FromSeq {
		return refused("the journal ends at %d, not %d", r.rec.Seq, c.FromSeq)
	}
	for i := range c.Entries {
		if err := tx.step(ctx); err != nil {
			return err
		}
		e := c.Entries[i]
		if e.Sale != c.Sale || e.Seq != r.rec.Seq+1 || e.ChainHash(r.rec.Head) != e.Hash {
			return refused("journal row %d does not follow %d", e.Seq, r.rec.Seq)
		}
		e.Body = slices.Clone(e.Body)
		r.rec.Seq, r.rec.Head = e.Seq, e.Hash
		r.entries = append(r.entries, e)
	}
	if r.rec.Seq != c.Seq || r.rec.Head != c.Head {
		return refused("the rows do not lead to the new end of the journal")
	}
	return nil
}

func (tx *memTx) writeOrders(ctx context.Context, r *rows, c *ledger.Changes) error {
	for _, ch := range c.Orders {
		if err := tx.step(ctx); err != nil {
			return err
		}
		if tx.store.refuses(ch.After.User) {
			return refused("orders of %q", ch.After.User)
		}
		if ch.After.Quantity < 1 || (ch.After.State == sale.Rejected) != (ch.After.Reason != "") {
			return refused("order %v of %d, %s, reason %q", ch.After.ID, ch.After.Quantity, ch.After.State, ch.After.Reason)
		}
		before, found := r.orders[ch.After.ID]
		switch fresh := ch.From == sale.Queued; {
		case fresh && found:
			return refused("order %v is there already", ch.After.ID)
		case !fresh && (!found || before.State != ch.From):
			return refused("order %v is %q, not %q", ch.After.ID, before.State, ch.From)
		}
		o := ch.After
		o.ReplacedBy = sale.OrderID{} // found by look-up, not stored
		o.ReservedAt, o.ExpiresAt, o.EndedAt = instant(o.ReservedAt), instant(o.ExpiresAt), instant(o.EndedAt)
		r.orders[o.ID] = o
	}
	return nil
}

func (tx *memTx) writeSold(ctx context.Context, r *rows, c *ledger.Changes) error {
	for i, n := range c.Sold {
		if n == 0 {
			continue
		}
		if err := tx.step(ctx); err != nil {
			return err
		}
		item := &r.rec.Items[i]
		item.Sold += n
		if item.Sold < 0 || item.Sold > item.Stock {
			return refused("item %s: %d sold of %d", item.SKU, item.Sold, item.Stock)
		}
	}
	return nil
}

func (tx *memTx) writeHolders(ctx context.Context, r *rows, c *ledger.Changes) error {
	for _, h := range c.Holders {
		if err := tx.step(ctx); err != nil {
			return err
		}
		if h.Live < 0 || h.Refunded < 0 || h.Unpaid < 0 || h.Live > h.Cap {
			return refused("holder %q counts %+v", h.User, h)
		}
		h.CoolUntil = instant(h.CoolUntil)
		r.holders[h.User] = h
	}
	return nil
}

func (tx *memTx) writeMoney(ctx context.Context, _ *rows, c *ledger.Changes) error {
	s := tx.at()
	for _, p := range c.Payments {
		if err := tx.step(ctx); err != nil {
			return err
		}
		old, known := s.payments[p.ID]
		captured := old.Status == sale.PaymentSucceeded
		if known && (old.Order != p.Order || captured && (old.Amount != p.Amount || old.Currency != p.Currency)) {
			return fmt.Errorf("%w: payment %s is another's", ledger.ErrConstraint, p.ID)
		}
		p.At = instant(p.At)
		s.payments[p.ID] = p
	}
	for _, f := range c.Refunds {
		if err := tx.step(ctx); err != nil {
			return err
		}
		f.CreatedAt, f.DoneAt = instant(f.CreatedAt), instant(f.DoneAt)
		if _, found := s.refunds[f.ID]; !found {
			s.refunded = append(s.refunded, f.ID)
		}
		s.refunds[f.ID] = f
	}
	return nil
}

func (tx *memTx) writeSale(ctx context.Context, r *rows, c *ledger.Changes) error {
	if c.NewTerms != nil {
		if err := tx.step(ctx); err != nil {
			return err
		}
		if slices.ContainsFunc(r.terms, func(t ledger.Terms) bool { return t.Number == c.NewTerms.Number }) {
			return refused("terms %d are there already", c.NewTerms.Number)
		}
		r.terms = append(r.terms, *c.NewTerms)
	}
	if c.Revised == nil {
		return nil
	}
	if err := tx.step(ctx); err != nil {
		return err
	}
	next, old := stored(c.Revised.Clone()), &r.rec.Sale
	next.Number, next.Key, next.CreatedAt = old.Number, old.Key, old.CreatedAt
	for i := range next.Items {
		next.Items[i].SKU, next.Items[i].Sold = old.Items[i].SKU, old.Items[i].Sold
		if next.Items[i].Sold > next.Items[i].Stock {
			return refused("item %s: %d sold of %d", next.Items[i].SKU, next.Items[i].Sold, next.Items[i].Stock)
		}
	}
	r.rec.Sale = next
	return nil
}

// PutAPIKey implements ledger.Tx.
func (tx *memTx) PutAPIKey(ctx context.Context, k ledger.APIKey) error {
	if err := tx.step(ctx); err != nil {
		return err
	}
	k.CreatedAt, k.RevokedAt, k.Scopes = instant(k.CreatedAt), instant(k.RevokedAt), slices.Clone(k.Scopes)
	tx.at().keys[k.ID] = k
	return nil
}

// RevokeAPIKey implements ledger.Tx.
func (tx *memTx) RevokeAPIKey(ctx context.Context, id string, at time.Time) error {
	k, err := tx.APIKey(ctx, id)
	if err != nil || !k.RevokedAt.IsZero() {
		return err
	}
	k.RevokedAt = at
	return tx.PutAPIKey(ctx, k)
}

// stored returns s with the instants and durations that a database keeps.
func stored(s sale.Sale) sale.Sale {
	s.StartsAt, s.EndsAt = instant(s.StartsAt), instant(s.EndsAt)
	s.CreatedAt, s.UpdatedAt = instant(s.CreatedAt), instant(s.UpdatedAt)
	s.Hold, s.CoolDown = s.Hold.Truncate(time.Millisecond), s.CoolDown.Truncate(time.Millisecond)
	return s
}

// instant keeps milliseconds, as the ledger does.
func instant(t time.Time) time.Time { return ledger.FromMillis(ledger.Millis(t)) }
