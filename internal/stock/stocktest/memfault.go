package stocktest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/doorbuster/doorbuster/internal/stock"
)

type memFaults struct {
	lose bool
	down bool
}

// call carries out one call under the lock, with the faults that are asked for.
func call[T any](ctx context.Context, m *Mem, act func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var none T
	if ctx.Err() != nil {
		return none, gone(ctx)
	}
	if m.faults.down {
		return none, fmt.Errorf("%w: it is down", stock.ErrUnavailable)
	}
	out, err := act()
	if m.faults.lose {
		m.faults.lose = false
		return none, fmt.Errorf("%w: the reply is lost", stock.ErrUnavailable)
	}
	return out, err
}

func do(ctx context.Context, m *Mem, act func() error) error {
	_, err := call(ctx, m, func() (struct{}, error) { return struct{}{}, act() })
	return err
}

func gone(ctx context.Context) error {
	return fmt.Errorf("%w: %w", stock.ErrUnavailable, context.Cause(ctx))
}

// LoseReply makes the next call happen and its answer be lost.
func (m *Mem) LoseReply() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults.lose = true
}

// Down makes every call fail, and change nothing, until Up.
func (m *Mem) Down() { m.setDown(true) }

// Up ends what Down began.
func (m *Mem) Up() { m.setDown(false) }

func (m *Mem) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults.down = down
}

// Forget loses what the lane knows, as if its key had been deleted; records and
// tray stay behind.
func (m *Mem) Forget(l stock.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.lanes[l]; x != nil {
		x.meta = nil
	}
}

// Wipe loses everything, as a restart without persistence does; of these lanes
// alone, if any are named.
func (m *Mem) Wipe(only ...stock.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(only) == 0 {
		m.lanes = make(map[stock.Lane]*memLane)
	}
	for _, l := range only {
		delete(m.lanes, l)
	}
}

// Plant puts an entry of any fields into the tray, as somebody with write access
// might, and returns its id.
func (m *Mem) Plant(l stock.Lane, fields map[string]string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.made(l)
	x.tray.exists = true
	defer m.wake()
	return x.tray.add(m.clock(), maps.Clone(fields)).String()
}

// Trim deletes an entry behind its consumer's back.
func (m *Mem) Trim(l stock.Lane, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.made(l)
	p, err := parsePlace(id)
	if at, found := x.tray.find(p); err == nil && found {
		x.tray.entries = slices.Delete(x.tray.entries, at, at+1)
	}
}

// LoseTray deletes a tray, as somebody with write access might.
func (m *Mem) LoseTray(l stock.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made(l).tray = memTray{}
	m.wake()
}

// Snapshot is the whole counter at one instant.
type Snapshot struct{ lanes map[stock.Lane]*memLane }

// Save returns the counter as it is, for Restore.
func (m *Mem) Save() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{lanes: cloneLanes(m.lanes)}
}

// Restore brings back what Save returned, as a fail-over to a replica that lags
// does: everything since is forgotten; by these lanes alone, if any are named.
func (m *Mem) Restore(s Snapshot, only ...stock.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := cloneLanes(s.lanes)
	if len(only) == 0 {
		m.lanes = old
	}
	for _, l := range only {
		delete(m.lanes, l)
		if x := old[l]; x != nil {
			m.lanes[l] = x
		}
	}
	m.wake()
}

func cloneLanes(lanes map[stock.Lane]*memLane) map[stock.Lane]*memLane {
	out := make(map[stock.Lane]*memLane, len(lanes))
	for l, x := range lanes {
		out[l] = x.clone()
	}
	return out
}

func (x *memLane) clone() *memLane {
	c := &memLane{buyers: make(map[int64]map[string]memBuyer, len(x.buyers)), tray: x.tray}
	if x.meta != nil {
		m := *x.meta
		m.left, m.rules = slices.Clone(x.meta.left), cloneRules(&x.meta.rules)
		m.moved, m.given, m.received = slices.Clone(x.meta.moved), maps.Clone(x.meta.given), maps.Clone(x.meta.received)
		c.meta = &m
	}
	for epoch, buyers := range x.buyers {
		c.buyers[epoch] = maps.Clone(buyers) // the lists in it are never changed in place
	}
	c.tray.entries, c.tray.pending = slices.Clone(x.tray.entries), maps.Clone(x.tray.pending)
	return c
}

// KeepReplies takes back a LoseReply that no call has met.
func (m *Mem) KeepReplies() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults.lose = false
}
