package sqliteledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// damaged is a ledger of two sales, and what it reports.
type damaged struct {
	w    *world
	s    *sqliteledger.Store
	book *ledger.Book
	a, b sale.Sale
	ann  sale.Order // of a
	bob  sale.Order // of b

	mu   sync.Mutex
	told []error
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	d := &damaged{w: newWorld(t)}
	o := d.w.options()
	o.OnCorrupt = func(err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told = append(d.told, err)
	}
	d.s = d.w.openWith(t, o)
	d.book = ledger.New(d.s)
	t.Cleanup(func() { require.NoError(t, d.book.Close()) })
	d.a, d.b = d.w.publish(t, d.book, "a", 100), d.w.publish(t, d.book, "b", 100)
	d.ann, d.bob = take(t, d.book, d.a, "ann", "eve")[0], take(t, d.book, d.b, "bob")[0]
	return d
}

// reports returns what was told since the last call.
func (d *damaged) reports() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.told)
	d.told = nil
	return n
}

// TestUnreadableSale: it is an error by name, missing from lists but reported,
// and in no other sale's way.
func TestUnreadableSale(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"state":     "UPDATE sales SET state = 'open' WHERE number = 1",
		"rule":      "UPDATE sales SET limit_rule = '' WHERE number = 1",
		"path":      "UPDATE sales SET path = 'scenic' WHERE number = 1",
		"key":       "UPDATE sales SET key = x'00' WHERE number = 1",
		"head":      "UPDATE sales SET head = zeroblob(33) WHERE number = 1",
		"preferred": "UPDATE sales SET preferred_path = '' WHERE number = 1",
		"salts":     "UPDATE sales SET salts = x'000102' WHERE number = 1",
		"no items":  "DELETE FROM items WHERE sale = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDamaged(t)
			d.w.sql(t, damage)
			_, err := d.book.Sale(t.Context(), "a")
			require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
			require.ErrorContains(t, err, "sale 1")
			require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "it is no business answer")
			list, err := d.book.ListSales(t.Context(), 0, 10)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, "b", list[0].Slug)
			require.Equal(t, 1, d.reports(), "nothing is left out in silence")
			out, err := d.book.Reserve(t.Context(), clicks(d.a, "k2", "cid"))
			require.NoError(t, err)
			require.ErrorIs(t, out.Results[0].Err, sqliteledger.ErrCorrupt)
			take(t, d.book, d.b, "cid")
			d.w.clock.Add(time.Hour.Milliseconds())
			due, err := d.book.Due(t.Context(), time.Time{}, 10)
			require.NoError(t, err)
			require.Len(t, due.IDs, 4)
		})
	}
}

// TestPagesStayFullWithoutWhatCannotBeRead: a short page is the last one, or
// those who turn pages would never see what lies behind the damage.
func TestPagesStayFullWithoutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	take(t, d.book, d.a, "cid", "dan")
	d.w.sql(t, "UPDATE sales SET state = 'open' WHERE number = 1")
	d.w.sql(t, "UPDATE orders SET state = 'lost' WHERE user IN ('cid', 'dan', 'bob')")
	sales, err := d.book.ListSales(t.Context(), 0, 1)
	require.NoError(t, err)
	require.Len(t, sales, 1)
	require.Equal(t, "b", sales[0].Slug)
	orders, err := d.book.ListOrders(t.Context(), ledger.OrderFilter{Limit: 1})
	require.NoError(t, err)
	require.Len(t, orders, 1, "behind three that cannot be read")
	require.NotZero(t, d.reports())
	orders, err = d.book.ListOrders(t.Context(), ledger.OrderFilter{Sale: d.b.Number, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, orders)
}

// TestUnreadableOrder: whoever works through a list goes on without it.
func TestUnreadableOrder(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.w.sql(t, "UPDATE orders SET replaces = x'01' WHERE user = 'ann'") // the sweep does not read this
	d.w.sql(t, "UPDATE orders SET state = 'lost' WHERE user = 'eve'")

	_, err := d.book.Order(t.Context(), d.ann.ID)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	require.ErrorContains(t, err, d.ann.ID.String())
	list, err := d.book.ListOrders(t.Context(), ledger.OrderFilter{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "bob", list[0].User)
	require.Equal(t, 2, d.reports())
	require.ErrorIs(t, d.s.Read().EachOrder(t.Context(), d.a.Number, func(sale.Order) error { return nil }), sqliteledger.ErrCorrupt, "an audit must see it")

	// A batch that touches it is decided but for the one attempt.
	out, err := d.book.Reserve(t.Context(), clicks(d.a, "k", "dan", "ann", "fay", "gus"))
	require.NoError(t, err)
	for i, r := range out.Results {
		if i == 1 {
			require.ErrorIs(t, r.Err, ledger.ErrConstraint)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, sale.Taken, r.Verdict)
	}

	// The sweep is told of it, cannot end it, and ends the others.
	d.w.clock.Add(time.Hour.Milliseconds())
	due, err := d.book.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Contains(t, due.IDs, d.ann.ID)
	require.Contains(t, due.IDs, d.bob.ID)
	var ofA []sale.OrderID
	for _, id := range due.IDs {
		if id.Sale() == d.a.Number {
			ofA = append(ofA, id)
		}
	}
	require.Len(t, ofA, 4)
	_, err = d.book.Expire(t.Context(), ofA)
	require.ErrorIs(t, err, ledger.ErrConstraint)
	ended := 0
	ledger.Bisect(len(ofA), func(from, to int) error {
		n, trouble := d.book.Expire(t.Context(), ofA[from:to])
		ended += n
		return trouble
	}, func(i int, _ error) { require.Equal(t, d.ann.ID, ofA[i]) })
	require.Equal(t, 3, ended)
	n, err := d.book.Expire(t.Context(), []sale.OrderID{d.bob.ID})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	d.w.sql(t, "UPDATE orders SET replaces = NULL WHERE user = 'ann'") // repaired
	n, err = d.book.Expire(t.Context(), []sale.OrderID{d.ann.ID})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestUnreadableId: an order without a readable id cannot be swept; the others are.
func TestUnreadableId(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	for _, id := range []string{"x''", "x'00'", "zeroblob(16)", "zeroblob(17)"} {
		d.w.sql(t, "UPDATE orders SET id = "+id+" WHERE user = 'ann'")
		due, err := d.s.Read().Due(t.Context(), time.Time{}, d.w.now().Add(time.Hour), 10)
		require.NoError(t, err)
		require.Len(t, due.IDs, 2)
		require.NotContains(t, due.IDs, d.ann.ID)
		require.Equal(t, 1, d.reports(), id)
	}
}

// TestUnreadableLetter: an operator's list goes on without it.
func TestUnreadableLetter(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ctx := t.Context()
	about := func(o *sale.Order) *ledger.Attempt {
		return &ledger.Attempt{ID: o.ID, User: o.User, Quantity: 1, Slip: &ledger.Slip{TakenAt: d.w.now()}}
	}
	require.NoError(t, d.book.Park(ctx, d.a.Number, []ledger.Letter{{ID: ledger.LetterID{1}, Attempt: about(&d.ann)}, {ID: ledger.LetterID{2}}}))
	for _, damage := range []string{"state = 'burnt'", "id = x'01'", "order_id = x'01'"} {
		d.w.sql(t, "UPDATE dead_letters SET "+damage+" WHERE row = 1")
		for _, f := range []ledger.LetterFilter{{}, {Sale: d.a.Number}, {Limit: 1}} {
			list, err := d.book.ListLetters(ctx, f)
			require.NoError(t, err)
			require.Len(t, list, 1, damage)
			require.Equal(t, ledger.LetterID{2}, list[0].ID)
			require.NotZero(t, d.reports())
		}
	}
	d.w.sql(t, "UPDATE dead_letters SET id = zeroblob(16), order_id = zeroblob(16) WHERE row = 1")
	_, err := d.book.Letter(ctx, ledger.LetterID{})
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	require.NoError(t, d.book.Park(ctx, d.a.Number, []ledger.Letter{{ID: ledger.LetterID{3}}}), "others find their place")
}

// TestParkBesideDamage: a slip whose order cannot even be read is put aside all
// the same, or it would come again for ever.
func TestParkBesideDamage(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.w.sql(t, "UPDATE orders SET state = 'lost' WHERE user = 'ann'")
	slip := func(o *sale.Order, key string) *ledger.Attempt {
		return &ledger.Attempt{ID: d.a.OrderID(o.User, key), User: o.User, Quantity: 1, Slip: &ledger.Slip{Epoch: 1, Terms: 1, TakenAt: d.w.now()}}
	}
	lost, fine := slip(&d.ann, "k"), slip(&sale.Order{User: "dan"}, "k")
	require.Equal(t, d.ann.ID, lost.ID)
	rows, err := d.book.Rows(t.Context(), d.a.Number, 0, 100)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, d.book.Park(t.Context(), d.a.Number, []ledger.Letter{{ID: ledger.LetterID{1}, Attempt: lost}, {ID: ledger.LetterID{2}, Attempt: fine}}))
	}
	after, err := d.book.Rows(t.Context(), d.a.Number, uint64(len(rows)), 100)
	require.NoError(t, err)
	require.Len(t, after, 1, "nobody knows what the unreadable order holds, so nothing is given back")
	require.Equal(t, ledger.OrderKind(sale.Rejected), after[0].Kind)
	require.Equal(t, fine.ID, after[0].Order)
	list, err := d.book.ListLetters(t.Context(), ledger.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// TestUnreadableMoney: payments, refunds, journal, terms and keys.
func TestUnreadableMoney(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ctx, r := t.Context(), d.s.Read()
	charge := sale.Payment{ID: "p", Order: d.ann.ID, Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"}
	_, err := d.book.Pay(ctx, charge)
	require.NoError(t, err)
	require.NoError(t, d.book.PutAPIKey(ctx, ledger.APIKey{ID: "k"}))

	d.w.sql(t, "UPDATE payments SET outcome = 'odd'")
	_, _, err = r.Payment(ctx, "p")
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	require.ErrorIs(t, r.EachPayment(ctx, d.a.Number, func(ledger.PaymentRow) error { return nil }), sqliteledger.ErrCorrupt)

	d.w.sql(t, "UPDATE refunds SET reason = 'whim'")
	_, err = r.Refund(ctx, sale.DeriveRefundID("p"))
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
	require.ErrorIs(t, r.EachRefund(ctx, d.a.Number, func(sale.Refund) error { return nil }), sqliteledger.ErrCorrupt)
	refunds, err := d.book.ListRefunds(ctx, ledger.RefundFilter{})
	require.NoError(t, err)
	require.Empty(t, refunds)
	require.Equal(t, 1, d.reports())

	d.w.sql(t, "UPDATE journal SET hash = x'00' WHERE seq = 2")
	_, err = d.book.Rows(ctx, d.a.Number, 0, 10)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt, "a chain with a hole is no chain")
	require.ErrorContains(t, err, "row 2")

	d.w.sql(t, "DELETE FROM prices WHERE sale = 1")
	_, err = r.TermsOf(ctx, d.a.Number)
	require.ErrorIs(t, err, sqliteledger.ErrCorrupt)

	for _, scopes := range []string{"'shop'", "'[1]'", `'{"shop":true}'`} {
		d.w.sql(t, "UPDATE api_keys SET scopes = "+scopes)
		_, err = d.book.APIKey(ctx, "k")
		require.ErrorIs(t, err, sqliteledger.ErrCorrupt)
		keys, err := d.book.ListAPIKeys(ctx)
		require.NoError(t, err)
		require.Empty(t, keys)
		require.Equal(t, 1, d.reports())
	}
	take(t, d.book, d.b, "cid")
}
