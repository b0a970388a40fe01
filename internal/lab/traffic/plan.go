package traffic

import "time"

// Kind says what a step asks for.
type Kind uint8

// The kinds.
const (
	Look   Kind = iota // the sale's details
	Buy                // a unit
	Poll               // a queued order
	Pay                // for a reserved order
	Cancel             // an order
	Kinds              // how many there are
)

// Visit is one arrival of a plan.
type Visit struct {
	At    time.Duration // after the start; negative is before it
	Buyer int32         // index into the cast
	Click int16         // of this buyer, from 0; the same click is the same idempotency key
	Kind  Kind          // Look or Buy
}

// Profile says how a crowd arrives. The zero value is nobody.
type Profile struct {
	Buyers int // the size of the cast; each buys once, but for bots and double clicks

	// The buys: all within Spread after the start (a pulse), or by Rate.
	Spread time.Duration
	// From and To are the rates, buys a second, at the beginning and the end of
	// Length; they are equal in a constant crowd and 0 in a pulse. Where more buys
	// than buyers are due, buyers come again with a fresh click.
	From, To float64
	Length   time.Duration

	// Refreshes are looks a second during Before, the time before the start, by
	// buyers drawn at random.
	Refreshes float64
	Before    time.Duration

	Bots        float64 // share of the cast that are bots: they click BotClicks times, first in the first instant
	BotClicks   int
	DoubleClick float64 // share of the rest that sends a click twice at once
}

// Plan draws the visits, in the order in which they are due. The same seed gives
// the same plan.
func (p *Profile) Plan(seed uint64) []Visit { panic("not yet") }
