package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// world is the facts of one sale, taken out of a ledger so that a test can
// break exactly one of them.
type world struct {
	tb        testing.TB
	facts     saleFacts
	termsRows []ledger.Terms
	entries   []ledger.Entry
	orders    []sale.Order
	refunds   []sale.Refund
	payments  []ledger.PaymentRow
	holders   []ledger.Holder
}

var _ sink = (*world)(nil)

func (w *world) open(f saleFacts) error     { w.facts = f; return nil }
func (w *world) terms(t ledger.Terms) error { w.termsRows = append(w.termsRows, t); return nil }
func (w *world) row(e *ledger.Entry) error  { w.entries = append(w.entries, *e); return nil }
func (w *world) order(o *sale.Order) error  { w.orders = append(w.orders, *o); return nil }
func (w *world) refund(f *sale.Refund) error {
	w.refunds = append(w.refunds, *f)
	return nil
}

func (w *world) payment(p *ledger.PaymentRow) error {
	w.payments = append(w.payments, *p)
	return nil
}
func (w *world) holder(h *ledger.Holder) error { w.holders = append(w.holders, *h); return nil }

// pour streams the facts into another sink.
func (w *world) pour(to sink) {
	w.tb.Helper()
	require.NoError(w.tb, to.open(w.facts))
	for i := range w.termsRows {
		require.NoError(w.tb, to.terms(w.termsRows[i]))
	}
	for i := range w.entries {
		require.NoError(w.tb, to.row(&w.entries[i]))
	}
	for i := range w.orders {
		o := w.orders[i]
		require.NoError(w.tb, to.order(&o))
	}
	for i := range w.refunds {
		require.NoError(w.tb, to.refund(&w.refunds[i]))
	}
	for i := range w.payments {
		require.NoError(w.tb, to.payment(&w.payments[i]))
	}
	for i := range w.holders {
		require.NoError(w.tb, to.holder(&w.holders[i]))
	}
}

func (w *world) recount() SaleReport {
	w.tb.Helper()
	c := newRecount(Options{})
	w.pour(c)
	c.finish()
	return c.report(ledgerRules())
}

func (w *world) export() []byte {
	w.tb.Helper()
	var out bytes.Buffer
	to := newWriter(&out)
	w.pour(to)
	require.NoError(w.tb, to.close())
	return out.Bytes()
}

// brokenRules returns the names of the checks that failed.
func brokenRules(s *SaleReport) []string {
	out := []string{}
	for i := range s.Rules {
		if s.Rules[i].Broken > 0 {
			out = append(out, s.Rules[i].Rule)
		}
	}
	return out
}

// rechain numbers the rows anew and computes every hash again, as a forger
// with write access would.
func (w *world) rechain() {
	var head [32]byte
	for i := range w.entries {
		e := &w.entries[i]
		e.Seq = uint64(i) + 1
		e.Hash = e.ChainHash(head)
		head = e.Hash
	}
	w.facts.seq, w.facts.head = uint64(len(w.entries)), head
}

// of returns the order of a user.
func (w *world) of(user string) *sale.Order {
	w.tb.Helper()
	i := slices.IndexFunc(w.orders, func(o sale.Order) bool { return o.User == user && o.Replaces.IsZero() })
	require.GreaterOrEqual(w.tb, i, 0, user)
	return &w.orders[i]
}

// heir returns the order that replaces the user's.
func (w *world) heir(user string) *sale.Order {
	w.tb.Helper()
	i := slices.IndexFunc(w.orders, func(o sale.Order) bool { return o.User == user && !o.Replaces.IsZero() })
	require.GreaterOrEqual(w.tb, i, 0, user)
	return &w.orders[i]
}

// charge returns the payment with this id.
func (w *world) charge(id string) *ledger.PaymentRow {
	w.tb.Helper()
	i := slices.IndexFunc(w.payments, func(p ledger.PaymentRow) bool { return p.ID == id })
	require.GreaterOrEqual(w.tb, i, 0, id)
	return &w.payments[i]
}

// editRows changes the body of every row about an order, from the n-th on.
func (w *world) editRows(id sale.OrderID, n int, edit func(*ledger.OrderBody)) {
	w.tb.Helper()
	for i := range w.entries {
		e := &w.entries[i]
		if e.Order != id || !e.Kind.OfOrder() {
			continue
		}
		if n--; n >= 0 {
			continue
		}
		var b ledger.OrderBody
		require.NoError(w.tb, json.Unmarshal(e.Body, &b))
		edit(&b)
		e.Body = encode(w.tb, b)
	}
	w.rechain()
}

// editSale changes the body of every row about the sale.
func (w *world) editSale(edit func(*ledger.SaleBody)) {
	w.tb.Helper()
	for i := range w.entries {
		e := &w.entries[i]
		if !e.Kind.OfSale() {
			continue
		}
		var b ledger.SaleBody
		require.NoError(w.tb, json.Unmarshal(e.Body, &b))
		edit(&b)
		e.Body = encode(w.tb, b)
	}
	w.rechain()
}

// add appends a row.
func (w *world) add(kind ledger.Kind, id sale.OrderID, body any) {
	w.tb.Helper()
	last := w.entries[len(w.entries)-1]
	w.entries = append(w.entries, ledger.Entry{Sale: last.Sale, At: last.At, Kind: kind, Order: id, Body: encode(w.tb, body)})
	w.rechain()
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	out, err := json.Marshal(v)
	require.NoError(tb, err)
	return out
}

// shop is a ledger with one open sale.
type shop struct {
	store   ledger.Store
	book    *ledger.Book
	advance func(time.Duration) // moves the ledger's clock
	sale    sale.Sale
}

const (
	priced = "shoe"
	free   = "sticker"
)

func newShop(tb testing.TB) *shop {
	tb.Helper()
	store := ledgertest.NewMemStore()
	return newShopOver(tb, store, store.Advance)
}

func newShopOver(tb testing.TB, store ledger.Store, advance func(time.Duration)) *shop {
	tb.Helper()
	s := &shop{store: store, book: ledger.New(store), advance: advance}
	now, err := s.store.Now(tb.Context())
	require.NoError(tb, err)
	_, err = s.book.CreateSale(tb.Context(), sale.Sale{
		Slug: "summer-drop",
		Rules: sale.Rules{
			Title: "Summer drop", StartsAt: now, EndsAt: now.Add(24 * time.Hour), PerUserLimit: 2, LimitRule: sale.LimitLive,
			Hold: time.Minute, MaxUnpaidHolds: 5, CoolDown: time.Minute, Currency: "EUR",
		},
		Items: []sale.Item{{SKU: priced, Stock: 8, Price: 1000}, {SKU: free, Stock: 5}},
	})
	require.NoError(tb, err)
	s.change(tb, sale.Change{Action: sale.ActionPublish})
	return s
}

func (s *shop) change(tb testing.TB, c sale.Change) {
	tb.Helper()
	var err error
	s.sale, err = s.book.ChangeSale(tb.Context(), "summer-drop", 0, c)
	require.NoError(tb, err)
}

func (s *shop) try(tb testing.TB, user, key, sku string, quantity int64) ledger.Result {
	tb.Helper()
	a := s.slip(tb, user, sku, quantity)
	a.ID = s.sale.OrderID(user, key)
	if s.sale.Path == sale.PathDirect {
		a.Slip = nil
	}
	return s.judge(tb, a)[0]
}

func (s *shop) buy(tb testing.TB, user, sku string, quantity int64) sale.Order {
	tb.Helper()
	r := s.try(tb, user, "click", sku, quantity)
	require.Equal(tb, sale.Taken, r.Verdict)
	return r.Order
}

func (s *shop) pay(tb testing.TB, id string, o *sale.Order, status sale.PaymentStatus) ledger.Paid {
	tb.Helper()
	paid, err := s.book.Pay(tb.Context(), sale.Payment{ID: id, Order: o.ID, Status: status, Amount: o.Amount, Currency: o.Currency})
	require.NoError(tb, err)
	return paid
}

// tell tells a story in which everything happens once: see the comments.
func (s *shop) tell(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	dave := s.buy(tb, "dave", priced, 1) // expires, pays late, gets a new order
	s.advance(time.Minute)
	_, err := s.book.Expire(ctx, []sale.OrderID{dave.ID})
	require.NoError(tb, err)
	require.Equal(tb, sale.OutcomePaid, s.pay(tb, "ch-dave", &dave, sale.PaymentSucceeded).Outcome)

	bob := s.buy(tb, "bob", priced, 2) // pays after a failure, and once too often
	s.pay(tb, "ch-bob", &bob, sale.PaymentFailed)
	s.pay(tb, "ch-bob", &bob, sale.PaymentSucceeded)
	require.Equal(tb, sale.OutcomeRefundRequired, s.pay(tb, "ch-bob-2", &bob, sale.PaymentSucceeded).Outcome)

	carol := s.buy(tb, "carol", priced, 2) // cancels
	_, err = s.book.Cancel(ctx, carol.ID, "carol")
	require.NoError(tb, err)

	erin := s.buy(tb, "erin", priced, 1) // pays and is refunded; the money goes back
	s.pay(tb, "ch-erin", &erin, sale.PaymentSucceeded)
	_, err = s.book.Refund(ctx, erin.ID, ledger.Refunding{})
	require.NoError(tb, err)
	_, err = s.book.RefundDone(ctx, sale.DeriveRefundID("ch-erin"))
	require.NoError(tb, err)

	s.buy(tb, "frank", free, 1) // owes nothing

	price := int64(1200)
	s.change(tb, sale.Change{Action: sale.ActionUpdate, Patch: sale.Patch{Items: []sale.ItemPatch{{SKU: priced, Price: &price}}}})
	s.change(tb, sale.Change{Action: sale.ActionRestock, Restock: sale.Restock{SKU: priced, Add: 3}})
	s.buy(tb, "alice", priced, 1) // waits, under the new terms
	s.tellFast(tb)
}

// capture takes the sale's facts out of the ledger.
func (s *shop) capture(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb}
	now, err := s.store.Now(tb.Context())
	require.NoError(tb, err)
	require.NoError(tb, s.store.Snapshot(tb.Context(), func(r ledger.Reader) error {
		rec, err := r.SaleByNumber(tb.Context(), s.sale.Number)
		require.NoError(tb, err)
		return feed(tb.Context(), r, &rec, now, w)
	}))
	return w
}

func story(tb testing.TB) *world {
	tb.Helper()
	s := newShop(tb)
	s.tell(tb)
	return s.capture(tb)
}
