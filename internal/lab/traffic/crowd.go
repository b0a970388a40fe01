package traffic

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// run is a plan being carried out.
type run struct {
	script  Script
	timeout time.Duration
	drain   time.Duration
	made    time.Time
	lanes   []*lane
	books   *books
	dialed  atomic.Int64
	stopped atomic.Bool // ctx has ended: no connection may stay open

	visits  *visits
	follows *following
	workers []*worker // those for visits first
	first   int       // how many are for visits

	started chan struct{} // closed when start is known
	start   time.Time     // the plan's zero
	wish    time.Time
}

func newRun(targets []*wire.Target, plan []Visit, script Script, o *Options) *run {
	r := &run{
		script: script, timeout: o.Timeout, drain: o.Drain, made: time.Now(), books: newBooks(o.Slot),
		started: make(chan struct{}), first: o.Connections, wish: o.Start,
	}
	for _, t := range targets {
		r.lanes = append(r.lanes, &lane{target: t})
	}
	clock := newAlarm
	if o.timers {
		clock = func() alarm { return newTimerAlarm() }
	}
	r.visits, r.follows = newVisits(plan, r.now, clock()), newFollowing(r.now, clock())
	front, back := &group{run: r, source: r.visits}, &group{run: r, source: r.follows, follows: true}
	for i := range o.Connections + o.Followers {
		g := front
		if i >= o.Connections {
			g = back
		}
		r.workers = append(r.workers, &worker{group: g, home: i % len(r.lanes), book: r.books.shards[i%len(r.books.shards)]})
	}
	if o.Gauge != nil {
		o.Gauge.run.Store(r)
	}
	return r
}

// now returns the time since the start; it is negative before.
func (r *run) now() time.Duration { return time.Since(r.start) }

// run opens the connections and sends the crowd.
func (r *run) run(ctx context.Context) (*Record, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		r.cut()
	})
	defer func() {
		if !stop() {
			<-cut
		}
		r.visits.alarm.close()
		r.follows.alarm.close()
	}()
	if err := r.warm(ctx); err != nil {
		for _, w := range r.workers {
			w.hangUp()
		}
		return nil, err
	}
	var front, back sync.WaitGroup
	for i, w := range r.workers {
		if i < r.first {
			front.Go(func() { w.work(ctx) })
		} else {
			back.Go(func() { w.work(ctx) })
		}
	}
	front.Wait()
	r.follows.answered() // nothing new can come from the plan
	late := time.AfterFunc(r.drain, func() { r.follows.abandon() })
	back.Wait()
	late.Stop()
	return r.record(), nil
}

// mostDials bounds how many connections are opened at once, so that they fit into a
// server's queue.
const mostDials = 128

// warm opens the connections and then fixes the start.
func (r *run) warm(ctx context.Context) error {
	patience, cancel := r.untilFirst(ctx)
	defer cancel()
	var open sync.WaitGroup
	turns := make(chan struct{}, mostDials)
	for _, w := range r.workers {
		open.Go(func() {
			turns <- struct{}{}
			w.connect(patience)
			<-turns
		})
	}
	open.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.workers[0].connected.Load() == 0 {
		return fmt.Errorf("%w: %w", errUnreachable, r.whyNot())
	}
	r.visits.full = int64(math.Ceil(busyShare * float64(r.workers[0].connected.Load())))
	now := time.Now()
	r.start = now.Add(settleTime - min(0, r.visits.plan[0].At))
	if !r.wish.IsZero() {
		r.start = now.Add(time.Until(r.wish)) // by this process's own steady clock
	}
	for _, w := range r.workers {
		w.heard, w.fresh = r.now(), false
	}
	close(r.started)
	return nil
}

// untilFirst bounds the warming where the start is given: what is not open when the
// first visit is due is opened beside the crowd.
func (r *run) untilFirst(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.wish.IsZero() {
		return context.WithCancel(ctx)
	}
	const atLeast = time.Second
	return context.WithTimeout(ctx, max(atLeast, time.Until(r.wish)+r.visits.plan[0].At))
}

// whyNot returns why the targets could not be reached.
func (r *run) whyNot() error {
	for _, l := range r.lanes {
		if why := l.why.Load(); why != nil {
			return *why
		}
	}
	return errUnreachable
}

// cut breaks all connections off: ctx has ended.
func (r *run) cut() {
	r.stopped.Store(true)
	r.visits.alarm.ring()
	r.follows.alarm.ring()
	for _, w := range r.workers {
		if conn := w.conn.Load(); conn != nil {
			_ = conn.Close()
		}
	}
}

// record puts together what was seen.
func (r *run) record() *Record {
	record := r.books.record()
	record.Start, record.Dialed, record.Abandoned = r.start, r.dialed.Load(), r.follows.abandon()
	record.Connections, record.Queued = r.first, r.visits.queued.Load()
	taken, due := int(r.visits.taken.Load()), dueBy(r.visits.plan, r.now())
	if due > taken {
		record.Abandoned += int64(due - taken)
	}
	record.offered(r.visits.plan[:max(taken, due)])
	return record
}
