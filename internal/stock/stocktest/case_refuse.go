package stocktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// refusalCases: which reason comes first.
func refusalCases() []testCase {
	return []testCase{{name: "Refuse/the ledger's order of reasons", run: refuseOrder}}
}

func refuseOrder(t *testing.T, w *world) {
	s := w.open(t, func(s *stock.Setting) {
		s.State, s.StartsAt, s.EndsAt = sale.Closed, s.StartsAt.Add(-2*time.Hour), s.EndsAt.Add(-2*time.Hour)
		s.Stock, s.Left = []int64{2}, []int64{2}
	})
	full := stock.Record{ID: w.id("ann", "full"), Quantity: 2, Counted: 2, TakenAt: s.StartsAt}
	w.apply(t, adopt(0, full, "ann"), stock.Act{Kind: stock.ActReturn, User: "ann", CoolUntil: s.EndsAt.Add(9 * time.Hour)})
	a := w.click("ann", "k", 99)
	a.Item, a.OtherTerms = 5, true
	mend := []struct {
		verdict sale.Verdict
		change  func(r *stock.Rules)
		better  func()
	}{
		{verdict: sale.ClosedNow, change: func(r *stock.Rules) { r.State = sale.Paused }},
		{verdict: sale.Ended, change: func(r *stock.Rules) { r.StartsAt, r.EndsAt = r.StartsAt.Add(9*time.Hour), r.EndsAt.Add(9*time.Hour) }},
		{verdict: sale.NotStarted, change: func(r *stock.Rules) { r.StartsAt = r.StartsAt.Add(-9 * time.Hour) }},
		{verdict: sale.PausedNow, change: func(r *stock.Rules) { r.State = sale.Published }},
		{verdict: sale.NoSuchItem, better: func() { a.Item = 0 }},
		{verdict: sale.BadQuantity, better: func() { a.Quantity = 2 }},
		{verdict: sale.TermsChanged, better: func() { a.OtherTerms = false }},
		{verdict: sale.LimitReached, change: func(r *stock.Rules) { r.PerUserLimit = 4 }},
		{verdict: sale.CoolDown, better: func() { a.User, a.ID = "bob", w.id("bob", "k") }},
		{verdict: sale.SoldOut, change: func(r *stock.Rules) { r.Stock = []int64{3} }},
		{verdict: sale.Insufficient, better: func() { a.Quantity = 1 }},
	}
	w.users["bob"] = true
	for _, m := range mend {
		w.refuse(t, a, m.verdict)
		if m.better != nil {
			m.better()
			continue
		}
		s.Version++
		m.change(&s.Rules)
		version, err := w.Counter.Sync(t.Context(), w.Lane, w.epoch, s.Rules)
		require.NoError(t, err)
		require.Equal(t, s.Version, version)
	}
	require.Equal(t, sale.Taken, w.try(t, a).Verdict)
}

// callCases: when a whole call is refused, and calls that make no sense.
func callCases() []testCase {
	return []testCase{
		{name: "Call/the lane is not there", run: callCold},
		{name: "Call/the lane is frozen", run: callFrozen},
		{name: "Call/another epoch, other terms, a stale lane", run: callBeliefs},
		{name: "Call/the order of reasons", run: callOrder},
		{name: "Call/too many slips wait", run: callBusy},
		{name: "Call/the clocks are far apart", run: callDrift},
		{name: "Call/what makes no sense", run: callInvalid},
	}
}

func callCold(t *testing.T, w *world) {
	w.epoch, w.terms = 1, 1
	require.Equal(t, stock.Reply{State: stock.Cold}, w.send(t, w.call(t, w.click("ann", "k", 1))))
	require.Equal(t, stock.Standing{State: stock.Cold}, w.read(t))
	r, err := w.Counter.Records(t.Context(), w.Lane, "ann")
	require.NoError(t, err)
	require.Equal(t, stock.Records{State: stock.Cold}, r)
	_, err = w.Counter.Holders(t.Context(), w.Lane)
	require.ErrorIs(t, err, stock.ErrCold)
	_, err = w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: 1, From: 0, To: 1})
	require.ErrorIs(t, err, stock.ErrCold)
	require.ErrorIs(t, w.Counter.Return(t.Context(), w.Lane, 1, nil), stock.ErrCold)
	_, err = w.Counter.Sync(t.Context(), w.Lane, 1, w.setting(t).Rules)
	require.ErrorIs(t, err, stock.ErrCold)
	require.ErrorIs(t, w.Counter.SetOffset(t.Context(), w.Lane, 1, time.Second), stock.ErrCold)
	require.ErrorIs(t, w.Counter.Unfreeze(t.Context(), w.Lane, 1), stock.ErrCold)
	require.ErrorIs(t, w.Counter.Set(t.Context(), w.Lane, 1, w.setting(t)), stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.Load(t.Context(), w.Lane, 1, []stock.Act{{ID: w.id("ann", "k"), User: "ann", Quantity: 1}}), stock.ErrFrozen)
	require.NoError(t, w.Counter.Clear(t.Context(), w.Lane, 1))
	require.Equal(t, stock.Standing{State: stock.Cold}, w.read(t), "nothing has come to be")
}

func callFrozen(t *testing.T, w *world) {
	w.open(t, nil)
	o := w.buy(t, "ann", "k", 1)
	_, err := w.Counter.Freeze(t.Context(), w.Lane, 5)
	require.NoError(t, err)
	before := w.read(t)
	require.Equal(t, stock.Frozen, before.State)
	r := w.send(t, w.call(t, w.click("bob", "k", 1)))
	require.Equal(t, stock.Frozen, r.State)
	require.Nil(t, r.Results)
	_, err = w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: 5, To: 6, Acts: []stock.Act{giveBack(6, o, "ann")}})
	require.ErrorIs(t, err, stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.Return(t.Context(), w.Lane, w.epoch, []stock.Act{giveBack(0, o, "ann")}), stock.ErrFrozen)
	rules := w.setting(t).Rules
	rules.Version = 9
	_, err = w.Counter.Sync(t.Context(), w.Lane, w.epoch, rules)
	require.ErrorIs(t, err, stock.ErrFrozen)
	require.ErrorIs(t, w.Counter.SetOffset(t.Context(), w.Lane, w.epoch, time.Second), stock.ErrFrozen)
	require.Equal(t, before, w.read(t), "nobody but a builder takes a step")
	records, err := w.Counter.Records(t.Context(), w.Lane, "ann")
	require.NoError(t, err)
	require.Equal(t, stock.Records{State: stock.Frozen, Epoch: w.epoch, Orders: []stock.Record{o}}, records, "status is answered while frozen")
}

func callBeliefs(t *testing.T, w *world) {
	w.open(t, nil)
	w.buy(t, "ann", "k", 1)
	before := w.read(t)
	check := func(want stock.State, change func(*stock.Call)) {
		t.Helper()
		c := w.call(t, w.click("ann", "k", 1), w.click("bob", "k", 1))
		change(&c)
		r := w.send(t, c)
		require.Equal(t, want, r.State)
		require.Nil(t, r.Results, "not even a replay is answered")
		require.Equal(t, before.Seq, r.Seq)
		require.Equal(t, before, w.read(t))
	}
	check(stock.WrongEpoch, func(c *stock.Call) { c.Epoch++ })
	check(stock.WrongEpoch, func(c *stock.Call) { c.Epoch-- })
	check(stock.WrongTerms, func(c *stock.Call) { c.Terms++ })
	check(stock.Stale, func(c *stock.Call) { c.Seen = before.Seq + 1 })
	c := w.call(t, w.click("ann", "k", 1))
	c.Seen = before.Seq
	require.Equal(t, stock.Open, w.send(t, c).State)
}

func callOrder(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.MaxQueued = 0 })
	c := w.call(t, w.click("ann", "k", 1))
	c.Epoch, c.Seen, c.Terms = 9, 1<<40, 9
	_, err := w.Counter.Freeze(t.Context(), w.Lane, 2)
	require.NoError(t, err)
	require.Equal(t, stock.Frozen, w.send(t, c).State)
	require.NoError(t, w.Counter.Set(t.Context(), w.Lane, 2, func() stock.Setting {
		s := w.setting(t)
		s.MaxQueued = 0
		return s
	}()))
	require.NoError(t, w.Counter.Unfreeze(t.Context(), w.Lane, 2))
	w.epoch = 2
	for _, step := range []struct {
		want   stock.State
		better func()
	}{
		{stock.WrongEpoch, func() { c.Epoch = 2 }},
		{stock.Stale, func() { c.Seen = 0 }},
		{stock.WrongTerms, func() { c.Terms = 1 }},
		{stock.Full, func() {}},
	} {
		require.Equal(t, step.want, w.send(t, c).State)
		step.better()
	}
}

func callBusy(t *testing.T, w *world) {
	w.open(t, func(s *stock.Setting) { s.MaxQueued = 3 })
	w.take(t, w.click("ann", "k", 1), w.click("bob", "k", 1))
	w.take(t, w.click("cid", "k", 1), w.click("dan", "k", 1))
	before := w.read(t)
	require.Equal(t, int64(4), before.Queued, "a call goes as a whole")
	require.Equal(t, stock.Full, w.send(t, w.call(t, w.click("eve", "k", 1))).State)
	require.Equal(t, before, w.read(t))
	require.NoError(t, w.Counter.Done(t.Context(), w.Lane, w.look(t)[:1]))
	w.buy(t, "eve", "k", 1)
}

func callDrift(t *testing.T, w *world) {
	w.open(t, nil)
	before := w.read(t)
	for _, drift := range []time.Duration{2 * stock.MaxDrift, -2 * stock.MaxDrift} {
		c := w.call(t, w.click("ann", "k", 1))
		c.AskedAt = c.AskedAt.Add(drift)
		_, err := w.Counter.Take(t.Context(), c)
		require.ErrorIs(t, err, stock.ErrUnavailable, "nobody could judge the slip")
	}
	require.Equal(t, before, w.read(t))
	c := w.call(t, w.click("ann", "k", 1))
	c.AskedAt = c.AskedAt.Add(stock.MaxDrift / 2)
	w.sign(&c)
	require.Equal(t, sale.Taken, w.send(t, c).Results[0].Verdict)
}

func callInvalid(t *testing.T, w *world) {
	w.open(t, nil)
	before := w.read(t)
	many := make([]stock.Attempt, stock.MaxBatch+1)
	for i := range many {
		many[i] = w.click(name("u", i), "k", 1)
	}
	foreign, long, nobody, noID := w.click("ann", "k", 1), w.click(string(make([]byte, sale.MaxUserLen+1)), "k", 1), w.click("", "k", 1), w.click("ann", "k", 1)
	foreign.ID[0] ^= 1
	clear(noID.ID[4:])
	delete(w.users, "")
	delete(w.users, long.User)
	for _, attempts := range [][]stock.Attempt{many, {foreign}, {long}, {nobody}, {noID}} {
		_, err := w.Counter.Take(t.Context(), w.call(t, attempts...))
		require.ErrorIs(t, err, stock.ErrInvalid)
	}
	act := stock.Act{Kind: stock.ActAdopt, Seq: 6, ID: w.id("ann", "k"), User: "ann", Quantity: 1, Counted: 1}
	for _, bad := range []func(*stock.Act){
		func(a *stock.Act) { a.Item = -1 },
		func(a *stock.Act) { a.Item = 1 }, // the lane has one
		func(a *stock.Act) { a.Quantity = sale.MaxPerUserLimit + 1 },
		func(a *stock.Act) { a.Counted = -1 },
		func(a *stock.Act) { a.ID[0] ^= 1 },
		func(a *stock.Act) { a.User = "" },
		func(a *stock.Act) { a.Seq = 5 },
		func(a *stock.Act) { a.Seq = 7 },
	} {
		other := act
		bad(&other)
		_, err := w.Counter.Apply(t.Context(), w.Lane, stock.Acts{Epoch: w.epoch, From: 5, To: 6, Acts: []stock.Act{other}})
		require.ErrorIs(t, err, stock.ErrInvalid, "%+v", other)
	}
	require.ErrorIs(t, w.Counter.Return(t.Context(), w.Lane, w.epoch, []stock.Act{act}), stock.ErrInvalid, "only returns go ahead")
	_, err := w.Counter.Freeze(t.Context(), w.Lane, 0)
	require.ErrorIs(t, err, stock.ErrInvalid)
	require.Equal(t, before, w.read(t))
}
