package stocktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// gatherCases: stock.Gather over the counter's lanes.
func gatherCases() []testCase {
	several := func(w *World) bool { return len(w.Others) == 2 }
	return []testCase{
		{name: "Gather/cut off after every step", run: moved(gatherCut), needs: several},
		{name: "Gather/a crowd at three lanes", run: moved(gatherCrowd), needs: several},
	}
}

// cut is a counter whose caller is cut off after so many changes: the next happens
// or does not, and nobody hears of it.
type cut struct {
	stock.Counter
	after int
	lost  bool // the change after which it ends happens
}

func (c *cut) step(change func() error) error {
	switch c.after--; {
	case c.after >= 0:
		return change()
	case c.lost:
		if err := change(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: cut off", stock.ErrUnavailable)
}

func (c *cut) Give(ctx context.Context, l stock.Lane, x stock.Transfer) (got stock.Transfer, err error) {
	err = c.step(func() (err error) {
		got, err = c.Counter.Give(ctx, l, x)
		return err
	})
	return got, err
}

func (c *cut) Receive(ctx context.Context, l stock.Lane, x stock.Transfer) error {
	return c.step(func() error { return c.Counter.Receive(ctx, l, x) })
}

func (c *cut) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	return c.step(func() error { return c.Counter.Want(ctx, l, epoch, d) })
}

// gatherCut cuts off a gathering of the last lane after each of its steps; the
// first lane then finds every unit.
func gatherCut(t *testing.T, g *trio) {
	const units = 9
	g.open(t, units-2, 2, 0)
	gather := func(c stock.Counter, home int) ([]stock.Gathered, error) {
		return stock.Gather(t.Context(), c, &stock.Gathering{
			Lanes: g.lanes(), Epoch: g[0].epoch, Home: home, Generation: g[home].read(t).Generation,
			Short: []stock.Shortage{{Least: units, Most: units}},
		})
	}
	for steps, whole := 0, false; !whole; steps++ {
		for _, lost := range []bool{false, true} {
			_, err := gather(&cut{Counter: g[0].Counter, after: steps, lost: lost}, 2)
			if whole = err == nil; whole {
				require.Equal(t, []int64{0, 0, units}, g.left(t))
			} else {
				require.ErrorIs(t, err, stock.ErrUnavailable)
			}
			require.Equal(t, int64(units), stock.Left(g.read(t), 0), "after %d steps", steps)
			out, err := gather(g[0].Counter, 0)
			require.NoError(t, err)
			require.Equal(t, []stock.Gathered{{}}, out)
			require.Equal(t, []int64{units, 0, 0}, g.left(t), "after %d steps", steps)
			g.want(t, 0, 0)
			g.receive(t, g.give(t, g.transfer(0, 1, g[1].read(t).Received[0]+1, 2)))
		}
		require.Less(t, steps, 20)
	}
	at := g.read(t)
	require.Empty(t, stock.Underway(at))
	out, err := stock.Gather(t.Context(), g[0].Counter, &stock.Gathering{
		Lanes: g.lanes(), Epoch: g[0].epoch, Home: 2, Generation: at[2].Generation,
		Short: []stock.Shortage{{Least: units + 1, Most: units + 1}},
	})
	require.NoError(t, err)
	require.Equal(t, []stock.Gathered{{Short: true, Left: units}}, out)
	require.Equal(t, at, g.read(t), "a search in vain moves nothing")
}

// presser is one instance at one lane: it takes, and gathers where its lane is short.
type presser struct {
	*trio
	home   int
	number int
	orders int
	held   int64
}

// gatherCrowd lets several press at three lanes, of which one has nearly all, until
// each has a proof that nothing is left; some of them return what they have.
func gatherCrowd(t *testing.T, g *trio) {
	const units, pressers = 90, 6
	g.open(t, 2, units-3, 1)
	crowd := make([]*presser, pressers)
	var running sync.WaitGroup
	for i := range crowd {
		p := &presser{trio: g, home: i % 3, number: i}
		crowd[i] = p
		running.Go(func() {
			if err := p.press(t); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var held int64
	for _, p := range crowd {
		held += p.held
		for i := range p.orders {
			g[p.home].users[p.user(i)] = true
		}
	}
	at := g.read(t)
	require.Equal(t, int64(units), held, "all is sold, and no more")
	require.Empty(t, stock.Underway(at))
	var sum int64
	for i := range at {
		require.Equal(t, []int64{0}, at[i].Left, "lane %d", i)
		sum += at[i].Moved[0]
	}
	require.Zero(t, sum)
}

func (p *presser) user(order int) string { return name("p"+name("", p.number)+"-", order) }

// press takes pairs, then single units, until there are proofs that there are none.
func (p *presser) press(t *testing.T) error {
	for _, quantity := range []int64{2, 1} {
		for {
			got, err := p.buy(t, quantity)
			if err != nil {
				return err
			}
			if !got {
				break
			}
		}
	}
	return nil
}

// buy reports whether units were to be had.
func (p *presser) buy(t *testing.T, quantity int64) (bool, error) {
	w, user := p.trio[p.home], p.user(p.orders)
	for {
		at, err := w.Counter.Clock(t.Context(), w.Lane)
		if err != nil {
			return false, err
		}
		c := stock.Call{Lane: w.Lane, Epoch: w.epoch, Terms: w.terms, AskedAt: at, Attempts: []stock.Attempt{
			{ID: w.id(user, "k"), User: user, Quantity: quantity},
		}}
		w.sign(&c)
		r, err := w.Counter.Take(t.Context(), c)
		if err != nil || len(r.Results) != 1 {
			return false, errors.Join(err, fmt.Errorf("the lane is %s", r.State))
		}
		switch verdict := r.Results[0].Verdict; {
		case verdict == sale.Taken:
			return true, p.keep(t, w, user, quantity)
		case verdict != sale.SoldOut && verdict != sale.Insufficient:
			return false, fmt.Errorf("a fresh attempt is %s", verdict)
		}
		out, err := stock.Gather(t.Context(), w.Counter, &stock.Gathering{
			Lanes: p.lanes(), Epoch: w.epoch, Home: p.home, Generation: r.Generation,
			Short: []stock.Shortage{{Least: quantity, Most: quantity}},
		})
		switch {
		case errors.Is(err, stock.ErrContended):
			if w.Advance != nil {
				w.Advance(time.Second)
			}
		case err != nil:
			return false, err
		case out[0].Short:
			return false, nil
		}
	}
}

// keep counts an order; every fifth is given back at once.
func (p *presser) keep(t *testing.T, w *world, user string, quantity int64) error {
	p.orders++
	if p.orders%5 != 0 {
		p.held += quantity
		return nil
	}
	act := stock.Act{Kind: stock.ActReturn, ID: w.id(user, "k"), User: user}
	return w.Counter.Return(t.Context(), w.Lane, w.epoch, []stock.Act{act})
}
