package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// drawMarket draws lanes, some in debt, some with transfers that never arrived.
func drawMarket(t *rapid.T, items int) *market {
	left := make([][]int64, rapid.IntRange(1, 4).Draw(t, "lanes"))
	for i := range left {
		left[i] = rapid.SliceOfN(rapid.Int64Range(-2, 4), items, items).Draw(t, "left")
	}
	m := newMarket(t, noon, left...)
	for range rapid.IntRange(0, 2).Draw(t, "underway") {
		if from, to := drawPair(t, m); from != to {
			m.give(from, to, rapid.IntRange(0, items-1).Draw(t, "item"), rapid.Int64Range(1, 3).Draw(t, "units"))
		}
	}
	return m
}

func drawPair(t *rapid.T, m *market) (from, to int) {
	return rapid.IntRange(0, len(m.lanes)-1).Draw(t, "from"), rapid.IntRange(0, len(m.lanes)-1).Draw(t, "to")
}

func drawShort(t *rapid.T, items int) []stock.Shortage {
	var out []stock.Shortage
	for item := range items {
		if least := rapid.Int64Range(-1, 4).Draw(t, "least"); least >= 0 {
			out = append(out, stock.Shortage{Item: item, Least: least, Most: least + rapid.Int64Range(0, 4).Draw(t, "more")})
		}
	}
	return out
}

// TestGatherAlone: undisturbed, a gathering finds what there is, and moves it
// without making or losing a unit.
func TestGatherAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const items = 3
		m, short := drawMarket(t, items), drawShort(t, items)
		home := rapid.IntRange(0, len(m.lanes)-1).Draw(t, "home")
		before := m.read()
		out := m.gather(home, short...)
		for range 2 { // something that was on its way, or of another item, may have come first
			out = m.gather(home, short...)
		}
		after := m.read()
		for i, s := range short {
			units := stock.Left(before, s.Item)
			switch {
			case after[home].Left[s.Item] >= s.Least:
				require.Equal(t, stock.Gathered{}, out[i])
			default:
				require.Less(t, units, s.Least)
				require.Equal(t, stock.Gathered{Short: true, Left: max(0, units)}, out[i], "%+v of %d", s, units)
			}
		}
		for item := range items {
			require.Equal(t, stock.Left(before, item), stock.Left(after, item), "item %d", item)
			var moved int64
			for i := range after {
				moved += after[i].Moved[item]
				require.Equal(t, before[i].Left[item]-before[i].Moved[item], after[i].Left[item]-after[i].Moved[item])
				if i != home && before[i].Left[item] >= 0 {
					require.GreaterOrEqual(t, after[i].Left[item], int64(0), "nobody gives what he has not")
				}
			}
			for _, x := range stock.Underway(after) {
				if x.Item == item {
					moved += x.Units
				}
			}
			require.Zero(t, moved)
		}
	})
}

// crowd disturbs a gathering between its steps, and knows what there was to be had
// at each instant.
type crowd struct {
	*market
	late []stock.Transfer // given, and perhaps received already
	seen map[int64]bool   // what all lanes had, below zero as zero
}

func (c *crowd) note() { c.seen[max(0, stock.Left(c.read(), 0))] = true }

func (c *crowd) disturb(t *rapid.T) {
	lane, units := rapid.IntRange(0, len(c.lanes)-1).Draw(t, "lane"), rapid.Int64Range(1, 3).Draw(t, "units")
	switch rapid.SampledFrom([]string{"", "", "", "", "take", "take", "return", "adopt", "give", "receive", "again"}).Draw(t, "what") {
	case "take":
		c.take(lane, 0, units)
	case "return":
		if len(c.orders) > 0 {
			c.giveBack(rapid.IntRange(0, len(c.orders)-1).Draw(t, "order"))
		}
	case "adopt":
		c.adopt(lane, 0, units)
	case "give":
		if from, to := drawPair(t, c.market); from != to {
			if x := c.give(from, to, 0, units); x.Units > 0 {
				c.late = append(c.late, x)
			}
		}
	case "receive":
		for _, x := range stock.Underway(c.read()) {
			c.receive(x)
		}
	case "again":
		if len(c.late) > 0 {
			c.receive(c.late[rapid.IntRange(0, len(c.late)-1).Draw(t, "late")])
		}
	}
	c.note()
}

// TestGatherInACrowd: whatever others do meanwhile, what a gathering says was so at
// an instant, and no unit is made or lost.
func TestGatherInACrowd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{market: drawMarket(t, 1), seen: make(map[int64]bool)}
		home, least := rapid.IntRange(0, len(c.lanes)-1).Draw(t, "home"), rapid.Int64Range(1, 3).Draw(t, "least")
		units := stock.Left(c.read(), 0)
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			c.disturb(t)
		}
		clear(c.seen)
		c.note()
		out, err := stock.Gather(t.Context(), &hooked{c.mem, func(string) error {
			c.disturb(t)
			return nil
		}}, c.gathering(home, stock.Shortage{Least: least, Most: least + rapid.Int64Range(0, 3).Draw(t, "more")}))
		if !errors.Is(err, stock.ErrContended) {
			require.NoError(t, err)
		}
		if err == nil && out[0].Short {
			require.Less(t, out[0].Left, least)
			require.True(t, c.seen[out[0].Left], "%d were left at no instant", out[0].Left)
		}
		for _, o := range c.orders {
			units -= o.units
		}
		require.Equal(t, units, stock.Left(c.read(), 0), "what is not left is held")
	})
}

// buyer wants a pair at a lane, as an instance does: it takes, and gathers where the
// lane is short.
type buyer struct {
	*market
	home int
	turn chan chan error
	got  bool
	err  error
}

// errLivelock ends buyers that go on and on.
var errLivelock = errors.New("nobody gets anywhere")

func (b *buyer) press() {
	c := &hooked{b.mem, func(string) error { return b.wait() }}
	const gatherings = 8
	for range gatherings {
		if b.err = b.wait(); b.err != nil {
			return
		}
		verdict, r := b.take(b.home, 0, 2)
		if b.got = verdict == sale.Taken; b.got {
			return
		}
		g := &stock.Gathering{
			Lanes: b.lanes, Epoch: 1, Home: b.home, Generation: r.Generation, Short: []stock.Shortage{{Least: 2, Most: 2}},
		}
		out, err := stock.Gather(context.Background(), c, g)
		if b.err = err; err != nil || out[0].Short {
			return
		}
	}
	b.err = fmt.Errorf("%w: overtaken after %d gatherings", errLivelock, gatherings)
}

// wait waits for a turn.
func (b *buyer) wait() error {
	mine := make(chan error)
	b.turn <- mine
	return <-mine
}

// pairs lets buyers press for pairs in the order that turns say, each step as a
// whole; at a turn of 0 time passes first.
func pairs(t *testing.T, left [][]int64, homes, turns []int) []*buyer {
	t.Helper()
	const enough = 5000 // steps
	var buyers []*buyer
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, time.Now, left...)
		turn := make(chan chan error, len(homes))
		var ended atomic.Int64
		for _, home := range homes {
			b := &buyer{market: m, home: home, turn: turn}
			buyers = append(buyers, b)
			go func() {
				b.press()
				ended.Add(1)
			}()
		}
		var waiting []chan error
		for step := 0; ; step++ {
			synctest.Wait()
			for len(turn) > 0 {
				waiting = append(waiting, <-turn)
			}
			if ended.Load() == int64(len(buyers)) {
				return
			}
			next := turns[step%len(turns)]
			if next == 0 || len(waiting) == 0 {
				pass := time.NewTimer(5 * time.Millisecond)
				<-pass.C
			}
			if len(waiting) == 0 {
				continue
			}
			var verdict error
			if step > enough {
				verdict = errLivelock
			}
			at := next % len(waiting)
			waiting[at] <- verdict
			waiting = append(waiting[:at], waiting[at+1:]...)
		}
	})
	return buyers
}

// TestGatherPairs: as many pairs are sold as there are, wherever the units lie and
// whoever comes first: nobody keeps one unit while another keeps its fellow.
func TestGatherPairs(t *testing.T) {
	t.Parallel()
	check := func(t require.TestingT, left [][]int64, buyers []*buyer) {
		var units, sold int64
		for i := range left {
			units += left[i][0]
		}
		for _, b := range buyers {
			require.NoError(t, b.err)
			if b.got {
				sold += 2
			}
		}
		require.Equal(t, min(units/2, int64(len(buyers)))*2, sold)
		require.Equal(t, units-sold, stock.Left(buyers[0].read(), 0))
	}
	two := [][]int64{{1}, {1}}
	for _, turns := range [][]int{{1}, {2}, {1, 2}, {1, 1, 2, 2}, {1, 0}, {1, 0, 2}} {
		check(t, two, pairs(t, two, []int{0, 1}, turns))
	}
	rapid.Check(t, func(rt *rapid.T) {
		lanes := rapid.IntRange(2, 4).Draw(rt, "lanes")
		left := make([][]int64, lanes)
		for i := range left {
			left[i] = []int64{rapid.Int64Range(0, 2).Draw(rt, "left")}
		}
		homes := rapid.SliceOfN(rapid.IntRange(0, lanes-1), 2, 4).Draw(rt, "homes")
		turns := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 60).Draw(rt, "turns")
		check(rt, left, pairs(t, left, homes, turns))
	})
}
