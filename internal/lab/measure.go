package lab

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/doorbuster/doorbuster/client"
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
	Seconds   float64 `json:"seconds"` // from the opening to the last of them
	PerSecond float64 `json:"per_second"`
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
	case "cool_down":
		return "he let holds run out: told to wait a little"
	case "busy":
		return "too many at once: told to repeat the click"
	case "unavailable":
		return "a part of the house does not answer: told to repeat the click"
	}
	return ""
}

// firstSold returns the pace at which the stock went the first time: the orders
// up to the one that took the last unit, timed by the ledger's clock, and how
// long their buyers waited until they heard of them. Units that come back and go
// again are not counted, since their speed is that of their buyers.
func firstSold(orders []client.Order, answers []answer, stock int64, opens time.Time) Pace {
	births := slices.Clone(orders)
	slices.SortFunc(births, func(a, b client.Order) int { return a.ReservedAt.Compare(b.ReservedAt) })
	var units int64
	for i := range births {
		if units += births[i].Quantity; units >= stock {
			births = births[:i+1]
			break
		}
	}
	if len(births) == 0 {
		return Pace{}
	}
	p := waits(firstHeard(births, answers))
	// The ledger's clock tells milliseconds.
	within := max(time.Millisecond, births[len(births)-1].ReservedAt.Sub(opens))
	return p.over(int64(len(births)), within)
}

// firstHeard returns, for each of the orders, the answer at which its buyer
// first heard of it.
func firstHeard(orders []client.Order, answers []answer) []*answer {
	first := make(map[string]*answer, len(orders))
	for i := range orders {
		first[orders[i].ID] = nil
	}
	for i := range answers {
		a := &answers[i]
		if a.order == nil {
			continue
		}
		if earlier, wanted := first[a.order.ID]; wanted && (earlier == nil || a.heard < earlier.heard) {
			first[a.order.ID] = a
		}
	}
	heard := make([]*answer, 0, len(first))
	for _, a := range first {
		if a != nil {
			heard = append(heard, a)
		}
	}
	return heard
}

// refusedAtDoor returns the pace of the answers in the rush that gave nothing.
func refusedAtDoor(answers []answer) Pace {
	var refused []*answer
	var last time.Duration
	for i := range answers {
		a := &answers[i]
		if a.phase == atDoor && a.order == nil && a.verdict.decided() {
			refused = append(refused, a)
			last = max(last, a.heard)
		}
	}
	if len(refused) == 0 {
		return Pace{}
	}
	p := waits(refused)
	return p.over(int64(len(refused)), last)
}

// Latencies are kept in microseconds, up to a minute, to three digits.
const (
	longest = time.Minute
	digits  = 3
)

// waits measures how long it took to hear these answers.
func waits(answers []*answer) Pace {
	h := hdrhistogram.New(1, longest.Microseconds(), digits)
	for _, a := range answers {
		// In range by construction, so it cannot fail.
		_ = h.RecordValue(min(max(1, (a.heard-a.due).Microseconds()), longest.Microseconds()))
	}
	return Pace{
		P50: millis(h.ValueAtQuantile(50)), P99: millis(h.ValueAtQuantile(99)), P999: millis(h.ValueAtQuantile(99.9)), Max: millis(h.Max()),
	}
}

// over returns the pace with its speed: so many answers within a time.
func (p Pace) over(answers int64, within time.Duration) Pace {
	p.Answers, p.Seconds = answers, within.Seconds()
	p.PerSecond = float64(answers) / p.Seconds
	return p
}

func millis(micros int64) float64 { return float64(micros) / 1000 }
