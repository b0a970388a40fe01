package stocktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// buildCases: loading a lane, and builders in each other's way.
func buildCases() []testCase {
	return []testCase{
		{name: "Build/a lane comes to be", run: buildFirst},
		{name: "Build/what is loaded", run: buildLoaded},
		{name: "Build/loading again", run: buildReload},
		{name: "Build/a load is one step", run: buildStep},
		{name: "Build/the next epoch", run: buildNext},
		{name: "Build/without a setting", run: buildUnset},
		{name: "Build/a builder that was overtaken", run: buildOvertaken},
		{name: "Build/repeats", run: buildRepeats},
		{name: "Build/meta was lost", run: buildForgotten, needs: func(w *World) bool { return w.Faults.Forget != nil }},
		{name: "Build/salts stay the same", run: buildSalts},
		{name: "Clear/a lane", run: clearLane},
		{name: "Clear/only while frozen and drained", run: clearGuards},
	}
}

func (w *world) freeze(t *testing.T, token int64) stock.Standing {
	t.Helper()
	s, err := w.Counter.Freeze(t.Context(), w.Lane, token)
	require.NoError(t, err)
	require.Equal(t, s, w.read(t))
	return s
}

func buildFirst(t *testing.T, w *world) {
	s := w.freeze(t, 3)
	require.Equal(t, stock.Standing{State: stock.Frozen, FrozenBy: 3, Seq: s.Seq}, s)
	_, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 1})
	require.NoError(t, err, "the judge may begin at once")
	setting := w.setting(t)
	setting.Left = []int64{7}
	w.load(t, 3, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 2, Counted: 2}, stock.Act{ID: w.id("bob", "k"), User: "bob", Quantity: 1, Counted: 1})
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 3, setting))
	s = w.read(t)
	require.Equal(t, stock.Frozen, s.State)
	w.epoch, w.terms = 3, 1
	require.Equal(t, stock.Frozen, w.send(t, w.call(t, w.click("cid", "k", 1))).State)
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 3))
	s = w.read(t)
	require.Equal(t, stock.Standing{
		State: stock.Open, Epoch: 3, Version: 1, Applied: 5, Seq: s.Seq, Generation: s.Generation, Taken: 3,
		Stock: []int64{10}, Left: []int64{7}, Moved: []int64{0},
	}, s)
	require.Equal(t, int64(6), w.take(t, w.click("cid", "k", 1)).Left[0])
}

func buildLoaded(t *testing.T, w *world) {
	s := w.setting(t)
	at := s.StartsAt
	live := stock.Record{ID: w.id("ann", "live"), Item: 1, Quantity: 2, Counted: 2, TakenAt: at}
	dead := stock.Record{ID: w.id("ann", "dead"), TakenAt: at}
	paid := stock.Record{ID: w.id("bob", "refunded"), Counted: 2, TakenAt: at}
	act := func(r stock.Record, user string) stock.Act {
		return stock.Act{ID: r.ID, User: user, Item: r.Item, Quantity: r.Quantity, Counted: r.Counted, TakenAt: r.TakenAt}
	}
	cool := act(stock.Record{ID: w.id("cid", "k"), TakenAt: at}, "cid")
	cool.CoolUntil = s.EndsAt
	w.open(t, func(s *stock.Setting) { s.PerUserLimit, s.Stock, s.Left = 3, []int64{5, 5}, []int64{5, 3} },
		act(live, "ann"), act(dead, "ann"), act(paid, "bob"), cool, stock.Act{User: "dan", CoolUntil: s.EndsAt})
	require.Equal(t, []stock.Record{live, dead}, w.records(t, "ann"))
	require.Equal(t, []stock.Record{paid}, w.records(t, "bob"))
	for user, want := range map[string]sale.Verdict{"ann": sale.LimitReached, "bob": sale.LimitReached, "cid": sale.CoolDown, "dan": sale.CoolDown} {
		w.refuse(t, w.click(user, "new", 2), want)
	}
	require.Equal(t, sale.Replayed, w.try(t, w.click("ann", "dead", 1)).Verdict)
	holders, err := w.Counter.Holders(t.Context(), w.Lane)
	require.NoError(t, err)
	require.Len(t, holders.Hashes, 4)
}

func buildReload(t *testing.T, w *world) {
	w.freeze(t, 1)
	w.epoch, w.terms = 1, 1
	ann := func(quantity int64) stock.Act {
		return stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: quantity, Counted: quantity}
	}
	many := make([]stock.Act, 0, 1500)
	for i := range 1500 {
		user := name("u", i%750)
		many = append(many, stock.Act{ID: w.id(user, name("k", i)), User: user, Quantity: 1, Counted: 1})
	}
	for range 2 {
		w.load(t, 1, many...)
		w.load(t, 1, ann(2))
	}
	w.load(t, 1, ann(1)) // it has changed since
	s := w.setting(t)
	s.Stock, s.Left = []int64{2000}, []int64{2000 - 1501}
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 1, s))
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 1))
	require.Equal(t, int64(1), w.records(t, "ann")[0].Quantity)
	require.Len(t, w.records(t, "u749"), 2)
}

func buildStep(t *testing.T, w *world) {
	w.freeze(t, 1)
	acts := make([]stock.Act, stock.MaxActs+1)
	for i := range acts {
		user := name("u", i)
		acts[i] = stock.Act{ID: w.id(user, "k"), User: user, Quantity: 1, Counted: 1}
	}
	for _, load := range [][]stock.Act{acts[:1], acts[:stock.MaxActs], nil} {
		before := w.read(t)
		require.NoError(t, w.Counter.Load(t.Context(), w.Lane, 1, load))
		after := w.read(t)
		require.Equal(t, before.Seq+1, after.Seq)
		require.Equal(t, before.Steps+1, after.Steps)
	}
	before := w.read(t)
	require.ErrorIs(t, w.Counter.Load(t.Context(), w.Lane, 1, acts), stock.ErrInvalid, "it would be more than one step")
	require.Equal(t, before, w.read(t))
}

func buildNext(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 2)
	w.buy(t, "bob", "k", 1)
	before := w.read(t)
	frozen := w.freeze(t, 7)
	require.Equal(t, before.Queued, frozen.Queued)
	require.Equal(t, w.epoch, frozen.Epoch)
	entries := w.look(t)
	require.Len(t, entries, 2, "slips stay")
	require.NoError(t, w.Counter.Done(t.Context(), w.Lane, entries), "and are judged while the lane is frozen")
	w.load(t, 7, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 2, Counted: 2})
	s := w.setting(t)
	s.Stock, s.Left, s.Applied = []int64{10}, []int64{8}, 9
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 7, s))
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 7))

	c := w.call(t, w.click("bob", "k", 1))
	require.Equal(t, stock.WrongEpoch, w.send(t, c).State)
	w.epoch = 7
	after := w.read(t)
	require.Greater(t, after.Seq, before.Seq)
	require.Greater(t, after.Generation, before.Generation)
	require.Equal(t, []int64{2, 0, 0}, []int64{after.Taken, after.Returned, after.Queued})
	require.Equal(t, uint64(9), after.Applied)
	require.Empty(t, w.records(t, "bob"), "the records of the epoch before are gone")
	w.buy(t, "bob", "k", 1)
}

func buildUnset(t *testing.T, w *world) {
	w.open(t, nil)
	w.freeze(t, 2)
	require.ErrorIs(t, w.Counter.Unfreeze(t.Context(), w.Lane, 2), stock.ErrCold)
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 2, w.setting(t)))
	w.freeze(t, 3)
	require.ErrorIs(t, w.Counter.Unfreeze(t.Context(), w.Lane, 3), stock.ErrCold, "another builder's setting does not count")
	require.ErrorIs(t, w.Counter.Set(t.Context(), w.Lane, 3, stock.Setting{}), stock.ErrInvalid)
	require.Equal(t, stock.Frozen, w.read(t).State)
}

func buildOvertaken(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 1)
	w.freeze(t, 4)
	w.load(t, 4, stock.Act{ID: w.id("ghost", "k"), User: "ghost", Quantity: 1, Counted: 1})
	delete(w.users, "ghost")
	w.freeze(t, 6)
	old := func() {
		t.Helper()
		before := w.read(t)
		_, err := w.Counter.Freeze(t.Context(), w.Lane, 4)
		require.ErrorIs(t, err, stock.ErrFrozen)
		require.ErrorIs(t, w.Counter.Load(t.Context(), w.Lane, 4, []stock.Act{{ID: w.id("bob", "k"), User: "bob", Quantity: 1}}), stock.ErrFrozen)
		require.ErrorIs(t, w.Counter.Set(t.Context(), w.Lane, 4, w.setting(t)), stock.ErrFrozen)
		require.ErrorIs(t, w.Counter.Unfreeze(t.Context(), w.Lane, 4), stock.ErrFrozen)
		require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, 4), stock.ErrFrozen)
		require.Equal(t, before, w.read(t))
	}
	old()
	s := w.setting(t)
	s.Left = []int64{9}
	w.load(t, 6, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 1, Counted: 1})
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 6, s))
	old()
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 6))
	w.epoch = 6
	old()
	require.Empty(t, w.records(t, "ghost"))
	require.Empty(t, w.records(t, "bob"))
	holders, err := w.Counter.Holders(t.Context(), w.Lane)
	require.NoError(t, err)
	require.Equal(t, []uint64{sale.UserHash("ann")}, holders.Hashes)
}

func buildRepeats(t *testing.T, w *world) {
	first := w.freeze(t, 2)
	require.Equal(t, first, w.freeze(t, 2))
	w.load(t, 2, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 1, Counted: 1})
	w.freeze(t, 2) // one that was late; what is loaded stays
	s := w.setting(t)
	s.Left = []int64{9}
	for range 2 {
		require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 2, s))
	}
	w.freeze(t, 2)
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 2))
	w.epoch, w.terms = 2, 1
	require.Len(t, w.records(t, "ann"), 1)
	w.buy(t, "bob", "k", 1)
	before := w.read(t)
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 2))
	_, err := w.Counter.Freeze(t.Context(), w.Lane, 2)
	require.ErrorIs(t, err, stock.ErrFrozen, "the token has been used")
	require.ErrorIs(t, w.Counter.Set(t.Context(), w.Lane, 2, s), stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.Load(t.Context(), w.Lane, 2, []stock.Act{{ID: w.id("cid", "k"), User: "cid", Quantity: 1}}), stock.ErrFrozen)
	require.Equal(t, before, w.read(t))
}

func buildForgotten(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 1)
	w.Faults.Forget(t)
	require.Equal(t, stock.Cold, w.read(t).State)
	require.Equal(t, stock.Cold, w.send(t, w.call(t, w.click("bob", "k", 1))).State)
	entries, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 9})
	require.NoError(t, err, "the tray is still there")
	require.Len(t, w.slips(t, entries), 1)
	require.NoError(t, w.Counter.Done(t.Context(), w.Lane, entries))
	require.Equal(t, stock.Cold, w.read(t).State, "which does not bring half a lane back")
	w.open(t, func(s *stock.Setting) { s.Left = []int64{9} }, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 1, Counted: 1})
	w.buy(t, "bob", "k", 1)
}

func buildSalts(t *testing.T, w *world) {
	for _, lanes := range []int{0, 1, 2, 5} {
		salts, err := w.Counter.Salts(t.Context(), w.Lane, lanes)
		require.NoError(t, err)
		require.Len(t, salts, lanes)
		again, err := w.Counter.Salts(t.Context(), w.Lane, lanes)
		require.NoError(t, err)
		require.Equal(t, salts, again)
	}
}

func clearLane(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 1)
	w.freeze(t, 2)
	w.load(t, 2, stock.Act{ID: w.id("ann", "k"), User: "ann", Quantity: 1, Counted: 1})
	require.NoError(t, w.Counter.Done(t.Context(), w.Lane, w.look(t)))
	for range 2 {
		require.NoError(t, w.Counter.Clear(t.Context(), w.Lane, 2))
		require.Equal(t, stock.Standing{State: stock.Cold}, w.read(t))
	}
	_, err := w.Counter.Claim(t.Context(), w.Lane, stock.Claim{Consumer: "c", Max: 1})
	require.ErrorIs(t, err, stock.ErrCold)
	require.Empty(t, w.look(t))
	w.epoch = 4
	w.open(t, nil)
	require.Empty(t, w.records(t, "ann"))
}

func clearGuards(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 1)
	require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, w.epoch), stock.ErrFrozen)
	w.freeze(t, 3)
	before := w.read(t)
	require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, 2), stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, 4), stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.Clear(t.Context(), w.Lane, 3), stock.ErrTray)
	require.Equal(t, before, w.read(t))
	require.Len(t, w.look(t), 1)
}
