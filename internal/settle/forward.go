package settle

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// stretchRows is how many journal rows reach a lane in one call.
	stretchRows = 500
	// maxStretches bounds one round, so that a long way behind is no way without end.
	maxStretches = 200
	// measureEvery is how often a lane's clock is compared with the ledger's.
	measureEvery = 5 * time.Second
)

// Forwarder brings to lanes what the ledger did without them: units that came
// back, orders it accepted by another way, new rules. The lane's own number says
// how far it has come, so any number of forwarders may work on a lane, and one
// that stops anywhere leaves nothing half done.
type Forwarder struct {
	ledger  ledger.Ledger
	counter stock.Counter
	opts    LaneOptions
}

// NewForwarder returns a forwarder.
func NewForwarder(l ledger.Ledger, c stock.Counter, o LaneOptions) *Forwarder {
	return &Forwarder{ledger: l, counter: c, opts: o.withDefaults()}
}

// Courier forwards to one lane. It is not safe for concurrent use but for Nudge.
type Courier struct {
	*Forwarder
	lane  stock.Lane
	sale  sale.Sale
	nudge chan struct{}

	known   bool   // the lane has been read under this epoch
	applied uint64 // the lane's number
	version int64  // of the rules that the lane has
}

// Courier returns one for a lane of s.
func (f *Forwarder) Courier(l stock.Lane, s *sale.Sale) *Courier {
	return &Courier{Forwarder: f, lane: l, sale: s.Clone(), nudge: make(chan struct{}, 1)}
}

// Nudge says that there may be something to forward. It never blocks.
func (c *Courier) Nudge() { signal(c.nudge) }

// Run forwards until ctx ends, and returns nil then.
func (c *Courier) Run(ctx context.Context) error {
	look := time.NewTimer(0)
	defer look.Stop()
	measure := time.NewTicker(measureEvery)
	defer measure.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.nudge:
			c.attempt(ctx, DoingForward, c.Round)
		case <-look.C:
			c.attempt(ctx, DoingForward, c.Round)
			look.Reset(c.opts.Interval)
		case <-measure.C:
			c.attempt(ctx, DoingOffset, c.Measure)
		}
	}
}

// Step does once what Run does at every look, as a simulation needs it: it forwards
// what is there, and sees to what went wrong.
func (c *Courier) Step(ctx context.Context) { c.attempt(ctx, DoingForward, c.Round) }

// attempt does one thing and sees to what went wrong with it.
func (c *Courier) attempt(ctx context.Context, doing Doing, do func(context.Context) error) {
	err := do(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return
	case errors.Is(err, stock.ErrFrozen):
		return // a builder is at work; the next look tries again
	case errors.Is(err, stock.ErrCold), errors.Is(err, stock.ErrEpoch):
		moved, readErr := c.read(ctx)
		if moved {
			c.Nudge()
			return
		}
		if readErr == nil && c.sale.Path == sale.PathFast {
			c.opts.Trouble(c.lane.Sale)
		}
		err = errors.Join(err, readErr)
	}
	c.opts.Observer.Failed(c.lane, doing, err)
}

// read reads the sale again and reports whether it is in another epoch now.
func (c *Courier) read(ctx context.Context) (moved bool, err error) {
	call, cancel := c.call(ctx)
	defer cancel()
	s, err := c.ledger.SaleByNumber(call, c.lane.Sale)
	if err != nil {
		return false, err
	}
	moved = s.Epoch != c.sale.Epoch
	if moved {
		c.known = false
	}
	c.sale = s
	return moved, nil
}

func (f *Forwarder) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.opts.CallTimeout)
}

// Round forwards everything that the journal has for the lane. ErrFrozen,
// ErrCold, ErrEpoch of package stock: nothing can be done before somebody has
// seen to the lane, or the sale has been read again.
func (c *Courier) Round(ctx context.Context) error {
	if !c.known {
		if err := c.meet(ctx); err != nil {
			return err
		}
	}
	for range maxStretches {
		more, err := c.forward(ctx)
		if err != nil {
			c.known = false // part of the stretch may have reached the lane
			return err
		}
		if !more {
			return nil
		}
	}
	c.Nudge()
	return nil
}

// meet finds out how far the lane has come.
func (c *Courier) meet(ctx context.Context) error {
	call, cancel := c.call(ctx)
	defer cancel()
	at, err := c.counter.Read(call, c.lane)
	if err != nil {
		return err
	}
	switch {
	case at.State == stock.Cold:
		return stock.ErrCold
	case at.State == stock.Frozen:
		return stock.ErrFrozen
	case at.Epoch != c.sale.Epoch:
		return stock.ErrEpoch
	}
	c.applied, c.version = at.Applied, at.Version
	if at.Version > c.sale.Version { // another courier has brought rules that were not read here
		err = c.revise(ctx)
	} else {
		err = c.sync(ctx)
	}
	c.known = err == nil
	return err
}

// forward brings the next stretch of the journal to the lane and reports whether
// there may be more.
//
// New rules go first: a crash between the two leaves the lane's number where it
// was, so they are found again. The acts would not miss them, for both only add to
// what is left.
func (c *Courier) forward(ctx context.Context) (more bool, err error) {
	call, cancel := c.call(ctx)
	rows, err := c.ledger.LaneRows(call, c.lane.Sale, c.applied, stretchRows)
	cancel()
	if err != nil {
		return false, err
	}
	c.opts.Observer.Behind(c.lane, rows.Upto-c.applied)
	if rows.Upto == c.applied {
		return false, nil
	}
	news := actsOf(rows.Rows, &c.sale, c.lane)
	if news.revised {
		if err := c.revise(ctx); err != nil {
			return false, err
		}
		news = actsOf(rows.Rows, &c.sale, c.lane) // which count by the rules in force
	}
	for _, err := range news.unreadable {
		c.opts.Observer.Failed(c.lane, DoingForward, err)
	}
	from := c.applied
	if err := c.apply(ctx, rows.Upto, &news); err != nil {
		return true, err
	}
	switch {
	case c.applied < from: // its server went back in time, and the rules with the rows
		return true, c.meet(ctx)
	case c.applied > rows.Upto:
		// Another courier was faster and has brought rows that were not read here; new
		// rules may be among them.
		return true, c.revise(ctx)
	}
	return true, nil
}

func (c *Courier) apply(ctx context.Context, upto uint64, news *stretch) error {
	call, cancel := c.call(ctx)
	defer cancel()
	applied, err := c.counter.Apply(call, c.lane, stock.Acts{Epoch: c.sale.Epoch, From: c.applied, To: upto, Acts: news.acts})
	if err != nil {
		return err
	}
	c.applied = applied
	if news.freed && applied == upto {
		c.tell(ctx)
	}
	return nil
}

// revise reads the sale and brings the lane its rules.
func (c *Courier) revise(ctx context.Context) error {
	moved, err := c.read(ctx)
	if err != nil {
		return err
	}
	if moved {
		return stock.ErrEpoch
	}
	return c.sync(ctx)
}

// sync brings the lane the rules of the sale as it was last read.
func (c *Courier) sync(ctx context.Context) error {
	s := &c.sale
	if s.Version <= c.version || !s.Visible() {
		return nil
	}
	rules := stock.RulesOf(s)
	for i := range rules.Stock {
		rules.Stock[i] = stock.Share(rules.Stock[i], c.lane.Index, max(1, len(s.Salts)))
	}
	call, cancel := c.call(ctx)
	defer cancel()
	version, err := c.counter.Sync(call, c.lane, s.Epoch, rules)
	if err != nil {
		return err
	}
	c.version = version
	c.tell(ctx)
	return nil
}

// tell lets every instance forget that the sale was sold out. It is a nudge: one
// that fails is not repeated.
func (c *Courier) tell(ctx context.Context) {
	call, cancel := c.call(ctx)
	defer cancel()
	if err := c.counter.Tell(call, stock.Message{Kind: stock.KindSellsAgain, Sale: c.lane.Sale}); err != nil {
		c.opts.Observer.Failed(c.lane, DoingTell, err)
	}
}
