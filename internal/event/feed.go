package event

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Source is what a feed reads: any ledger.Ledger.
type Source interface {
	ledger.Journal
	// Watch registers fn to be called after commits; see ledger.Ledger.
	Watch(fn func(rows []ledger.Entry)) (stop func())
}

// Options of a feed. Zero values take the defaults.
type Options struct {
	// Poll is how long a row may go unseen when no nudge tells of it: default
	// 500 ms, at most 1 s.
	Poll time.Duration
	// Buffer is how many events may wait for one subscriber before it is cut
	// off; default 128.
	Buffer int
	// Replay is how many rows behind the end a subscriber may start; beyond it,
	// it gets a Reset. As many rows of each followed sale stay in memory, at most
	// twice. Default 1000.
	Replay int
	// CallTimeout is the deadline of one read of the ledger; default 5 s.
	CallTimeout time.Duration
	Observer    Observer // nil: nobody watches
}

const (
	defaultPoll        = 500 * time.Millisecond
	maxPoll            = time.Second
	defaultBuffer      = 128
	defaultReplay      = 1000
	defaultCallTimeout = 5 * time.Second
	// pageRows is how many rows one read takes; the ledger gives no more.
	pageRows = 1000
)

// Observer is told how the feed goes. Calls must return quickly.
type Observer interface {
	// Failed reports a read that failed; it is tried again at the next poll.
	Failed(n sale.Number, err error)
	// CutOff reports a subscriber that did not keep up.
	CutOff(n sale.Number)
}

type nobody struct{}

func (nobody) Failed(sale.Number, error) {}
func (nobody) CutOff(sale.Number)        {}

// Feed streams the journals of sales to subscribers. Its methods are safe for
// concurrent use. Nothing flows before Run.
type Feed struct {
	src  Source
	opts Options
	wake chan struct{} // one token: something is nudged
	done chan struct{} // closed by Close

	mu      sync.Mutex // never held during a read
	streams map[sale.Number]*stream
	running bool
	closed  bool

	// nudges has a key for each followed sale, true while a row of it waits to
	// be read. It has its own lock, because committers take it.
	nudgeMu sync.Mutex
	nudges  map[sale.Number]bool
}

// NewFeed returns a feed over a ledger.
func NewFeed(src Source, o Options) *Feed {
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	o.Poll = min(o.Poll, maxPoll)
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	if o.Replay <= 0 {
		o.Replay = defaultReplay
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return &Feed{
		src: src, opts: o, wake: make(chan struct{}, 1), done: make(chan struct{}),
		streams: make(map[sale.Number]*stream), nudges: make(map[sale.Number]bool),
	}
}

var errRunning = errors.New("event: the feed runs already")

// Run reads and hands out rows until ctx ends or Close is called, and returns
// nil then; every subscription ends with it. A feed runs once; a closed one
// returns at once.
func (f *Feed) Run(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.Close()
	stop := f.src.Watch(f.nudge)
	defer stop()
	poll := time.NewTicker(f.opts.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.done:
			return nil
		case <-f.wake:
			f.readOn(ctx, f.nudged())
		case <-poll.C:
			f.readOn(ctx, f.followed())
		}
	}
}

func (f *Feed) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		return errRunning
	}
	f.running = true
	return nil
}

// Close ends every subscription with ErrClosed, and Run. Repeated, it does
// nothing.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	for _, s := range f.streams {
		s.close(ErrClosed)
	}
	close(f.done)
}

// nudge notes that rows of followed sales wait. It runs inside commits.
func (f *Feed) nudge(rows []ledger.Entry) {
	f.nudgeMu.Lock()
	defer f.nudgeMu.Unlock()
	for i := range rows {
		if _, followed := f.nudges[rows[i].Sale]; followed {
			f.nudges[rows[i].Sale] = true
			f.wakeUp()
		}
	}
}

func (f *Feed) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default: // a token is there already
	}
}

// nudged returns the sales of which rows wait.
func (f *Feed) nudged() []sale.Number {
	f.nudgeMu.Lock()
	defer f.nudgeMu.Unlock()
	var out []sale.Number
	for n, waits := range f.nudges {
		if waits {
			f.nudges[n] = false
			out = append(out, n)
		}
	}
	return out
}

func (f *Feed) followed() []sale.Number {
	f.nudgeMu.Lock()
	defer f.nudgeMu.Unlock()
	return slices.Collect(maps.Keys(f.nudges))
}

func (f *Feed) readOn(ctx context.Context, numbers []sale.Number) {
	for _, n := range numbers {
		if err := f.readSale(ctx, n); err != nil && ctx.Err() == nil {
			f.opts.Observer.Failed(n, err)
		}
	}
}

// readSale hands out the rows of one sale up to its end.
func (f *Feed) readSale(ctx context.Context, n sale.Number) error {
	for {
		s, pos := f.place(n)
		if s == nil {
			return nil
		}
		rows, err := f.rows(ctx, n, pos, pageRows)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		f.handOut(s, rows)
	}
}

// place returns an open stream and how far it has come, or nil.
func (f *Feed) place(n sale.Number) (*stream, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.streams[n]; s != nil && s.opened {
		return s, s.pos
	}
	return nil, 0
}

func (f *Feed) rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.CallTimeout)
	defer cancel()
	return f.src.Rows(ctx, n, after, limit)
}

// handOut passes rows on. Only Run does so, and so only Run moves a stream on.
func (f *Feed) handOut(s *stream, rows []ledger.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range wrap(rows) {
		s.pass(e, f.opts.Replay)
	}
}
