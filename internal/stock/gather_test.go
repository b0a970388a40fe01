package stock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

func TestGather(t *testing.T) {
	t.Parallel()
	one := func(least, most int64) []stock.Shortage { return []stock.Shortage{{Least: least, Most: most}} }
	enough, short := []stock.Gathered{{}}, func(left int64) []stock.Gathered { return []stock.Gathered{{Short: true, Left: left}} }
	for name, c := range map[string]struct {
		left  [][]int64
		short []stock.Shortage // of lane 0
		want  []stock.Gathered
		after [][]int64 // nil: as before
	}{
		"half of the fullest": {
			left: [][]int64{{0}, {3}, {9}}, short: one(1, 2), want: enough, after: [][]int64{{4}, {3}, {5}},
		},
		"more than half if needed": {
			left: [][]int64{{0}, {3}, {9}}, short: one(1, 7), want: enough, after: [][]int64{{7}, {3}, {2}},
		},
		"one after the other": {
			left: [][]int64{{0}, {3}, {4}}, short: one(1, 6), want: enough, after: [][]int64{{6}, {1}, {0}},
		},
		"all there is": {
			left: [][]int64{{0}, {3}, {4}}, short: one(1, 99), want: enough, after: [][]int64{{7}, {0}, {0}},
		},
		"what is missing": {
			left: [][]int64{{1}, {5}}, short: one(3, 3), want: enough, after: [][]int64{{3}, {3}},
		},
		"a pair from two": {
			left: [][]int64{{0}, {1}, {1}}, short: one(2, 2), want: enough, after: [][]int64{{2}, {0}, {0}},
		},
		"the lane has enough by now": {left: [][]int64{{2}, {5}}, short: one(2, 8), want: enough},
		"too few":                    {left: [][]int64{{0}, {1}, {1}}, short: one(3, 3), want: short(2)},
		"too few at home":            {left: [][]int64{{1}, {0}}, short: one(2, 2), want: short(1)},
		"none":                       {left: [][]int64{{0}, {0}, {0}}, short: one(1, 1), want: short(0)},
		"one lane":                   {left: [][]int64{{1}}, short: one(2, 2), want: short(1)},
		"an item that nobody has":    {left: [][]int64{{3}, {3}}, short: []stock.Shortage{{Item: 5, Least: 1, Most: 1}}, want: short(0)},
		"what another lane owes":     {left: [][]int64{{0}, {-2}, {2}}, short: one(1, 1), want: short(0)},
		"more is owed than is left":  {left: [][]int64{{0}, {-5}, {2}}, short: one(1, 1), want: short(0)},
		"more than another lane owes": {
			left: [][]int64{{0}, {-2}, {3}}, short: one(1, 1), want: enough, after: [][]int64{{1}, {-2}, {2}},
		},
		"what the lane owes, and one": {
			left: [][]int64{{-3}, {7}}, short: one(1, 1), want: enough, after: [][]int64{{1}, {3}},
		},
		"what the lane owes, as far as it goes": {
			left: [][]int64{{-5}, {2}, {1}}, short: one(1, 1), want: enough, after: [][]int64{{-2}, {0}, {0}},
		},
		"the lane owes more than nothing": {left: [][]int64{{-5}, {0}, {-1}}, short: one(0, 0), want: short(0)},
		"what the lane owes": {
			left: [][]int64{{-3}, {4}}, short: one(0, 0), want: enough, after: [][]int64{{0}, {1}},
		},
		"several items": {
			left:  [][]int64{{0, 0, 4, 0}, {0, 6, 9, 0}, {2, 1, 9, 1}},
			short: []stock.Shortage{{Item: 0, Least: 1, Most: 2}, {Item: 1, Least: 2, Most: 7}, {Item: 2, Least: 4, Most: 4}, {Item: 3, Least: 2, Most: 2}},
			want:  []stock.Gathered{{}, {}, {}, {}}, // whoever lacks the last is worth asking again
			after: [][]int64{{2, 7, 4, 0}, {0, 0, 9, 0}, {0, 0, 9, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMarket(t, noon, c.left...)
			before := m.read()
			require.Equal(t, c.want, m.gather(0, c.short...))
			if c.after == nil {
				require.Equal(t, before, m.read(), "nothing is written")
				return
			}
			require.Equal(t, c.after, m.left())
			require.Empty(t, stock.Underway(m.read()))
		})
	}
}

// at calls do before the nth step of its kind, from 1 on.
func at(step string, nth int, do func() error) func(string) error {
	return func(now string) error {
		if now != step {
			return nil
		}
		if nth--; nth == 0 {
			return do()
		}
		return nil
	}
}

// TestGatherProof: that nothing is left must be seen at one instant.
func TestGatherProof(t *testing.T) {
	t.Parallel()
	const lanes = 3
	single := stock.Shortage{Least: 1, Most: 1}
	gather := func(m *market, g *stock.Gathering, before func(string) error) []stock.Gathered {
		out, err := stock.Gather(t.Context(), &hooked{m.mem, before}, g)
		require.NoError(t, err)
		return out
	}
	for read := 1; read <= 2*lanes; read++ {
		for lane := range lanes {
			m := newMarket(t, noon, []int64{1}, []int64{1}, []int64{1})
			for i := range lanes {
				m.take(i, 0, 1)
			}
			out := gather(m, m.gathering(0, single), at(stepRead, read, func() error {
				m.giveBack(lane)
				return nil
			}))
			unseen := lane < read-lanes-1 // the lane was read for the second time
			require.Equal(t, []stock.Gathered{{Short: unseen}}, out, "a unit comes to lane %d before read %d", lane, read)
			if !unseen {
				require.Equal(t, []int64{1}, m.left()[0])
			}
		}
	}

	for name, hop := range map[string]func(m *market){
		"sold and given back": func(m *market) {
			m.giveBack(0)
			m.take(2, 0, 1)
		},
		"gathered": func(m *market) { m.receive(m.give(2, 1, 0, 1)) },
	} {
		m := newMarket(t, noon, []int64{1}, []int64{0}, []int64{1})
		m.take(0, 0, 1)
		out := gather(m, m.gathering(0, single), at(stepRead, lanes, func() error {
			hop(m)
			return nil
		}))
		require.Equal(t, []stock.Gathered{{}}, out, "the unit was %s before the lane was read, behind the reader's back", name)
	}

	m := newMarket(t, noon, []int64{1}, []int64{1}, []int64{1})
	for i := range lanes {
		m.take(i, 0, 1)
	}
	g := m.gathering(0, single)
	m.giveBack(0)
	m.take(0, 0, 1)
	require.Equal(t, []stock.Gathered{{}}, gather(m, g, at("", 1, nil)), "a unit has come since the lane was found short")
	g = m.gathering(0, single)
	m.giveBack(0) // of lane 1
	m.take(1, 0, 1)
	require.Equal(t, []stock.Gathered{{Short: true}}, gather(m, g, at("", 1, nil)), "what came to another lane was there to be found")
}

// TestGatherProofOfOneThatHides lets the only unit flee from every lane that is about
// to be read: it is never seen, and never found missing.
func TestGatherProofOfOneThatHides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left [][]int64
		flee func(m *market, from, to int)
	}{
		"gathered": {
			left: [][]int64{{0}, {0}, {0}, {1}},
			flee: func(m *market, from, to int) { m.receive(m.give(from, to, 0, 1)) },
		},
		"sold, and another given back": {
			left: [][]int64{{0}, {1}, {1}, {1}},
			flee: func(m *market, from, to int) {
				m.giveBack(slices.IndexFunc(m.orders, func(o held) bool { return o.lane == to }))
				m.take(from, 0, 1)
			},
		},
	} {
		m := newMarket(t, noon, c.left...)
		for lane := 1; lane < 3; lane++ {
			m.take(lane, 0, 1)
		}
		reads := 0
		_, err := stock.Gather(t.Context(), &hooked{m.mem, func(string) error {
			lane := reads % len(m.lanes)
			reads++
			if m.left()[lane][0] > 0 {
				to := 3
				if lane == 3 {
					to = 1
				}
				c.flee(m, lane, to)
			}
			return nil
		}}, m.gathering(0, stock.Shortage{Least: 1, Most: 1}))
		require.ErrorIs(t, err, stock.ErrContended, name)
		require.Equal(t, int64(1), stock.Left(m.read(), 0))
	}
}

// TestGatherProofIsExact lets the only unit go from lane to lane under the two
// readings: at no instant there was none.
func TestGatherProofIsExact(t *testing.T) {
	t.Parallel()
	m := newMarket(t, noon, []int64{1}, []int64{1})
	m.take(0, 0, 1)
	reads := 0
	out, err := stock.Gather(t.Context(), &hooked{m.mem, func(string) error {
		if reads++; reads == 4 { // lane 0 was read for the second time
			m.giveBack(0)
			m.take(1, 0, 1)
		}
		return nil
	}}, m.gathering(0, stock.Shortage{Least: 2, Most: 2}))
	require.NoError(t, err)
	require.NotEqual(t, []stock.Gathered{{Short: true, Left: 0}}, out, "there is one all the time")
	require.Equal(t, int64(1), stock.Left(m.read(), 0))
}

func TestGatherStandings(t *testing.T) {
	t.Parallel()
	short := stock.Shortage{Least: 1, Most: 1}
	for name, c := range map[string]struct {
		spoil func(m *market)
		want  error
	}{
		"cold":   {func(m *market) { m.mem.Forget(m.lanes[2]) }, stock.ErrCold},
		"epoch":  {func(m *market) { m.build(2, 2, []int64{5}) }, stock.ErrEpoch},
		"frozen": {func(m *market) { _, _ = m.mem.Freeze(t.Context(), m.lanes[2], 2) }, stock.ErrFrozen},
		"down":   {func(m *market) { m.mem.Down() }, stock.ErrUnavailable},
	} {
		m := newMarket(t, noon, []int64{0}, []int64{5}, []int64{5})
		g := m.gathering(0, short)
		c.spoil(m)
		_, err := stock.Gather(t.Context(), m.mem, g)
		require.ErrorIs(t, err, c.want, name)
		m.mem.Up()
		require.Equal(t, []int64{0}, m.left()[0], name)

		m = newMarket(t, noon, []int64{0}, []int64{5}, []int64{7})
		_, err = stock.Gather(t.Context(), &hooked{m.mem, at(stepGive, 1, func() error {
			c.spoil(m)
			return nil
		})}, m.gathering(0, short))
		require.ErrorIs(t, err, c.want, "%s, in the middle", name)
	}

	m := newMarket(t, noon, []int64{0}, []int64{5}, []int64{5})
	g := m.gathering(0, short)
	saw := make(map[int]uint64)
	g.Saw = func(i int, seq uint64) { saw[i] = seq }
	seen := m.read()
	g.Seen = func(i int) uint64 { return seen[i].Seq }
	_, err := stock.Gather(t.Context(), m.mem, g)
	require.NoError(t, err)
	require.Equal(t, map[int]uint64{0: seen[0].Seq, 1: seen[1].Seq, 2: seen[2].Seq}, saw)
	seen[1].Seq += 9
	before := m.read()
	_, err = stock.Gather(t.Context(), m.mem, g)
	require.ErrorIs(t, err, stock.ErrStale)
	require.Equal(t, before, m.read())
}

// TestGatherCrash cuts a gathering off between giving and receiving: the next one
// finds the units, wherever it is at home.
func TestGatherCrash(t *testing.T) {
	t.Parallel()
	gone := errors.New("the instance is gone")
	for home := range 3 {
		m := newMarket(t, noon, []int64{0}, []int64{0}, []int64{6})
		_, err := stock.Gather(t.Context(), &hooked{m.mem, at(stepReceive, 1, func() error { return gone })},
			m.gathering(0, stock.Shortage{Least: 1, Most: 6}))
		require.ErrorIs(t, err, gone)
		require.Equal(t, [][]int64{{0}, {0}, {0}}, m.left())
		require.Equal(t, int64(6), stock.Left(m.read(), 0))
		if home > 0 {
			require.Equal(t, []stock.Gathered{{Short: true, Left: 6}}, m.gather(home, stock.Shortage{Least: 7, Most: 7}), "it is not lost")
		}
		require.Equal(t, []stock.Gathered{{}}, m.gather(home, stock.Shortage{Least: 6, Most: 6}))
		require.Equal(t, []int64{6}, m.left()[home], "home %d", home)
		require.Empty(t, stock.Underway(m.read()))
	}
}

func TestGatherContended(t *testing.T) {
	t.Parallel()
	m := newMarket(t, noon, []int64{0}, []int64{1})
	gives := 0
	_, err := stock.Gather(t.Context(), &hooked{m.mem, func(step string) error {
		switch {
		case step == stepGive:
			gives++
			verdict, _ := m.take(1, 0, 1)
			require.Equal(t, sale.Taken, verdict)
		case step == stepRead && len(m.orders) > 0:
			m.giveBack(0)
		}
		return nil
	}}, m.gathering(0, stock.Shortage{Least: 1, Most: 1}))
	require.ErrorIs(t, err, stock.ErrContended)
	require.Greater(t, gives, 10)
}

// TestGatherGivesWay: a lane that gathers a pair keeps what it has from those above
// it, for a while.
func TestGatherGivesWay(t *testing.T) {
	t.Parallel()
	single, pair := stock.Shortage{Least: 1, Most: 1}, stock.Shortage{Least: 2, Most: 2}
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, time.Now, []int64{1}, []int64{0}, []int64{1})
		_, err := stock.Gather(t.Context(), &hooked{m.mem, at(stepGive, 1, func() error { return stock.ErrUnavailable })}, m.gathering(0, pair))
		require.ErrorIs(t, err, stock.ErrUnavailable)
		require.Equal(t, []stock.Gathered{{}}, m.gather(1, single))
		require.Equal(t, [][]int64{{1}, {1}, {0}}, m.left(), "from the one that wants nothing")
		began := time.Now()
		require.Equal(t, []stock.Gathered{{}}, m.gather(2, pair))
		require.Equal(t, [][]int64{{0}, {0}, {2}}, m.left())
		require.InDelta(t, 50*time.Millisecond, time.Since(began), float64(10*time.Millisecond), "it waits until nobody comes for them")

		require.NoError(t, m.mem.Want(t.Context(), m.lanes[0], 1, time.Hour))
		m.receive(m.give(2, 0, 0, 2))
		_, err = stock.Gather(t.Context(), m.mem, m.gathering(1, single))
		require.ErrorIs(t, err, stock.ErrContended)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = stock.Gather(ctx, m.mem, m.gathering(1, single))
		require.ErrorIs(t, err, stock.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, [][]int64{{2}, {0}, {0}}, m.left())
	})
}

func TestUnderway(t *testing.T) {
	t.Parallel()
	x := func(from, to int, number uint64, item int, units int64) stock.Transfer {
		return stock.Transfer{From: from, To: to, Number: number, Item: item, Units: units}
	}
	given := func(all ...stock.Transfer) map[int]stock.Transfer {
		out := make(map[int]stock.Transfer)
		for _, t := range all {
			to := t
			to.From = 0
			out[t.To] = to
		}
		return out
	}
	for name, c := range map[string]struct {
		at       []stock.Standing
		underway []stock.Transfer
		left     []int64
	}{
		"no lanes":   {left: []int64{0, 0}},
		"nothing":    {at: []stock.Standing{{Left: []int64{3}}, {Left: []int64{4, 5}}}, left: []int64{7, 5}},
		"with debts": {at: []stock.Standing{{Left: []int64{-3}}, {Left: []int64{1, -1}}}, left: []int64{-2, -1}},
		"on its way": {
			at:       []stock.Standing{{Left: []int64{1, 2}}, {Left: []int64{0, 0}, Given: given(x(1, 0, 1, 1, 4))}},
			underway: []stock.Transfer{x(1, 0, 1, 1, 4)}, left: []int64{1, 6},
		},
		"arrived": {
			at: []stock.Standing{
				{Left: []int64{1}, Received: map[int]uint64{1: 6}},
				{Left: []int64{1}, Given: given(x(1, 0, 6, 0, 4)), Received: map[int]uint64{0: 9}},
			},
			left: []int64{2, 0},
		},
		"arrived since the source was read": {
			at:   []stock.Standing{{Left: []int64{9}, Received: map[int]uint64{1: 7}}, {Left: []int64{1}, Given: given(x(1, 0, 6, 0, 4))}},
			left: []int64{10, 0},
		},
		"both ways, and more": {
			at: []stock.Standing{
				{Given: given(x(0, 1, 2, 0, 1), x(0, 2, 1, 1, 2)), Received: map[int]uint64{2: 4}},
				{Given: given(x(1, 0, 8, 0, 3)), Received: map[int]uint64{0: 1}},
				{Given: given(x(2, 0, 5, 0, 4), x(2, 1, 1, 1, 5)), Received: map[int]uint64{0: 1}},
			},
			underway: []stock.Transfer{x(0, 1, 2, 0, 1), x(1, 0, 8, 0, 3), x(2, 0, 5, 0, 4), x(2, 1, 1, 1, 5)}, left: []int64{8, 5},
		},
		"to a lane that is not there": {at: []stock.Standing{{Left: []int64{1}, Given: given(x(0, 5, 1, 0, 3))}}, left: []int64{1, 0}},
	} {
		require.Equal(t, c.underway, stock.Underway(c.at), name)
		for item, want := range c.left {
			require.Equal(t, want, stock.Left(c.at, item), "%s: item %d", name, item)
		}
	}
}

func TestTransferCheck(t *testing.T) {
	t.Parallel()
	good := stock.Transfer{From: 0, To: stock.MaxLanes - 1, Number: 1, Item: sale.MaxItems - 1, Units: 1}
	require.NoError(t, good.Check())
	for name, change := range map[string]func(x *stock.Transfer){
		"from":    func(x *stock.Transfer) { x.From = -1 },
		"to":      func(x *stock.Transfer) { x.To = stock.MaxLanes },
		"nowhere": func(x *stock.Transfer) { x.From = x.To },
		"number":  func(x *stock.Transfer) { x.Number = 0 },
		"item":    func(x *stock.Transfer) { x.Item = sale.MaxItems },
		"below":   func(x *stock.Transfer) { x.Item = -1 },
		"units":   func(x *stock.Transfer) { x.Units = 0 },
	} {
		x := good
		change(&x)
		require.ErrorIs(t, x.Check(), stock.ErrInvalid, name)
	}
	require.ErrorIs(t, new(stock.Transfer).Check(), stock.ErrInvalid)
}
