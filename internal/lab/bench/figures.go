package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

// classNames and kindNames are the words of the report, by class and kind.
func classNames() [traffic.Classes]string {
	return [traffic.Classes]string{"accepted", "refused", "looked", "settled", "turned_off", "failed"}
}

func kindNames() [traffic.Kinds]string {
	return [traffic.Kinds]string{"look", "buy", "poll", "pay", "cancel"}
}

// figures puts what the crowd has seen into the report.
func (r *Report) figures(seen *traffic.Record) {
	r.StartedAt = seen.Start.UTC()
	r.Abandoned, r.Connections, r.Saturated = seen.Abandoned, seen.Connections, saturated(seen)
	r.Late = quantilesOf(seen.Late)
	for _, d := range traffic.WaitBuckets() {
		r.Buckets = append(r.Buckets, millis(d))
	}
	r.sums(seen)
	r.pace(seen)
	r.tallies(seen)
	r.stages(seen)
	r.slots(coarse(seen))
}

// sums adds the slots up, and tells over how long visits were due and answers came.
func (r *Report) sums(seen *traffic.Record) {
	due, heard := 0, 0
	for i := range seen.Slots {
		s := &seen.Slots[i]
		r.Offered, r.Sent = r.Offered+s.Offered, r.Sent+s.Sent
		if s.Offered > 0 {
			due = i
		}
		for _, n := range s.Answers {
			if n > 0 {
				heard = i
			}
		}
	}
	r.Due, r.Seconds = (time.Duration(due+1) * seen.Slot).Seconds(), (time.Duration(heard+1) * seen.Slot).Seconds()
}

// mostSlots is how many slots a report has at most: more than a chart can show.
const mostSlots = 400

// coarse returns slots of which there are not too many, by putting neighbours
// together. The start stays between two of them.
func coarse(seen *traffic.Record) *traffic.Record {
	k := 1
	for _, more := range []int{2, 5, 10, 20, 50, 100, 200, 500} {
		if len(seen.Slots)/k <= mostSlots {
			break
		}
		k = more
	}
	before := int(-seen.First / seen.Slot)
	lead := (k - before%k) % k // of empty slots before the first
	out := &traffic.Record{Slot: time.Duration(k) * seen.Slot, First: seen.First - time.Duration(lead)*seen.Slot}
	for i := range seen.Slots {
		at := (lead + i) / k
		if at == len(out.Slots) {
			out.Slots = append(out.Slots, traffic.Slot{
				Verdicts: make(map[string]int64), Waits: make([]int64, len(traffic.WaitBuckets())), Stages: make(map[string]traffic.StageSum),
			})
		}
		add(&out.Slots[at], &seen.Slots[i])
	}
	return out
}

// add puts one slot into another.
func add(into, s *traffic.Slot) {
	into.Offered, into.Sent = into.Offered+s.Offered, into.Sent+s.Sent
	for class, n := range s.Answers {
		into.Answers[class] += n
	}
	for verdict, n := range s.Verdicts {
		into.Verdicts[verdict] += n
	}
	for i, n := range s.Waits {
		into.Waits[i] += n
	}
	for name, sum := range s.Stages {
		all := into.Stages[name]
		into.Stages[name] = traffic.StageSum{Count: all.Count + sum.Count, Sum: all.Sum + sum.Sum}
	}
}

func (r *Report) slots(seen *traffic.Record) {
	for i := range seen.Slots {
		s := &seen.Slots[i]
		slot := Slot{
			At:      (seen.First + time.Duration(i)*seen.Slot).Seconds(),
			Offered: s.Offered, Sent: s.Sent, Answers: make(map[string]int64), Verdicts: s.Verdicts, Waits: s.Waits,
			Stages: make(map[string]float64),
		}
		for class, n := range s.Answers {
			if n > 0 {
				slot.Answers[classNames()[class]] = n
			}
		}
		for name, sum := range s.Stages {
			slot.Stages[name] = millis(sum.Sum) / float64(sum.Count)
		}
		r.Slots = append(r.Slots, slot)
	}
}

func (r *Report) pace(seen *traffic.Record) {
	for class, name := range classNames() {
		waited := seen.Waited[class]
		if waited.TotalCount() == 0 {
			continue
		}
		counts := make([]int64, len(seen.Slots))
		for i := range seen.Slots {
			counts[i] = seen.Slots[i].Answers[class]
		}
		p := Pace{Class: name, Answers: waited.TotalCount(), Waited: quantilesOf(waited), Served: quantilesOf(seen.Served[class]), Waits: distribution(waited)}
		p.PerSecond, p.Peak = speed(counts, seen.Slot)
		r.Pace = append(r.Pace, p)
	}
}

// shortest is the least time over which a peak is measured: what happens in less says
// more of the machine's timers than of its speed.
const shortest = 100 * time.Millisecond

// speed returns the answers a second from the first to the last of them, and in the
// best tenth of a second; 0 if all came within less.
func speed(counts []int64, slot time.Duration) (mean, peak float64) {
	first := slices.IndexFunc(counts, func(n int64) bool { return n > 0 })
	if first < 0 {
		return 0, 0
	}
	wide := max(1, int(shortest/slot))
	var all, window, best int64
	last := first
	for i, n := range counts {
		all += n
		if n > 0 {
			last = i
		}
		window += n
		if i >= wide {
			window -= counts[i-wide]
		}
		best = max(best, window)
	}
	span := time.Duration(last-first+1) * slot
	mean = float64(all) / span.Seconds()
	if span < shortest {
		return mean, 0
	}
	// What came in whole slots may fit no window better than it fits the span.
	return mean, max(mean, float64(best)/(time.Duration(wide)*slot).Seconds())
}

func (r *Report) tallies(seen *traffic.Record) {
	for kind, verdicts := range seen.Verdicts {
		from := len(r.Verdicts)
		for verdict, n := range verdicts {
			r.Verdicts = append(r.Verdicts, Tally{Kind: kindNames()[kind], Verdict: verdict, Count: n})
		}
		slices.SortFunc(r.Verdicts[from:], func(a, b Tally) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Verdict, b.Verdict))
		})
	}
}

// stages lists the stages in the order in which a buy passes them, then those that
// this program does not know, by name.
func (r *Report) stages(seen *traffic.Record) {
	known := []string{"gate", "engine", "wait", "stock", "ledger"}
	place := func(name string) int {
		if i := slices.Index(known, name); i >= 0 {
			return i
		}
		return len(known)
	}
	for name, times := range seen.Stages {
		r.Stages = append(r.Stages, Stage{Name: name, Count: times.TotalCount(), Times: quantilesOf(times), Mean: times.Mean() / 1000})
	}
	slices.SortFunc(r.Stages, func(a, b Stage) int {
		return cmp.Or(cmp.Compare(place(a.Name), place(b.Name)), cmp.Compare(a.Name, b.Name))
	})
}

// count returns how many answers of a kind had a verdict.
func (r *Report) count(kind, verdict string) int64 {
	for i := range r.Verdicts {
		if t := &r.Verdicts[i]; t.Kind == kind && t.Verdict == verdict {
			return t.Count
		}
	}
	return 0
}

// of returns the pace of a class; that of one that did not occur is zero.
func (r *Report) of(class string) *Pace { return paceOf(r, class) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantilesOf returns those of a histogram of µs.
func quantilesOf(h *hdrhistogram.Histogram) Quantiles {
	if h.TotalCount() == 0 {
		return Quantiles{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Quantiles{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}

// distribution returns a distribution in some forty points that come closer together toward
// the slowest, up to the quantile that one answer alone makes.
func distribution(h *hdrhistogram.Histogram) [][2]float64 {
	var out [][2]float64
	add := func(q float64) { out = append(out, [2]float64{q, float64(h.ValueAtQuantile(100*q)) / 1000}) }
	for q := 0.0; q < 0.9; q += 0.05 {
		add(q)
	}
	for rest := 0.1; rest*float64(h.TotalCount()) >= 1; rest /= 10 {
		for _, part := range []float64{1, 0.7, 0.5, 0.35, 0.2} {
			add(1 - rest*part)
		}
	}
	return append(out, [2]float64{1, float64(h.Max()) / 1000})
}
