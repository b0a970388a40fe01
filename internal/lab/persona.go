package lab

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// manner is how a buyer clicks.
type manner int

const (
	singleClick manner = iota // once
	doubleClick               // twice at once, with one key
	impatient                 // hangs up after some milliseconds and clicks again, with the same key
	wantsTwo                  // two units in one order; one, if no more are left
	mannerCount
)

// ending is what a buyer does with a reserved unit.
type ending int

const (
	pays      ending = iota // at once
	paysTwice               // the payment provider reports the one charge twice
	cancels                 // gives it back
	forgets                 // lets the hold run out
	paysLate                // pays when the hold has run out
	endingCount
)

// buyer is one member of the crowd. What he does follows from the seed and his
// number alone.
type buyer struct {
	user     string
	token    string
	manner   manner
	ending   ending
	patience time.Duration // of the impatient: how long he waits for an answer
	think    time.Duration // between having a unit and doing something with it
}

const (
	minPatience = 4 * time.Millisecond
	maxPatience = 20 * time.Millisecond
	maxThink    = 300 * time.Millisecond
)

// lots are the shares of the personas, in percent.
func lots() (manners [mannerCount]int, endings [endingCount]int) {
	manners = [mannerCount]int{singleClick: 60, doubleClick: 15, impatient: 10, wantsTwo: 15}
	endings = [endingCount]int{pays: 45, paysTwice: 15, cancels: 15, forgets: 15, paysLate: 10}
	return manners, endings
}

// cast returns the n buyers who stand at the door when it opens.
func cast(seed uint64, n int) []buyer {
	manners, endings := lots()
	out := make([]buyer, n)
	for i := range out {
		r := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // a persona is drawn to be repeated, not to be secret
		out[i] = buyer{
			user:     fmt.Sprintf("buyer-%06d", i+1),
			manner:   manner(draw(r, manners[:])),
			ending:   ending(draw(r, endings[:])),
			patience: minPatience + between(r, maxPatience-minPatience),
			think:    between(r, maxThink),
		}
	}
	return out
}

// castLate returns the n latecomers: each wants one unit and pays at once.
func castLate(n int) []buyer {
	out := make([]buyer, n)
	for i := range out {
		out[i] = buyer{user: fmt.Sprintf("latecomer-%06d", i+1), manner: singleClick, ending: pays}
	}
	return out
}

// draw returns an index, each with the probability of its share of the sum.
func draw(r *rand.Rand, shares []int) int {
	sum := 0
	for _, s := range shares {
		sum += s
	}
	at := r.IntN(sum)
	for i, s := range shares {
		if at < s {
			return i
		}
		at -= s
	}
	return len(shares) - 1
}

// wants returns the quantity of the buyer's first click.
func (b *buyer) wants() int64 {
	if b.manner == wantsTwo {
		return 2
	}
	return 1
}

// key returns the idempotency key of the buyer's nth click, counted from 1.
// Keys are the buyer's own: others may use the same.
func (b *buyer) key(n int) string { return fmt.Sprintf("click-%d", n) }

// between returns a duration from 0 to below limit.
func between(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit)))
}
