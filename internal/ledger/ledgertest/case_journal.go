package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// journalCases: the journal tells everything, and a snapshot sees one instant.
// That its rows rebuild every order is part of each recount.
func journalCases() []testCase {
	return []testCase{
		{name: "Journal/a row for each transition", run: journalRows},
		{name: "Journal/paging", run: journalPages},
		{name: "Journal/users of every spelling survive", run: journalUsers},
		{name: "Journal/a snapshot is one instant", run: journalSnapshot},
	}
}

func journalRows(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.take(t, s, "ann", "k", 1)
	w.Advance(time.Second)
	w.refund(t, w.pay(t, o, "p"), false)
	rows := w.rowsOf(t, s)
	require.Equal(t, []ledger.Kind{
		"sale.created", "sale.published", "order.reserved", "order.paid", "order.refunded", "refund.required", "sale.restocked",
	}, w.kinds(t, s, 0))
	prev, ids := [32]byte{}, make(map[string]bool)
	for i, e := range rows {
		require.Equal(t, s.Number, e.Sale)
		require.Equal(t, uint64(i+1), e.Seq)
		require.Equal(t, e.ChainHash(prev), e.Hash)
		require.Equal(t, e.Kind.OfSale(), e.Order.IsZero(), "%s", e.Kind)
		require.True(t, json.Valid(e.Body))
		require.Equal(t, time.UTC, e.At.Location())
		ids[e.EventID()], prev = true, e.Hash
	}
	require.Len(t, ids, len(rows), "one event id a row")
	require.Equal(t, w.now(t).Add(-time.Second), rows[2].At)
	require.Equal(t, w.now(t), rows[3].At)
	var b ledger.OrderBody
	require.NoError(t, json.Unmarshal(rows[3].Body, &b))
	require.Equal(t, ledger.OrderBody{
		From: sale.Reserved, State: sale.Paid, Version: 2, User: "ann", SKU: "shoe-42", Quantity: 1, Terms: 1, Amount: 1250,
		Currency: "EUR", Epoch: 1, ExpiresAt: o.ExpiresAt.UnixMilli(), PaymentID: "p",
	}, b)
}

func journalPages(t *testing.T, w *world) {
	s, other := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 50 }), w.open(t, nil)
	for i := range 20 {
		w.take(t, s, fmt.Sprint("user-", i), "k", 1)
	}
	w.take(t, other, "ann", "k", 1)
	all := w.rowsOf(t, s)
	require.Len(t, all, 22)
	for _, size := range []int{1, 7, 22, 1000} {
		var got []ledger.Entry
		for after := uint64(0); ; {
			page, err := w.ledger.Rows(t.Context(), s.Number, after, size)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), size)
			got = append(got, page...)
			after = page[len(page)-1].Seq
		}
		require.Equal(t, all, got)
	}
	page, err := w.ledger.Rows(t.Context(), s.Number, 22, 10)
	require.NoError(t, err)
	require.Empty(t, page)
	page, err = w.ledger.Rows(t.Context(), 999, 0, 10)
	require.NoError(t, err)
	require.Empty(t, page)
}

func journalUsers(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock, s.Title = 50, "„Schuh“ <b>&\u2028\U0001F45F" })
	for _, user := range []string{"<script>&amp;", `quo"te\back`, "\u2028\u2029", "用户", "\U0001F9A5", "e\u0301", "\u00e9", "\ufffd", "'; drop table", "a b", "%_"} {
		require.NoError(t, sale.CheckUser(user))
		o := w.take(t, s, user, "k", 1)
		require.Equal(t, user, w.order(t, o.ID).User)
		found, err := w.ledger.ListOrders(t.Context(), ledger.OrderFilter{User: user})
		require.NoError(t, err)
		require.Equal(t, []sale.Order{o}, found)
	}
}

// journalSnapshot recounts while writers run: in one instant everything agrees.
func journalSnapshot(t *testing.T, w *world) {
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock, s.PerUserLimit = 1000, 100 })
	together(t, 4, func(ctx context.Context, i int) error {
		if i == 0 {
			return w.snapshots(ctx, s.Number)
		}
		for j := range 15 {
			r, err := w.tryOne(ctx, &s, click(s, fmt.Sprint("user-", i), strconv.Itoa(j), 1))
			if err == nil && j%3 == 0 {
				_, err = w.ledger.Cancel(ctx, r.Order.ID, "")
			}
			if err == nil && j%3 == 1 {
				_, err = w.ledger.Pay(ctx, charge(r.Order, fmt.Sprint("p-", i, "-", j)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	sentinel := errors.New("mine")
	require.ErrorIs(t, w.ledger.Snapshot(t.Context(), func(ledger.Reader) error { return sentinel }), sentinel)
}

func (w *world) snapshots(ctx context.Context, n sale.Number) error {
	for range 10 {
		err := w.ledger.Snapshot(ctx, func(r ledger.Reader) error {
			first, err := r.SaleByNumber(ctx, n)
			if err != nil {
				return err
			}
			found, err := Recount(ctx, r, n)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return fmt.Errorf("a snapshot disagrees with itself: %v", found)
			}
			last, err := r.SaleByNumber(ctx, n)
			if err == nil && first.Seq != last.Seq {
				return fmt.Errorf("a snapshot moved from row %d to %d", first.Seq, last.Seq)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// watchCases: who watches is told of what was committed, and of nothing else.
func watchCases() []testCase {
	return []testCase{
		{name: "Watch/every committed row", run: watchAll},
		{name: "Watch/nothing that was undone", run: watchUndone, needs: func(f Faults) bool { return f.Refuse != nil }},
		{name: "Watch/stopped", run: watchStopped},
	}
}

// heard collects what a watcher is told.
type heard struct {
	mu    sync.Mutex
	rows  map[string]ledger.Entry // by event id
	twice int
}

func (h *heard) note(rows []ledger.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows == nil {
		h.rows = make(map[string]ledger.Entry)
	}
	for _, e := range rows {
		if _, known := h.rows[e.EventID()]; known {
			h.twice++
		}
		h.rows[e.EventID()] = e
	}
}

func (h *heard) requireAll(t *testing.T, rows []ledger.Entry) {
	t.Helper()
	want := make(map[string]ledger.Entry)
	for _, e := range rows {
		want[e.EventID()] = e
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Equal(t, want, h.rows)
	require.Zero(t, h.twice)
}

func watchAll(t *testing.T, w *world) {
	var one, two heard
	defer w.ledger.Watch(one.note)()
	defer w.ledger.Watch(two.note)()
	s := w.open(t, func(s *sale.Sale) { s.Items[0].Stock = 12 })
	together(t, 6, func(ctx context.Context, i int) error {
		for j := range 4 {
			r, err := w.tryOne(ctx, &s, click(s, fmt.Sprint("user-", i), strconv.Itoa(j), 1))
			if err == nil && r.Verdict == sale.Taken && j == 0 {
				_, err = w.ledger.Pay(ctx, charge(r.Order, fmt.Sprint("p-", i)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	w.refund(t, w.order(t, s.OrderID("user-1", "0")), false)
	_, err := w.ledger.RefundDone(t.Context(), sale.DeriveRefundID("p-1"))
	require.NoError(t, err)
	one.requireAll(t, w.rowsOf(t, s))
	two.requireAll(t, w.rowsOf(t, s))
}

func watchUndone(t *testing.T, w *world) {
	var all heard
	defer w.ledger.Watch(all.note)()
	s := w.open(t, nil)
	w.Faults.Refuse(t, "mallory")
	out, err := w.ledger.Reserve(t.Context(), ledger.Batch{Sale: s.Number, Epoch: 1, Attempts: []ledger.Attempt{
		click(s, "ann", "k", 1), click(s, "mallory", "k", 1), click(s, "bob", "k", 1),
	}})
	require.NoError(t, err)
	require.Error(t, out.Results[1].Err)
	w.refuse(t, s, click(s, "ann", "more", 2), sale.LimitReached)
	all.requireAll(t, w.rowsOf(t, s))
}

func watchStopped(t *testing.T, w *world) {
	var all, some heard
	defer w.ledger.Watch(all.note)()
	stop := w.ledger.Watch(some.note)
	s := w.open(t, nil)
	before := w.rowsOf(t, s)
	stop()
	stop()
	w.take(t, s, "ann", "k", 1)
	some.requireAll(t, before)
	all.requireAll(t, w.rowsOf(t, s))
}
