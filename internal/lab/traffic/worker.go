package traffic

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

const (
	// dialTimeout bounds opening a connection.
	dialTimeout = 3 * time.Second
	// redial is how long a target that could not be reached is left alone.
	redial = 250 * time.Millisecond
	// idle is how long a connection may stand before it is looked at again: a server
	// may have hung up, and a buyer's browser would see that. A crowd in full swing
	// never looks.
	idle = time.Millisecond
)

// lane is a target, and whether it can be reached.
type lane struct {
	target *wire.Target
	shut   atomic.Int64 // until then, after the run was made, nobody dials it
	why    atomic.Pointer[error]
}

// source hands out steps as they come due.
type source interface {
	next(ctx context.Context, s *Step) bool
	answered()
}

// group is the connections for visits, or those for what follows.
type group struct {
	run       *run
	source    source
	follows   bool
	connected atomic.Int64
}

// worker is one connection: one step at a time.
type worker struct {
	*group
	home int // the lane it prefers
	book *shard
	lane *lane
	conn atomic.Pointer[wire.Conn] // nil: none; another may close it, none but the worker sets it

	heard   time.Duration // when it was last used
	fresh   bool          // it was opened after that
	step    Step
	answer  wire.Answer
	outcome Outcome
	request []byte
}

// work carries out steps until there are none, or ctx ends.
func (w *worker) work(ctx context.Context) {
	defer w.hangUp()
	for ctx.Err() == nil {
		if !w.connect(ctx) && w.connected.Load() > 0 {
			// The others take this one's share.
			if !wait(ctx, redial) {
				return
			}
			continue
		}
		if !w.source.next(ctx, &w.step) {
			return
		}
		w.carryOut(ctx)
		w.source.answered()
	}
}

// connect opens a connection if there is none, to the first target from its home on
// that can be reached. It reports whether there is one.
func (w *worker) connect(ctx context.Context) bool {
	if w.conn.Load() != nil {
		return true
	}
	lanes := w.run.lanes
	for i := range lanes {
		l := lanes[(w.home+i)%len(lanes)]
		if l.shut.Load() > int64(time.Since(w.run.made)) {
			continue
		}
		conn, err := w.dial(ctx, l)
		if err != nil {
			if ctx.Err() != nil {
				return false // that says nothing of the target
			}
			l.why.Store(&err)
			l.shut.Store(int64(time.Since(w.run.made) + redial))
			continue
		}
		l.shut.Store(0)
		w.lane = l
		w.conn.Store(conn)
		w.fresh = true
		w.connected.Add(1)
		w.run.dialed.Add(1)
		if w.run.stopped.Load() { // too early to have been cut with the others
			w.hangUp()
		}
		return true
	}
	return false
}

func (w *worker) dial(ctx context.Context, l *lane) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(dialTimeout, w.run.timeout))
	defer cancel()
	return l.target.Dial(ctx)
}

// hangUp closes the connection, if there is one.
func (w *worker) hangUp() {
	if conn := w.conn.Load(); conn != nil {
		w.conn.Store(nil)
		w.connected.Add(-1)
		_ = conn.Close()
	}
}

// look hangs up if the server has done so while the connection stood idle. It reports
// whether there is one that stood idle, and that the server may be closing now.
func (w *worker) look() (stood bool) {
	conn := w.conn.Load()
	if conn == nil || w.fresh || w.run.now()-w.heard <= idle {
		return false
	}
	if !conn.Usable() {
		w.hangUp()
		return false
	}
	return true
}

// errUnreachable is the outcome of a step for which there was no connection.
var errUnreachable = errors.New("no target can be reached")

// carryOut sends the step, hears its answer and enters it.
func (w *worker) carryOut(ctx context.Context) {
	e := entry{step: &w.step, outcome: &w.outcome, sent: unsent, followed: w.follows}
	err := w.exchange(ctx, &e)
	e.heard = w.run.now()
	w.heard, w.fresh = e.heard, false
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil || w.answer.Close {
		w.hangUp()
	}
	w.outcome = w.run.script.Heard(&w.step, &w.answer, err)
	if err == nil {
		e.timing = w.answer.ServerTiming
	}
	w.book.enter(&e)
	if next := w.outcome.Next; next != nil {
		next.Due = e.heard + w.outcome.After
		w.run.follows.push(next)
	}
}

// exchange sends the step and reads its answer, by a connection that is opened if there
// is none.
func (w *worker) exchange(ctx context.Context, e *entry) error {
	stood := w.look()
	switch {
	case !w.connect(ctx):
		return w.run.whyNot()
	case w.conn.Load() == nil: // all were cut
		return errUnreachable
	}
	e.sent = w.run.now()
	w.book.sent.Add(1)
	end := w.run.start.Add(e.sent + w.run.timeout)
	err := w.ask(end)
	if stood && errors.Is(err, wire.ErrUnanswered) {
		// The server hung up while the request was on its way. A browser asks once more,
		// and whatever a crowd asks may be repeated.
		if w.hangUp(); w.connect(ctx) {
			w.step.Repeated = true
			err = w.ask(end)
		}
	}
	return err
}

// ask sends the step's request and reads the answer.
func (w *worker) ask(end time.Time) error {
	conn := w.conn.Load()
	if conn == nil {
		return errUnreachable
	}
	w.step.Target = w.lane.target
	w.request = w.run.script.Request(w.request[:0], &w.step)
	return conn.Do(w.request, end, &w.answer)
}

// wait waits for d and reports whether it did; not if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
