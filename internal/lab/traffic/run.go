package traffic

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// Step is one request of one buyer: a visit of the plan, or what followed from it.
type Step struct {
	Due   time.Duration // after the start
	Kind  Kind
	Buyer int32
	Click int16
	// Order, Receipt and Tries are what the script has ordered to be remembered
	// for a step that follows.
	Order   string
	Receipt string
	Tries   int
	// First is when a step was due for the first time that is Again the same.
	First time.Duration
	Again bool
	// Repeated says that the request was sent a second time, since the server hung up
	// on the first one: who answers may not know what became of that. Run sets it.
	Repeated bool
	// Target is where the step goes, for its host and prefix. Run sets it before it
	// asks for the request.
	Target *wire.Target
}

// Since returns when the wait began that ends with the step's answer: where it was told
// to come again before, with the first time.
func (s *Step) Since() time.Duration {
	if s.Again {
		return s.First
	}
	return s.Due
}

// Class says which histogram an answer belongs to.
type Class uint8

// The classes.
const (
	Accepted  Class = iota // a buy that got units, or the promise of a judgement
	Refused                // a buy with a business answer that gives nothing
	Looked                 // details, polls
	Settled                // payments and cancels
	TurnedOff              // told to come again: 429, 503
	Failed                 // no answer, or one that breaks the protocol
	Classes                // how many there are
)

// Outcome is what an answer meant.
type Outcome struct {
	Class   Class
	Verdict string // the code of the answer: taken, replayed, sold_out, busy, …; one string per meaning, not per answer
	// Next follows for this buyer, not before After is over; nil is nothing. Run takes
	// it over.
	Next  *Step
	After time.Duration
}

// Script is what the buyers do. Its methods are called by many goroutines.
type Script interface {
	// Request appends the request of a step to dst, whole as it goes on the wire.
	Request(dst []byte, s *Step) []byte
	// Heard judges an answer. The error says that there was none; then a is not
	// to be read. What it keeps of a it copies.
	Heard(s *Step, a *wire.Answer, err error) Outcome
}

// Options say with what means a plan is carried out. The zero value takes the
// defaults.
type Options struct {
	Connections int           // for visits; as many as files allow, at most 2,000
	Followers   int           // connections for what follows, 64
	Timeout     time.Duration // for one answer, 10 s
	Slot        time.Duration // the grain of the record in time, 100 ms
	Start       time.Time     // when the sale opens, and the plan's zero; now plus what warming takes
	// Drain is how long after the last visit is answered the run waits for what
	// follows, 30 s; what is left then is counted as abandoned.
	Drain time.Duration
	// Gauge lets somebody look while the crowd runs; nil is nobody.
	Gauge *Gauge

	timers bool // no alarm but timers, which a bubble of fake time knows
}

const (
	mostConnections  = 2000
	defaultFollowers = 64
	defaultTimeout   = 10 * time.Second
	defaultSlot      = 100 * time.Millisecond
	defaultDrain     = 30 * time.Second
	// spareFiles are left for everything that is no connection of a crowd.
	spareFiles = 256
	// settleTime lies between the opening of the connections and the first visit,
	// where the start is not given.
	settleTime = 20 * time.Millisecond
)

// fill puts the defaults in. More connections than visits would stand idle.
func (o *Options) fill(plan []Visit) error {
	if o.Connections < 0 || o.Followers < 0 || o.Timeout < 0 || o.Slot < 0 || o.Drain < 0 {
		return errors.New("numbers of connections and times are positive, or 0 for the default")
	}
	if o.Followers == 0 {
		o.Followers = defaultFollowers
	}
	if o.Connections == 0 {
		files := OpenFiles(mostConnections + o.Followers + spareFiles)
		o.Connections = min(mostConnections, max(files-o.Followers-spareFiles, files/2))
	}
	o.Connections = max(1, min(o.Connections, len(plan)))
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Slot = cmp.Or(o.Slot, defaultSlot)
	o.Drain = cmp.Or(o.Drain, defaultDrain)
	return nil
}

// Run opens the connections, spread evenly over the targets, carries out the plan
// and returns what was seen. It ends with the last answer, or early with ctx: the
// record is then of what was. The error says why nothing could be done at all: the
// plan is empty, the record would be too long, or no target can be reached.
//
// A connection that breaks fails the step it was used for, is never told a step
// again, and is opened anew. Where a target cannot be reached its connections go to
// the others; where none can, visits fail as they come due.
func Run(ctx context.Context, targets []*wire.Target, plan []Visit, script Script, o Options) (*Record, error) {
	if len(plan) == 0 || len(targets) == 0 {
		return nil, errors.New("there is nobody to send, or nowhere to send them")
	}
	if err := o.fill(plan); err != nil {
		return nil, err
	}
	first, err := firstSlot(plan, &o)
	if err != nil {
		return nil, err
	}
	r := newRun(targets, plan, script, &o)
	r.books.first = first
	return r.run(ctx)
}
