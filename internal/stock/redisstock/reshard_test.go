package redisstock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
	"github.com/doorbuster/doorbuster/internal/stock/redisstock"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// plenty is more than a crowd takes: whoever hears "sold out" was lied to.
const plenty = 1 << 30

// The accident: a cluster is resharded in the middle of a sale. While the slot of a
// lane moves, its keys are on two masters, and both send callers elsewhere (MOVED,
// ASK) or away (TRYAGAIN); that is taken for an empty lane, or for "sold out", or a
// call is carried out by both.
// The right outcome: what cannot be done meanwhile is trouble, and the same call,
// repeated, ends it. Every unit that was taken is recorded once, with one slip.
func TestC42SlotsMoveInACrowd(t *testing.T) {
	t.Parallel()
	// Nobody dies here: a busy machine must not look like it.
	cluster := testenv.RedisCluster(t, "appendonly no", "cluster-node-timeout 30000")
	l := laneOf(7, 0)
	crowd := &movingCrowd{
		t: t, lane: l, stop: make(chan struct{}), taken: make(map[sale.OrderID]string), slips: make(map[sale.OrderID]string),
		beats: make(map[string]chan struct{}), troubles: make(map[redisconn.Reason]int),
	}
	for range 2 { // each finds out by itself where the lane is
		crowd.counters = append(crowd.counters, open(t, dial(t, cluster.URL())))
	}
	live(t, crowd.counters[0], l, plenty)
	between := crowd.begin()
	between()
	from := cluster.Owner(key(l, "meta"))
	for _, to := range append(cluster.Nodes[:], from) {
		if to != from {
			cluster.MoveSlot(key(l, "meta"), from, to, between)
			from = to
		}
	}
	crowd.end()
	crowd.recount()

	for _, redirection := range []string{"MOVED", "ASK", "TRYAGAIN"} {
		met := 0
		for _, node := range cluster.Nodes {
			if strings.HasPrefix(node.Info("errorstat_"+redirection), "count=") {
				met++
			}
		}
		require.Positive(t, met, "%s was answered", redirection)
	}
	require.Positive(t, crowd.troubles[redisconn.Moving])
	t.Logf("%d attempts taken, %d came back; trouble: %v", len(crowd.order), len(crowd.order)/returnEach, crowd.troubles)
}

// returnEach is how many are taken for each that comes back.
const returnEach = 3

// movingCrowd takes, gives back, judges and looks, and repeats what fails.
type movingCrowd struct {
	t        *testing.T
	lane     stock.Lane
	counters []*redisstock.Counter
	stop     chan struct{}
	work     sync.WaitGroup
	next     atomic.Int64
	beats    map[string]chan struct{} // a call of this kind has ended

	mu       sync.Mutex
	seen     uint64
	order    []sale.OrderID          // as taken
	taken    map[sale.OrderID]string // the users
	slips    map[sale.OrderID]string // the entries
	troubles map[redisconn.Reason]int
}

// begin starts the crowd. It returns a wait in which each kind of call is made anew
// and answered, somehow.
func (m *movingCrowd) begin() (between func()) {
	kinds := []struct {
		name string
		many int
		act  func(*redisstock.Counter)
	}{{"take", 3, m.take}, {"return", 1, m.giveBack}, {"judge", 1, m.judge}, {"look", 1, m.look}}
	m.take(m.counters[0])
	for _, k := range kinds {
		m.beats[k.name] = make(chan struct{})
	}
	for _, k := range kinds {
		for i := range k.many {
			m.work.Go(func() {
				for m.on() {
					k.act(m.counters[i%len(m.counters)])
				}
			})
		}
	}
	gone := make(chan struct{}) // something is wrong
	go func() {
		m.work.Wait()
		close(gone)
	}()
	return func() {
		deadline := time.NewTimer(time.Minute)
		defer deadline.Stop()
		for _, k := range kinds {
			for range k.many + 1 { // of so many, one began after the wait did
				select {
				case <-m.beats[k.name]:
				case <-gone:
					m.t.FailNow()
				case <-deadline.C:
					m.t.Fatalf("no %s ends", k.name)
				}
			}
		}
	}
}

func (m *movingCrowd) on() bool {
	select {
	case <-m.stop:
		return false
	default:
		return !m.t.Failed()
	}
}

func (m *movingCrowd) end() {
	close(m.stop)
	m.work.Wait()
}

// persist makes a call until it is carried out, and reports whether it may have been
// carried out more than once. Only trouble may stand in the way.
func (m *movingCrowd) persist(kind string, call func(context.Context) error) (unsure bool) {
	for deadline := time.Now().Add(time.Minute); ; {
		err := call(m.t.Context())
		select {
		case m.beats[kind] <- struct{}{}:
		default:
		}
		if err == nil {
			return unsure
		}
		m.mu.Lock()
		m.troubles[redisconn.ReasonOf(err)]++
		m.mu.Unlock()
		unsure = unsure || !errors.Is(err, redisconn.ErrNotExecuted)
		if !errors.Is(err, stock.ErrUnavailable) || time.Now().After(deadline) {
			m.t.Errorf("%s: %v", kind, err)
			return true
		}
	}
}

func (m *movingCrowd) take(c *redisstock.Counter) {
	call := click(m.lane, m.next.Add(1))
	m.mu.Lock()
	call.Seen = m.seen
	m.mu.Unlock()
	var reply stock.Reply
	unsure := m.persist("take", func(ctx context.Context) (err error) {
		reply, err = c.Take(ctx, call)
		return err
	})
	if reply.State != stock.Open || len(reply.Results) != 1 {
		m.t.Errorf("take: %+v", reply)
		return
	}
	if v := reply.Results[0].Verdict; v != sale.Taken && (v != sale.Replayed || !unsure) {
		m.t.Errorf("take: %s, unsure: %t", v, unsure)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &call.Attempts[0]
	m.seen = max(m.seen, reply.Seq)
	m.order, m.taken[a.ID] = append(m.order, a.ID), a.User
}

// giveBack returns one order after the other; those that came back before change
// nothing.
func (m *movingCrowd) giveBack(c *redisstock.Counter) {
	m.mu.Lock()
	acts := make([]stock.Act, 0, len(m.order)/returnEach+1)
	for i := returnEach - 1; i < len(m.order); i += returnEach {
		acts = append(acts, stock.Act{Kind: stock.ActReturn, ID: m.order[i], User: m.taken[m.order[i]]})
	}
	m.mu.Unlock()
	m.persist("return", func(ctx context.Context) error { return c.Return(ctx, m.lane, 1, acts) })
}

// judge claims what is there, and waits a little for more.
func (m *movingCrowd) judge(c *redisstock.Counter) {
	var entries []stock.Entry
	m.persist("judge", func(ctx context.Context) (err error) {
		entries, err = c.Claim(ctx, m.lane, stock.Claim{Consumer: "judge", Max: 10, Wait: 20 * time.Millisecond})
		return err
	})
	m.judged(c, entries)
}

func (m *movingCrowd) judged(c *redisstock.Counter, entries []stock.Entry) {
	for i := range entries {
		slips, err := stock.ReadSlips(m.lane.Sale, &entries[i])
		if err != nil {
			m.t.Error(err)
		}
		m.mu.Lock()
		for j := range slips {
			if other, known := m.slips[slips[j].ID]; known && other != entries[i].ID {
				m.t.Errorf("%s has two slips", slips[j].ID)
			}
			m.slips[slips[j].ID] = entries[i].ID
		}
		m.mu.Unlock()
	}
	m.persist("judge", func(ctx context.Context) error { return c.Done(ctx, m.lane, entries) })
}

// look sees an open lane, and the records of somebody who has taken.
func (m *movingCrowd) look(c *redisstock.Counter) {
	m.mu.Lock()
	id := m.order[len(m.order)-1]
	user := m.taken[id]
	m.mu.Unlock()
	var at stock.Standing
	var has stock.Records
	m.persist("look", func(ctx context.Context) (err error) {
		at, err = c.Read(ctx, m.lane)
		return err
	})
	m.persist("look", func(ctx context.Context) (err error) {
		has, err = c.Records(ctx, m.lane, user)
		return err
	})
	if at.State != stock.Open || has.State != stock.Open || len(has.Orders) != 1 || has.Orders[0].ID != id {
		m.t.Errorf("look: %+v %+v", at, has)
	}
}

// recount compares what the crowd was told with what is there.
func (m *movingCrowd) recount() {
	c, ctx, t := m.counters[0], m.t.Context(), m.t
	m.giveBack(c)
	for {
		entries, err := c.TakeOver(ctx, m.lane, "heir", 0, 1000) // also those whose claim was never answered
		require.NoError(t, err)
		fresh, err := c.Claim(ctx, m.lane, stock.Claim{Consumer: "heir", Max: 1000})
		require.NoError(t, err)
		if entries = append(entries, fresh...); len(entries) == 0 {
			break
		}
		m.judged(c, entries)
	}
	var held int64
	for id, user := range m.taken {
		has, err := c.Records(ctx, m.lane, user)
		require.NoError(t, err)
		require.Len(t, has.Orders, 1)
		require.Equal(t, id, has.Orders[0].ID)
		held += has.Orders[0].Quantity
		require.Contains(t, m.slips, id)
	}
	require.Len(t, m.slips, len(m.taken))
	at, err := c.Read(ctx, m.lane)
	require.NoError(t, err)
	total, back := int64(len(m.taken)), int64(len(m.taken)/returnEach)
	require.Equal(t, []int64{total, back, total - back, 0}, []int64{at.Taken, at.Returned, held, at.Queued})
	require.Equal(t, []int64{plenty - held}, at.Left)
}

// A claim that waits while its tray moves to another master has met trouble, not a
// lane that is gone.
func TestC42WaitingClaimWhileItsTrayMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, "appendonly no", "cluster-node-timeout 30000")
	c, l := open(t, dial(t, cluster.URL())), laneOf(7, 0)
	live(t, c, l, 10)
	from := cluster.Owner(key(l, "meta"))
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Claim(t.Context(), l, stock.Claim{Consumer: "c", Max: 1, Wait: 10 * time.Second})
		ended <- err
	}()
	from.AwaitInfo("blocked_clients", "1")
	cluster.MoveSlot(key(l, "meta"), from, to, nil)
	require.NoError(t, <-ended, "nothing came")
	_, err := c.Claim(t.Context(), l, stock.Claim{Consumer: "c", Max: 1})
	require.NoError(t, err, "the lane is there")
}
