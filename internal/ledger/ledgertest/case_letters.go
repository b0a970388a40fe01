package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// letterCases: what cannot be judged finds a place, ends for its buyer, and is in
// nobody's way.
func letterCases() []testCase {
	refuse := func(f Faults) bool { return f.Refuse != nil }
	return []testCase{
		{name: "Letter/unreadable", run: letterUnreadable},
		{name: "Letter/ends its buyer's order", run: letterRejected},
		{name: "Letter/of an order that is there", run: letterKnown},
		{name: "Letter/whose order the database refuses", run: letterRefused, needs: refuse},
		{name: "Letter/judged again", run: letterReplayed, needs: refuse},
		{name: "Letter/parked once", run: letterOnce},
		{name: "Letter/of any bytes", run: letterBytes},
		{name: "Letter/closed once", run: letterClosed},
		{name: "Letter/lists", run: letterLists},
	}
}

func letter(n byte, a *ledger.Attempt) ledger.Letter {
	return ledger.Letter{ID: ledger.LetterID{n}, Place: fmt.Sprintf("lane 0, entry 1-0, slip %d", n), Cause: "it cannot be read", Raw: []byte{n, 0, 255}, Attempt: a}
}

func (w *world) park(t *testing.T, s sale.Sale, letters ...ledger.Letter) {
	t.Helper()
	require.NoError(t, w.ledger.Park(t.Context(), s.Number, letters))
}

func (w *world) letter(t *testing.T, id ledger.LetterID) ledger.Letter {
	t.Helper()
	l, err := w.ledger.Letter(t.Context(), id)
	require.NoError(t, err)
	return l
}

func letterUnreadable(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	w.Advance(time.Second)
	w.writes(t, s, nil, func() { w.park(t, s, letter(1, nil)) })
	want := letter(1, nil)
	want.Sale, want.State, want.ParkedAt = s.Number, ledger.LetterOpen, w.now(t)
	require.Equal(t, want, w.letter(t, want.ID))
	w.reopen(t)
	require.Equal(t, want, w.letter(t, want.ID))
	_, err := w.ledger.Letter(t.Context(), ledger.LetterID{9})
	requireCode(t, sale.CodeLetterNotFound, err)
	require.Error(t, w.ledger.Park(t.Context(), 0, []ledger.Letter{letter(2, nil)}))
	requireCode(t, sale.CodeSaleNotFound, w.ledger.Park(t.Context(), 4711, []ledger.Letter{letter(2, nil)}))
	require.NoError(t, w.ledger.Park(t.Context(), s.Number, nil))
}

func letterRejected(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 2))
	a.SKU, a.Expected = "shoe-42", &ledger.Money{Amount: 1}
	w.Advance(time.Second)
	w.writes(t, s, []ledger.Kind{"order.rejected"}, func() { w.park(t, s, letter(1, &a), letter(2, nil)) })
	want := sale.Order{
		ID: a.ID, Slug: s.Slug, User: "ann", SKU: "shoe-42", Quantity: 2, Terms: 1, Currency: "EUR", State: sale.Rejected,
		Epoch: s.Epoch, Version: 1, ReservedAt: w.now(t), EndedAt: w.now(t), Reason: sale.RejectedSlip,
	}
	require.Equal(t, want, w.order(t, a.ID))
	kept := w.letter(t, ledger.LetterID{1})
	expected := presented(a)
	expected.Expected = nil
	require.Equal(t, &expected, kept.Attempt, "who replays it presents it")
	require.False(t, a.Slip.Presented, "the caller's is left alone")
	w.writes(t, s, []ledger.Kind{ledger.KindLaneReturn}, func() { require.Equal(t, want, w.try(t, s, a).Order) })
	require.Equal(t, int64(10), w.left(t, s))
}

func letterKnown(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 1))
	o := w.judged(t, s, a)
	w.writes(t, s, nil, func() { w.park(t, s, letter(1, &a)) })
	require.Equal(t, o, w.order(t, a.ID), "another copy of the slip was judged")
	foreign := a
	foreign.ID[0]++
	bare := click(s, "bob", "k", 1)
	w.writes(t, s, nil, func() { w.park(t, s, letter(2, &foreign), letter(3, &bare)) })
	require.Nil(t, w.letter(t, ledger.LetterID{2}).Attempt, "it is none of this sale's")
	require.Nil(t, w.letter(t, ledger.LetterID{3}).Attempt, "without a slip nobody took it")
}

func letterRefused(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	w.Faults.Refuse(t, "bad")
	ok, bad, none := w.slip(t, s, click(s, "ann", "k", 1)), w.slip(t, s, click(s, "bad", "k", 2)), w.slip(t, s, click(s, "bob", "k", 0))
	w.writes(t, s, []ledger.Kind{"order.rejected", ledger.KindLaneReturn, ledger.KindLaneReturn}, func() {
		w.park(t, s, letter(1, nil), letter(2, &ok), letter(3, &bad), letter(4, &none))
	})
	w.writes(t, s, nil, func() { w.park(t, s, letter(4, &none), letter(3, &bad), letter(2, &ok), letter(1, nil)) })
	for n := range byte(4) {
		require.Equal(t, ledger.LetterOpen, w.letter(t, ledger.LetterID{n + 1}).State)
	}
	require.Equal(t, sale.Rejected, w.order(t, ok.ID).State)
	at := w.now(t)
	w.Advance(time.Hour)
	require.Equal(t, sale.Order{
		ID: bad.ID, Slug: s.Slug, User: "bad", Quantity: 2, Terms: 1, Currency: "EUR", State: sale.Rejected,
		Epoch: s.Epoch, Version: 1, ReservedAt: at, EndedAt: at, Reason: sale.RejectedSlip,
	}, w.order(t, bad.ID), "the buyer is told, though no row could be")
	found, err := w.ledger.OrdersByID(t.Context(), []sale.OrderID{bad.ID, none.ID})
	require.NoError(t, err)
	require.Empty(t, found)
	rows := w.rowsOf(t, s)
	require.Equal(t, bad.ID, rows[len(rows)-2].Order)
	require.JSONEq(t, fmt.Sprintf(`{"user":"bad","item":"shoe-42","quantity":2,"taken_at":%d}`, at.UnixMilli()), string(rows[len(rows)-2].Body))
	_, err = w.ledger.Order(t.Context(), s.OrderID("bad", "l"))
	requireCode(t, sale.CodeOrderNotFound, err)
}

// letterReplayed: an operator has mended what refused the order, here by asking for
// another quantity.
func letterReplayed(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a := w.slip(t, s, click(s, "ann", "k", 0))
	w.park(t, s, letter(1, &a))
	again := *w.letter(t, ledger.LetterID{1}).Attempt
	again.Quantity = 1
	w.writes(t, s, []ledger.Kind{"order.reserved", ledger.KindLaneAdopt}, func() {
		o := w.judged(t, s, again)
		require.Equal(t, sale.Reserved, o.State, "the order there is goes before the letter")
	})
}

func letterOnce(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	a, b := w.slip(t, s, click(s, "ann", "k", 1)), w.slip(t, s, click(s, "bob", "k", 1))
	twin := letter(1, &a)
	twin.Cause = "told in other words"
	w.writes(t, s, []ledger.Kind{"order.rejected"}, func() { w.park(t, s, letter(1, &a), twin) })
	// The lane may have taken ann's order a second time: what it took for nothing goes back.
	w.writes(t, s, []ledger.Kind{"order.rejected", ledger.KindLaneReturn}, func() { w.park(t, s, letter(2, &b), letter(3, &a)) })
	before := w.dump(t)
	w.Advance(time.Second)
	w.park(t, s, letter(3, &a), letter(1, nil), letter(2, &b))
	require.Equal(t, before, w.dump(t))
	require.Equal(t, "it cannot be read", w.letter(t, ledger.LetterID{1}).Cause)
	together(t, 6, func(ctx context.Context, i int) error {
		return w.ledger.Park(ctx, s.Number, []ledger.Letter{letter(byte(10+i%2), nil), letter(byte(10+(i+1)%2), nil)})
	})
	list, err := w.ledger.ListLetters(t.Context(), ledger.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, list, 5)
}

func letterBytes(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	all := make([]byte, ledger.MaxRaw+3)
	for i := range all {
		all[i] = byte(i)
	}
	raws := map[byte][]byte{1: all, 2: nil, 3: []byte("\x00"), 4: []byte("\xff\xfe'\";--")}
	for n, raw := range raws {
		l := letter(n, nil)
		l.Raw = raw
		w.park(t, s, l)
		require.Equal(t, append([]byte(nil), raw[:min(len(raw), ledger.MaxRaw)]...), w.letter(t, l.ID).Raw, "letter %d", n)
	}
}

func letterClosed(t *testing.T, w *world) {
	s := w.openFast(t, nil)
	w.park(t, s, letter(1, nil), letter(2, nil))
	w.Advance(time.Second)
	want := w.letter(t, ledger.LetterID{1})
	want.State, want.ClosedAt = ledger.LetterReplayed, w.now(t)
	w.writes(t, s, nil, func() {
		for _, state := range []ledger.LetterState{ledger.LetterReplayed, ledger.LetterDropped} {
			after, err := w.ledger.CloseLetter(t.Context(), want.ID, state)
			require.NoError(t, err)
			require.Equal(t, want, after)
			require.Equal(t, want, w.letter(t, want.ID))
			w.Advance(time.Second)
		}
		w.park(t, s, letter(1, nil))
		require.Equal(t, want, w.letter(t, want.ID), "parked again it stays closed")
	})
	for _, state := range []ledger.LetterState{ledger.LetterOpen, "", "burnt"} {
		_, err := w.ledger.CloseLetter(t.Context(), ledger.LetterID{2}, state)
		requireCode(t, sale.CodeInvalid, err)
	}
	_, err := w.ledger.CloseLetter(t.Context(), ledger.LetterID{9}, ledger.LetterDropped)
	requireCode(t, sale.CodeLetterNotFound, err)
}

func letterLists(t *testing.T, w *world) {
	a, b := w.openFast(t, nil), w.openFast(t, nil)
	list := func(f ledger.LetterFilter) []byte {
		t.Helper()
		found, err := w.ledger.ListLetters(t.Context(), f)
		require.NoError(t, err)
		out := make([]byte, 0, len(found))
		for i := range found {
			require.Equal(t, w.letter(t, found[i].ID), found[i])
			out = append(out, found[i].ID[0])
		}
		return out
	}
	require.Empty(t, list(ledger.LetterFilter{}))
	order := []byte{7, 3, 9, 1, 8, 2}
	for i, n := range order {
		w.park(t, []sale.Sale{a, b}[i%2], letter(n, nil))
	}
	for _, n := range []byte{9, 8} {
		_, err := w.ledger.CloseLetter(t.Context(), ledger.LetterID{n}, ledger.LetterDropped)
		require.NoError(t, err)
	}
	require.Equal(t, order, list(ledger.LetterFilter{}))
	require.Equal(t, []byte{7, 9, 8}, list(ledger.LetterFilter{Sale: a.Number}))
	require.Equal(t, []byte{7, 3, 1, 2}, list(ledger.LetterFilter{State: ledger.LetterOpen}))
	require.Equal(t, []byte{9, 8}, list(ledger.LetterFilter{Sale: a.Number, State: ledger.LetterDropped}))
	require.Empty(t, list(ledger.LetterFilter{Sale: b.Number, State: ledger.LetterDropped}))
	for _, f := range []ledger.LetterFilter{{}, {Sale: a.Number}, {State: ledger.LetterOpen}, {Sale: b.Number, State: ledger.LetterOpen}} {
		whole := list(f)
		var paged []byte
		for f.Limit = 2; ; f.After = (ledger.LetterID{paged[len(paged)-1]}) {
			page := list(f)
			paged = append(paged, page...)
			if len(page) < 2 {
				break
			}
		}
		require.Equal(t, whole, paged)
		require.False(t, slices.Contains(paged, 0))
	}
}
