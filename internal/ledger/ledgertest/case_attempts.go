package ledgertest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// attemptCases: what becomes of a click that is accepted, and of its repeats.
func attemptCases() []testCase {
	return []testCase{
		{name: "Take/order", run: takeOrder},
		{name: "Take/items have their own stock and share the limit", run: takeItems},
		{name: "Take/names are compared byte for byte", run: takeNames},
		{name: "Take/price zero is born paid", run: takeFree},
		{name: "Take/the largest numbers", run: takeLargest},
		{name: "Take/terms stay with the order", run: takeTerms},
		{name: "Batch/the same id twice", run: batchTwice},
		{name: "Batch/one user many times", run: batchGreedy},
		{name: "Batch/more than there is", run: batchShort},
		{name: "Batch/empty", run: batchEmpty},
		{name: "Batch/a row the database refuses", run: batchPoison, needs: func(f Faults) bool { return f.Refuse != nil }},
		{name: "Batch/an id of another sale", run: batchForeign},
		{name: "Replay/in every state", run: replayStates},
		{name: "Replay/before every refusal", run: replayFirst},
		{name: "Replay/key mismatch", run: replayMismatch},
		{name: "Replay/after reopening", run: replayReopened},
	}
}

func takeOrder(t *testing.T, w *world) {
	s := w.open(t, nil)
	w.Advance(1234 * time.Millisecond)
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: []ledger.Attempt{click(s, "ann", "k", 2)}})
	require.NoError(t, err)
	require.Equal(t, w.now(t), out.At)
	require.Equal(t, s.Version, out.Version)
	want := sale.Order{
		ID: s.OrderID("ann", "k"), Slug: s.Slug, User: "ann", SKU: "shoe-42", Quantity: 2, Terms: 1, Amount: 2500, Currency: "EUR",
		State: sale.Reserved, Epoch: 1, Version: 1, ReservedAt: out.At, ExpiresAt: out.At.Add(time.Minute),
	}
	require.Equal(t, []ledger.Result{{Verdict: sale.Taken, Order: want, Left: 8}}, out.Results)
	require.Equal(t, want, w.order(t, want.ID))
	require.Equal(t, int64(8), w.left(t, s))
	require.Equal(t, []ledger.Kind{"sale.created", "sale.published", "order.reserved"}, w.kinds(t, s, 0))
}

func takeItems(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) {
		s.PerUserLimit = 3
		s.Items = []sale.Item{{SKU: "S", Stock: 1, Price: 100}, {SKU: "M", Stock: 2, Price: 250}}
	})
	of := func(a ledger.Attempt, sku string) ledger.Attempt {
		a.SKU = sku
		return a
	}
	results := w.reserve(
		t, s,
		of(click(s, "ann", "1", 1), "S"), of(click(s, "ann", "2", 2), "M"), of(click(s, "ann", "3", 1), "M"),
		of(click(s, "bob", "1", 1), "S"), of(click(s, "bob", "2", 1), "L"), of(click(s, "bob", "3", 1), ""),
	)
	want := []sale.Verdict{sale.Taken, sale.Taken, sale.LimitReached, sale.SoldOut, sale.NoSuchItem, sale.NoSuchItem}
	for i := range results {
		require.Equal(t, want[i], results[i].Verdict, "attempt %d", i)
	}
	require.Equal(t, int64(500), results[1].Order.Amount)
	require.Equal(t, []int64{0, 0, 0, 0}, []int64{results[0].Left, results[1].Left, results[2].Left, results[3].Left})
	more := w.change(t, s, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "M", Add: 3}})
	require.Equal(t, int64(2), w.try(t, more, of(click(s, "cid", "1", 1), "M")).Left, "what is left of that item")
	w.change(t, s, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: "M", Add: -2}})
	now := w.read(t, s)
	require.Equal(t, []int64{0, 0}, []int64{now.Items[0].Left(), now.Items[1].Left()})
	w.cancel(t, results[1].Order)
	now = w.read(t, s)
	require.Equal(t, []int64{0, 2}, []int64{now.Items[0].Left(), now.Items[1].Left()}, "units go back to the item they came from")
}

func takeNames(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) {
		s.PerUserLimit = 1
		s.Items = []sale.Item{{SKU: "Sku-1", Stock: 9, Price: 1}, {SKU: "sku-1", Stock: 9, Price: 1}}
	})
	users := []string{"jo", "Jo", "JO", "jo ", "ｊｏ", "jo\u200b", "e\u0301", "\u00e9", "o", "\u043e"}
	for i, user := range users {
		a := click(s, user, "k", 1)
		a.SKU = []string{"Sku-1", "sku-1"}[i%2]
		require.Equal(t, sale.Taken, w.try(t, s, a).Verdict, "%q", user)
		a.ID = s.OrderID(user, "k2")
		require.Equal(t, sale.LimitReached, w.try(t, s, a).Verdict, "%q", user)
	}
	for _, sku := range []string{"SKU-1", " Sku-1", "Sku-1 ", "Sku-1%20"} {
		a := click(s, "ann", "k", 1)
		a.SKU = sku
		require.Equal(t, sale.NoSuchItem, w.try(t, s, a).Verdict, "%q", sku)
	}
	now := w.read(t, s)
	require.Equal(t, []int64{5, 5}, []int64{now.Items[0].Sold, now.Items[1].Sold})
}

func takeFree(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Price = 0 })
	before := len(w.rowsOf(t, s))
	o := w.take(t, s, "ann", "k", 2)
	require.Equal(t, sale.Paid, o.State)
	require.Zero(t, o.ExpiresAt)
	require.Equal(t, w.now(t), o.EndedAt)
	require.Equal(t, []ledger.Kind{"order.paid"}, w.kinds(t, s, before), "one row, not two")

	w.Advance(time.Hour)
	due, err := w.ledger.Due(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Empty(t, due.IDs)
	require.Equal(t, sale.OutcomeAlreadyPaid, w.notify(t, charge(o, "p0")).Outcome, "a notice about nothing")
	other := charge(o, "p1")
	other.Currency = "USD"
	require.Equal(t, sale.OutcomeAlreadyPaid, w.notify(t, other).Outcome, "no money moved, whatever its currency")
	other.ID, other.Amount = "p2", 5
	require.Equal(t, sale.OutcomeRefundRequired, w.notify(t, other).Outcome, "money for nothing goes back")

	w.refund(t, o, true)
	require.Len(t, w.refunds(t, ""), 1, "a free order leaves nothing to return")
	require.Equal(t, int64(10), w.left(t, s))
}

func takeLargest(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) {
		s.PerUserLimit = 3
		s.Items[0].Stock, s.Items[0].Price = sale.MaxInteger, sale.MaxInteger/3
	})
	o := w.take(t, s, "ann", "k", 3)
	require.Equal(t, int64(sale.MaxInteger/3*3), o.Amount)
	require.Equal(t, int64(sale.MaxInteger-3), w.left(t, s))
	w.pay(t, o, "p")
	w.reopen(t)
	require.Equal(t, int64(sale.MaxInteger-3), w.left(t, s))
	require.Equal(t, o.Amount, w.order(t, o.ID).Amount)
	_, err := w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: 1}})
	requireCode(t, sale.CodeInvalid, err)
	for _, add := range []int64{1<<63 - 1, -1 << 63} {
		_, err = w.ledger.ChangeSale(t.Context(), s.Slug, 0, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{Add: add}})
		requireCode(t, sale.CodeInvalid, err)
	}
}

func takeTerms(t *testing.T, w *world) {
	s := w.open(t, nil)
	old := w.take(t, s, "ann", "k", 1)
	price, hold, currency := int64(2000), 5*time.Minute, "USD"
	s = w.patch(t, s, sale.Patch{Hold: &hold, Currency: &currency, Items: []sale.ItemPatch{{Price: &price}}})
	require.Equal(t, int64(2), s.Terms)

	require.Equal(t, old, w.order(t, old.ID), "a hold keeps what it was promised")
	agreed := click(s, "bob", "k", 2)
	agreed.Expected = &ledger.Money{Amount: 2500, Currency: "EUR"}
	w.refuse(t, s, agreed, sale.TermsChanged)
	agreed.Expected = &ledger.Money{Amount: 4000, Currency: "EUR"}
	w.refuse(t, s, agreed, sale.TermsChanged)
	agreed.Expected = &ledger.Money{Amount: 4000, Currency: "USD"}
	r := w.try(t, s, agreed)
	require.Equal(t, sale.Taken, r.Verdict)
	require.Equal(t, int64(2), r.Order.Terms)
	require.Equal(t, w.now(t).Add(hold), r.Order.ExpiresAt)

	again := click(s, "ann", "k", 1)
	again.Expected = &ledger.Money{Amount: 1, Currency: "EUR"}
	require.Equal(t, sale.Replayed, w.try(t, s, again).Verdict, "replay precedes the terms")
	require.Equal(t, int64(1250), w.pay(t, old, "p").Amount)

	title := "Drop, renamed"
	require.Equal(t, int64(2), w.patch(t, s, sale.Patch{Title: &title}).Terms, "a title is no term")
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		terms, err := r.TermsOf(t.Context(), s.Number)
		require.Equal(t, []ledger.Terms{
			{Number: 1, Currency: "EUR", Hold: time.Minute, Prices: []int64{1250}},
			{Number: 2, Currency: "USD", Hold: hold, Prices: []int64{2000}},
		}, terms)
		return err
	}))
}

func batchTwice(t *testing.T, w *world) {
	s := w.open(t, nil)
	results := w.reserve(t, s, click(s, "ann", "k", 1), click(s, "ann", "k", 1), click(s, "ann", "k", 2))
	require.Equal(t, sale.Taken, results[0].Verdict)
	require.Equal(t, sale.Replayed, results[1].Verdict)
	require.Equal(t, results[0].Order, results[1].Order)
	require.Equal(t, sale.KeyMismatch, results[2].Verdict)
	require.Equal(t, int64(9), w.left(t, s))
}

func batchGreedy(t *testing.T, w *world) {
	s := w.open(t, nil)
	clicks := make([]ledger.Attempt, 0, 7)
	for i := range 6 {
		clicks = append(clicks, click(s, "ann", strconv.Itoa(i), 1))
	}
	clicks = append(clicks, click(s, "bob", "k", 2))
	require.Equal(t, []sale.Verdict{
		sale.Taken, sale.Taken, sale.LimitReached, sale.LimitReached, sale.LimitReached, sale.LimitReached, sale.Taken,
	}, w.verdicts(t, s, clicks...))
	require.Equal(t, int64(6), w.left(t, s))
}

func batchShort(t *testing.T, w *world) {
	s := w.open(t, stock(4))
	results := w.reserve(
		t, s,
		click(s, "a", "k", 2), click(s, "b", "k", 1), click(s, "c", "k", 2), click(s, "d", "k", 1), click(s, "e", "k", 1), click(s, "a", "k", 2),
	)
	for i, want := range []struct {
		verdict sale.Verdict
		left    int64
	}{{sale.Taken, 2}, {sale.Taken, 1}, {sale.Insufficient, 1}, {sale.Taken, 0}, {sale.SoldOut, 0}, {sale.Replayed, 0}} {
		require.Equal(t, want.verdict, results[i].Verdict, "attempt %d", i)
		require.Equal(t, want.left, results[i].Left, "attempt %d", i)
	}
}

func batchEmpty(t *testing.T, w *world) {
	s := w.open(t, nil)
	before := w.rowsOf(t, s)
	require.Empty(t, w.reserve(t, s))
	require.Equal(t, before, w.rowsOf(t, s))
}

func batchPoison(t *testing.T, w *world) {
	s := w.open(t, nil)
	w.Faults.Refuse(t, "mallory")
	clicks := make([]ledger.Attempt, 0, 9)
	for i := range 9 {
		clicks = append(clicks, click(s, fmt.Sprint("user-", i), "k", 1))
	}
	clicks[3], clicks[7] = click(s, "mallory", "1", 1), click(s, "mallory", "2", 1)
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: clicks})
	require.NoError(t, err)
	for i, r := range out.Results {
		if i == 3 || i == 7 {
			require.ErrorIs(t, r.Err, ledger.ErrConstraint)
			require.Empty(t, r.Verdict)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, sale.Taken, r.Verdict, "attempt %d", i)
	}
	require.Equal(t, int64(3), w.left(t, s))
	_, err = w.ledger.Order(t.Context(), clicks[3].ID)
	requireCode(t, sale.CodeOrderNotFound, err)
}

func batchForeign(t *testing.T, w *world) {
	s, other := w.open(t, nil), w.open(t, nil)
	held := w.take(t, other, "ann", "k", 1)
	a := click(other, "ann", "new", 1)
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: []ledger.Attempt{
		a, click(other, "ann", "k", 1), click(s, "ann", "k", 1),
	}})
	require.NoError(t, err)
	require.Error(t, out.Results[0].Err, "an order must be found under its sale")
	require.Error(t, out.Results[1].Err)
	require.Equal(t, sale.Taken, out.Results[2].Verdict)
	_, err = w.ledger.Order(t.Context(), a.ID)
	requireCode(t, sale.CodeOrderNotFound, err)

	w.Advance(time.Hour)
	n, err := w.ledger.Expire(t.Context(), []sale.OrderID{out.Results[2].Order.ID, held.ID})
	require.NoError(t, err)
	require.Equal(t, 1, n, "an order of another sale is left alone")
	require.Equal(t, sale.Reserved, w.order(t, held.ID).State)
}

func replayStates(t *testing.T, w *world) {
	s := w.open(t, nil)
	reach := map[sale.OrderState]func(sale.Order) sale.Order{
		sale.Reserved:  func(o sale.Order) sale.Order { return o },
		sale.Paid:      func(o sale.Order) sale.Order { return w.pay(t, o, "pay-"+o.User) },
		sale.Cancelled: func(o sale.Order) sale.Order { return w.cancel(t, o) },
		sale.Expired:   func(o sale.Order) sale.Order { return w.lapse(t, o) },
		sale.Refunded:  func(o sale.Order) sale.Order { return w.refund(t, w.pay(t, o, "pay-"+o.User), true) },
	}
	for state, to := range reach {
		user := string(state)
		o := to(w.take(t, s, user, "k", 1))
		require.Equal(t, state, o.State)
		w.Advance(time.Second)
		before := w.rowsOf(t, s)
		r := w.try(t, s, click(s, user, "k", 1))
		require.Equal(t, sale.Replayed, r.Verdict, "%s", state)
		require.Equal(t, o, r.Order, "the order as it is now")
		require.Equal(t, w.left(t, s), r.Left)
		require.Equal(t, before, w.rowsOf(t, s), "a replay writes nothing")
		if !state.Live() {
			require.Equal(t, sale.Taken, w.try(t, s, click(s, user, "fresh", 1)).Verdict, "a new click buys again after %s", state)
		}
	}
}

func replayFirst(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock, s.PerUserLimit, s.MaxUnpaidHolds = 2, 2, 1 })
	o, dead := w.take(t, s, "ann", "k", 1), w.take(t, s, "ann", "dead", 1)
	dead = w.cancel(t, dead) // ann cools down now
	w.take(t, s, "bob", "k", 1)
	replays := func(why string) {
		t.Helper()
		results := w.reserve(t, s, click(s, "ann", "k", 1), click(s, "ann", "dead", 1))
		require.Equal(t, sale.Replayed, results[0].Verdict, why)
		require.Equal(t, sale.Replayed, results[1].Verdict, why)
		require.Equal(t, o, results[0].Order, why)
		require.Equal(t, dead, results[1].Order, why)
	}
	w.refuse(t, s, click(s, "ann", "new", 1), sale.CoolDown)
	w.refuse(t, s, click(s, "cid", "new", 1), sale.SoldOut)
	replays("cool-down, sold out")
	one := int64(1)
	s = w.patch(t, s, sale.Patch{PerUserLimit: &one})
	w.refuse(t, s, click(s, "bob", "new", 1), sale.LimitReached)
	replays("limit lowered")
	s = w.act(t, s, sale.ActionPause)
	w.refuse(t, s, click(s, "cid", "new", 1), sale.PausedNow)
	replays("paused")
	s = w.act(t, s, sale.ActionResume)
	later, sooner := w.now(t).Add(time.Hour), w.now(t)
	s = w.patch(t, s, sale.Patch{StartsAt: &later})
	w.refuse(t, s, click(s, "cid", "new", 1), sale.NotStarted)
	replays("not started")
	start := sooner.Add(-time.Hour)
	s = w.patch(t, s, sale.Patch{StartsAt: &start, EndsAt: &sooner})
	w.refuse(t, s, click(s, "cid", "new", 1), sale.Ended)
	replays("ended")
	s = w.act(t, s, sale.ActionClose)
	w.refuse(t, s, click(s, "cid", "new", 1), sale.ClosedNow)
	replays("closed")
	o = w.pay(t, o, "p")
	w.cancel(t, w.order(t, s.OrderID("bob", "k")))
	s = w.act(t, s, sale.ActionDelete)
	w.refuse(t, s, click(s, "cid", "new", 1), sale.NoSuchSale)
	replays("deleted")
}

func replayMismatch(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) {
		s.PerUserLimit = 5
		s.Items = append(s.Items, sale.Item{SKU: "shoe-43", Stock: 5, Price: 1})
	})
	first := click(s, "ann", "k", 1)
	first.SKU = "shoe-42"
	o := w.try(t, s, first).Order
	for _, other := range []func(*ledger.Attempt){
		func(a *ledger.Attempt) { a.Quantity = 2 },
		func(a *ledger.Attempt) { a.Quantity = 0 },
		func(a *ledger.Attempt) { a.SKU = "shoe-43" },
		func(a *ledger.Attempt) { a.SKU = "shoe-99" },
		func(a *ledger.Attempt) { a.SKU = "" },
		func(a *ledger.Attempt) { a.User = "bob" },
	} {
		a := first
		other(&a)
		before := w.rowsOf(t, s)
		r := w.try(t, s, a)
		require.Equal(t, sale.KeyMismatch, r.Verdict, "%+v", a)
		require.Zero(t, r.Order, "no foreign data is shown")
		require.Equal(t, before, w.rowsOf(t, s))
	}
	require.Equal(t, o, w.order(t, o.ID))

	foreign := click(s, "bob", "k", 2)
	foreign.SKU = "shoe-43"
	require.Equal(t, sale.Taken, w.try(t, s, foreign).Verdict, "another user's key is another click")
	twin := w.open(t, nil)
	require.Equal(t, sale.Taken, w.try(t, twin, click(twin, "ann", "k", 2)).Verdict, "another sale's too")
}

func replayReopened(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	rows := w.rowsOf(t, s)
	w.reopen(t)
	r := w.try(t, s, click(s, "ann", "k", 1))
	require.Equal(t, sale.Replayed, r.Verdict)
	require.Equal(t, o, r.Order)
	require.Equal(t, rows, w.rowsOf(t, s))
	require.Equal(t, s.Key, w.read(t, s).Key, "the key that ids come from lasts")
	w.take(t, s, "bob", "k", 1)
}
