package stock_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/stocktest"
)

// market is the lanes of one sale in a counter in memory, all in the first epoch.
type market struct {
	tb     require.TestingT
	mem    *stocktest.Mem
	clock  func() time.Time
	lanes  []stock.Lane
	orders []held // that hold units
	buyers int
}

// held is an order as its lane recorded it.
type held struct {
	lane, item int
	user       string
	id         sale.OrderID
	units      int64
}

// noon is a clock that stands still.
func noon() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

// newMarket opens lanes with what each has left, by item.
func newMarket(tb require.TestingT, clock func() time.Time, left ...[]int64) *market {
	m := &market{tb: tb, mem: stocktest.NewMem(clock), clock: clock}
	for i := range left {
		m.lanes = append(m.lanes, stock.Lane{Sale: number, Index: i})
		m.build(i, 1, left[i])
	}
	return m
}

// build opens a lane under an epoch.
func (m *market) build(lane int, epoch int64, left []int64) {
	l, now := m.lanes[lane], m.clock()
	s := stock.Setting{
		Rules: stock.Rules{
			Version: epoch, State: sale.Published, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), PerUserLimit: 1000, Terms: 1,
		},
		Left: left, MaxQueued: 1 << 40,
	}
	for _, units := range left {
		s.Stock = append(s.Stock, max(0, units))
	}
	_, err := m.mem.Freeze(context.Background(), l, epoch)
	require.NoError(m.tb, err)
	require.NoError(m.tb, m.mem.Set(context.Background(), l, epoch, s))
	require.NoError(m.tb, m.mem.Unfreeze(context.Background(), l, epoch))
}

func (m *market) read() []stock.Standing {
	at, err := m.mem.ReadAll(context.Background(), m.lanes)
	require.NoError(m.tb, err)
	return at
}

// left returns what each lane has, by item.
func (m *market) left() [][]int64 {
	at := m.read()
	out := make([][]int64, 0, len(at))
	for _, s := range at {
		out = append(out, s.Left)
	}
	return out
}

func (m *market) buyer() (user string, id sale.OrderID) {
	m.buyers++
	user = "u" + strconv.Itoa(m.buyers)
	return user, sale.DeriveOrderID(sale.Key{7}, number, user, "k")
}

// take lets somebody new press at a lane.
func (m *market) take(lane, item int, units int64) (sale.Verdict, stock.Reply) {
	user, id := m.buyer()
	r, err := m.mem.Take(context.Background(), stock.Call{
		Lane: m.lanes[lane], Epoch: 1, Terms: 1, AskedAt: m.clock(),
		Attempts: []stock.Attempt{{ID: id, User: user, Item: item, Quantity: units}},
	})
	require.NoError(m.tb, err)
	require.Len(m.tb, r.Results, 1, "the lane is %s", r.State)
	if r.Results[0].Verdict == sale.Taken {
		m.orders = append(m.orders, held{lane, item, user, id, units})
	}
	return r.Results[0].Verdict, r
}

// giveBack ends an order.
func (m *market) giveBack(i int) {
	o := m.orders[i]
	m.orders = append(m.orders[:i:i], m.orders[i+1:]...)
	require.NoError(m.tb, m.mem.Return(context.Background(), m.lanes[o.lane], 1, []stock.Act{{Kind: stock.ActReturn, ID: o.id, User: o.user}}))
}

// adopt tells a lane of an order that the ledger accepted without it.
func (m *market) adopt(lane, item int, units int64) {
	user, id := m.buyer()
	from := m.read()[lane].Applied
	_, err := m.mem.Apply(context.Background(), m.lanes[lane], stock.Acts{Epoch: 1, From: from, To: from + 1, Acts: []stock.Act{
		{Kind: stock.ActAdopt, Seq: from + 1, ID: id, User: user, Item: item, Quantity: units, Counted: units, TakenAt: m.clock()},
	}})
	require.NoError(m.tb, err)
	m.orders = append(m.orders, held{lane, item, user, id, units})
}

// next is the next transfer of a pair of lanes.
func (m *market) next(from, to, item int, units int64) stock.Transfer {
	return stock.Transfer{Epoch: 1, From: from, To: to, Number: m.read()[to].Received[from] + 1, Item: item, Units: units}
}

// give gives no units where the lane wants them itself.
func (m *market) give(from, to, item int, units int64) stock.Transfer {
	x, err := m.mem.Give(context.Background(), m.lanes[from], m.next(from, to, item, units))
	if !errors.Is(err, stock.ErrWanted) {
		require.NoError(m.tb, err)
	}
	return x
}

func (m *market) receive(x stock.Transfer) {
	require.NoError(m.tb, m.mem.Receive(context.Background(), m.lanes[x.To], x))
}

// gathering is one of a lane that has just been found short.
func (m *market) gathering(home int, short ...stock.Shortage) *stock.Gathering {
	return &stock.Gathering{Lanes: m.lanes, Epoch: 1, Home: home, Generation: m.read()[home].Generation, Short: short}
}

// gather gathers undisturbed.
func (m *market) gather(home int, short ...stock.Shortage) []stock.Gathered {
	out, err := stock.Gather(context.Background(), m.mem, m.gathering(home, short...))
	require.NoError(m.tb, err)
	require.Len(m.tb, out, len(short))
	return out
}

// hooked is a counter at which something may happen before each step of a caller;
// an error is the step's.
type hooked struct {
	stock.Counter
	before func(step string) error
}

const (
	stepRead    = "read"
	stepGive    = "give"
	stepReceive = "receive"
	stepWant    = "want"
)

// ReadAll reads the lanes one after the other.
func (h *hooked) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	out := make([]stock.Standing, len(lanes))
	for i, l := range lanes {
		err := h.before(stepRead)
		if err == nil {
			out[i], err = h.Read(ctx, l)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (h *hooked) Give(ctx context.Context, l stock.Lane, x stock.Transfer) (stock.Transfer, error) {
	if err := h.before(stepGive); err != nil {
		return stock.Transfer{}, err
	}
	return h.Counter.Give(ctx, l, x)
}

func (h *hooked) Receive(ctx context.Context, l stock.Lane, x stock.Transfer) error {
	if err := h.before(stepReceive); err != nil {
		return err
	}
	return h.Counter.Receive(ctx, l, x)
}

func (h *hooked) Want(ctx context.Context, l stock.Lane, epoch int64, d time.Duration) error {
	if err := h.before(stepWant); err != nil {
		return err
	}
	return h.Counter.Want(ctx, l, epoch, d)
}
