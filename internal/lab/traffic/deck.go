package traffic

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// deck is who comes in which order. When all have come it is dealt again.
type deck struct {
	random *rand.Rand
	order  []int32
	bots   int    // how many stand first in it
	twice  []bool // by buyer: who sends a click twice
}

// shuffle draws who is what, and the order: the bots' first clicks, then everybody
// else's mixed with the bots' further ones.
func (d *deck) shuffle(p *Profile) {
	cast := make([]int32, p.Buyers)
	for i := range cast {
		cast[i] = int32(i)
	}
	mix := func(some []int32) {
		d.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	mix(cast)
	d.bots = round(p.Bots * float64(p.Buyers))
	doubles := round(p.DoubleClick * float64(p.Buyers-d.bots))
	d.twice = make([]bool, p.Buyers)
	for _, buyer := range cast[d.bots : d.bots+doubles] {
		d.twice[buyer] = true
	}
	d.order = make([]int32, 0, p.Buyers+d.bots*max(0, p.BotClicks-1))
	d.order = append(d.order, cast...)
	for range p.BotClicks - 1 {
		d.order = append(d.order, cast[:d.bots]...)
	}
	mix(d.order[d.bots:])
}

// buys appends so many clicks, dealt from the deck.
func (d *deck) buys(plan []Visit, p *Profile, clicks int) []Visit {
	came := make([]int16, p.Buyers)
	deal := func(i int, at time.Duration) {
		buyer := d.order[i%len(d.order)]
		v := Visit{At: at, Buyer: buyer, Click: came[buyer], Kind: Buy}
		came[buyer]++
		plan = append(plan, v)
		if d.twice[buyer] {
			plan = append(plan, v)
		}
	}
	if p.byRate() {
		i := 0
		for u := range d.strewn(clicks) {
			deal(i, p.when(u))
			i++
		}
		return plan
	}
	for i := range d.bots {
		deal(i, 0)
	}
	i := d.bots
	for u := range d.strewn(clicks - d.bots) {
		deal(i, time.Duration(u*float64(p.Spread)))
		i++
	}
	return plan
}

// when returns the time at which the share u of all clicks has been sent. It solves
// From·t + (To−From)·t²/2L = u·(From+To)·L/2, in the form that holds for a constant
// rate too.
func (p *Profile) when(u float64) time.Duration {
	half := u * (p.From + p.To) // twice the clicks sent by then, over L
	root := math.Sqrt(p.From*p.From + (p.To-p.From)*half)
	if root+p.From == 0 {
		return 0
	}
	return min(p.Length-1, time.Duration(half/(root+p.From)*float64(p.Length)))
}

// strewn yields n numbers from 0 to below 1, drawn evenly, in ascending order: the
// partial sums of n+1 exponential gaps over the whole sum.
func (d *deck) strewn(n int) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		// The gaps are drawn twice from the same seed, so as not to keep them.
		seed := d.random.Uint64()
		gaps := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a crowd, not a secret
		var whole float64
		for range n + 1 {
			whole += gaps.ExpFloat64()
		}
		gaps = rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a crowd, not a secret
		var sum float64
		for range n {
			sum += gaps.ExpFloat64()
			if !yield(min(sum/whole, 1-1e-12)) {
				return
			}
		}
	}
}
