package bench_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
)

const (
	slots = 62
	grain = 0.1
)

// rich is a report with everything in it: a sale of a fleet of two servers that was
// sold out within two seconds.
func rich() *bench.Report {
	random := rand.New(rand.NewPCG(1, 2))
	r := &bench.Report{
		Version: "v0.9.0-12-gfcbfda8", Server: "v0.9.0", URL: "http://127.0.0.1:8080", Sale: "spring-drop",
		Path: "fast", Stock: 1_000, Profile: "pulse", Seed: 42, Pass: true,
		Command:   "bench http://127.0.0.1:8080 --sale spring-drop --buyers 50000 --spread 1s --double-click 0.05 --redis redis://127.0.0.1:6379 --html report.html",
		StartedAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Seconds: 6.2,
		Buyers: 50_000, Offered: 61_240, Sent: 64_871, Connections: 2_000,
		Late: bench.Quantiles{P50: 0.06, P90: 0.21, P99: 1.4, P999: 6.2, Max: 9.8},
		Sold: bench.SoldReport{Reserved: 120, Paid: 880},
	}
	for ms := 0.25; ms < 12_000; ms *= math.Pow(10, 0.1) {
		r.Buckets = append(r.Buckets, ms)
	}
	total := make(map[string]int64)
	for i := range slots {
		r.Slots = append(r.Slots, slot(r, random, i))
		for verdict, n := range r.Slots[i].Verdicts {
			total[verdict] += n
		}
	}
	for verdict, n := range total {
		r.Verdicts = append(r.Verdicts, bench.Tally{Kind: "buy", Verdict: verdict, Count: n})
	}
	r.Verdicts = append(r.Verdicts, bench.Tally{Kind: "look", Verdict: "seen", Count: 9_871}, bench.Tally{Kind: "pay", Verdict: "paid", Count: 880})
	r.Pace = []bench.Pace{
		pace("accepted", 1_052, 41, 610), pace("refused", 52_871, 88, 23_400), pace("looked", 9_871, 4, 9_900),
		pace("settled", 880, 6, 410), pace("turned_off", 318, 12, 800), pace("failed", 3, 900, 1),
	}
	for i, name := range []string{"gate", "engine", "stock", "wait"} {
		mean := []float64{0.05, 0.4, 1.9, 8.2}[i]
		r.Stages = append(r.Stages, bench.Stage{
			Name: name, Count: 53_000, Mean: mean,
			Times: bench.Quantiles{P50: mean * 0.8, P90: mean * 2, P99: mean * 5, P999: mean * 9, Max: mean * 20},
		})
	}
	r.Judged = &bench.Judged{Orders: 1_000, Waited: bench.Quantiles{P50: 61, P90: 120, P99: 210, P999: 260, Max: 290}}
	r.Probes = probes(random)
	r.Notes = []probe.Note{{Source: "redis", At: 1.25, Text: "rewrites its append-only file"}}
	r.Checks = []bench.Check{
		{Promise: "P1", Text: "no more units were promised than there are", Checked: 1_000},
		{Promise: "P3", Text: "no buyer got more than the limit", Checked: 50_000},
		{Promise: "P4", Text: "the same click always got the same order", Checked: 2_611},
		{Promise: "P5", Text: "every order that a buyer was told of is held by the server", Checked: 1_052},
	}
	r.Audit = audit()
	return r
}

// slot is a tenth of a second: looks before the start, then a pulse that falls off.
func slot(r *bench.Report, random *rand.Rand, i int) bench.Slot {
	at := -2 + float64(i)*grain
	s := bench.Slot{
		At: at, Answers: map[string]int64{}, Verdicts: map[string]int64{},
		Waits: make([]int64, len(r.Buckets)), Stages: map[string]float64{},
	}
	looks := int64(480 + random.IntN(60))
	if at >= 0 {
		looks = 0
	}
	var buys int64
	if at > -0.01 && at < 1.0 {
		buys = int64(5_000 + random.IntN(300))
	}
	s.Offered = looks + buys
	s.Sent = s.Offered
	s.Answers["looked"] = looks
	answered := int64(0)
	if at > -0.01 {
		answered = int64(4_600 * math.Exp(-max(0, at-1.1)*3.2))
	}
	if answered < 4 {
		return s
	}
	taken := max(0, min(answered, int64(420-at*1_900)))
	s.Verdicts["taken"], s.Verdicts["replayed"] = taken, taken/20
	s.Verdicts["rate_limited"] = int64(random.IntN(30))
	refused := max(0, answered-taken-taken/20-s.Verdicts["rate_limited"])
	s.Verdicts["sold_out"], s.Verdicts["limit_reached"] = refused*9/10, refused-refused*9/10
	if i == 31 {
		s.Verdicts["timed_out"] = 3
	}
	s.Answers["accepted"], s.Answers["refused"] = taken+taken/20, refused
	s.Answers["turned_off"], s.Answers["failed"] = s.Verdicts["rate_limited"], s.Verdicts["timed_out"]
	centre := math.Log10(8+max(0, at)*160) * 10
	for range answered {
		bucket := int(centre + random.NormFloat64()*2.2 + 6 - 10*math.Log10(4))
		s.Waits[min(max(bucket, 0), len(s.Waits)-1)]++
	}
	s.Stages = map[string]float64{
		"gate": 0.05 + random.Float64()*0.02, "engine": 0.3 + random.Float64()*0.3,
		"stock": 1.5 + random.Float64()*1.2, "wait": 2 + 9*math.Exp(-at),
	}
	return s
}

func pace(class string, answers int64, p50, peak float64) bench.Pace {
	p := bench.Pace{
		Class: class, Answers: answers, PerSecond: float64(answers) / 1.7, Peak: peak,
		Waited: bench.Quantiles{P50: p50, P90: p50 * 2.3, P99: p50 * 4.4, P999: p50 * 7.1, Max: p50 * 9.7},
		Served: bench.Quantiles{P50: p50 * 0.8, P90: p50 * 1.7, P99: p50 * 3.1, P999: p50 * 5, Max: p50 * 6.4},
	}
	for q := 0.0; q < 1; q += 0.01 {
		p.Waits = append(p.Waits, [2]float64{q, p50 * math.Pow(1-q, -0.33) * 0.8})
	}
	for _, q := range []float64{0.995, 0.999, 0.9995, 0.9999, 1} {
		p.Waits = append(p.Waits, [2]float64{q, p50 * min(math.Pow(1-q, -0.33)*0.8, 9.7)})
	}
	return p
}

func probes(random *rand.Rand) []bench.Series {
	of := func(source, name, unit string, value func(at float64) float64) bench.Series {
		s := bench.Series{Source: source, Name: name, Unit: unit}
		for i := range 25 {
			at := -2 + float64(i)*0.25
			s.Points = append(s.Points, [2]float64{at, value(at)})
		}
		return s
	}
	pulse := func(rest, busy float64) func(float64) float64 {
		return func(at float64) float64 {
			if at < 0 {
				return rest * (1 + random.Float64()*0.2)
			}
			return rest + busy*math.Exp(-max(0, at-1)*2)*(0.9+random.Float64()*0.2)
		}
	}
	return []bench.Series{
		of("crowd", "cpu", "cores", pulse(0.1, 0.85)), of("server", "cpu", "cores", pulse(0.08, 0.6)),
		of("server 2", "cpu", "cores", pulse(0.07, 0.55)), of("redis", "cpu", "cores", pulse(0.01, 0.16)),
		of("postgres", "cpu", "cores", pulse(0.02, 0.31)), of("nginx", "cpu", "cores", pulse(0.03, 0.22)),
		of("crowd", "memory", "bytes", pulse(90<<20, 30<<20)), of("server", "memory", "bytes", pulse(60<<20, 45<<20)),
		of("redis", "memory", "bytes", pulse(4<<20, 9<<20)), of("crowd", "goroutines", "1", pulse(2_100, 100)),
		of("stock", "left in the ledger", "1", func(at float64) float64 { return max(0, 1_000-max(0, at)*900) }),
		of("stock", "left in the lanes", "1", func(at float64) float64 { return max(0, 1_000-max(0, at)*4_000) }),
		of("stock", "queued slips", "1", pulse(0, 480)), of("stock", "drift", "1", pulse(0, 480)),
		of("server", "call size", "1", pulse(1, 90)), of("server 2", "call size", "1", pulse(1, 84)), of("server", "judge size", "1", pulse(0, 310)),
		of("server", "call time", "s", pulse(0.0004, 0.003)), of("server", "judge delay", "s", pulse(0.001, 0.04)),
		of("redis", "in", "bytes/s", pulse(20<<10, 4<<20)), of("postgres", "active", "1", pulse(0, 2)),
		of("postgres", "waiting for disk", "1", pulse(0, 1)), of("nginx", "active", "1", pulse(20, 1_980)),
	}
}

func audit() *client.AuditReport {
	s := client.AuditSale{
		Number: 7, ID: "spring-drop", State: "open",
		Figures: client.AuditFigures{Orders: 1_000, Buyers: 1_000, Stock: 1_000, Sold: 1_000, Reserved: 120, Paid: 880, Rows: 2_904, Head: "9f2c"},
	}
	for _, rule := range []string{"P1.journal", "P1.rows", "P2.counter", "P3.limit", "P4.once", "P5.phantom", "P6.final", "P7.charge", "P8.chain"} {
		s.Rules = append(s.Rules, client.AuditRule{Rule: rule, Promise: "what rule " + rule + " promises holds for every row", Checked: 1_000})
	}
	return &client.AuditReport{At: time.Date(2026, 11, 30, 10, 1, 0, 0, time.UTC), Sales: []client.AuditSale{s}}
}

// broken is a report of a server that sold too much, told hostile names and kept a
// crowd waiting that was late itself.
func broken() *bench.Report {
	r := rich()
	r.Pass, r.Abandoned, r.Audit = false, 12, nil
	r.Sale = `<script>alert("sale")</script>`
	r.Late.P99, r.Late.Max = 140, 2_400
	r.Warnings = []string{"the crowd itself was late: 1 visit of 100 left 140 ms or more after its instant", "12 steps were never carried out"}
	r.Sold.Oversold = 17
	r.Checks[0].Broken, r.Checks[0].Example = 17, `order <img src=x onerror=alert(1)> of "buyer" & co`
	r.Probes[0].Source, r.Probes[0].Name = `</svg><script>alert("probe")</script>`, `<b onclick="x">`
	r.Slots[25].Verdicts[`<i>&"`] = 900
	r.Stages[0].Name = `</title>`
	return r
}
