package settle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// maxAlone is how many refused slips are tried in one round, each in a
	// transaction of its own, so that the slips behind them wait little.
	maxAlone = 16
	// maxRefused is how many slips may wait for another try; beyond it a refused
	// one is parked at once.
	maxRefused = 1000
	// maxLetters is how many letters may wait for a ledger that takes slips but no
	// letters; beyond it the lane waits, since nothing may be lost.
	maxLetters = 10_000
	// sizeStep is by how much calls shrink after a failure and grow after a success.
	sizeStep = 4
	// doneBatch is how many entries one call takes off the tray.
	doneBatch = 500
	// tellBatch is how many ids one message carries.
	tellBatch = 500
	// firstRetry is the pause before a refused slip is tried again; each further
	// one is twice as long.
	firstRetry = 100 * time.Millisecond
)

// bench is what lies before the judge of one lane. Nothing in it is durable: what
// is lost with it is still in the tray. It is not safe for concurrent use.
//
// A slip goes through it thus: judged or parked in the ledger, then, when its whole
// entry is, the entry is taken off the tray, then everybody is told. A crash
// between the steps leaves the entry in the tray, and judging it again changes
// nothing.
type bench struct {
	j    *Judge
	lane stock.Lane
	// open are the slips that are not decided.
	open []*task
	// done are the entries that are decided and still in the tray.
	done []stock.Entry
	// news are the orders that nobody has been told of.
	news []sale.OrderID
	// refused counts the slips that wait for another try.
	refused int
	// size is how many tasks the next call takes, and successes counts the calls
	// that did not fail.
	size, successes int
	// removed is called with entries that are off the tray.
	removed func([]stock.Entry)

	// troubled says that the last round failed, and resume when the next may begin.
	troubled bool
	resume   time.Time
	back     backOff
	// alive is the ledger's time when it last gave a sign of life while slips failed.
	alive time.Time
}

// add puts an entry on the bench.
func (b *bench) add(p *paper) {
	for i := range p.tasks {
		b.open = append(b.open, &p.tasks[i])
	}
	if p.open == 0 {
		b.done = append(b.done, p.entry)
	}
}

// round does what can be done now, and returns the trouble that stopped some of
// it. Then the rest is to be tried at resume.
func (b *bench) round(ctx context.Context) error {
	before := b.successes
	err := errors.Join(b.judge(ctx), b.park(ctx))
	err = errors.Join(err, b.clear(ctx))
	b.tell(ctx)
	b.open = slices.DeleteFunc(b.open, func(t *task) bool { return t.paper == nil })
	if err == nil && b.troubled && b.successes == before && !b.idle() {
		// Nothing was due: what is left has failed alone. Is it them, or the ledger?
		err = b.probe(ctx)
	}
	if err == nil || b.successes > before {
		b.back.reset()
	}
	b.troubled, b.resume = err != nil, time.Time{}
	if err == nil {
		return nil
	}
	b.resume = b.j.opts.Clock().Add(b.back.pause(b.j.opts.Chance))
	if ctx.Err() == nil {
		b.j.opts.Observer.Failed(b.lane, DoingJudge, err)
	}
	return err
}

// probe asks the ledger for a sign of life.
func (b *bench) probe(ctx context.Context) error {
	call, cancel := b.j.call(ctx)
	defer cancel()
	now, err := b.j.ledger.Now(call)
	if err == nil {
		b.alive = now
	}
	return err
}

// next returns how long until something on the bench is due, and whether anything
// will be.
func (b *bench) next() (time.Duration, bool) {
	if b.idle() && !b.troubled {
		return 0, false
	}
	at := b.resume
	if at.IsZero() {
		if len(b.open) == 0 {
			return 0, true
		}
		at = b.open[0].due
		for _, t := range b.open {
			if t.due.Before(at) {
				at = t.due
			}
		}
	}
	return max(0, at.Sub(b.j.opts.Clock())), true
}

func (b *bench) idle() bool { return b.left() == 0 }

// left counts what is on the bench.
func (b *bench) left() int { return len(b.open) + len(b.done) }

// suspects reports whether all that is left has failed alone.
func (b *bench) suspects() bool {
	return len(b.done) == 0 && !slices.ContainsFunc(b.open, func(t *task) bool { return !t.alone })
}

// full reports whether no more entries should come to the bench for now.
func (b *bench) full() bool { return b.troubled || len(b.open) > maxLetters }

// due returns the tasks whose time has come: those that go together, and a few of
// those that go alone.
func (b *bench) due(wanted func(*task) bool) (fresh, alone []*task) {
	now := b.j.opts.Clock()
	for _, t := range b.open {
		switch {
		case t.paper == nil || !wanted(t) || t.due.After(now):
		case !t.alone:
			fresh = append(fresh, t)
		case len(alone) < maxAlone:
			alone = append(alone, t)
		}
	}
	return fresh, alone
}

// judge has the authentic slips decided.
func (b *bench) judge(ctx context.Context) error {
	return b.inParts(func(t *task) bool { return t.letter == nil }, func(part []*task) error { return b.reserve(ctx, part) })
}

// inParts hands the tasks that are due over in parts: most of them together, those
// that made trouble each alone. A part that fails as a whole is tried smaller, for
// it may be too much for one call, or hold one that the ledger cannot bear; each
// success lets the next be larger. What is behind a failure waits for the next round.
func (b *bench) inParts(wanted func(*task) bool, do func([]*task) error) error {
	fresh, alone := b.due(wanted)
	for len(fresh) > 0 {
		n := b.size
		if len(fresh) < 2*n {
			n = len(fresh) // a small rest is not worth a call of its own
		}
		if err := do(fresh[:n]); err != nil {
			b.size = max(1, n/sizeStep)
			if n == 1 {
				b.suspect(fresh[0], err)
			}
			return err
		}
		b.successes++
		b.size = min(sizeStep*b.size, b.j.opts.Batch)
		fresh = fresh[n:]
	}
	for _, t := range alone {
		if err := do([]*task{t}); err != nil {
			b.suspect(t, err)
			return err
		}
		b.successes++
	}
	return nil
}

// suspect lets others go before a task that failed alone without being refused. If
// it goes on failing where others succeed, it is treated like a refused one; so it is
// where there are no others, once the ledger, which answers, would only find it too late.
func (b *bench) suspect(t *task, cause error) {
	if b.successes > t.failedAt {
		t.failures++
	}
	t.alone, t.failedAt = true, b.successes
	t.due = b.j.opts.Clock().Add(maxBackOff)
	if t.letter == nil && (t.failures > b.j.opts.Tries || b.alive.Sub(t.slip.TakenAt) > ledger.MaxQueued) {
		b.giveUp(t, cause)
	}
}

// giveUp has a slip parked.
func (b *bench) giveUp(t *task, cause error) {
	if t.tries > 0 {
		b.refused--
	}
	t.refused(b.lane, cause)
}

func (b *bench) reserve(ctx context.Context, tasks []*task) error {
	batch := ledger.Batch{Sale: b.lane.Sale, Attempts: make([]ledger.Attempt, len(tasks))}
	for i, t := range tasks {
		batch.Attempts[i] = t.attempt
	}
	call, cancel := b.j.call(ctx)
	defer cancel()
	started := b.j.opts.Clock()
	out, err := b.j.ledger.Reserve(call, batch)
	now := b.j.opts.Clock()
	b.j.opts.Observer.Judged(b.lane, len(tasks), now.Sub(started), err)
	if err != nil {
		return err
	}
	var trouble error
	for i, t := range tasks {
		switch r := &out.Results[i]; {
		case r.Err == nil:
			b.settled(t, r, out.At)
		case errors.Is(r.Err, ledger.ErrConstraint):
			b.postpone(t, now, r.Err)
		default: // the ledger broke down while it looked for the culprit
			trouble = r.Err
		}
	}
	return trouble
}

func (b *bench) settled(t *task, r *ledger.Result, at time.Time) {
	if r.Verdict != sale.Replayed && r.Verdict != sale.KeyMismatch {
		b.j.opts.Observer.Settled(b.lane, &r.Order, at.Sub(t.slip.TakenAt))
		if r.Order.Reason == sale.RejectedSoldOut {
			// The lane took what the ledger does not have. That is so for a moment after
			// a late payment; else the lane has lost something.
			b.j.opts.Trouble(b.lane.Sale)
		}
	}
	b.decided(t)
}

// postpone leaves a slip that the database refuses for a while, and parks it at
// last. The entry stays in the tray until then.
func (b *bench) postpone(t *task, now time.Time, cause error) {
	if t.tries++; t.tries == 1 {
		b.refused++
	}
	if t.tries >= b.j.opts.Tries || b.refused > maxRefused {
		b.giveUp(t, cause)
		return
	}
	t.alone, t.due = true, now.Add(firstRetry<<(t.tries-1))
}

// park stores what cannot be judged. A letter that the database refuses as well is
// tried for ever, alone: its slip is in the tray, and nowhere else.
func (b *bench) park(ctx context.Context) error {
	return b.inParts(func(t *task) bool { return t.letter != nil }, func(part []*task) error { return b.parkAll(ctx, part) })
}

func (b *bench) parkAll(ctx context.Context, tasks []*task) error {
	letters := make([]ledger.Letter, len(tasks))
	for i, t := range tasks {
		letters[i] = *t.letter
	}
	call, cancel := b.j.call(ctx)
	defer cancel()
	err := b.j.ledger.Park(call, b.lane.Sale, letters)
	switch {
	case errors.Is(err, ledger.ErrConstraint):
		b.j.opts.Observer.Failed(b.lane, DoingJudge, err)
		now := b.j.opts.Clock()
		for _, t := range tasks {
			t.tries++
			t.alone, t.due = true, now.Add(min(firstRetry<<min(t.tries, 10), maxPause))
		}
		return nil
	case err != nil:
		return err
	}
	for _, t := range tasks {
		b.j.opts.Observer.Parked(b.lane, t.letter)
		b.decided(t)
	}
	return nil
}

// decided takes a slip off the bench, and its entry with the last of them.
func (b *bench) decided(t *task) {
	if !t.attempt.ID.IsZero() {
		b.news = append(b.news, t.attempt.ID)
	}
	if t.letter == nil && t.tries > 0 {
		b.refused--
	}
	p := t.paper
	t.paper = nil
	if p.open--; p.open == 0 {
		b.done = append(b.done, p.entry)
	}
}

// clear takes decided entries off the tray.
func (b *bench) clear(ctx context.Context) error {
	for len(b.done) > 0 {
		part := b.done[:min(len(b.done), doneBatch)]
		call, cancel := b.j.call(ctx)
		err := b.j.counter.Done(call, b.lane, part)
		cancel()
		if errors.Is(err, stock.ErrCold) {
			b.j.opts.Trouble(b.lane.Sale) // the tray is gone, and these entries with it
		} else if err != nil {
			return err
		}
		b.removed(part)
		b.done = b.done[len(part):]
	}
	b.done = nil
	return nil
}

// tell wakes those who wait for a judgement. It is a nudge: one that fails is not
// repeated.
func (b *bench) tell(ctx context.Context) {
	for part := range slices.Chunk(b.news, tellBatch) {
		call, cancel := b.j.call(ctx)
		err := b.j.counter.Tell(call, stock.Message{Kind: stock.KindJudged, Sale: b.lane.Sale, IDs: part})
		cancel()
		if err != nil {
			b.j.opts.Observer.Failed(b.lane, DoingTell, err)
			break
		}
	}
	b.news = nil
}
