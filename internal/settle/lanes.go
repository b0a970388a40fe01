package settle

import (
	"context"
	"errors"
	"maps"
	"slices"
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

	turns  int       // of lanes that are too many
	turned time.Time // when the last of them began
	seated time.Time // since when each of its lanes has a judge; zero while one has none
}

// service is the work on one lane.
type service struct {
	// ended is closed when the judge has gone home.
	ended chan struct{}
	// leaving tells the judge to go when nothing waits, and cold says that he found no
	// tray. since is when his lane's turn was over, zero while it is not.
	leaving, cold atomic.Bool
	since         time.Time
	forced        bool // he was sent away, whatever waits there
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

const (
	// restFor is how long an empty lane of a sale off the fast path is left alone. An
	// instance that has not heard of the change yet may still take from it.
	restFor = 5 * time.Second
	// restCold is the same for a lane that is not there, as those of all the sales that
	// are long over: nobody can take from it, unless its server finds it again.
	restCold = time.Minute
	// turnFor is how long a turn lasts where there are more lanes than are served at
	// once, from when each of its lanes has a judge. Those of the turn before go home
	// first: when nothing waits there, or as long after, with the batch that they are
	// at. However long that takes, the turn is over after maxTurn.
	turnFor = time.Second
	maxTurn = 10 * time.Second
)

// salesPage is how many sales one look reads at once.
const salesPage = 1000

// errTooMany says that more lanes of fast sales want to be served than may.
var errTooMany = errors.New("settle: more lanes than one worker serves at once, so they take turns; run more workers")

// NewLanes returns a manager that does nothing before Run.
func NewLanes(l ledger.Ledger, c stock.Counter, o LaneOptions) *Lanes {
	o = o.withDefaults()
	return &Lanes{
		judge: NewJudge(l, c, o), forwarder: NewForwarder(l, c, o), ledger: l, opts: o, wake: make(chan struct{}, 1),
		serving: make(map[stock.Lane]*service), resting: make(map[stock.Lane]rest),
		turns: int(sale.UserHash(o.Consumer) % 1000),
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
	inUse, outOfUse := m.jobs(fast, wanted), m.jobs(others, wanted)
	if len(inUse) > m.opts.MaxLanes {
		m.opts.Observer.Failed(stock.Lane{}, DoingServe, errTooMany)
	}
	outOfUse = slices.DeleteFunc(outOfUse, m.rests)
	at := m.opts.Clock()
	if !m.seated.IsZero() && at.Sub(m.seated) >= turnFor || at.Sub(m.turned) >= maxTurn {
		m.turned, m.seated, m.turns = at, time.Time{}, m.turns+1
	}
	kept := min(len(outOfUse), m.opts.MaxLanes/8) // some of those are always seen to
	jobs := m.turn(inUse, m.opts.MaxLanes-kept)
	jobs = append(jobs, m.turn(outOfUse, m.opts.MaxLanes-len(jobs))...)
	now := make(map[stock.Lane]bool, len(jobs))
	for _, j := range jobs {
		now[j.lane] = true
	}
	m.dismiss(now, wanted)
	waiting := false
	for _, j := range jobs {
		if j.sale.Path == sale.PathFast {
			m.serve(ctx, j.lane, j.sale)
		} else {
			m.clearUp(ctx, j.lane, j.sale)
		}
		waiting = waiting || m.serving[j.lane] == nil
	}
	if !waiting && m.seated.IsZero() {
		m.seated = at
	}
	return nil
}

// job is a lane that is to be served.
type job struct {
	lane stock.Lane
	sale *sale.Sale
}

// jobs returns the lanes of sales, and notes that there are such.
func (*Lanes) jobs(sales []sale.Sale, wanted map[stock.Lane]bool) []job {
	var out []job
	for i := range sales {
		for _, l := range stock.LanesOf(&sales[i]) {
			wanted[l] = true
			out = append(out, job{l, &sales[i]})
		}
	}
	return out
}

// turn returns those whose turn it is where there are more than limit: a stretch of
// them that goes round. Another worker is at another place.
func (m *Lanes) turn(jobs []job, limit int) []job {
	if len(jobs) <= limit {
		return jobs
	}
	first := m.turns % len(jobs) * limit % len(jobs)
	return slices.Concat(jobs[first:], jobs[:first])[:limit]
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

// serve sees that a lane in use has its judge and its courier, as soon as there is
// room.
func (m *Lanes) serve(ctx context.Context, l stock.Lane, s *sale.Sale) {
	at := m.open(ctx, l, s)
	if at == nil {
		return
	}
	at.leaving.Store(false)
	at.since = time.Time{}
	if at.courier != nil {
		return
	}
	c := m.forwarder.Courier(l, s)
	own, stop := context.WithCancel(ctx)
	m.mu.Lock()
	at.courier, at.stopCourier = c, stop
	m.mu.Unlock()
	m.workers.Go(func() {
		_ = c.Run(own) // nil always
	})
}

// rests reports whether a lane out of use was found empty just now.
func (m *Lanes) rests(j job) bool {
	r, known := m.resting[j.lane]
	return m.serving[j.lane] == nil && known && r.epoch == j.sale.Epoch && m.opts.Clock().Before(r.until)
}

// clearUp sees that a lane out of use is emptied, as soon as there is room.
func (m *Lanes) clearUp(ctx context.Context, l stock.Lane, s *sale.Sale) {
	known := m.serving[l] != nil
	at := m.open(ctx, l, s)
	if at == nil {
		return
	}
	m.leave(at)
	at.since = time.Time{}
	if !known {
		m.resting[l] = rest{epoch: s.Epoch}
	}
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
		at.cold.Store(m.judge.run(own, l, &rules, at.leaving.Load))
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
		m.opts.Observer.Released(l)
		if r, off := m.resting[l]; off && !at.forced {
			d := restFor
			if at.cold.Load() {
				d = restCold
			}
			m.resting[l] = rest{epoch: r.epoch, until: m.opts.Clock().Add(d)}
		}
	}
}

// dismiss lets the workers go whose lanes are not to be served now, once nothing
// waits there, and those that do not go in time, where something always does or the
// counter does not answer, after the batch they are at. It forgets lanes that are of no
// sale any more.
func (m *Lanes) dismiss(now, wanted map[stock.Lane]bool) {
	at := m.opts.Clock()
	for l, service := range m.serving {
		switch {
		case now[l]:
			continue
		case service.since.IsZero():
			service.since = at
		case wanted[l] && at.Sub(service.since) >= turnFor: // it has other turns; a deleted sale has none
			service.forced = true
			service.stopJudge()
		}
		m.leave(service)
	}
	maps.DeleteFunc(m.resting, func(l stock.Lane, _ rest) bool { return !wanted[l] })
}
