package settle

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Lanes runs a judge and a forwarder for each lane of each sale that has lanes.
// Any number of processes may run one.
//
// A sale on the fast path gets both. A sale that has left it gets a judge until
// its trays are empty: what was taken under the old epoch is judged all the same.
type Lanes struct {
	judge     *Judge
	forwarder *Forwarder
	ledger    ledger.Ledger
	opts      LaneOptions
	wake      chan struct{}

	mu      sync.Mutex // Watch calls from elsewhere
	serving map[stock.Lane]*service
	workers sync.WaitGroup

	resting map[stock.Lane]rest // lanes of sales off the fast path that were found empty
}

// service is the work on one lane.
type service struct {
	// ended is closed when the judge has gone home.
	ended chan struct{}
	// leaving tells the judge to go when nothing waits.
	leaving atomic.Bool
	// stopJudge and stopCourier end the two; courier is nil where none runs.
	stopJudge   context.CancelFunc
	courier     *Courier
	stopCourier context.CancelFunc
}

// rest says until when a lane need not be looked at.
type rest struct {
	epoch int64
	until time.Time
}

// restFor is how long an empty lane of a sale off the fast path is left alone. An
// instance that has not heard of the change yet may still take from it.
const restFor = 5 * time.Second

// salesPage is how many sales one look reads at once.
const salesPage = 1000

// errTooMany says that more lanes want to be served than may.
var errTooMany = errors.New("settle: more lanes than max_lanes; run more workers or raise it")

// NewLanes returns a manager that does nothing before Run.
func NewLanes(l ledger.Ledger, c stock.Counter, o LaneOptions) *Lanes {
	o = o.withDefaults()
	return &Lanes{
		judge: NewJudge(l, c, o), forwarder: NewForwarder(l, c, o), ledger: l, opts: o, wake: make(chan struct{}, 1),
		serving: make(map[stock.Lane]*service), resting: make(map[stock.Lane]rest),
	}
}

// Judge returns the judge that the lanes are served by, for Drain.
func (m *Lanes) Judge() *Judge { return m.judge }

// Run serves the lanes until ctx ends, and returns nil when every worker has
// ended; batches with the ledger are finished first. It runs once.
func (m *Lanes) Run(ctx context.Context) error {
	stop := m.ledger.Watch(m.heard)
	defer stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			m.workers.Wait()
			return nil
		case <-m.wake:
		case <-pause.C:
		}
		if err := m.look(ctx); err != nil && ctx.Err() == nil {
			m.opts.Observer.Failed(stock.Lane{}, DoingList, err)
		}
		pause.Reset(m.opts.Interval)
	}
}

// heard passes a nudge on. It runs inside commits.
func (m *Lanes) heard(rows []ledger.Entry) {
	for i := range rows {
		if rows[i].Kind.OfSale() {
			signal(m.wake)
		}
		if rows[i].Kind.ForLane() {
			m.nudge(rows[i].Sale)
		}
	}
}

func (m *Lanes) nudge(n sale.Number) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l, s := range m.serving {
		if l.Sale == n && s.courier != nil {
			s.courier.Nudge()
		}
	}
}

// look brings the workers in line with the sales as they are.
func (m *Lanes) look(ctx context.Context) error {
	fast, others, err := m.sales(ctx)
	if err != nil {
		return err
	}
	m.tidy()
	wanted := make(map[stock.Lane]bool)
	refused := false
	for i := range fast {
		for _, l := range stock.LanesOf(&fast[i]) {
			wanted[l] = true
			refused = !m.serve(ctx, l, &fast[i]) || refused
		}
	}
	for i := range others {
		for _, l := range stock.LanesOf(&others[i]) {
			wanted[l] = true
			refused = !m.clearUp(ctx, l, &others[i]) || refused
		}
	}
	if refused {
		m.opts.Observer.Failed(stock.Lane{}, DoingServe, errTooMany)
	}
	m.dismiss(wanted)
	return nil
}

// sales returns those with lanes: on the fast path, and off it.
func (m *Lanes) sales(ctx context.Context) (fast, others []sale.Sale, err error) {
	for after := sale.Number(0); ; {
		call, cancel := context.WithTimeout(ctx, m.opts.CallTimeout)
		page, err := m.ledger.ListSales(call, after, salesPage)
		cancel()
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			after = page[i].Number
			switch {
			case len(page[i].Salts) == 0:
			case page[i].Path == sale.PathFast:
				fast = append(fast, page[i])
			default:
				others = append(others, page[i])
			}
		}
		if len(page) < salesPage {
			return fast, others, nil
		}
	}
}

// serve sees that a lane in use has its judge and its courier. It reports whether
// there was room.
func (m *Lanes) serve(ctx context.Context, l stock.Lane, s *sale.Sale) bool {
	at := m.open(ctx, l, s)
	if at == nil {
		return false
	}
	at.leaving.Store(false)
	if at.courier != nil {
		return true
	}
	c := m.forwarder.Courier(l, s)
	own, stop := context.WithCancel(ctx)
	m.mu.Lock()
	at.courier, at.stopCourier = c, stop
	m.mu.Unlock()
	m.workers.Go(func() {
		_ = c.Run(own) // nil always
	})
	return true
}

// clearUp sees that a lane out of use is emptied. It reports whether there was room.
func (m *Lanes) clearUp(ctx context.Context, l stock.Lane, s *sale.Sale) bool {
	if at := m.serving[l]; at != nil {
		m.leave(at)
		return true
	}
	if r, known := m.resting[l]; known && r.epoch == s.Epoch && m.opts.Clock().Before(r.until) {
		return true
	}
	at := m.open(ctx, l, s)
	if at == nil {
		return false
	}
	m.leave(at)
	m.resting[l] = rest{epoch: s.Epoch}
	return true
}

// leave ends the courier and lets the judge go when nothing waits.
func (m *Lanes) leave(at *service) {
	at.leaving.Store(true)
	if at.courier != nil {
		at.stopCourier()
		m.mu.Lock()
		at.courier = nil
		m.mu.Unlock()
	}
}

// open returns the service of a lane, a new one if there is none, or nil if too
// many are served.
func (m *Lanes) open(ctx context.Context, l stock.Lane, s *sale.Sale) *service {
	if at := m.serving[l]; at != nil {
		return at
	}
	if len(m.serving) >= m.opts.MaxLanes {
		return nil
	}
	at := &service{ended: make(chan struct{})}
	own, stop := context.WithCancel(ctx)
	at.stopJudge = stop
	m.mu.Lock()
	m.serving[l] = at
	m.mu.Unlock()
	rules := s.Clone()
	m.workers.Go(func() {
		defer close(at.ended)
		m.judge.run(own, l, &rules, at.leaving.Load)
	})
	return at
}

// tidy forgets the services whose judge has gone home.
func (m *Lanes) tidy() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l, at := range m.serving {
		select {
		case <-at.ended:
		default:
			continue
		}
		if at.courier != nil {
			at.stopCourier()
		}
		at.stopJudge()
		delete(m.serving, l)
		if r, off := m.resting[l]; off {
			m.resting[l] = rest{epoch: r.epoch, until: m.opts.Clock().Add(restFor)}
		}
	}
}

// dismiss lets the workers go whose lanes are of no sale any more, once nothing
// waits there.
func (m *Lanes) dismiss(wanted map[stock.Lane]bool) {
	for l, at := range m.serving {
		if !wanted[l] {
			m.leave(at)
		}
	}
	maps.DeleteFunc(m.resting, func(l stock.Lane, _ rest) bool { return !wanted[l] })
}
