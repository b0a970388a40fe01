package lab

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tally counts the attempts that met one verdict.
type Tally struct {
	Verdict string `json:"verdict"`
	AtDoor  int64  `json:"at_door"` // in the rush
	Later   int64  `json:"later"`
	Meaning string `json:"meaning"`
}

// Pace is the speed of one kind of answer, and how long buyers waited for it.
type Pace struct {
	Answers   int64   `json:"answers"`
	Seconds   float64 `json:"seconds"`    // from the opening to the last of them
	PerSecond float64 `json:"per_second"` // 0 if there were none
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
}

// tallies counts the attempts by verdict, the most frequent first.
func tallies(answers []answer) []Tally {
	counts := make(map[verdict]*Tally)
	for i := range answers {
		a := &answers[i]
		t := counts[a.verdict]
		if t == nil {
			t = &Tally{Verdict: string(a.verdict), Meaning: meaning(a.verdict)}
			counts[a.verdict] = t
		}
		if a.phase == atDoor {
			t.AtDoor++
		} else {
			t.Later++
		}
	}
	out := make([]Tally, 0, len(counts))
	for _, t := range counts {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.AtDoor+b.Later, a.AtDoor+a.Later), cmp.Compare(a.Verdict, b.Verdict))
	})
	return out
}

// meaning says in plain words what a verdict tells the buyer.
func meaning(v verdict) string {
	switch v {
	case taken:
		return "a new order: the units are his until the hold is over"
	case replayed:
		return "the same click again: the same order, nothing more"
	case gaveUp:
		return "the buyer hung up before the answer and clicked again"
	case unanswered:
		return "no answer of the server"
	case "sold_out":
		return "no unit is free"
	case "insufficient":
		return "fewer units are free than he wants"
	case "limit_reached":
		return "he has his share"
	case "busy":
		return "too many at once: told to repeat the click"
	}
	return ""
}

// firstSold returns the pace at which the stock went the first time: the new
// orders at the door up to the one that took the last unit. Units that come back
// and go again are not counted, since their speed is that of their buyers.
func firstSold(answers []answer, stock int64) Pace {
	births := atTheDoor(answers, func(v verdict) bool { return v == taken })
	var units int64
	for i, a := range births {
		if units += a.quantity; units >= stock {
			return pace(births[:i+1])
		}
	}
	return pace(births)
}

// refusedAtDoor returns the pace of the answers at the door that gave nothing.
func refusedAtDoor(answers []answer) Pace {
	return pace(atTheDoor(answers, func(v verdict) bool { return v.decided() && v != taken && v != replayed }))
}

// atTheDoor returns the chosen answers of the rush in the order they were heard.
func atTheDoor(answers []answer, choose func(verdict) bool) []*answer {
	var out []*answer
	for i := range answers {
		if a := &answers[i]; a.phase == atDoor && choose(a.verdict) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *answer) int { return cmp.Compare(a.heard, b.heard) })
	return out
}

// Latencies are kept in microseconds, up to a minute, to three digits.
const (
	longest = time.Minute
	digits  = 3
)

// pace measures answers that are in the order they were heard.
func pace(answers []*answer) Pace {
	if len(answers) == 0 {
		return Pace{}
	}
	h := hdrhistogram.New(1, longest.Microseconds(), digits)
	for _, a := range answers {
		// In range by construction, so it cannot fail.
		_ = h.RecordValue(min(max(1, (a.heard-a.due).Microseconds()), longest.Microseconds()))
	}
	p := Pace{
		Answers: int64(len(answers)), Seconds: answers[len(answers)-1].heard.Seconds(),
		P50: millis(h.ValueAtQuantile(50)), P99: millis(h.ValueAtQuantile(99)), P999: millis(h.ValueAtQuantile(99.9)), Max: millis(h.Max()),
	}
	if p.Seconds > 0 {
		p.PerSecond = float64(p.Answers) / p.Seconds
	}
	return p
}

func millis(micros int64) float64 { return float64(micros) / 1000 }
