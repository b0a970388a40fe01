package stocktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// moveCases: units move from lane to lane, each once.
func moveCases() []testCase {
	several := func(w *World) bool { return len(w.Others) == 2 }
	lose := func(w *World) bool { return several(w) && w.Faults.LoseReply != nil }
	return []testCase{
		{name: "Move/units, there and back", run: moved(moveUnits), needs: several},
		{name: "Move/what is left, and no more", run: moved(moveAtMost), needs: several},
		{name: "Move/one transfer at a time", run: moved(moveOutstanding), needs: several},
		{name: "Move/each number arrives once, in order", run: moved(moveNumbers), needs: several},
		{name: "Move/replies that get lost", run: moved(moveLost), needs: lose},
		{name: "Move/lanes that are not open in the epoch", run: moved(moveElsewhere), needs: several},
		{name: "Move/an item that the target lacks", run: moved(moveItems), needs: several},
		{name: "Move/a new build forgets", run: moved(moveForgotten), needs: several},
		{name: "Move/what makes no sense", run: moved(moveInvalid), needs: several},
		{name: "Want/against higher lanes, until it is taken back", run: moved(wantBlocks), needs: several},
		{name: "Want/ends by itself", run: moved(wantEnds), needs: func(w *World) bool { return several(w) && w.Advance != nil }},
		{name: "Want/ends with the epoch", run: moved(wantForgotten), needs: several},
	}
}

// trio is three lanes of one sale, by index. One of them is that of the world.
type trio [3]*world

// moved makes a case of one that needs three lanes; all of them are recounted.
func moved(run func(t *testing.T, g *trio)) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		var g trio
		g[w.Lane.Index] = w
		for _, l := range w.Others {
			other := w.World
			other.Lane = l
			g[l.Index] = newWorld(other)
		}
		run(t, &g)
		for _, lane := range g {
			if lane != w {
				lane.recount(t)
			}
		}
	}
}

// open opens the three lanes with so many units of one item each.
func (g *trio) open(t *testing.T, left ...int64) {
	t.Helper()
	for i, w := range g {
		w.open(t, func(s *stock.Setting) {
			s.Stock, s.Left, s.PerUserLimit = []int64{left[i]}, []int64{left[i]}, 100
		})
	}
}

func (g *trio) lanes() []stock.Lane {
	return []stock.Lane{g[0].Lane, g[1].Lane, g[2].Lane}
}

func (g *trio) read(t *testing.T) []stock.Standing {
	t.Helper()
	at, err := g[0].Counter.ReadAll(t.Context(), g.lanes())
	require.NoError(t, err)
	for i, w := range g {
		require.Equal(t, w.read(t), at[i])
	}
	return at
}

// left is what the lanes have of the first item, each.
func (g *trio) left(t *testing.T) []int64 {
	t.Helper()
	return []int64{g[0].left(t), g[1].left(t), g[2].left(t)}
}

// transfer is one of the first item.
func (g *trio) transfer(from, to int, number uint64, units int64) stock.Transfer {
	return stock.Transfer{Epoch: g[from].epoch, From: from, To: to, Number: number, Units: units}
}

func (g *trio) give(t *testing.T, asked stock.Transfer) stock.Transfer {
	t.Helper()
	got, err := g[asked.From].Counter.Give(t.Context(), g[asked.From].Lane, asked)
	require.NoError(t, err)
	return got
}

func (g *trio) receive(t *testing.T, x stock.Transfer) {
	t.Helper()
	require.NoError(t, g[x.To].Counter.Receive(t.Context(), g[x.To].Lane, x))
}

// still makes a call after which all lanes are as they were.
func (g *trio) still(t *testing.T, call func()) {
	t.Helper()
	before := g.read(t)
	call()
	require.Equal(t, before, g.read(t), "nothing is written")
}

// refuseGive and refuseReceive see a call fail and change nothing.
func (g *trio) refuseGive(t *testing.T, x stock.Transfer, want error) {
	t.Helper()
	g.still(t, func() {
		_, err := g[x.From].Counter.Give(t.Context(), g[x.From].Lane, x)
		require.ErrorIs(t, err, want)
	})
}

func (g *trio) refuseReceive(t *testing.T, x stock.Transfer, want error) {
	t.Helper()
	g.still(t, func() { require.ErrorIs(t, g[x.To].Counter.Receive(t.Context(), g[x.To].Lane, x), want) })
}

func moveUnits(t *testing.T, g *trio) {
	g.open(t, 10, 5, 0)
	g[0].buy(t, "ann", "k", 2)
	before := g.read(t)
	require.Nil(t, before[0].Given)
	require.Nil(t, before[0].Received)
	x := g.transfer(0, 2, 1, 6)
	require.Equal(t, x, g.give(t, x))

	between := g.read(t)
	want := before[0]
	want.Left, want.Moved, want.Seq, want.Generation = []int64{2}, []int64{-6}, want.Seq+1, want.Generation+1
	want.Given = map[int]stock.Transfer{2: {Epoch: x.Epoch, To: 2, Number: 1, Units: 6}}
	require.Equal(t, []stock.Standing{want, before[1], before[2]}, between, "what is on its way is in neither lane")
	require.Equal(t, []stock.Transfer{x}, stock.Underway(between))
	require.Equal(t, int64(13), stock.Left(between, 0))
	g[2].refuse(t, g[2].click("bob", "k", 1), sale.SoldOut)

	g.receive(t, x)
	after := g.read(t)
	arrived := before[2]
	arrived.Left, arrived.Moved, arrived.Seq, arrived.Generation = []int64{6}, []int64{6}, arrived.Seq+1, arrived.Generation+1
	arrived.Received = map[int]uint64{0: 1}
	require.Equal(t, []stock.Standing{want, before[1], arrived}, after)
	require.Empty(t, stock.Underway(after))
	require.Equal(t, int64(13), stock.Left(after, 0))

	g[2].buy(t, "bob", "k", 2)
	back := g.transfer(2, 0, 1, 3)
	g.receive(t, g.give(t, back))
	g.receive(t, g.give(t, g.transfer(1, 0, 1, 5)))
	last := g.read(t)
	require.Equal(t, []int64{2}, last[0].Moved)
	require.Equal(t, []int64{-5}, last[1].Moved)
	require.Equal(t, []int64{3}, last[2].Moved)
	require.Equal(t, map[int]uint64{1: 1, 2: 1}, last[0].Received)
	require.Equal(t, []int64{10, 0, 1}, g.left(t))
	g[0].buy(t, "cid", "k", 10)
}

func moveAtMost(t *testing.T, g *trio) {
	g.open(t, 3, 0, 1)
	x := g.give(t, g.transfer(0, 1, 1, 50))
	require.Equal(t, int64(3), x.Units)
	g.receive(t, x)
	g.still(t, func() {
		require.Equal(t, g.transfer(0, 1, 2, 0), g.give(t, g.transfer(0, 1, 2, 1)), "of nothing, nothing")
		missing := g.transfer(0, 1, 2, 1)
		missing.Item = 7
		require.Zero(t, g.give(t, missing).Units, "nor of an item that the lane lacks")
	})
	late := stock.Record{ID: g[2].id("bob", "late"), Quantity: 3, Counted: 3, TakenAt: g[2].now(t)}
	g[2].apply(t, adopt(0, late, "bob"))
	require.Equal(t, int64(-2), g[2].left(t))
	g.still(t, func() { require.Zero(t, g.give(t, g.transfer(2, 1, 1, 1)).Units, "a lane in debt gives nothing") })
	g.receive(t, g.give(t, g.transfer(1, 2, 1, 3)))
	require.Equal(t, []int64{0, 0, 1}, g.left(t), "units pay the debt first")
	require.Equal(t, int64(1), g.give(t, g.transfer(2, 1, 1, 9)).Units, "a number that gave nothing is free")
}

func moveOutstanding(t *testing.T, g *trio) {
	g.open(t, 10, 0, 0)
	first := g.give(t, g.transfer(0, 1, 1, 4))
	other := g.give(t, g.transfer(0, 2, 1, 1))
	require.Equal(t, int64(1), other.Units, "another pair counts for itself")
	g.still(t, func() {
		require.Equal(t, first, g.give(t, g.transfer(0, 1, 1, 9)), "it may not have arrived")
		asked := g.transfer(0, 1, 1, 1)
		asked.Item = 3
		require.Equal(t, first, g.give(t, asked))
	})
	g.receive(t, first)
	g.still(t, func() { require.Equal(t, first, g.give(t, g.transfer(0, 1, 1, 2)), "one that believes it has not") })
	second := g.give(t, g.transfer(0, 1, 2, 2))
	require.Equal(t, g.transfer(0, 1, 2, 2), second)
	g.still(t, func() { require.Equal(t, second, g.give(t, g.transfer(0, 1, 1, 3)), "the last one, to a late caller") })
	require.Equal(t, []stock.Transfer{second, other}, stock.Underway(g.read(t)))
	g.receive(t, second)
	g.receive(t, other)
	require.Equal(t, []int64{3, 6, 1}, g.left(t))
}

func moveNumbers(t *testing.T, g *trio) {
	g.open(t, 10, 10, 0)
	first := g.give(t, g.transfer(0, 2, 1, 4))
	g.refuseReceive(t, g.transfer(0, 2, 2, 4), stock.ErrStale)
	g.refuseReceive(t, g.transfer(0, 2, 1<<40, 4), stock.ErrStale)
	g.receive(t, first)
	for range 2 {
		g.still(t, func() { g.receive(t, first) })
	}
	g.receive(t, g.give(t, g.transfer(1, 2, 1, 1)))
	g.receive(t, g.give(t, g.transfer(0, 2, 2, 2)))
	g.still(t, func() { g.receive(t, first) })
	g.refuseReceive(t, g.transfer(0, 2, 4, 1), stock.ErrStale)
	for n := uint64(3); n <= 6; n++ {
		g.receive(t, g.give(t, g.transfer(0, 2, n, 1)))
	}
	at := g.read(t)
	require.Equal(t, map[int]uint64{0: 6, 1: 1}, at[2].Received)
	require.Equal(t, uint64(6), at[0].Given[2].Number)
	require.Equal(t, []int64{0, 9, 11}, g.left(t))
}

func moveLost(t *testing.T, g *trio) {
	g.open(t, 10, 0, 0)
	var x stock.Transfer
	asked := g.transfer(0, 1, 1, 4)
	g[0].again(t, 1, func() (err error) {
		x, err = g[0].Counter.Give(t.Context(), g[0].Lane, asked)
		return err
	})
	require.Equal(t, asked, x, "the same transfer")
	require.Equal(t, int64(6), g[0].left(t))
	g[1].again(t, 1, func() error { return g[1].Counter.Receive(t.Context(), g[1].Lane, x) })
	require.Equal(t, []int64{6, 4, 0}, g.left(t))
	g[0].again(t, 0, func() error { return g[0].Counter.Want(t.Context(), g[0].Lane, g[0].epoch, time.Hour) })
	g.refuseGive(t, g.transfer(0, 1, 2, 1), stock.ErrWanted)
}

func moveElsewhere(t *testing.T, g *trio) {
	all := func(want error) {
		t.Helper()
		g.refuseGive(t, g.transfer(1, 0, 1, 1), want)
		g.refuseReceive(t, g.transfer(0, 1, 1, 1), want)
		g.still(t, func() { require.ErrorIs(t, g[1].Counter.Want(t.Context(), g[1].Lane, g[1].epoch, time.Hour), want) })
	}
	all(stock.ErrCold)
	g.open(t, 10, 10, 10)
	for _, epoch := range []int64{0, 2} {
		for _, w := range g {
			w.epoch = epoch
		}
		all(stock.ErrEpoch)
	}
	for _, w := range g {
		w.epoch = 1
	}
	out := g.give(t, g.transfer(1, 2, 1, 4))
	g[1].freeze(t, 2)
	all(stock.ErrFrozen)
	g.receive(t, out)
	require.Equal(t, int64(14), g[2].left(t), "what was given before a freeze arrives where the epoch still lasts")
}

func moveItems(t *testing.T, g *trio) {
	two := func(s *stock.Setting) { s.Stock, s.Left = []int64{4, 6}, []int64{4, 6} }
	g[0].open(t, two)
	g[1].open(t, nil)
	g[2].open(t, two)
	second := g.transfer(0, 1, 1, 5)
	second.Item = 1
	require.Equal(t, second, g.give(t, second))
	g.refuseReceive(t, second, stock.ErrInvalid)
	rules := g[1].setting(t).Rules
	rules.Version, rules.Stock = 2, []int64{10, 0}
	g[1].sync(t, rules)
	g.receive(t, second)
	require.Equal(t, []int64{10, 5}, g[1].read(t).Left, "it waited for the item")
	require.Equal(t, []int64{0, 5}, g[1].read(t).Moved)
	require.Equal(t, []int64{0, -5}, g[0].read(t).Moved)
	second.From, second.To, second.Units = 1, 2, 9
	g.receive(t, g.give(t, second))
	require.Equal(t, []int64{4, 11}, g[2].read(t).Left)
	rules.Version, rules.Stock = 3, []int64{10, 2}
	g[1].sync(t, rules)
	require.Equal(t, []int64{10, 2}, g[1].read(t).Left, "a change of the total is no matter of transfers")
}

func moveForgotten(t *testing.T, g *trio) {
	g.open(t, 10, 0, 0)
	arrived := g.give(t, g.transfer(0, 1, 1, 3))
	g.receive(t, arrived)
	late := g.give(t, g.transfer(0, 1, 2, 3))
	g.receive(t, g.give(t, g.transfer(0, 2, 1, 1)))
	require.NoError(t, g[0].Counter.Want(t.Context(), g[0].Lane, g[0].epoch, time.Hour))
	g[1].freeze(t, 2)
	require.Equal(t, []int64{3}, g[1].read(t).Moved, "a freeze forgets nothing")
	g.open(t, 4, 4, 2)
	for i, s := range g.read(t) {
		require.Equal(t, []int64{0}, s.Moved, "lane %d", i)
		require.Nil(t, s.Given)
		require.Nil(t, s.Received)
	}
	g.refuseReceive(t, late, stock.ErrEpoch)
	g.refuseReceive(t, arrived, stock.ErrEpoch)
	g.refuseGive(t, late, stock.ErrEpoch)
	again := g.transfer(0, 1, 1, 2)
	require.Equal(t, again, g.give(t, again), "numbers begin again, and nothing is wanted")
	g.receive(t, again)
	g.refuseReceive(t, late, stock.ErrEpoch)
	require.Equal(t, []int64{2, 6, 2}, g.left(t))
}

func moveInvalid(t *testing.T, g *trio) {
	g.open(t, 10, 10, 10)
	for name, change := range map[string]func(x *stock.Transfer){
		"to itself":       func(x *stock.Transfer) { x.To = x.From },
		"a negative lane": func(x *stock.Transfer) { x.To = -1 },
		"no such lane":    func(x *stock.Transfer) { x.To = stock.MaxLanes },
		"no number":       func(x *stock.Transfer) { x.Number = 0 },
		"a negative item": func(x *stock.Transfer) { x.Item = -1 },
		"too many items":  func(x *stock.Transfer) { x.Item = sale.MaxItems },
		"no units":        func(x *stock.Transfer) { x.Units = 0 },
		"negative units":  func(x *stock.Transfer) { x.Units = -3 },
	} {
		x := g.transfer(0, 1, 1, 1)
		change(&x)
		g.still(t, func() {
			_, err := g[0].Counter.Give(t.Context(), g[0].Lane, x)
			require.ErrorIs(t, err, stock.ErrInvalid, name)
			require.ErrorIs(t, g[1].Counter.Receive(t.Context(), g[1].Lane, x), stock.ErrInvalid, name)
		})
	}
}

func (g *trio) want(t *testing.T, lane int, d time.Duration) {
	t.Helper()
	g.still(t, func() {
		require.NoError(t, g[lane].Counter.Want(t.Context(), g[lane].Lane, g[lane].epoch, d))
	})
}

func wantBlocks(t *testing.T, g *trio) {
	g.open(t, 10, 10, 10)
	before := g.give(t, g.transfer(1, 2, 1, 1))
	g.want(t, 1, time.Hour)
	g.refuseGive(t, g.transfer(1, 2, 2, 1), stock.ErrWanted)
	g.still(t, func() {
		require.Equal(t, before, g.give(t, g.transfer(1, 2, 1, 1)), "what was given before is on its way")
	})
	g.receive(t, before)
	g.receive(t, g.give(t, g.transfer(1, 0, 1, 2)))
	g.receive(t, g.give(t, g.transfer(0, 1, 1, 3)))
	g.receive(t, g.give(t, g.transfer(2, 1, 1, 4)))
	g[1].buy(t, "ann", "k", 14)
	g.want(t, 1, 0)
	g.want(t, 1, 0)
	require.Zero(t, g.give(t, g.transfer(1, 2, 2, 1)).Units)
	require.Equal(t, []int64{9, 0, 7}, g.left(t))
}

func wantEnds(t *testing.T, g *trio) {
	g.open(t, 10, 10, 10)
	g.want(t, 0, 50*time.Millisecond)
	g[0].Advance(49 * time.Millisecond)
	g.refuseGive(t, g.transfer(0, 2, 1, 1), stock.ErrWanted)
	g[0].Advance(time.Millisecond)
	g.receive(t, g.give(t, g.transfer(0, 2, 1, 1)))
	g.want(t, 0, 50*time.Millisecond)
	g[0].Advance(49 * time.Millisecond)
	g.want(t, 0, 50*time.Millisecond)
	g[0].Advance(49 * time.Millisecond)
	g.refuseGive(t, g.transfer(0, 1, 1, 1), stock.ErrWanted)
}

func wantForgotten(t *testing.T, g *trio) {
	g.open(t, 10, 10, 10)
	g.want(t, 0, time.Hour)
	g.open(t, 10, 10, 10)
	g.receive(t, g.give(t, g.transfer(0, 1, 1, 1)))
}
