package settle

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Judge has slips judged: it brings them from the trays of the fast counter to the
// ledger, which makes orders of them. Methods are safe for concurrent use, and any
// number of judges may work on a lane, here and elsewhere.
type Judge struct {
	ledger  ledger.Ledger
	counter stock.Counter
	opts    LaneOptions
}

// NewJudge returns a judge.
func NewJudge(l ledger.Ledger, c stock.Counter, o LaneOptions) *Judge {
	return &Judge{ledger: l, counter: c, opts: o.withDefaults()}
}

// call bounds one call. It does not end with ctx: what has been begun when a
// worker is told to stop is worth its end, which comes within the deadline.
func (j *Judge) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), j.opts.CallTimeout)
}

func (j *Judge) bench(l stock.Lane, removed func([]stock.Entry)) *bench {
	return &bench{j: j, lane: l, removed: removed, size: j.opts.Batch}
}

const (
	// lookBatch is how many entries one look at a tray brings.
	lookBatch = 64
	// patience is how long a drain goes on without a slip coming off the bench: long
	// enough for a slip that failed to be tried again, and to be parked.
	patience = 3 * maxBackOff
)

// errUndecided says that a tray could not be emptied.
var errUndecided = errors.New("settle: slips in the tray cannot be judged")

// Drain judges every slip in a lane's tray, those that others have claimed too,
// and returns nil when the tray is empty. It ends only with the lane frozen, or
// when nobody takes. Slips that the ledger neither judges nor parks stay where they
// are: all others are judged, and an error says so. s is the lane's sale; only its
// number, key and items count.
func (j *Judge) Drain(ctx context.Context, l stock.Lane, s *sale.Sale) error {
	r := newReader(l, s)
	var left error
	for after := ""; ; {
		call, cancel := j.call(ctx)
		entries, err := j.counter.Look(call, l, after, lookBatch)
		cancel()
		if err != nil || len(entries) == 0 {
			return errors.Join(left, err)
		}
		b := j.bench(l, func([]stock.Entry) {})
		for _, e := range entries {
			b.add(r.read(e))
		}
		if err := j.empty(ctx, b); err != nil {
			left = err
			if b.successes == 0 || ctx.Err() != nil || errors.Is(err, stock.ErrUnavailable) {
				return err
			}
			after = entries[len(entries)-1].ID // past those that are stuck
		}
	}
}

// empty works until nothing is left on the bench, or nothing comes off it any more. A
// ledger that fails is asked for less, down to one slip, and a slip that fails alone lets
// the others go before.
func (j *Judge) empty(ctx context.Context, b *bench) error {
	var trouble error
	still, since := b.left(), j.opts.Clock()
	for {
		if err := b.round(ctx); errors.Is(err, stock.ErrUnavailable) {
			return err
		} else if err != nil {
			trouble = err
		}
		now := j.opts.Clock()
		if n := b.left(); n < still {
			still, since = n, now
		}
		due, more := b.next()
		if !more {
			return nil
		}
		if now.Sub(since) >= patience && (b.size == 1 || b.suspects()) { // else less may be enough
			return errors.Join(errUndecided, trouble)
		}
		if err := sleep(ctx, due); err != nil {
			return errors.Join(errUndecided, err)
		}
	}
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
