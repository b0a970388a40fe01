package traffic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

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

	// Bots is the share of the cast that are bots. Each comes BotClicks times as often
	// as another buyer, with a fresh click each time; their first clicks are the first
	// of all, in a pulse at the start itself.
	Bots      float64
	BotClicks int
	// DoubleClick is the share of the rest that sends each click twice at once. The
	// second sending comes on top of the rate.
	DoubleClick float64
}

const (
	// MaxVisits bounds a plan: 16 bytes a visit.
	MaxVisits = 20_000_000
	// maxLength bounds how far from the start a visit may be.
	maxLength = 24 * time.Hour
	maxClicks = math.MaxInt16
)

// Plan draws the visits, in the order in which they are due. The same seed gives
// the same plan.
//
// How many there are follows from the profile alone: rates times time, rounded. When
// they come is drawn: they are strewn over their time as a Poisson process strews
// that many, evenly in a pulse and thicker where the rate is higher. Buyers who do not
// know of each other come so, and a crowd that came in even steps would never queue.
//
// The error says what is wrong with the profile, or that it has more than MaxVisits.
func (p *Profile) Plan(seed uint64) ([]Visit, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	looks := round(p.Refreshes * p.Before.Seconds())
	d := deck{random: rand.New(rand.NewPCG(seed, 0xD00BB057E2))} //nolint:gosec // a crowd, not a secret
	d.shuffle(p)
	clicks := len(d.order)
	if p.byRate() {
		clicks = round((p.From + p.To) / 2 * p.Length.Seconds())
	}
	if again := clicks/max(1, len(d.order))*max(1, p.BotClicks) + p.BotClicks; again > maxClicks {
		return nil, fmt.Errorf("each buyer would have to come back %d times, at most %d; let more buyers come", again, maxClicks)
	}
	plan := make([]Visit, 0, looks+clicks+int(p.DoubleClick*float64(clicks)))
	for at := range d.strewn(looks) {
		plan = append(plan, Visit{
			At: -p.Before + time.Duration(at*float64(p.Before)), Buyer: int32(d.random.IntN(p.Buyers)), Kind: Look, //nolint:gosec // checked
		})
	}
	return d.buys(plan, p, clicks), nil
}

// byRate reports whether the buys come by rate.
func (p *Profile) byRate() bool { return p.From > 0 || p.To > 0 }

// check reports what is wrong with a profile. Sizes are reckoned in floats, which do
// not overflow.
func (p *Profile) check() error {
	const size = "%s is %v; it must be from 0 to %v"
	for _, f := range []struct {
		name       string
		value, max float64
	}{
		{"the number of buyers", float64(p.Buyers), MaxVisits},
		{"the spread", float64(p.Spread), float64(maxLength)},
		{"the rate at the beginning", p.From, MaxVisits},
		{"the rate at the end", p.To, MaxVisits},
		{"the length", float64(p.Length), float64(maxLength)},
		{"the rate of refreshes", p.Refreshes, MaxVisits},
		{"the time before the start", float64(p.Before), float64(maxLength)},
		{"the share of bots", p.Bots, 1},
		{"the number of a bot's clicks", float64(p.BotClicks), maxClicks},
		{"the share of double clicks", p.DoubleClick, 1},
	} {
		if !(f.value >= 0 && f.value <= f.max) { // NaN is neither
			return fmt.Errorf(size, f.name, f.value, f.max)
		}
	}
	switch {
	case p.Buyers == 0 && (p.byRate() || p.Refreshes > 0):
		return errors.New("there are rates, but no buyers")
	case p.byRate() && p.Spread > 0:
		return errors.New("the buys come either within a spread or by rate")
	case p.byRate() && p.Length == 0:
		return errors.New("there is a rate, but no length of time")
	case p.Bots > 0 && p.BotClicks == 0:
		return errors.New("there are bots, but they click 0 times")
	}
	bots := p.Bots * float64(p.Buyers)
	visits := float64(p.Buyers) + bots*float64(max(0, p.BotClicks-1))
	if p.byRate() {
		visits = (p.From + p.To) / 2 * p.Length.Seconds()
	}
	visits += p.DoubleClick*visits + p.Refreshes*p.Before.Seconds()
	if visits > MaxVisits {
		return fmt.Errorf("the plan would have %.0f visits; at most %d", visits, MaxVisits)
	}
	return nil
}

func round(x float64) int { return int(math.Round(x)) }
