package stocktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// lossCases: every call may be sent again after its reply was lost.
func lossCases() []testCase {
	lose := func(w *World) bool { return w.Faults.LoseReply != nil }
	return []testCase{
		{name: "Lost/the reply of a take", run: lostTake, needs: lose},
		{name: "Lost/the replies of acts", run: lostActs, needs: lose},
		{name: "Lost/the replies of a build", run: lostBuild, needs: lose},
		{name: "Lost/the replies of the tray", run: lostTray, needs: lose},
		{name: "Lost/the caller is gone", run: lostCaller},
	}
}

// again makes a call whose reply gets lost, sees that the lane's sequence number
// has moved so many times, and makes the same call again.
func (w *world) again(t *testing.T, moves uint64, call func() error) {
	t.Helper()
	before := w.read(t).Seq
	end := w.Faults.LoseReply()
	err := call()
	end()
	require.ErrorIs(t, err, stock.ErrUnavailable)
	require.Equal(t, before+moves, w.read(t).Seq, "it has happened all the same, once")
	require.NoError(t, call())
}

func lostTake(t *testing.T, w *world) {
	w.open(t, nil)
	c := w.call(t, w.click("ann", "k", 2), w.click("bob", "k", 1), w.click("cid", "k", 3))
	var r stock.Reply
	w.again(t, 1, func() (err error) {
		r, err = w.Counter.Take(t.Context(), c)
		return err
	})
	require.Equal(t, []sale.Verdict{sale.Replayed, sale.Replayed, sale.BadQuantity}, verdicts(r.Results))
	require.Equal(t, int64(7), w.left(t))
	require.Len(t, w.slips(t, w.look(t)), 2)
}

func lostActs(t *testing.T, w *world) {
	s := w.open(t, nil)
	o, other := w.buy(t, "ann", "k", 2), w.buy(t, "bob", "k", 1)
	w.again(t, 1, func() error {
		return w.Counter.Return(t.Context(), w.Lane, w.epoch, []stock.Act{giveBack(0, o, "ann")})
	})
	require.Equal(t, int64(9), w.left(t))
	w.again(t, 1, func() error {
		_, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{
			Epoch: w.epoch, From: 5, To: 8, Acts: []stock.Act{giveBack(6, other, "bob"), adopt(7, o, "ann"), adopt(8, other, "bob")},
		})
		return err
	})
	require.Equal(t, int64(7), w.left(t))
	s.Version, s.Stock = 2, []int64{20}
	w.again(t, 1, func() error {
		_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
		return err
	})
	require.Equal(t, int64(17), w.left(t))
}

func lostBuild(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 2)
	const token = 9
	w.again(t, 1, func() error {
		_, err := w.Counter.Freeze(t.Context(), w.Lane, token)
		return err
	})
	acts := []stock.Act{{ID: w.id("ann", "k"), User: "ann", Quantity: 2, Counted: 2}}
	w.again(t, 1, func() error { return w.Counter.Load(t.Context(), w.Lane, token, acts) })
	s := w.setting(t)
	s.Left = []int64{8}
	w.again(t, 1, func() error { return w.Counter.Set(t.Context(), w.Lane, token, s) })
	w.again(t, 1, func() error { return w.Counter.Unfreeze(t.Context(), w.Lane, token) })
	w.epoch = token
	require.Len(t, w.records(t, "ann"), 1)
	require.Equal(t, sale.Replayed, w.try(t, w.click("ann", "k", 2)).Verdict)
	require.Equal(t, int64(8), w.left(t))
	w.freeze(t, 10)
	w.done(t, w.look(t)...)
	end := w.Faults.LoseReply()
	require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, 10), stock.ErrUnavailable)
	end()
	require.Equal(t, stock.Cold, w.read(t).State)
	require.NoError(t, w.Counter.Clear(t.Context(), w.Lane, 10))
}

func lostTray(t *testing.T, w *world) {
	w.fill(t, 4)
	end := w.Faults.LoseReply()
	_, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 2})
	end()
	require.ErrorIs(t, err, stock.ErrUnavailable)
	require.Len(t, w.claim(t, "c", 10), 2, "the first two went to the one that did not hear of it")
	end = w.Faults.LoseReply()
	_, err = w.Counter.TakeOver(t.Context(), w.Lane, "d", 0, 10)
	end()
	require.ErrorIs(t, err, stock.ErrUnavailable)
	entries := w.takeOver(t, "c", 0, 10)
	require.Len(t, entries, 4)
	w.again(t, 1, func() error { return w.Counter.Done(t.Context(), w.Lane, entries[:3]) })
	require.Equal(t, int64(1), w.read(t).Queued)
	w.again(t, 0, func() error { return w.Counter.Retire(t.Context(), w.Lane, "d") })
}

func lostCaller(t *testing.T, w *world) {
	w.open(t, nil)
	before := w.read(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Counter.Take(ctx, w.call(t, w.click("ann", "k", 1)))
	require.ErrorIs(t, err, stock.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.Counter.Read(ctx, w.Lane)
	require.ErrorIs(t, err, stock.ErrUnavailable)
	require.Equal(t, before, w.read(t))
}

// spoilCases: what is not what it should be moves nothing.
func spoilCases() []testCase {
	spoil := func(w *World) bool { return w.Faults.Spoil != nil }
	return []testCase{
		{name: "Spoilt/meta", run: spoilt(PartMeta), needs: spoil},
		{name: "Spoilt/tray", run: spoilt(PartTray), needs: spoil},
		{name: "Spoilt/buyers", run: spoilt(PartBuyers), needs: spoil},
	}
}

// spoilt makes every change while one part of the lane is of another kind: each
// that needs the part fails, and none moves anything.
func spoilt(part Part) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		s := w.open(t, nil)
		o := w.buy(t, "ann", "k", 1)
		entries := w.claim(t, "c", 1)
		ctx, l := t.Context(), w.Lane
		rules := s.Rules
		rules.Version = 2
		click := w.call(t, w.click("bob", "k", 1))
		calls := map[string]func() error{
			"take": func() error {
				_, err := w.Counter.Take(ctx, click)
				return err
			},
			"apply": func() error {
				_, err := w.Counter.Apply(ctx, l, stock.Acts{Epoch: w.epoch, From: 5, To: 6, Acts: []stock.Act{giveBack(6, o, "ann")}})
				return err
			},
			"return": func() error { return w.Counter.Return(ctx, l, w.epoch, []stock.Act{giveBack(0, o, "ann")}) },
			"done":   func() error { return w.Counter.Done(ctx, l, entries) },
			"freeze": func() error {
				_, err := w.Counter.Freeze(ctx, l, 9)
				return err
			},
			"sync": func() error {
				_, err := w.Counter.Sync(ctx, l, w.epoch, rules)
				return err
			},
			"offset": func() error { return w.Counter.SetOffset(ctx, l, w.epoch, time.Second) },
			"give": func() error {
				_, err := w.Counter.Give(ctx, l, stock.Transfer{Epoch: w.epoch, From: l.Index, To: l.Index + 1, Number: 1, Units: 1})
				return err
			},
			"receive": func() error {
				return w.Counter.Receive(ctx, l, stock.Transfer{Epoch: w.epoch, From: l.Index + 1, To: l.Index, Number: 1, Units: 1})
			},
			"want":     func() error { return w.Counter.Want(ctx, l, w.epoch, time.Hour) },
			"load":     func() error { return w.Counter.Load(ctx, l, 9, []stock.Act{giveBack(0, o, "ann")}) },
			"set":      func() error { return w.Counter.Set(ctx, l, 9, s) },
			"unfreeze": func() error { return w.Counter.Unfreeze(ctx, l, 9) },
			"clear":    func() error { return w.Counter.Clear(ctx, l, 9) },
			"claim": func() error {
				_, err := w.Counter.Claim(ctx, l, stock.Claim{Consumer: "d", Max: 1})
				return err
			},
			"records": func() error {
				_, err := w.Counter.Records(ctx, l, "ann")
				return err
			},
			"holders": func() error {
				_, err := w.Counter.Holders(ctx, l)
				return err
			},
		}
		needs := map[Part][]string{
			PartMeta: {"take", "apply", "return", "done", "freeze", "sync", "offset", "give", "receive", "want", "load", "set", "unfreeze", "clear", "records", "holders"},
			PartTray: {"take", "done", "freeze", "claim"}, PartBuyers: {"take", "apply", "return", "records", "holders"},
		}
		before, held := w.read(t), w.look(t)
		mend := w.Faults.Spoil(t, part, w.epoch)
		for _, name := range needs[part] {
			require.ErrorIs(t, calls[name](), stock.ErrUnavailable, name)
		}
		mend()
		require.Equal(t, before, w.read(t))
		require.Equal(t, held, w.look(t))
		require.Equal(t, []stock.Record{o}, w.records(t, "ann"))
		require.Empty(t, w.records(t, "bob"))
		require.Equal(t, entries, w.takeOver(t, "c", 0, 10))
		w.buy(t, "bob", "k", 1)
	}
}
