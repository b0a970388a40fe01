package stocktest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// mirrorCases: what the ledger did reaches the lane, once.
func mirrorCases() []testCase {
	return []testCase{
		{name: "Apply/returns", run: applyReturns},
		{name: "Apply/adopts", run: applyAdopts},
		{name: "Apply/adopts on tombstones", run: applyRevive},
		{name: "Apply/several acts of one user in one call", run: applyFolded},
		{name: "Apply/below zero", run: applyBelowZero},
		{name: "Apply/from another place", run: applyElsewhere},
		{name: "Apply/two appliers", run: applyTwo},
		{name: "Apply/a long stretch", run: applyLong},
		{name: "Apply/many acts of one row", run: applyRow},
		{name: "Return/ahead of the journal", run: returnAhead},
		{name: "Return/many", run: returnMany},
	}
}

func applyReturns(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{2}, []int64{2} })
	o := w.buy(t, "ann", "k", 2)
	w.refuse(t, w.click("bob", "k", 1), sale.SoldOut)
	before := w.read(t)
	w.apply(t, giveBack(0, o, "ann"))
	after := w.read(t)
	require.Equal(t, before.Generation+1, after.Generation)
	require.Equal(t, before.Seq+1, after.Seq)
	require.Equal(t, []int64{2, 2}, []int64{after.Taken, after.Returned})
	require.Equal(t, []int64{2}, after.Left)

	w.apply(t, giveBack(0, o, "ann"), giveBack(0, stock.Record{ID: w.id("ann", "never")}, "ann"), giveBack(0, stock.Record{ID: w.id("nobody", "k")}, "nobody"))
	again := w.read(t)
	require.Equal(t, after.Generation, again.Generation, "nothing came back")
	require.Equal(t, after.Left, again.Left)
	require.Equal(t, after.Returned, again.Returned)
	require.Equal(t, []stock.Record{{ID: o.ID, TakenAt: o.TakenAt}}, w.records(t, "ann"))
	require.Empty(t, w.records(t, "nobody"))
	w.buy(t, "bob", "k", 2)
}

func applyAdopts(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{5, 5}, []int64{5, 5} })
	held := w.buy(t, "bob", "k", 1)
	late := stock.Record{ID: w.id("ann", "late"), Item: 1, Quantity: 2, Counted: 2, TakenAt: s.StartsAt.Add(time.Second)}
	before := w.read(t)
	w.apply(t, adopt(0, late, "ann"))
	require.Equal(t, []stock.Record{late}, w.records(t, "ann"))
	after := w.read(t)
	require.Equal(t, []int64{4, 3}, after.Left)
	require.Equal(t, before.Generation+1, after.Generation, "somebody was recorded")
	require.Equal(t, int64(3), after.Taken)
	require.Equal(t, before.Queued, after.Queued)

	w.apply(t, adopt(0, late, "ann"), adopt(0, held, "bob"))
	again := w.read(t)
	require.Equal(t, after.Left, again.Left)
	require.Equal(t, after.Generation, again.Generation)
	require.Equal(t, []stock.Record{held}, w.records(t, "bob"))
	w.refuse(t, w.click("ann", "new", 1), sale.LimitReached)
	a := w.click("ann", "late", 2)
	a.Item = 1
	require.Equal(t, sale.Replayed, w.try(t, a).Verdict)
}

func applyRevive(t *testing.T, w *world) {
	w.open(t, nil)
	first, second := w.buy(t, "ann", "1", 1), w.buy(t, "ann", "2", 1)
	w.apply(t, giveBack(0, first, "ann"))
	w.apply(t, adopt(0, first, "ann"))
	require.Equal(t, []stock.Record{first, second}, w.records(t, "ann"))
	require.Equal(t, int64(8), w.left(t))
	w.apply(t, giveBack(0, first, "ann"))
	require.Equal(t, int64(9), w.left(t))
}

func applyFolded(t *testing.T, w *world) {
	s := w.open(t, nil)
	o := w.buy(t, "ann", "1", 2)
	other := stock.Record{ID: w.id("ann", "2"), Quantity: 1, Counted: 1, TakenAt: s.StartsAt}
	cool := stock.Act{Kind: stock.ActReturn, User: "ann", CoolUntil: s.EndsAt}
	w.apply(t, giveBack(0, o, "ann"), adopt(0, other, "ann"), cool, giveBack(0, other, "ann"), adopt(0, o, "ann"), giveBack(0, o, "ann"), adopt(0, other, "ann"))
	require.Equal(t, []stock.Record{{ID: o.ID, TakenAt: o.TakenAt}, other}, w.records(t, "ann"))
	got := w.read(t)
	require.Equal(t, []int64{9}, got.Left)
	require.Equal(t, []int64{6, 5}, []int64{got.Taken, got.Returned})
	w.refuse(t, w.click("ann", "3", 1), sale.CoolDown)
}

func applyBelowZero(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{1}, []int64{1} })
	w.buy(t, "ann", "k", 1)
	late := stock.Record{ID: w.id("bob", "late"), Quantity: 2, Counted: 2, TakenAt: w.now(t)}
	w.apply(t, adopt(0, late, "bob"))
	require.Equal(t, int64(-2), w.left(t))
	r := w.take(t, w.click("cid", "k", 1), w.click("dan", "k", 2))
	require.Equal(t, []sale.Verdict{sale.SoldOut, sale.SoldOut}, verdicts(r.Results))
	require.Equal(t, []int64{0}, r.Left)
	require.Zero(t, r.Results[0].Left)
	w.apply(t, giveBack(0, late, "bob"))
	require.Equal(t, int64(0), w.left(t))
	w.refuse(t, w.click("cid", "k", 1), sale.SoldOut)
}

func applyElsewhere(t *testing.T, w *world) {
	w.open(t, nil)
	o := w.buy(t, "ann", "k", 1)
	before := w.read(t)
	send := func(epoch int64, from, to uint64) (uint64, error) {
		return w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: epoch, From: from, To: to, Acts: []stock.Act{giveBack(to, o, "ann")}})
	}
	for _, at := range [][2]uint64{{4, 6}, {6, 7}, {0, 1}} {
		applied, err := send(w.epoch, at[0], at[1])
		require.NoError(t, err)
		require.Equal(t, uint64(5), applied)
	}
	_, err := send(w.epoch+1, 5, 6)
	require.ErrorIs(t, err, stock.ErrEpoch)
	require.ErrorIs(t, w.Counter.Return(t.Context(), w.Lane, w.epoch+1, []stock.Act{giveBack(0, o, "ann")}), stock.ErrEpoch)
	applied, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: 5, To: 5})
	require.NoError(t, err)
	require.Equal(t, uint64(5), applied)
	require.Equal(t, before, w.read(t))
	applied, err = w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: 5, To: 9})
	require.NoError(t, err)
	require.Equal(t, uint64(9), applied, "rows that are not for the lane count too")
}

func applyTwo(t *testing.T, w *world) {
	const orders = 40
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{orders}, []int64{orders} })
	journal := make([]stock.Act, 0, 3*orders)
	for i := range orders {
		o := w.buy(t, name("u", i), "k", 1)
		journal = append(journal, giveBack(0, o, name("u", i)), adopt(0, o, name("u", i)), giveBack(0, o, name("u", i)))
	}
	for i := range journal {
		journal[i].Seq = 6 + uint64(i)
	}
	var appliers sync.WaitGroup
	for range 3 {
		appliers.Go(func() {
			for at := uint64(5); at < 5+uint64(len(journal)); {
				to := min(at+7, 5+uint64(len(journal)))
				applied, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: at, To: to, Acts: journal[at-5 : to-5]})
				if err != nil {
					t.Error(err)
					return
				}
				at = applied
			}
		})
	}
	appliers.Wait()
	got := w.read(t)
	require.Equal(t, []int64{2 * orders, 2 * orders}, []int64{got.Taken, got.Returned})
	require.Equal(t, []int64{orders}, got.Left)
	require.Equal(t, 5+uint64(len(journal)), got.Applied)
}

func applyLong(t *testing.T, w *world) {
	const orders = 2500
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{orders}, []int64{orders} })
	acts := make([]stock.Act, 0, orders)
	for i := range orders {
		user := name("u", i)
		acts = append(acts, adopt(0, stock.Record{ID: w.id(user, "k"), Quantity: 1, TakenAt: w.now(t)}, user))
	}
	w.apply(t, acts...)
	got := w.read(t)
	require.Equal(t, []int64{0}, got.Left)
	require.Equal(t, uint64(5+orders), got.Applied)
	holders, err := w.Counter.Holders(t.Context(), w.Lane)
	require.NoError(t, err)
	require.Len(t, holders.Hashes, orders)
	w.users = map[string]bool{"u0": true, "u2499": true}
	require.Len(t, w.records(t, "u2499"), 1)
	for i := range acts {
		acts[i] = giveBack(0, stock.Record{ID: acts[i].ID}, acts[i].User)
	}
	w.apply(t, acts...)
	require.Equal(t, int64(orders), w.left(t))
	w.users = nil
}

func applyRow(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{1000}, []int64{1000} })
	const many = 700
	acts := make([]stock.Act, 0, many)
	for i := range many {
		user := name("u", i)
		a := adopt(6, stock.Record{ID: w.id(user, "k"), Quantity: 1, TakenAt: w.now(t)}, user)
		if i < 200 {
			a.Seq = 6
		} else {
			a.Seq = 7
		}
		acts = append(acts, a)
		w.users[user] = true
	}
	applied, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: 5, To: 8, Acts: acts})
	require.NoError(t, err)
	require.Equal(t, uint64(8), applied)
	require.Equal(t, int64(300), w.left(t))
}

func returnAhead(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{2}, []int64{2} })
	o, other := w.buy(t, "ann", "k", 1), w.buy(t, "bob", "k", 1)
	before := w.read(t)
	acts := []stock.Act{giveBack(0, o, "ann"), giveBack(0, stock.Record{ID: w.id("cid", "k")}, "cid")}
	for range 3 {
		require.NoError(t, w.Counter.Return(t.Context(), w.Lane, w.epoch, acts))
		got := w.read(t)
		require.Equal(t, []int64{1}, got.Left)
		require.Equal(t, before.Generation+1, got.Generation, "once")
		require.Equal(t, before.Seq+1, got.Seq)
		require.Equal(t, before.Applied, got.Applied, "the journal comes later")
	}
	w.apply(t, acts...)
	require.Equal(t, int64(1), w.left(t), "it had been given back")
	require.Equal(t, []stock.Record{other}, w.records(t, "bob"))
}

func returnMany(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.Stock, s.Left = []int64{600}, []int64{600} })
	const many = 600
	acts := make([]stock.Act, 0, many)
	for i := range many {
		user := name("u", i)
		acts = append(acts, adopt(0, stock.Record{ID: w.id(user, "k"), Quantity: 1, TakenAt: w.now(t)}, user))
	}
	w.apply(t, acts...)
	for i := range acts {
		acts[i].Kind = stock.ActReturn
	}
	require.NoError(t, w.Counter.Return(t.Context(), w.Lane, w.epoch, acts))
	require.Equal(t, int64(600), w.left(t))
}

// syncCases: the rules of the sale reach the lane.
func syncCases() []testCase {
	return []testCase{
		{name: "Sync/stock both ways", run: syncStock},
		{name: "Sync/older and equal versions", run: syncOld},
		{name: "Sync/terms and items", run: syncTerms},
	}
}

func (w *world) sync(t *testing.T, r stock.Rules) {
	t.Helper()
	version, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, r)
	require.NoError(t, err)
	require.Equal(t, r.Version, version)
}

func syncStock(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) { s.PerUserLimit = 20 })
	w.buy(t, "ann", "k", 6)
	for i, step := range []struct{ stock, left int64 }{{12, 6}, {7, 1}, {3, -3}, {0, -6}, {6, 0}, {10, 4}} {
		before := w.read(t)
		s.Version, s.Stock = int64(i)+2, []int64{step.stock}
		w.sync(t, s.Rules)
		got := w.read(t)
		require.Equal(t, []int64{step.left}, got.Left, "a total of %d", step.stock)
		require.Equal(t, []int64{step.stock}, got.Stock)
		require.Equal(t, []uint64{before.Seq + 1, before.Generation + 1}, []uint64{got.Seq, got.Generation})
		require.Equal(t, s.Version, w.take(t).Version)
	}
	w.buy(t, "bob", "k", 4)
}

func syncOld(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) { s.Version = 5 })
	before := w.read(t)
	for _, version := range []int64{5, 4, 0} {
		r := s.Rules
		r.Version, r.Stock, r.State, r.PerUserLimit = version, []int64{99}, sale.Closed, 9
		got, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, r)
		require.NoError(t, err)
		require.Equal(t, int64(5), got)
		require.Equal(t, before, w.read(t))
	}
	s.Version = 6
	_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch+1, s.Rules)
	require.ErrorIs(t, err, stock.ErrEpoch)
	require.Equal(t, before, w.read(t))
	w.buy(t, "ann", "k", 2)
}

func syncTerms(t *testing.T, w *world) {
	s := w.open(t, nil)
	w.buy(t, "ann", "1", 1)
	s.Version, s.Terms, s.Stock = 2, 4, []int64{10, 3}
	w.sync(t, s.Rules)
	require.Equal(t, stock.WrongTerms, w.send(t, w.call(t, w.click("ann", "2", 1))).State)
	w.terms = 4
	a := w.click("ann", "2", 1)
	a.Item = 1
	require.Equal(t, []int64{9, 2}, w.take(t, a).Left, "an item that was not there before")
	s.Version, s.Stock = 3, []int64{10}
	_, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
	require.ErrorIs(t, err, stock.ErrInvalid, "items do not go")
	require.Equal(t, int64(2), w.read(t).Version)
}
