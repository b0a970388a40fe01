package stocktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Mem is a counter in memory. Its answers depend on its calls and its clock
// alone, so a simulation that repeats them sees the same again.
type Mem struct {
	clock func() time.Time

	mu     sync.Mutex
	lanes  map[stock.Lane]*memLane
	faults memFaults
	moved  chan struct{} // closed and replaced when a tray gets an entry

	hearing   sync.Mutex // one message at a time
	listeners map[int]func(stock.Message)
	nextEar   int
}

var _ stock.Counter = (*Mem)(nil)

// NewMem returns an empty counter whose lanes all go by clock.
func NewMem(clock func() time.Time) *Mem {
	return &Mem{
		clock: clock, lanes: make(map[stock.Lane]*memLane), moved: make(chan struct{}),
		listeners: make(map[int]func(stock.Message)),
	}
}

type memLane struct {
	meta   *memMeta // nil: cold
	buyers map[int64]map[string]memBuyer
	tray   memTray
}

type memMeta struct {
	rules             stock.Rules
	ready             bool // Set has been called for the build
	steps             int64
	epoch, frozenBy   int64
	applied           uint64
	seq, generation   uint64
	queued, maxQueued int64
	taken, returned   int64
	left              []int64
	offset            time.Duration
	// Transfers: units by item, the last one to each lane, the number of the last one
	// from each, and until when the lane wants its units itself.
	moved    []int64
	given    map[int]stock.Transfer
	received map[int]uint64
	wanted   time.Time
}

type memBuyer struct {
	orders    []stock.Record
	coolUntil time.Time
}

// lane returns the lane for a look; a missing one is cold.
func (m *Mem) lane(l stock.Lane) *memLane {
	if found := m.lanes[l]; found != nil {
		return found
	}
	return &memLane{}
}

// made returns the lane for a change.
func (m *Mem) made(l stock.Lane) *memLane {
	if m.lanes[l] == nil {
		m.lanes[l] = &memLane{buyers: make(map[int64]map[string]memBuyer)}
	}
	return m.lanes[l]
}

func (x *memLane) of(epoch int64) map[string]memBuyer {
	if x.buyers[epoch] == nil {
		x.buyers[epoch] = make(map[string]memBuyer)
	}
	return x.buyers[epoch]
}

// ledgerTime returns the time of the ledger's clock by the lane's, in ms.
func (m *Mem) ledgerTime(offset time.Duration) time.Time {
	return time.UnixMilli(m.clock().UnixMilli() - offset.Milliseconds()).UTC()
}

func millis(t time.Time) time.Time { return time.UnixMilli(max(0, t.UnixMilli())).UTC() }

func shown(left []int64) []int64 {
	out := slices.Clone(left)
	for i := range out {
		out[i] = max(0, out[i])
	}
	return out
}

// Records implements stock.Counter.
func (m *Mem) Records(ctx context.Context, l stock.Lane, user string) (stock.Records, error) {
	return call(ctx, m, func() (stock.Records, error) {
		x := m.lane(l)
		if x.meta == nil {
			return stock.Records{State: stock.Cold}, nil
		}
		b := x.buyers[x.meta.epoch][user]
		return stock.Records{
			State: x.meta.state(), Epoch: x.meta.epoch, Orders: slices.Clone(b.orders), CoolUntil: b.coolUntil,
		}, nil
	})
}

// Holders implements stock.Counter.
func (m *Mem) Holders(ctx context.Context, l stock.Lane) (stock.Holders, error) {
	return call(ctx, m, func() (stock.Holders, error) {
		x := m.lane(l)
		if x.meta == nil {
			return stock.Holders{}, stock.ErrCold
		}
		h := stock.Holders{Epoch: x.meta.epoch, Generation: x.meta.generation, Seq: x.meta.seq}
		for _, user := range slices.Sorted(maps.Keys(x.buyers[x.meta.epoch])) {
			h.Hashes = append(h.Hashes, sale.UserHash(user))
		}
		return h, nil
	})
}

// Read implements stock.Counter.
func (m *Mem) Read(ctx context.Context, l stock.Lane) (stock.Standing, error) {
	return call(ctx, m, func() (stock.Standing, error) {
		x := m.lane(l)
		if !x.tray.exists {
			at := x.standing()
			return stock.Standing{State: stock.Cold, Epoch: at.Epoch, FrozenBy: at.FrozenBy}, nil
		}
		return x.standing(), nil
	})
}

// ReadAll implements stock.Counter.
func (m *Mem) ReadAll(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	out := make([]stock.Standing, len(lanes))
	for i, l := range lanes {
		var err error
		if out[i], err = m.Read(ctx, l); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Clock implements stock.Counter.
func (m *Mem) Clock(ctx context.Context, _ stock.Lane) (time.Time, error) {
	return call(ctx, m, func() (time.Time, error) { return m.clock().UTC(), nil })
}

func (x *memMeta) state() stock.State {
	if x.frozenBy != 0 {
		return stock.Frozen
	}
	return stock.Open
}

func (x *memLane) standing() stock.Standing {
	if x.meta == nil {
		return stock.Standing{State: stock.Cold}
	}
	m := x.meta
	return stock.Standing{
		State: m.state(), Epoch: m.epoch, FrozenBy: m.frozenBy, Steps: m.steps, Version: m.rules.Version, Applied: m.applied,
		Seq: m.seq, Generation: m.generation, Queued: m.queued, Taken: m.taken, Returned: m.returned,
		Stock: slices.Clone(m.rules.Stock), Left: slices.Clone(m.left), Offset: m.offset,
		Moved: slices.Clone(m.moved), Given: maps.Clone(m.given), Received: maps.Clone(m.received),
	}
}

// Take implements stock.Counter.
func (m *Mem) Take(ctx context.Context, c stock.Call) (stock.Reply, error) {
	if err := c.Check(); err != nil {
		return stock.Reply{}, err
	}
	return call(ctx, m, func() (stock.Reply, error) {
		x := m.lane(c.Lane)
		if x.meta == nil || !x.tray.exists {
			return stock.Reply{State: stock.Cold}, nil
		}
		t := memTake{lane: x, meta: x.meta, call: &c, now: m.ledgerTime(x.meta.offset)}
		state := t.refusal()
		if state == stock.Open && t.now.Sub(c.AskedAt).Abs() > stock.MaxDrift {
			return stock.Reply{}, fmt.Errorf("%w: it is %s by the lane's clock and %s by the caller's", stock.ErrUnavailable, t.now, c.AskedAt)
		}
		if state == stock.Open {
			t.decide()
			if len(t.slips) > 0 {
				m.wake()
			}
		}
		return stock.Reply{
			State: state, Seq: t.meta.seq, Generation: t.meta.generation, Version: t.meta.rules.Version,
			At: t.now, Left: shown(t.meta.left), Results: t.results,
		}, nil
	})
}
