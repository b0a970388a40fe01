package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// world is a World in use: the steps that cases are made of.
type world struct {
	World
	ledger *ledger.Book
	made   int // sales so far, for their slugs
}

func newWorld(t *testing.T, from World) *world {
	t.Helper()
	w := &world{World: from, ledger: ledger.New(from.Store)}
	t.Cleanup(func() { require.NoError(t, w.ledger.Close()) })
	return w
}

// reopen closes the ledger and opens the same data again.
func (w *world) reopen(t *testing.T) {
	t.Helper()
	w.Store = w.Reopen(t)
	w.ledger = ledger.New(w.Store)
}

func (w *world) now(t *testing.T) time.Time {
	t.Helper()
	now, err := w.ledger.Now(t.Context())
	require.NoError(t, err)
	return now
}

// basic is the sale of most cases: 10 units at 12.50 EUR, two a buyer, from now
// for a day, held for a minute, holds let go at will.
func (w *world) basic(t *testing.T) sale.Sale {
	t.Helper()
	w.made++
	now := w.now(t)
	return sale.Sale{
		Slug: fmt.Sprintf("drop-%d", w.made),
		Rules: sale.Rules{
			Title: "Drop", StartsAt: now, EndsAt: now.Add(24 * time.Hour), PerUserLimit: 2, LimitRule: sale.LimitLive,
			Hold: time.Minute, CoolDown: 10 * time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: "shoe-42", Title: "Shoe", Stock: 10, Price: 1250}},
	}
}

// draft enters the basic sale after edit; nil edits nothing.
func (w *world) draft(t *testing.T, edit func(*sale.Sale)) sale.Sale {
	t.Helper()
	s := w.basic(t)
	if edit != nil {
		edit(&s)
	}
	s, err := w.ledger.CreateSale(t.Context(), s)
	require.NoError(t, err)
	return s
}

// open enters the basic sale after edit and publishes it.
func (w *world) open(t *testing.T, edit func(*sale.Sale)) sale.Sale {
	t.Helper()
	return w.act(t, w.draft(t, edit), sale.ActionPublish)
}

func stock(n int64) func(*sale.Sale) {
	return func(s *sale.Sale) { s.Items[0].Stock = n }
}

func (w *world) change(t *testing.T, s sale.Sale, c sale.Change) sale.Sale {
	t.Helper()
	after, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, c)
	require.NoError(t, err)
	return after
}

func (w *world) act(t *testing.T, s sale.Sale, a sale.Action) sale.Sale {
	t.Helper()
	return w.change(t, s, sale.Change{Action: a})
}

func (w *world) patch(t *testing.T, s sale.Sale, p sale.Patch) sale.Sale {
	t.Helper()
	return w.change(t, s, sale.Change{Action: sale.ActionUpdate, Patch: p})
}

func (w *world) restock(t *testing.T, s sale.Sale, add int64) sale.Sale {
	t.Helper()
	return w.change(t, s, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: add}})
}

// read returns the sale as it is now, deleted or not.
func (w *world) read(t *testing.T, s sale.Sale) sale.Sale {
	t.Helper()
	now, err := w.ledger.SaleByNumber(t.Context(), s.Number)
	require.NoError(t, err)
	return now
}

// click is what a buyer sends: a user, a key, a quantity of the only item.
func click(s sale.Sale, user, key string, quantity int64) ledger.Attempt {
	return ledger.Attempt{ID: s.OrderID(user, key), User: user, Quantity: quantity}
}

// reserve sends a batch and returns its results; each attempt must be decided.
func (w *world) reserve(t *testing.T, s sale.Sale, attempts ...ledger.Attempt) []ledger.Result {
	t.Helper()
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: s.Epoch, Attempts: attempts})
	require.NoError(t, err)
	require.Len(t, out.Results, len(attempts))
	for i := range out.Results {
		require.NoErrorf(t, out.Results[i].Err, "attempt %d", i)
	}
	return out.Results
}

func (w *world) verdicts(t *testing.T, s sale.Sale, attempts ...ledger.Attempt) []sale.Verdict {
	t.Helper()
	results := w.reserve(t, s, attempts...)
	out := make([]sale.Verdict, len(results))
	for i := range results {
		out[i] = results[i].Verdict
	}
	return out
}

func (w *world) try(t *testing.T, s sale.Sale, a ledger.Attempt) ledger.Result {
	t.Helper()
	return w.reserve(t, s, a)[0]
}

func (w *world) refuse(t *testing.T, s sale.Sale, a ledger.Attempt, want sale.Verdict) {
	t.Helper()
	before := w.rowsOf(t, s)
	require.Equal(t, want, w.try(t, s, a).Verdict)
	require.Equal(t, before, w.rowsOf(t, s), "a refusal writes nothing")
}

// take buys and must get it.
func (w *world) take(t *testing.T, s sale.Sale, user, key string, quantity int64) sale.Order {
	t.Helper()
	r := w.try(t, s, click(s, user, key, quantity))
	require.Equal(t, sale.Taken, r.Verdict)
	return r.Order
}

func charge(o sale.Order, id string) sale.Payment {
	return sale.Payment{ID: id, Order: o.ID, Status: sale.PaymentSucceeded, Amount: o.Amount, Currency: o.Currency}
}

func (w *world) notify(t *testing.T, p sale.Payment) ledger.Paid {
	t.Helper()
	paid, err := w.ledger.Pay(t.Context(), p)
	require.NoError(t, err)
	return paid
}

// pay pays an order in full and must succeed.
func (w *world) pay(t *testing.T, o sale.Order, id string) sale.Order {
	t.Helper()
	paid := w.notify(t, charge(o, id))
	require.Equal(t, sale.OutcomePaid, paid.Outcome)
	return paid.Order
}

func (w *world) cancel(t *testing.T, o sale.Order) sale.Order {
	t.Helper()
	after, err := w.ledger.Cancel(t.Context(), o.ID, o.User)
	require.NoError(t, err)
	require.Equal(t, sale.Cancelled, after.State)
	return after
}

// lapse lets an order's hold run out and sweeps it.
func (w *world) lapse(t *testing.T, o sale.Order) sale.Order {
	t.Helper()
	if wait := o.ExpiresAt.Sub(w.now(t)); wait > 0 {
		w.Advance(wait)
	}
	n, err := w.ledger.Expire(t.Context(), []sale.OrderID{o.ID})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return w.order(t, o.ID)
}

func (w *world) refund(t *testing.T, o sale.Order, restock bool) sale.Order {
	t.Helper()
	after, err := w.ledger.Refund(t.Context(), o.ID, ledger.Refunding{Restock: restock})
	require.NoError(t, err)
	require.Equal(t, sale.Refunded, after.State)
	return after
}

func (w *world) order(t *testing.T, id sale.OrderID) sale.Order {
	t.Helper()
	o, err := w.ledger.Order(t.Context(), id)
	require.NoError(t, err)
	return o
}

func (w *world) refunds(t *testing.T, state sale.RefundState) []sale.Refund {
	t.Helper()
	out, err := w.ledger.ListRefunds(t.Context(), ledger.RefundFilter{State: state, Limit: 1000})
	require.NoError(t, err)
	return out
}

// left returns the free units of the only, or first, item.
func (w *world) left(t *testing.T, s sale.Sale) int64 {
	t.Helper()
	now := w.read(t, s)
	return now.Items[0].Left()
}

// rowsOf returns the whole journal of a sale.
func (w *world) rowsOf(t *testing.T, s sale.Sale) []ledger.Entry {
	t.Helper()
	rows, err := allRows(t.Context(), w.Store.Read(), s.Number)
	require.NoError(t, err)
	return rows
}

func (w *world) kinds(t *testing.T, s sale.Sale, after int) []ledger.Kind {
	t.Helper()
	rows := w.rowsOf(t, s)[after:]
	out := make([]ledger.Kind, len(rows))
	for i := range rows {
		out[i] = rows[i].Kind
	}
	return out
}

// recount proves the promises of every sale of the world.
func (w *world) recount(t *testing.T) {
	t.Helper()
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		numbers, err := r.SaleNumbers(t.Context())
		if err != nil {
			return err
		}
		for _, n := range numbers {
			found, err := Recount(t.Context(), r, n)
			if err != nil {
				return err
			}
			require.Emptyf(t, found, "sale %d", n)
		}
		return nil
	}))
}

func requireCode(t *testing.T, want sale.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, sale.CodeOf(err), "%v", err)
}

// together runs do n times at one moment and waits for all of them.
func together(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start, errs := make(chan struct{}), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = do(ctx, i)
		})
	}
	close(start)
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// tryOne is try for goroutines that may not stop the test.
func (w *world) tryOne(ctx context.Context, s *sale.Sale, a ledger.Attempt) (ledger.Result, error) {
	out, err := w.ledger.Reserve(ctx, ledger.Batch{Sale: s.Number, Epoch: s.Epoch, Attempts: []ledger.Attempt{a}})
	if err != nil {
		return ledger.Result{}, err
	}
	return out.Results[0], out.Results[0].Err
}
