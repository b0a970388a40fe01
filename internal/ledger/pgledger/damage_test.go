package pgledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// damaged is a ledger of two sales without the CHECKs that keep damage out, and
// what it reports.
type damaged struct {
	*world
	store *pgledger.Store
	ledger.Ledger
	a, b sale.Sale
	ann  sale.Order // of a
	bob  sale.Order // of b

	told struct {
		sync.Mutex
		n int
	}
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	d := &damaged{world: newWorld(t)}
	d.sql(t, `DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT conrelid::regclass AS tab, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace
		LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.tab, c.conname); END LOOP; END $$`)
	o := d.options()
	o.OnCorrupt = func(error) {
		d.told.Lock()
		defer d.told.Unlock()
		d.told.n++
	}
	d.store = d.openWith(t, o)
	book := ledger.New(d.store)
	d.Ledger = book
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	d.a, d.b = d.publish(t, book, "a", 100), d.publish(t, book, "b", 100)
	d.ann, d.bob = take(t, book, d.a, "ann", "eve")[0], take(t, book, d.b, "bob")[0]
	return d
}

// reports returns how many rows were told of since the last call.
func (d *damaged) reports() int {
	d.told.Lock()
	defer d.told.Unlock()
	n := d.told.n
	d.told.n = 0
	return n
}

// TestUnreadableSale: it is an error by name, missing from lists but reported,
// and in no other sale's way.
func TestUnreadableSale(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ctx := t.Context()
	for name, damage := range map[string][2]string{
		"state":    {"UPDATE sales SET state = 'open' WHERE number = 1", "UPDATE sales SET state = 'published' WHERE number = 1"},
		"rule":     {"UPDATE sales SET limit_rule = '' WHERE number = 1", "UPDATE sales SET limit_rule = 'live' WHERE number = 1"},
		"path":     {"UPDATE sales SET path = 'scenic' WHERE number = 1", "UPDATE sales SET path = 'direct' WHERE number = 1"},
		"head":     {"UPDATE sales SET head = head || '\\x00' WHERE number = 1", "UPDATE sales SET head = substr(head, 1, 32) WHERE number = 1"},
		"salts":    {"UPDATE sales SET salts = '\\x00' WHERE number = 1", "UPDATE sales SET salts = '' WHERE number = 1"},
		"no items": {"UPDATE items SET sale = 3 WHERE sale = 1", "UPDATE items SET sale = 1 WHERE sale = 3"},
	} {
		if name == "no items" {
			d.sql(t, "ALTER TABLE items DROP CONSTRAINT items_sale_fkey")
		}
		d.sql(t, damage[0])
		_, err := d.Sale(ctx, "a")
		require.ErrorIs(t, err, pgledger.ErrCorrupt, name)
		require.ErrorContains(t, err, "sale 1", name)
		require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "it is no business answer")
		list, err := d.ListSales(ctx, 0, 1)
		require.NoError(t, err)
		require.Len(t, list, 1, "a short page is the last one")
		require.Equal(t, "b", list[0].Slug)
		require.NotZero(t, d.reports(), "nothing is left out in silence")
		out, err := d.Reserve(ctx, clicks(d.a, name, "cid"))
		require.NoError(t, err)
		require.ErrorIs(t, out.Results[0].Err, pgledger.ErrCorrupt, name)
		d.sql(t, damage[1])
		_, err = d.Sale(ctx, "a")
		require.NoError(t, err, name)
	}
}

// TestUnreadableOrder: whoever works through a list goes on without it.
func TestUnreadableOrder(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ctx := t.Context()
	d.sql(t, "UPDATE orders SET state = 'lost' WHERE user_id = 'ann'")
	_, err := d.Order(ctx, d.ann.ID)
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	require.ErrorContains(t, err, d.ann.ID.String())
	list, err := d.ListOrders(ctx, ledger.OrderFilter{Sale: d.a.Number, Limit: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "eve", list[0].User)
	list, err = d.ListOrders(ctx, ledger.OrderFilter{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NotZero(t, d.reports())
	require.ErrorIs(t, d.store.Read().EachOrder(ctx, d.a.Number, func(sale.Order) error { return nil }), pgledger.ErrCorrupt, "an audit must see it")

	// A batch that touches it is decided but for the one attempt.
	out, err := d.Reserve(ctx, clicks(d.a, "k", "dan", "ann", "fay"))
	require.NoError(t, err)
	require.ErrorIs(t, out.Results[1].Err, ledger.ErrConstraint)
	require.Equal(t, sale.Taken, out.Results[0].Verdict)
	require.Equal(t, sale.Taken, out.Results[2].Verdict)
	d.clock.Add(time.Hour.Milliseconds())
	due, err := d.Due(ctx, time.Time{}, 10)
	require.NoError(t, err)
	require.Len(t, due.IDs, 4)
	require.Contains(t, due.IDs, d.bob.ID)
}

// TestUnreadableMoney: payments, refunds, journal, terms, keys and letters.
func TestUnreadableMoney(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ctx, r := t.Context(), d.store.Read()
	_, err := d.Pay(ctx, sale.Payment{ID: "p", Order: d.ann.ID, Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"})
	require.NoError(t, err)
	require.NoError(t, d.PutAPIKey(ctx, ledger.APIKey{ID: "k"}))
	require.NoError(t, d.Park(ctx, d.a.Number, []ledger.Letter{{ID: ledger.LetterID{1}, Place: "here"}}))

	d.sql(t, "UPDATE payments SET outcome = 'odd'")
	_, _, err = r.Payment(ctx, "p")
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	require.ErrorIs(t, r.EachPayment(ctx, d.a.Number, func(ledger.PaymentRow) error { return nil }), pgledger.ErrCorrupt)

	d.sql(t, "UPDATE refunds SET reason = 'whim'")
	_, err = r.Refund(ctx, sale.DeriveRefundID("p"))
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	require.ErrorIs(t, r.EachRefund(ctx, d.a.Number, func(sale.Refund) error { return nil }), pgledger.ErrCorrupt)
	refunds, err := d.ListRefunds(ctx, ledger.RefundFilter{})
	require.NoError(t, err)
	require.Empty(t, refunds)
	require.Equal(t, 1, d.reports())

	d.sql(t, "UPDATE journal SET hash = '\\x00' WHERE seq = 2")
	_, err = d.Rows(ctx, d.a.Number, 0, 10)
	require.ErrorIs(t, err, pgledger.ErrCorrupt, "a chain with a hole is no chain")
	require.ErrorContains(t, err, "row 2")

	d.sql(t, "DELETE FROM prices WHERE sale = 1")
	_, err = r.TermsOf(ctx, d.a.Number)
	require.ErrorIs(t, err, pgledger.ErrCorrupt)

	d.sql(t, "UPDATE dead_letters SET state = 'lost'")
	_, err = d.Letter(ctx, ledger.LetterID{1})
	require.ErrorIs(t, err, pgledger.ErrCorrupt)
	letters, err := d.ListLetters(ctx, ledger.LetterFilter{})
	require.NoError(t, err)
	require.Empty(t, letters)
	require.Equal(t, 1, d.reports())

	for _, scopes := range []string{"[1]", `{"shop":true}`, `"shop"`} {
		d.sql(t, "UPDATE api_keys SET scopes = $1::text::jsonb", scopes)
		_, err = d.APIKey(ctx, "k")
		require.ErrorIs(t, err, pgledger.ErrCorrupt)
		keys, err := d.ListAPIKeys(ctx)
		require.NoError(t, err)
		require.Empty(t, keys)
		require.Equal(t, 1, d.reports())
	}
}
