package ledgertest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// stateCases: every act on an order in every state.
func stateCases() []testCase {
	return []testCase{
		{name: "States/every act in every state", run: stateMatrix},
		{name: "States/unknown and foreign orders look alike", run: stateForeign},
	}
}

// answer is what an act said: a code, a count, an outcome, or "ok".
type answer struct {
	said  string
	state sale.OrderState // of the order afterwards
	left  int64           // free units afterwards, of 10 with an order of 2
}

// stateActs are the acts, each on one order.
func (w *world) stateActs() map[string]func(t *testing.T, o sale.Order) string {
	said := func(err error) string {
		if err != nil {
			return string(sale.CodeOf(err))
		}
		return "ok"
	}
	return map[string]func(t *testing.T, o sale.Order) string{
		"cancel": func(t *testing.T, o sale.Order) string {
			t.Helper()
			_, err := w.ledger.Cancel(t.Context(), o.ID, o.User)
			return said(err)
		},
		"cancel by the shop": func(t *testing.T, o sale.Order) string {
			t.Helper()
			_, err := w.ledger.Cancel(t.Context(), o.ID, "")
			return said(err)
		},
		"expire": func(t *testing.T, o sale.Order) string {
			t.Helper()
			n, err := w.ledger.Expire(t.Context(), []sale.OrderID{o.ID})
			require.NoError(t, err)
			return strconv.Itoa(n)
		},
		"refund": func(t *testing.T, o sale.Order) string {
			t.Helper()
			_, err := w.ledger.Refund(t.Context(), o.ID, ledger.Refunding{Restock: true})
			return said(err)
		},
		"refund, no restock": func(t *testing.T, o sale.Order) string {
			t.Helper()
			_, err := w.ledger.Refund(t.Context(), o.ID, ledger.Refunding{})
			return said(err)
		},
		"pay": func(t *testing.T, o sale.Order) string {
			t.Helper()
			return string(w.notify(t, charge(o, "pay-"+o.ID.String())).Outcome)
		},
		"pay too little": func(t *testing.T, o sale.Order) string {
			t.Helper()
			p := charge(o, "little-"+o.ID.String())
			p.Amount--
			return string(w.notify(t, p).Outcome)
		},
		"fail to pay": func(t *testing.T, o sale.Order) string {
			t.Helper()
			p := charge(o, "failed-"+o.ID.String())
			p.Status = sale.PaymentFailed
			return string(w.notify(t, p).Outcome)
		},
	}
}

func stateMatrix(t *testing.T, w *world) {
	const (
		illegal = string(sale.CodeIllegalState)
		owed    = string(sale.OutcomeRefundRequired)
		noted   = string(sale.OutcomeRecorded)
		paid    = string(sale.OutcomePaid)
	)
	// A sale of 10 that is paused, so that a late charge cannot buy again.
	reach := map[string]func(o sale.Order) sale.Order{
		"reserved":  func(o sale.Order) sale.Order { return o },
		"overdue":   func(o sale.Order) sale.Order { w.Advance(time.Minute); return o },
		"paid":      func(o sale.Order) sale.Order { return w.pay(t, o, "first-"+o.ID.String()) },
		"cancelled": func(o sale.Order) sale.Order { return w.cancel(t, o) },
		"expired":   func(o sale.Order) sale.Order { return w.lapse(t, o) },
		"refunded":  func(o sale.Order) sale.Order { return w.refund(t, w.pay(t, o, "first-"+o.ID.String()), true) },
	}
	want := map[string]map[string]answer{
		"reserved": {
			"cancel": {"ok", sale.Cancelled, 10}, "cancel by the shop": {"ok", sale.Cancelled, 10}, "expire": {"0", sale.Reserved, 8},
			"refund": {illegal, sale.Reserved, 8}, "refund, no restock": {illegal, sale.Reserved, 8}, "pay": {paid, sale.Paid, 8},
			"pay too little": {owed, sale.Reserved, 8}, "fail to pay": {noted, sale.Reserved, 8},
		},
		"overdue": {
			"cancel": {"ok", sale.Cancelled, 10}, "cancel by the shop": {"ok", sale.Cancelled, 10}, "expire": {"1", sale.Expired, 10},
			"refund": {illegal, sale.Reserved, 8}, "refund, no restock": {illegal, sale.Reserved, 8}, "pay": {paid, sale.Paid, 8},
			"pay too little": {owed, sale.Reserved, 8}, "fail to pay": {noted, sale.Reserved, 8},
		},
		"paid": {
			"cancel": {illegal, sale.Paid, 8}, "cancel by the shop": {illegal, sale.Paid, 8}, "expire": {"0", sale.Paid, 8},
			"refund": {"ok", sale.Refunded, 10}, "refund, no restock": {"ok", sale.Refunded, 8}, "pay": {owed, sale.Paid, 8},
			"pay too little": {owed, sale.Paid, 8}, "fail to pay": {noted, sale.Paid, 8},
		},
		"cancelled": {
			"cancel": {"ok", sale.Cancelled, 10}, "cancel by the shop": {"ok", sale.Cancelled, 10}, "expire": {"0", sale.Cancelled, 10},
			"refund": {illegal, sale.Cancelled, 10}, "refund, no restock": {illegal, sale.Cancelled, 10}, "pay": {owed, sale.Cancelled, 10},
			"pay too little": {owed, sale.Cancelled, 10}, "fail to pay": {noted, sale.Cancelled, 10},
		},
		"expired": {
			"cancel": {illegal, sale.Expired, 10}, "cancel by the shop": {illegal, sale.Expired, 10}, "expire": {"0", sale.Expired, 10},
			"refund": {illegal, sale.Expired, 10}, "refund, no restock": {illegal, sale.Expired, 10}, "pay": {owed, sale.Expired, 10},
			"pay too little": {owed, sale.Expired, 10}, "fail to pay": {noted, sale.Expired, 10},
		},
		"refunded": {
			"cancel": {illegal, sale.Refunded, 10}, "cancel by the shop": {illegal, sale.Refunded, 10}, "expire": {"0", sale.Refunded, 10},
			"refund": {"ok", sale.Refunded, 10}, "refund, no restock": {"ok", sale.Refunded, 10}, "pay": {owed, sale.Refunded, 10},
			"pay too little": {owed, sale.Refunded, 10}, "fail to pay": {noted, sale.Refunded, 10},
		},
	}
	require.Len(t, want, len(reach))
	for from, to := range reach {
		require.Len(t, want[from], len(w.stateActs()))
		for name, do := range w.stateActs() {
			s := w.open(t, nil)
			o := to(w.take(t, s, "ann", "k", 2))
			w.act(t, s, sale.ActionPause)
			limit := w.left(t, s)
			got := answer{said: do(t, o)}
			after := w.order(t, o.ID)
			got.state, got.left = after.State, w.left(t, s)
			require.Equal(t, want[from][name], got, "%s an order that is %s", name, from)
			if got.state == o.State {
				require.Equal(t, o, after, "%s an order that is %s changed it", name, from)
				require.Equal(t, limit, got.left)
			}
		}
	}
}

func stateForeign(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	_, unknownOrder := w.ledger.Cancel(t.Context(), s.OrderID("ann", "other"), "bob")
	_, unknownSale := w.ledger.Cancel(t.Context(), sale.OrderID{0, 0, 0x7f, 1, 9}, "bob")
	_, zero := w.ledger.Cancel(t.Context(), sale.OrderID{}, "bob")
	_, foreign := w.ledger.Cancel(t.Context(), o.ID, "bob")
	require.Equal(t, sale.OrderNotFound(), foreign)
	require.Equal(t, foreign, unknownOrder)
	require.Equal(t, foreign, unknownSale)
	require.Equal(t, foreign, zero)
	require.Equal(t, o, w.order(t, o.ID))
	for _, id := range []sale.OrderID{s.OrderID("ann", "other"), {0, 0, 0x7f, 1, 9}, {}} {
		_, err := w.ledger.Order(t.Context(), id)
		require.Equal(t, foreign, err)
		_, err = w.ledger.Refund(t.Context(), id, ledger.Refunding{Restock: true})
		require.Equal(t, foreign, err)
		_, err = w.ledger.Pay(t.Context(), sale.Payment{ID: "p", Order: id, Status: sale.PaymentSucceeded, Amount: 1, Currency: "EUR"})
		require.Equal(t, foreign, err)
	}
	require.NoError(t, w.Store.Snapshot(t.Context(), func(r ledger.Reader) error {
		_, known, err := r.Payment(t.Context(), "p")
		require.False(t, known, "a notice about nothing is not stored")
		return err
	}))
}
