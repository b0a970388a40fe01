package redislimit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/internal/plan"
)

// The layouts of lua/check.lua.
const (
	numberSize = 8
	argSize    = 1 + 7*numberSize
	replySize  = 1 + 6*numberSize

	followed = 16
	looks    = 32
)

// ask is what a call wants of one rate.
type ask struct {
	plan *plan.Plan
	cost int64
	// room is the most debt that a bucket may be found with.
	room int64
}

// kind is the algorithm in the scripts.
func kind(a limit.Algorithm) byte { return byte(a) }

// newAsk is that of Allow, and with a cost of 0 that of Peek. A leaky bucket admits
// only without any debt.
func newAsk(p *plan.Plan, cost int64) ask {
	a := ask{plan: p, cost: cost}
	if p.Rate.Algorithm == limit.TokenBucket {
		a.room = (p.Limit - max(1, cost)) * p.Unit
	}
	return a
}

// arg is the ARGV of the i-th of n rates.
func (a *ask) arg(last bool) string { //nolint:revive // the last one has another mark
	p := a.plan
	k := kind(p.Rate.Algorithm)
	if !last {
		k += followed
	}
	if a.cost == 0 {
		k += looks
	}
	span := p.Span
	if p.Rate.Algorithm == limit.SlidingWindow {
		span = p.Cell
	}
	b := append(make([]byte, 0, argSize), k)
	for _, n := range [...]int64{p.Limit, a.cost, span, p.Gain, p.Unit, a.room, p.Top()} {
		b = appendNumber(b, n)
	}
	return string(b)
}

func appendNumber(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

// answer is what a script says of one rate.
type answer struct {
	refused                  bool
	used, after, more, reset int64
	turn, before             int64
}

var errShape = errors.New("redislimit: the answer has another shape")

// readAnswers takes the answers of n rates apart.
func readAnswers(s string, n int) ([]answer, error) {
	if len(s) != n*replySize {
		return nil, errShape
	}
	out := make([]answer, n)
	for i := range out {
		a, part := &out[i], s[i*replySize:(i+1)*replySize]
		if part[0] > 1 {
			return nil, errShape
		}
		a.refused = part[0] == 1
		for j, to := range [...]*int64{&a.used, &a.after, &a.more, &a.reset, &a.turn, &a.before} {
			var ok bool
			if *to, ok = readNumber(part[1+j*numberSize:]); !ok {
				return nil, errShape
			}
		}
		if a.refused != (a.after > 0) {
			return nil, errShape
		}
	}
	return out, nil
}

// readNumber reads an integer from 0 to 2^53.
func readNumber(s string) (int64, bool) {
	f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[:numberSize])))
	if !(f >= 0 && f <= 1<<53) || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// state turns an answer into that of a rate.
func (a *answer) state(p *plan.Plan) limit.State {
	s := limit.State{
		Rate: p.Rate.Name, Refused: a.refused, Limit: p.Limit,
		RetryAfter: micros(a.after), MoreAfter: micros(a.more), ResetAfter: micros(a.reset),
	}
	switch p.Rate.Algorithm {
	case limit.TokenBucket, limit.LeakyBucket:
		s.Remaining = max(0, p.Limit*p.Unit-a.used) / p.Unit
	case limit.FixedWindow, limit.SlidingWindow, limit.Concurrency:
		s.Remaining = max(0, p.Limit-a.used)
	}
	return s
}

// longestWait keeps durations from running over.
const longestWait = math.MaxInt64 / int64(time.Microsecond)

func micros(n int64) time.Duration { return time.Duration(min(n, longestWait)) * time.Microsecond }
