package settle

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// maxClaim is how many entries one claim brings. An entry holds up to
	// stock.MaxBatch slips, so this bounds memory, not the batch.
	maxClaim = 512
	// firstAverage is how many slips an entry is believed to hold before one was seen.
	firstAverage = 8
	// takeOverPage is how many entries are taken over in one call.
	takeOverPage = 128
	// lookAround is how often a worker looks for entries that others left, and at
	// the length of the tray.
	lookAround = time.Second
)

// Run judges what comes into a lane's tray until ctx ends, and returns nil then;
// the batch with the ledger is finished first. s is the lane's sale; only its
// number, key and items count, which never change.
//
// While one batch is with the ledger the next is claimed and read, so that a slow
// ledger gets large batches and an idle one gets each slip at once.
func (j *Judge) Run(ctx context.Context, l stock.Lane, s *sale.Sale) error {
	j.run(ctx, l, s, func() bool { return false })
	return nil
}

// run does the same, and also returns when leaving is true and nothing waits. It
// reports whether it left because there is no tray.
func (j *Judge) run(ctx context.Context, l stock.Lane, s *sale.Sale, leaving func() bool) (cold bool) {
	w := j.Worker(l, s)
	w.leaving = leaving
	gathered := make(chan struct{})
	go func() {
		defer close(gathered)
		w.gather(ctx)
	}()
	w.settle(ctx, gathered)
	call, cancel := j.call(ctx)
	defer cancel()
	if err := j.counter.Retire(call, l, j.opts.Consumer); err != nil && !errors.Is(err, stock.ErrCold) {
		j.opts.Observer.Failed(l, DoingClaim, err)
	}
	return w.cold
}

// Worker is a judge at work on one lane. When it runs, one goroutine claims and
// reads, and another has the ledger decide.
type Worker struct {
	*Judge
	lane    stock.Lane
	in      *inbox
	leaving func() bool

	// Of the goroutine that gathers.
	reader  *reader
	average int // slips an entry holds
	back    backOff
	cold    bool // there was no tray to leave

	// Of the goroutine that settles.
	bench *bench
}

// Worker returns one that works step by step, as a simulation needs it; Run is
// what a process needs. A worker that is let go in the middle of its work leaves
// nothing behind that another cannot take over.
func (j *Judge) Worker(l stock.Lane, s *sale.Sale) *Worker {
	w := &Worker{
		Judge: j, lane: l, reader: newReader(l, s), in: newInbox(j.opts.Batch), average: firstAverage,
		leaving: func() bool { return false },
	}
	w.bench = j.bench(l, w.in.release)
	return w
}

// Step claims what is there, takes over what was left behind, and has it decided
// as far as that can be done now. It waits for nothing and is not safe for
// concurrent use. What an error left undone is tried again by the next step.
func (w *Worker) Step(ctx context.Context) error {
	_, err := w.takeOver(ctx)
	if err == nil {
		_, err = w.claim(ctx, 0)
	}
	for _, p := range w.in.take() {
		w.bench.add(p)
	}
	return errors.Join(err, w.bench.round(ctx))
}

// settle has the ledger decide what is gathered until the gathering has ended.
func (w *Worker) settle(ctx context.Context, gathered <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for last := false; !last; {
		full := w.bench.full()
		var due <-chan time.Time
		if d, more := w.bench.next(); more {
			timer.Reset(d)
			due = timer.C
		}
		ready := w.in.ready
		if full {
			ready = nil
		}
		select {
		case <-ready:
		case <-due:
		case <-gathered:
			last = true
		}
		if last || !full {
			for _, p := range w.in.take() {
				w.bench.add(p)
			}
		}
		w.in.begin(w.opts.Clock())
		w.in.end(w.bench.round(ctx)) // reported, and tried again when due
	}
}

// gather claims and reads until ctx ends, or until it may leave.
func (w *Worker) gather(ctx context.Context) {
	look := time.NewTicker(lookAround)
	defer look.Stop()
	left := true // others may have left something before this start
	for w.waitForRoom(ctx, look.C, &left) {
		var err error
		wait := w.opts.Wait
		// Whose ledger does not answer must not keep its slips by taking them over
		// from itself.
		if left && !w.in.stuck(w.opts.Clock(), lookAround) {
			if left, err = w.takeOver(ctx); left {
				wait = 0 // the rest of it does not wait for new ones
			}
		}
		claimed := false
		if err == nil {
			claimed, err = w.claim(ctx, wait)
		}
		switch {
		case err != nil:
			if w.troubled(ctx, err) {
				return
			}
		case !claimed && !left && w.leaving() && w.empty(ctx):
			return
		default:
			w.back.reset()
		}
	}
}

// waitForRoom waits until more may be gathered and reports whether ctx goes on. When it
// is time to look around, left is set, and the tray is measured, also while there is no
// room: it grows fastest then.
func (w *Worker) waitForRoom(ctx context.Context, look <-chan time.Time, left *bool) bool {
	for ctx.Err() == nil {
		select {
		case <-look:
			w.measure(ctx)
			*left = true
		default:
		}
		if w.in.space() > 0 {
			return true
		}
		select {
		case <-w.in.room:
		case <-look:
			w.measure(ctx)
			*left = true
		case <-ctx.Done():
		}
	}
	return false
}

// claim brings new entries and reports whether there were any. When there are more
// than one claim brings, it goes on until a batch is full.
func (w *Worker) claim(ctx context.Context, wait time.Duration) (came bool, err error) {
	for ; ; wait = 0 {
		c := stock.Claim{Consumer: w.opts.Consumer, Max: min(max(1, w.in.space()/w.average), maxClaim), Wait: wait}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+w.opts.CallTimeout)
		entries, err := w.counter.Claim(call, w.lane, c)
		cancel()
		if len(entries) > 0 {
			came = true
			w.received(entries)
		}
		if err != nil || len(entries) < c.Max || w.in.space() <= 0 {
			if came {
				signal(w.in.ready)
			}
			return came, err
		}
	}
}

// received reads entries into the inbox.
func (w *Worker) received(entries []stock.Entry) {
	trimmed := 0
	for i := range entries {
		if entries[i].Fields == nil {
			trimmed++
		}
	}
	if trimmed > 0 {
		w.opts.Observer.Trimmed(w.lane, trimmed)
	}
	slips := w.in.put(w.reader, entries)
	w.average = max(1, (w.average+slips/len(entries))/2)
}

// takeOver brings entries that another worker, or a lost reply, left behind, and
// reports whether there may be more.
func (w *Worker) takeOver(ctx context.Context) (bool, error) {
	call, cancel := w.call(ctx)
	defer cancel()
	entries, err := w.counter.TakeOver(call, w.lane, w.opts.Consumer, w.opts.TakeOver, takeOverPage)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	others := 0
	for i := range entries {
		if !w.in.holds(entries[i].ID) {
			others++
		}
	}
	if others > 0 {
		w.opts.Observer.TookOver(w.lane, others)
	}
	w.received(entries)
	signal(w.in.ready)
	return len(entries) == takeOverPage, nil
}

// troubled waits a moment after trouble and reports whether to leave.
func (w *Worker) troubled(ctx context.Context, err error) (leave bool) {
	if errors.Is(err, stock.ErrCold) {
		if w.leaving() {
			w.cold = true
			return true
		}
		w.opts.Trouble(w.lane.Sale)
	}
	w.opts.Observer.Failed(w.lane, DoingClaim, err)
	return sleep(ctx, w.back.pause(w.opts.Chance)) != nil
}

// measure tells the observer how many slips wait.
func (w *Worker) measure(ctx context.Context) {
	call, cancel := w.call(ctx)
	defer cancel()
	if at, err := w.counter.Read(call, w.lane); err == nil {
		w.opts.Observer.Queued(w.lane, at.Queued)
	}
}

// empty reports whether nothing waits in the tray, claimed or not.
func (w *Worker) empty(ctx context.Context) bool {
	call, cancel := w.call(ctx)
	defer cancel()
	entries, err := w.counter.Look(call, w.lane, "", 1)
	return err == nil && len(entries) == 0
}
