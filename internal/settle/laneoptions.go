package settle

import (
	"math/rand/v2"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// LaneOptions say how lanes of the fast counter are worked on. Zero values take
// the defaults.
type LaneOptions struct {
	// Consumer names this process in the trays; required, unlike any other process's
	// and any earlier start's.
	Consumer string
	// Clock is the process's clock, with its monotonic reading; required. It
	// measures how long things take; what is judged goes by the ledger's time.
	Clock func() time.Time
	// Batch is how many slips one transaction takes, up to twice as many, when they
	// are there; default 1000. Nothing waits for it to fill.
	Batch int
	// Wait is how long a claim waits for the first slip; default 1 s.
	Wait time.Duration
	// TakeOver is how long slips may stay with a worker before another takes them;
	// default 5 s.
	TakeOver time.Duration
	// Tries is how often a slip is judged that the ledger refuses to write, before
	// it is parked; default 5.
	Tries int
	// Interval is how long a change may go unseen when no nudge tells of it: default
	// 500 ms, so that units sell again within 2 s.
	Interval time.Duration
	// MaxLanes bounds the lanes that are served at once; default 256. More of them take
	// turns.
	MaxLanes int
	// CallTimeout is the deadline of one call; default 5 s.
	CallTimeout time.Duration
	// Trouble is told of a sale with a lane that is not as it should be; it must
	// return at once, and may be called often. Nil: nobody is told.
	Trouble  func(sale.Number)
	Observer LaneObserver // nil: nobody watches
	// Chance returns some time below d, which spreads those who come back after
	// trouble; nil: math/rand. A simulation that is to repeat itself brings its own.
	Chance func(d time.Duration) time.Duration
}

const (
	defaultSlips    = 1000
	defaultWait     = time.Second
	defaultTakeOver = 5 * time.Second
	defaultTries    = 5
	defaultMaxLanes = 256

	// WarnOffset is how far a lane's clock may be from the ledger's before somebody
	// should look at the machines. Up to there and beyond it is allowed for.
	WarnOffset = 100 * time.Millisecond
	// maxLeap is by how much a lane's clock may leap against the ledger's before its
	// times are not believed any more.
	maxLeap = time.Second

	firstBackOff = 50 * time.Millisecond
	maxBackOff   = 2 * time.Second
)

// LaneObserver is told how the work on lanes goes. Calls come from many
// goroutines and must return quickly.
type LaneObserver interface {
	// Judged reports one transaction of the judge: its slips, how long it took, its
	// error.
	Judged(l stock.Lane, slips int, took time.Duration, err error)
	// Settled reports one slip that has become an order, and how long after it was
	// taken, in the ledger's time.
	Settled(l stock.Lane, o *sale.Order, after time.Duration)
	// Parked reports a slip that has become a dead letter.
	Parked(l stock.Lane, letter *ledger.Letter)
	// TookOver reports entries taken over from a worker that did not finish them.
	TookOver(l stock.Lane, entries int)
	// Trimmed reports entries that were gone before they could be judged.
	Trimmed(l stock.Lane, entries int)
	// Queued reports how many slips wait in the tray.
	Queued(l stock.Lane, slips int64)
	// Behind reports how many journal rows the lane does not know yet.
	Behind(l stock.Lane, rows uint64)
	// Offset reports how far the lane's clock is ahead of the ledger's, and how
	// exactly that is known.
	Offset(l stock.Lane, offset, doubt time.Duration)
	// Failed reports what did not succeed and will be tried again.
	Failed(l stock.Lane, doing Doing, err error)
	// Released reports that a lane is not served here any more: what was last said of
	// it is good no longer.
	Released(l stock.Lane)
}

// Doing says what failed.
type Doing string

// What can fail and is tried again.
const (
	DoingClaim   Doing = "claim"
	DoingJudge   Doing = "judge"
	DoingTell    Doing = "tell" // not tried again: a nudge
	DoingForward Doing = "forward"
	DoingOffset  Doing = "offset"
	DoingList    Doing = "list sales" // of no lane
	DoingServe   Doing = "serve"      // more lanes than MaxLanes
)

type nobodyAtLanes struct{}

func (nobodyAtLanes) Judged(stock.Lane, int, time.Duration, error)    {}
func (nobodyAtLanes) Settled(stock.Lane, *sale.Order, time.Duration)  {}
func (nobodyAtLanes) Parked(stock.Lane, *ledger.Letter)               {}
func (nobodyAtLanes) TookOver(stock.Lane, int)                        {}
func (nobodyAtLanes) Trimmed(stock.Lane, int)                         {}
func (nobodyAtLanes) Queued(stock.Lane, int64)                        {}
func (nobodyAtLanes) Behind(stock.Lane, uint64)                       {}
func (nobodyAtLanes) Offset(stock.Lane, time.Duration, time.Duration) {}
func (nobodyAtLanes) Failed(stock.Lane, Doing, error)                 {}
func (nobodyAtLanes) Released(stock.Lane)                             {}

func (o LaneOptions) withDefaults() LaneOptions {
	o.Batch = orDefault(o.Batch, defaultSlips)
	o.Wait = orDefault(o.Wait, defaultWait)
	o.TakeOver = orDefault(o.TakeOver, defaultTakeOver)
	o.Tries = orDefault(o.Tries, defaultTries)
	o.Interval = orDefault(o.Interval, defaultInterval)
	o.MaxLanes = orDefault(o.MaxLanes, defaultMaxLanes)
	o.CallTimeout = orDefault(o.CallTimeout, defaultCallTimeout)
	if o.Trouble == nil {
		o.Trouble = func(sale.Number) {}
	}
	if o.Observer == nil {
		o.Observer = nobodyAtLanes{}
	}
	if o.Chance == nil {
		o.Chance = rand.N[time.Duration]
	}
	return o
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// backOff is the growing pause after trouble. The zero value is ready.
type backOff struct{ next time.Duration }

// pause returns how long to wait now; half of it is chance, so that many workers
// do not come back together.
func (b *backOff) pause(chance func(time.Duration) time.Duration) time.Duration {
	p := max(b.next, firstBackOff)
	b.next = min(2*p, maxBackOff)
	return p/2 + chance(p/2)
}

func (b *backOff) reset() { b.next = 0 }
