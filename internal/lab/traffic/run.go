package traffic

import (
	"context"
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
	// Next follows for this buyer, not before After is over; nil is nothing.
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
}

// Run opens the connections, carries out the plan and returns what was seen. It
// ends with the last answer, or early with ctx: the record is then of what was. The
// error says why nothing could be done at all.
func Run(ctx context.Context, target *wire.Target, plan []Visit, script Script, o Options) (*Record, error) {
	panic("not yet")
}
