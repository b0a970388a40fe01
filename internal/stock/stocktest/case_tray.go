package stocktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// trayCases: the queue of slips.
func trayCases() []testCase {
	trim := func(w *World) bool { return w.Faults.Trim != nil }
	plant := func(w *World) bool { return w.Faults.Plant != nil }
	return []testCase{
		{name: "Tray/claimed once", run: trayClaim},
		{name: "Tray/waiting for the first", run: trayWait},
		{name: "Tray/a dead consumer", run: trayTakeOver},
		{name: "Tray/many entries to take over", run: trayTakeMany},
		{name: "Tray/looking", run: trayLook},
		{name: "Tray/done twice", run: trayDone},
		{name: "Tray/entries deleted while claimed", run: trayTrimmed, needs: trim},
		{name: "Tray/entries that nobody of ours wrote", run: trayPlanted, needs: plant},
		{name: "Tray/the number of slips heals", run: trayHeals, needs: plant},
		{name: "Tray/consumers that retire", run: trayRetire},
		{name: "Tray/a slow worker wakes", run: traySlow},
	}
}

func (w *world) claim(t *testing.T, consumer string, limit int) []stock.Entry {
	t.Helper()
	out, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: consumer, Max: limit})
	require.NoError(t, err)
	return out
}

func (w *world) takeOver(t *testing.T, consumer string, idle time.Duration, limit int) []stock.Entry {
	t.Helper()
	out, err := w.Counter.TakeOver(t.Context(), w.Lane, consumer, idle, limit)
	require.NoError(t, err)
	return out
}

func (w *world) done(t *testing.T, entries ...stock.Entry) {
	t.Helper()
	require.NoError(t, w.Counter.Done(t.Context(), w.Lane, entries))
}

// fill opens the lane and leaves so many entries in the tray.
func (w *world) fill(t *testing.T, entries int) {
	t.Helper()
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{1000}, []int64{1000} })
	for i := range entries {
		w.buy(t, name("u", i), "k", 1)
	}
}

func ids(entries []stock.Entry) []string {
	out := make([]string, len(entries))
	for i := range entries {
		out[i] = entries[i].ID
	}
	return out
}

func trayClaim(t *testing.T, w *world) {
	w.fill(t, 5)
	first := w.claim(t, "one", 2)
	require.Len(t, first, 2)
	second := w.claim(t, "two", 10)
	require.Len(t, second, 3)
	require.Equal(t, ids(w.look(t)), append(ids(first), ids(second)...), "in order, nothing twice")
	require.Equal(t, "u0", w.slips(t, first)[0].User)
	require.Nil(t, w.claim(t, "one", 10))
	w.buy(t, "late", "k", 1)
	require.Equal(t, "late", w.slips(t, w.claim(t, "one", 10))[0].User)
	require.Equal(t, int64(6), w.read(t).Queued, "claimed is not done")
}

func trayWait(t *testing.T, w *world) {
	w.fill(t, 0)
	type claimed struct {
		entries []stock.Entry
		err     error
	}
	out := make(chan claimed, 1)
	go func() {
		entries, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 9, Wait: time.Minute})
		out <- claimed{entries, err}
	}()
	w.buy(t, "ann", "k", 1)
	got := <-out
	require.NoError(t, got.err)
	require.Equal(t, "ann", w.slips(t, got.entries)[0].User)

	entries, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 9, Wait: 5 * time.Millisecond})
	require.NoError(t, err)
	require.Nil(t, entries)

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		entries, err := w.Counter.Claim(ctx, w.Lane, stock.Claim{Consumer: "c", Max: 9, Wait: time.Minute})
		out <- claimed{entries, err}
	}()
	cancel()
	got = <-out
	require.ErrorIs(t, got.err, stock.ErrUnavailable)
	require.ErrorIs(t, got.err, context.Canceled)
}

func trayTakeOver(t *testing.T, w *world) {
	w.fill(t, 4)
	dead := w.claim(t, "dead", 3)
	require.Nil(t, w.takeOver(t, "heir", time.Hour, 10), "it may still be at work")
	first := w.takeOver(t, "heir", 0, 2)
	require.Equal(t, dead[:2], first)
	all := w.takeOver(t, "heir", 0, 10)
	require.Equal(t, dead, all, "one's own, too; what nobody claimed is not taken over")
	w.done(t, all...)
	require.Nil(t, w.takeOver(t, "heir", 0, 10))
	require.Equal(t, int64(1), w.read(t).Queued)
	require.Len(t, w.claim(t, "heir", 10), 1)
}

func trayTakeMany(t *testing.T, w *world) {
	w.fill(t, 60)
	dead := w.claim(t, "dead", 60)
	w.done(t, dead[10:40]...)
	require.Equal(t, ids(dead[:7]), ids(w.takeOver(t, "heir", 0, 7)))
	got := w.takeOver(t, "heir", 0, 100)
	require.Equal(t, append(ids(dead[:10]), ids(dead[40:])...), ids(got))
}

func trayLook(t *testing.T, w *world) {
	w.fill(t, 5)
	w.claim(t, "c", 2)
	all := w.look(t)
	require.Len(t, all, 5)
	var got []stock.Entry
	for after := ""; ; {
		page, err := w.Counter.Look(t.Context(), w.Lane, after, 2)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 2)
		got = append(got, page...)
		after = page[len(page)-1].ID
	}
	require.Equal(t, all, got)
	_, err := w.Counter.Look(t.Context(), w.Lane, "nonsense", 2)
	require.ErrorIs(t, err, stock.ErrInvalid)
	require.Len(t, w.claim(t, "c", 10), 3, "a look claims nothing")
}

func trayDone(t *testing.T, w *world) {
	w.fill(t, 2)
	w.take(t, w.click("ann", "k", 1), w.click("bob", "k", 1), w.click("cid", "k", 1))
	entries := w.claim(t, "c", 10)
	require.Equal(t, int64(5), w.read(t).Queued)
	w.done(t, entries[2])
	before := w.read(t)
	require.Equal(t, int64(2), before.Queued)
	w.done(t, entries[2])
	require.Equal(t, before, w.read(t), "repeated, it changes nothing")
	w.done(t)
	require.ErrorIs(t, w.Counter.Done(t.Context(), w.Lane, []stock.Entry{{ID: "nonsense"}}), stock.ErrInvalid)
	require.Equal(t, before, w.read(t))
	w.done(t, entries...)
	require.Zero(t, w.read(t).Queued)
	require.Empty(t, w.look(t))

	w.buy(t, "dan", "k", 1)
	w.done(t, w.look(t)...) // never claimed, as by a drain
	require.Zero(t, w.read(t).Queued)
	require.Nil(t, w.claim(t, "c", 10))
}

func trayTrimmed(t *testing.T, w *world) {
	w.fill(t, 3)
	w.planted = true
	entries := w.claim(t, "dead", 3)
	w.Faults.Trim(t, entries[1].ID)
	got := w.takeOver(t, "heir", 0, 10)
	require.Equal(t, ids(entries), ids(got))
	require.Nil(t, got[1].Fields, "nothing is left to judge")
	require.NotNil(t, got[0].Fields)
	w.done(t, got...)
	require.Nil(t, w.takeOver(t, "heir", 0, 10))
	require.Zero(t, w.read(t).Queued)
}

func trayPlanted(t *testing.T, w *world) {
	w.fill(t, 1)
	w.planted = true
	poison := []map[string]string{
		{"x": "y"},
		{stock.FieldVersion: "9", stock.FieldSlips: "zzz"},
		{stock.FieldVersion: "1", stock.FieldEpoch: "one", stock.FieldTerms: "1", stock.FieldAsked: "1", stock.FieldTaken: "1", stock.FieldSlips: "zzz"},
		{stock.FieldVersion: "1", stock.FieldEpoch: "1", stock.FieldTerms: "1", stock.FieldAsked: "1", stock.FieldTaken: "1", stock.FieldSlips: "zzz"},
	}
	for _, fields := range poison {
		w.Faults.Plant(t, fields)
	}
	forged := stock.Slip{ID: w.id("eve", "k"), User: "eve", Quantity: 1, Epoch: w.epoch, Terms: w.terms}
	w.Faults.Plant(t, map[string]string{
		stock.FieldVersion: "1", stock.FieldEpoch: decimal(w.epoch), stock.FieldTerms: decimal(w.terms), stock.FieldAsked: decimal(w.now(t).UnixMilli()),
		stock.FieldTaken: decimal(w.now(t).UnixMilli()), stock.FieldSlips: string(stock.AppendSlip(nil, &forged)),
	})
	entries := w.claim(t, "c", 10)
	require.Len(t, entries, 6)
	for i, fields := range poison {
		require.Equal(t, fields, entries[1+i].Fields)
		_, err := stock.ReadSlips(w.Lane.Sale, &entries[1+i])
		require.ErrorIs(t, err, stock.ErrUnreadable)
	}
	slips, err := stock.ReadSlips(w.Lane.Sale, &entries[5])
	require.NoError(t, err)
	require.False(t, w.signer.Check(&slips[0]), "write access mints no orders")
	w.done(t, entries[1:5]...)
	require.Equal(t, int64(1), w.read(t).Queued)
	w.done(t, entries...)
	require.Zero(t, w.read(t).Queued)
}

func trayHeals(t *testing.T, w *world) {
	w.fill(t, 3)
	w.planted = true
	forged := stock.AppendSlip(nil, &stock.Slip{ID: w.id("eve", "k"), User: "eve", Quantity: 1})
	w.Faults.Plant(t, map[string]string{stock.FieldSlips: string(append(forged, forged...))})
	entries := w.claim(t, "c", 10)
	w.done(t, entries[3])
	require.Equal(t, int64(1), w.read(t).Queued, "too low, by what was never counted")
	w.done(t, entries[:2]...)
	require.Zero(t, w.read(t).Queued, "never below zero")
	w.buy(t, "late", "k", 1)
	w.done(t, w.look(t)...)
	require.Zero(t, w.read(t).Queued)
	w.planted = false
	w.buy(t, "later", "k", 1)
}

func trayRetire(t *testing.T, w *world) {
	w.fill(t, 2)
	entries := w.claim(t, "busy", 2)
	require.NoError(t, w.Counter.Retire(t.Context(), w.Lane, "busy"))
	require.Equal(t, entries, w.takeOver(t, "heir", 0, 10), "a consumer with claims stays, and so do they")
	require.NoError(t, w.Counter.Retire(t.Context(), w.Lane, "busy"))
	require.NoError(t, w.Counter.Retire(t.Context(), w.Lane, "heir"))
	require.NoError(t, w.Counter.Retire(t.Context(), w.Lane, "never was"))
	w.done(t, entries...)
	require.NoError(t, w.Counter.Retire(t.Context(), w.Lane, "heir"))
	w.buy(t, "late", "k", 1)
	require.Len(t, w.claim(t, "heir", 10), 1, "it may come back")

	other := w.Lane
	other.Salt++
	require.NoError(t, w.Counter.Retire(t.Context(), other, "c"))
	_, err := w.Counter.TakeOver(t.Context(), other, "c", 0, 1)
	require.ErrorIs(t, err, stock.ErrCold)
	_, err = w.Counter.Claim(t.Context(), other, stock.Claim{Consumer: "c", Max: 1, Wait: time.Minute})
	require.ErrorIs(t, err, stock.ErrCold)
	require.NoError(t, w.Counter.Done(t.Context(), other, entries))
}

func traySlow(t *testing.T, w *world) {
	w.fill(t, 2)
	slow := w.claim(t, "slow", 2)
	w.done(t, w.takeOver(t, "quick", 0, 2)...)
	w.buy(t, "late", "k", 1)
	before := w.read(t)
	w.done(t, slow...)
	require.Equal(t, before, w.read(t), "it wakes and changes nothing")
}

// newsCases: messages between instances.
func newsCases() []testCase {
	return []testCase{{name: "News/told and heard", run: newsHeard}}
}

func newsHeard(t *testing.T, w *world) {
	const listeners, many = 2, 1500
	heard := make([]chan stock.Message, listeners)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, listeners)
	for i := range heard {
		heard[i] = make(chan stock.Message, 100)
		go func() {
			ended <- w.Counter.Listen(ctx, func(m stock.Message) {
				if m.Kind == stock.KindGap || m.Sale == w.Lane.Sale {
					heard[i] <- m
				}
			})
		}()
	}
	for _, ears := range heard {
		require.Equal(t, stock.KindGap, (<-ears).Kind, "from here on")
	}
	m := stock.Message{Kind: stock.KindJudged, Sale: w.Lane.Sale}
	for i := range many {
		m.IDs = append(m.IDs, w.id("ann", name("k", i)))
	}
	again := stock.Message{Kind: stock.KindSellsAgain, Sale: w.Lane.Sale}
	require.NoError(t, w.Counter.Tell(t.Context(), m))
	require.NoError(t, w.Counter.Tell(t.Context(), again))
	require.NoError(t, w.Counter.Tell(t.Context(), stock.Message{Kind: stock.KindJudged, Sale: w.Lane.Sale, IDs: m.IDs[:1]}))
	for _, ears := range heard {
		// In any order, and with beginnings in between where listeners share a
		// connection.
		var judged []sale.OrderID
		for sells := 0; sells == 0 || len(judged) < many+1; {
			switch part := <-ears; part.Kind {
			case stock.KindJudged:
				judged = append(judged, part.IDs...)
			case stock.KindSellsAgain:
				require.Equal(t, again, part)
				sells++
			case stock.KindGap:
			}
		}
		require.ElementsMatch(t, append(slices.Clone(m.IDs), m.IDs[0]), judged)
	}
	cancel()
	for range listeners {
		require.NoError(t, <-ended)
	}
}
