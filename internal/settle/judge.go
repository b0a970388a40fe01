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
	// enough for one that failed to be tried some five times more, each after the ledger
	// has given a sign of life, and to be parked.
	patience = 5 * maxBackOff
)

// errUndecided says that a tray could not be emptied.
var errUndecided = errors.New("settle: slips in the tray cannot be judged")

// Drain judges every slip in a lane's tray, those that others have claimed too,
// and returns nil when the tray is empty. It ends only with the lane frozen, or
// when nobody takes. stock.ErrStuck if some cannot be judged though the ledger can be
// written to: they stay where they are, and the others are judged, unless those that are
// stuck are many. s is the lane's sale; only its number, key and items count.
func (j *Judge) Drain(ctx context.Context, l stock.Lane, s *sale.Sale) error {
	r := newReader(l, s)
	b := j.bench(l, func([]stock.Entry) {})
	for after := ""; ; {
		call, cancel := j.call(ctx)
		entries, err := j.counter.Look(call, l, after, lookBatch)
		cancel()
		if err != nil || len(entries) == 0 && after == "" {
			return err
		}
		for _, e := range entries {
			b.add(r.read(e))
			after = e.ID
		}
		last := len(entries) == 0
		if err := j.empty(ctx, b, last); err != nil {
			return err
		}
		if last {
			after = "" // is it empty?
		}
	}
}

// empty works until nothing is left on the bench, or nothing comes off it any more; what
// has failed alone waits for the last page. A ledger that fails is asked for less, down
// to one slip.
func (j *Judge) empty(ctx context.Context, b *bench, last bool) error {
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
		switch {
		case !more, !last && b.suspects():
			return nil
		case now.Sub(since) >= patience && (b.size == 1 || b.suspects()): // else less may be enough
			return j.stuck(ctx, b, trouble)
		}
		if err := sleep(ctx, due); err != nil {
			return errors.Join(errUndecided, err)
		}
	}
}

// stuck returns why a drain ends: it is the slips, or the ledger, in which the sale cannot
// be written to at all.
func (j *Judge) stuck(ctx context.Context, b *bench, trouble error) error {
	call, cancel := j.call(ctx)
	defer cancel()
	// No attempts: it locks the sale, and says which way that is.
	if _, err := j.ledger.Reserve(call, ledger.Batch{Sale: b.lane.Sale}); err != nil && !errors.Is(err, ledger.ErrWrongEpoch) {
		return errors.Join(errUndecided, trouble, err)
	}
	return errors.Join(stock.ErrStuck, trouble)
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
