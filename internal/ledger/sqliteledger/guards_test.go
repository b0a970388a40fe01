package sqliteledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// guarded is a ledger with orders in several states, and a change that holds:
// each guard below breaks it in one place.
type guarded struct {
	w     *world
	store *sqliteledger.Store
	sale  sale.Sale
	rec   ledger.Record
	held  sale.Order // reserved, of ann
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	w := newWorld(t)
	g := &guarded{w: w, store: w.open(t)}
	book := ledger.New(g.store)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	g.sale = w.publish(t, book, "drop", 3)
	g.held = take(t, book, g.sale, "ann", "bob")[0]
	_, err := book.Pay(t.Context(), sale.Payment{ID: "paid", Order: g.held.ID, Status: sale.PaymentFailed, Amount: 4990, Currency: "EUR"})
	require.NoError(t, err)
	_, err = book.Pay(t.Context(), sale.Payment{ID: "captured", Order: g.held.ID, Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"})
	require.NoError(t, err)
	g.rec, err = g.store.Read().SaleByNumber(t.Context(), g.sale.Number)
	require.NoError(t, err)
	return g
}

// change is a new order of cid and the end of ann's hold, with everything that
// goes with them.
func (g *guarded) change() *ledger.Changes {
	o := g.held
	o.ID, o.User = g.sale.OrderID("cid", "k"), "cid"
	ended := g.held
	ended.State, ended.Version, ended.EndedAt = sale.Cancelled, 2, g.rec.UpdatedAt
	c := &ledger.Changes{
		Sale:   g.sale.Number,
		Orders: []ledger.OrderChange{{From: sale.Queued, After: o}, {From: sale.Reserved, After: ended}},
		Sold:   []int64{1},
		Holders: []ledger.Holder{
			{User: "cid", Live: 1, Cap: 2}, {User: "ann", Unpaid: 1, Cap: 2},
		},
		Payments: []ledger.PaymentRow{{
			Payment: sale.Payment{ID: "late", Order: g.held.ID, Status: sale.PaymentSucceeded, Amount: 4990, Currency: "EUR"},
			Outcome: sale.OutcomeRefundRequired, At: g.rec.UpdatedAt,
		}},
		Refunds: []sale.Refund{{
			ID: sale.DeriveRefundID("late"), PaymentID: "late", Order: g.held.ID, Amount: 4990, Currency: "EUR",
			Reason: sale.ReasonLate, State: sale.RefundRequired, CreatedAt: g.rec.UpdatedAt,
		}},
		FromSeq: g.rec.Seq, Seq: g.rec.Seq, Head: g.rec.Head,
	}
	for _, id := range []sale.OrderID{o.ID, ended.ID} {
		e := ledger.Entry{Sale: c.Sale, Seq: c.Seq + 1, At: g.rec.UpdatedAt, Kind: "order.any", Order: id, Body: []byte("{}")}
		e.Hash = e.ChainHash(c.Head)
		c.Seq, c.Head = e.Seq, e.Hash
		c.Entries = append(c.Entries, e)
	}
	next := g.rec.Clone()
	next.Version++
	next.Terms++
	next.Items[0].Price = 1
	c.Revised = &next
	c.NewTerms = &ledger.Terms{Number: next.Terms, Currency: "EUR", Hold: next.Hold, Prices: []int64{1}}
	return c
}

func (g *guarded) write(t *testing.T, c *ledger.Changes) error {
	t.Helper()
	return g.store.Update(t.Context(), func(tx ledger.Tx) error {
		if _, err := tx.LockSale(t.Context(), g.sale.Number); err != nil {
			return err
		}
		return tx.Write(t.Context(), c)
	})
}

// TestGuards breaks every guard of a write on purpose: the database refuses, and
// nothing has changed.
func TestGuards(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	before := dump(t, g.w.path)
	for name, spoil := range map[string]func(*ledger.Changes){
		"journal moved on":           func(c *ledger.Changes) { c.FromSeq-- },
		"journal not there yet":      func(c *ledger.Changes) { c.FromSeq++ },
		"journal with a gap":         func(c *ledger.Changes) { shift(c, 5) },
		"journal written over":       func(c *ledger.Changes) { shift(c, -1) },
		"row number left out":        func(c *ledger.Changes) { c.Entries[1].Seq++ },
		"row number twice":           func(c *ledger.Changes) { c.Entries[1].Seq-- },
		"row of another sale":        func(c *ledger.Changes) { c.Entries[1].Sale++ },
		"row missing":                func(c *ledger.Changes) { c.Entries = c.Entries[:1] },
		"end is not the last row's":  func(c *ledger.Changes) { c.Head[0]++ },
		"end without rows":           func(c *ledger.Changes) { c.Entries = nil },
		"no such sale":               func(c *ledger.Changes) { c.Sale += 7 },
		"order is there already":     func(c *ledger.Changes) { c.Orders[0].After.ID = g.held.ID },
		"order twice":                func(c *ledger.Changes) { c.Orders = append(c.Orders, c.Orders[0]) },
		"order of another sale":      func(c *ledger.Changes) { c.Orders[0].After.ID[3]++ },
		"order without id":           func(c *ledger.Changes) { c.Orders[0].After.ID = sale.OrderID{} },
		"order of nothing":           func(c *ledger.Changes) { c.Orders[0].After.Quantity = 0 },
		"order of less than nothing": func(c *ledger.Changes) { c.Orders[0].After.Quantity = -1 },
		"amount below zero":          func(c *ledger.Changes) { c.Orders[0].After.Amount = -1 },
		"order in no state":          func(c *ledger.Changes) { c.Orders[0].After.State = "half-sold" },
		"order stored as queued":     func(c *ledger.Changes) { c.Orders[0].After.State = sale.Queued },
		"moved from another state":   func(c *ledger.Changes) { c.Orders[1].From = sale.Paid },
		"moved into no state":        func(c *ledger.Changes) { c.Orders[1].After.State = "lost" },
		"moved but unknown":          func(c *ledger.Changes) { c.Orders[1].After.ID = g.sale.OrderID("eve", "k") },
		"oversold":                   func(c *ledger.Changes) { c.Sold[0] = 2 },
		"sold below zero":            func(c *ledger.Changes) { c.Sold[0] = -3 },
		"no such item":               func(c *ledger.Changes) { c.Sold = []int64{0, 1} },
		"limit passed":               func(c *ledger.Changes) { c.Holders[0].Live = 3 },
		"live below zero":            func(c *ledger.Changes) { c.Holders[1].Live = -1 },
		"refunded below zero":        func(c *ledger.Changes) { c.Holders[1].Refunded = -1 },
		"unpaid below zero":          func(c *ledger.Changes) { c.Holders[1].Unpaid = -1 },
		"payment in no status":       func(c *ledger.Changes) { c.Payments[0].Status = "maybe" },
		"payment without outcome":    func(c *ledger.Changes) { c.Payments[0].Outcome = "" },
		"payment below zero":         func(c *ledger.Changes) { c.Payments[0].Amount = -1 },
		"payment for no order":       func(c *ledger.Changes) { c.Payments[0].Order[9]++ },
		"payment changes its amount": func(c *ledger.Changes) { c.Payments[0].ID, c.Payments[0].Amount = "captured", 2 },
		"payment changes its currency": func(c *ledger.Changes) {
			c.Payments[0].ID, c.Payments[0].Amount, c.Payments[0].Currency = "captured", 1, "USD"
		},
		"payment changes its order":  func(c *ledger.Changes) { c.Payments[0].ID, c.Payments[0].Order = "paid", c.Orders[0].After.ID },
		"refund in no state":         func(c *ledger.Changes) { c.Refunds[0].State = "" },
		"refund without reason":      func(c *ledger.Changes) { c.Refunds[0].Reason = "" },
		"refund below zero":          func(c *ledger.Changes) { c.Refunds[0].Amount = -1 },
		"refund for no order":        func(c *ledger.Changes) { c.Refunds[0].Order[9]++ },
		"refund changes its amount":  func(c *ledger.Changes) { c.Refunds = append(c.Refunds, c.Refunds[0]); c.Refunds[1].Amount++ },
		"terms are there already":    func(c *ledger.Changes) { c.NewTerms.Number = 1 },
		"price below zero":           func(c *ledger.Changes) { c.NewTerms.Prices[0] = -1 },
		"stock below sold":           func(c *ledger.Changes) { c.Revised.Items[0].Stock = 2 },
		"stock below zero":           func(c *ledger.Changes) { c.Revised.Items[0].Stock = -1 },
		"item renamed":               func(c *ledger.Changes) { c.Revised.Items[0].SKU = "shoe-43" },
		"item added":                 func(c *ledger.Changes) { c.Revised.Items = append(c.Revised.Items, sale.Item{SKU: "shoe-43"}) },
		"sale in no state":           func(c *ledger.Changes) { c.Revised.State = "open" },
		"sale without rule":          func(c *ledger.Changes) { c.Revised.LimitRule = "" },
		"sale without path":          func(c *ledger.Changes) { c.Revised.Path = "" },
		"limit of nothing":           func(c *ledger.Changes) { c.Revised.PerUserLimit = 0 },
		"currency of another length": func(c *ledger.Changes) { c.Revised.Currency = "euro" },
	} {
		c := g.change()
		spoil(c)
		err := g.write(t, c)
		require.ErrorIs(t, err, ledger.ErrConstraint, name)
		require.Equal(t, before, dump(t, g.w.path), name)
	}
	require.NoError(t, g.write(t, g.change()), "the change itself holds")
	require.NotEqual(t, before, dump(t, g.w.path))
	require.ErrorIs(t, g.write(t, g.change()), ledger.ErrConstraint, "but not twice")
}

// shift moves the rows of a change along the journal, in agreement with itself.
func shift(c *ledger.Changes, by int) {
	c.FromSeq += uint64(by) //nolint:gosec // unsigned numbers wrap as they must
	c.Seq += uint64(by)     //nolint:gosec // as above
	for i := range c.Entries {
		c.Entries[i].Seq += uint64(by) //nolint:gosec // as above
	}
}

// TestPaymentKeepsItsFirstTime: a notice that becomes another keeps when it
// came first.
func TestPaymentKeepsItsFirstTime(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	first, known, err := g.store.Read().Payment(t.Context(), "paid")
	require.NoError(t, err)
	require.True(t, known)
	c := g.change()
	c.Payments[0].ID, c.Payments[0].At = "paid", first.At.Add(time.Hour)
	require.NoError(t, g.write(t, c))
	now, _, err := g.store.Read().Payment(t.Context(), "paid")
	require.NoError(t, err)
	require.Equal(t, first.At, now.At)
	require.Equal(t, sale.PaymentSucceeded, now.Status)
	require.Equal(t, sale.OutcomeRefundRequired, now.Outcome)
}

// TestWriteNeedsNoHolder: an order that counts for nothing is found by its
// buyer all the same.
func TestWriteNeedsNoHolder(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	c := g.change()
	rejected := c.Orders[0].After
	rejected.State, rejected.Reason, rejected.EndedAt = sale.Rejected, sale.RejectedLimit, rejected.ReservedAt
	second := rejected
	second.ID = g.sale.OrderID("cid", "k2")
	of := g.held
	of.ID, of.State, of.Reason, of.EndedAt = g.sale.OrderID("ann", "k2"), sale.Rejected, sale.RejectedLimit, rejected.ReservedAt
	c.Orders = []ledger.OrderChange{{From: sale.Queued, After: rejected}, {From: sale.Queued, After: second}, {After: of}}
	c.Sold, c.Holders, c.Payments, c.Refunds = nil, nil, nil, nil
	require.NoError(t, g.write(t, c))

	r := g.store.Read()
	for user, want := range map[string]int{"ann": 2, "bob": 1, "cid": 2, "dan": 0} {
		for _, n := range []sale.Number{0, g.sale.Number} {
			orders, err := r.ListOrders(t.Context(), ledger.OrderFilter{User: user, Sale: n, Limit: 10})
			require.NoError(t, err)
			require.Len(t, orders, want, user)
			for _, o := range orders {
				require.Equal(t, user, o.User)
			}
		}
	}
	buyers, err := r.Buyers(t.Context(), g.sale.Number)
	require.NoError(t, err)
	require.ElementsMatch(t, []uint64{sale.UserHash("ann"), sale.UserHash("bob"), sale.UserHash("cid")}, buyers)
	holders, err := r.Holders(t.Context(), g.sale.Number, []string{"ann", "cid"})
	require.NoError(t, err)
	require.Equal(t, int64(1), holders["ann"].Live, "what a holder counts is left alone")
	require.Zero(t, holders["cid"].Live)
}
