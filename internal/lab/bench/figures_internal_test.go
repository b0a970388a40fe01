package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

func TestSpeed(t *testing.T) {
	t.Parallel()
	const slot = 20 * time.Millisecond
	mean, peak := speed([]int64{0, 0, 10, 30, 0, 0, 0, 0, 0, 20, 0}, slot)
	assert.InDelta(t, 60/0.16, mean, 1e-6, "from the first to the last answer")
	assert.InDelta(t, 400, peak, 1e-6, "40 answers in the best tenth of a second")
	mean, peak = speed([]int64{7}, time.Second)
	assert.InDelta(t, 7, mean, 1e-6)
	assert.InDelta(t, 7, peak, 1e-6)
	mean, peak = speed([]int64{0, 1000, 0}, slot)
	assert.InDelta(t, 50_000, mean, 1e-6)
	assert.Zero(t, peak, "all came within less than a tenth of a second")
	mean, peak = speed([]int64{10, 0, 0, 0, 0, 0, 10}, slot)
	assert.InDelta(t, 20/0.14, mean, 1e-6)
	assert.InDelta(t, mean, peak, 1e-6, "the best is no less than the mean")
	mean, peak = speed(make([]int64, 5), slot)
	assert.Zero(t, mean)
	assert.Zero(t, peak)
}

func TestSaturated(t *testing.T) {
	t.Parallel()
	seen := &traffic.Record{Slots: []traffic.Slot{{Offered: 150}, {}, {Offered: 50}}}
	assert.False(t, saturated(seen))
	seen.Queued = 1
	assert.False(t, saturated(seen), "1 of 200 explains no p99")
	seen.Queued = 2
	assert.True(t, saturated(seen))
}

func TestPollsEndBeforeTheCrowdsPatience(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 20 * time.Second: 5 * time.Second, 5 * time.Second: 2 * time.Second, time.Second: 0} {
		assert.Equal(t, want, pollWait(timeout), timeout)
	}
}

// TestCoarse: slots put together lose nothing, and the start stays between two of them.
func TestCoarse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		before := rapid.IntRange(0, 300).Draw(r, "slots before the start")
		seen := &traffic.Record{Slot: 20 * time.Millisecond, First: -time.Duration(before) * 20 * time.Millisecond}
		var offered, early int64
		for i := range before + rapid.IntRange(1, 1200).Draw(r, "slots after it") {
			n := int64(i % 7)
			offered += n
			if i < before {
				early += n
			}
			seen.Slots = append(seen.Slots, traffic.Slot{Offered: n, Verdicts: map[string]int64{"taken": n}, Stages: map[string]traffic.StageSum{"gate": {Count: n}}})
		}
		c := coarse(seen)
		assert.LessOrEqual(r, len(c.Slots), mostSlots+1)
		assert.Zero(r, c.First%c.Slot)
		for i := range c.Slots {
			s := &c.Slots[i]
			offered -= s.Offered
			if c.First+time.Duration(i)*c.Slot < 0 {
				early -= s.Offered
			}
			assert.Equal(r, s.Offered, s.Verdicts["taken"])
			assert.Equal(r, s.Offered, s.Stages["gate"].Count)
		}
		assert.Zero(r, offered)
		assert.Zero(r, early)
	})
}

func TestGrain(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 20*time.Millisecond, grain(0))
	assert.Equal(t, 20*time.Millisecond, grain(4*time.Second))
	assert.Equal(t, 100*time.Millisecond, grain(15*time.Second))
	assert.Equal(t, 5*time.Second, grain(24*time.Hour))
}

// TestDistribution: whatever the answers, the curve begins at 0, ends with the slowest
// at 1, and never falls.
func TestDistribution(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
		for _, v := range rapid.SliceOfN(rapid.Int64Range(1, 60_000_000), 1, 300).Draw(r, "µs") {
			require.NoError(r, h.RecordValue(v))
		}
		all := distribution(h)
		assert.Zero(r, all[0][0])
		assert.Equal(r, [2]float64{1, float64(h.Max()) / 1000}, all[len(all)-1])
		for i := 1; i < len(all); i++ {
			assert.Greater(r, all[i][0], all[i-1][0])
			assert.GreaterOrEqual(r, all[i][1], all[i-1][1])
		}
		assert.Less(r, len(all), 80)
	})
}

func TestPresetsAreCrowds(t *testing.T) {
	t.Parallel()
	for _, p := range Presets() {
		plan, err := p.Profile.Plan(1)
		require.NoError(t, err, p.Name)
		require.NoError(t, p.Conduct.Check())
		assert.GreaterOrEqual(t, len(plan), 10_000, p.Name)
		assert.NotEmpty(t, p.Doc)
	}
}

// reportOf runs figures over a record that the traffic's own code has made.
func reportOf(t *testing.T) *Report {
	t.Helper()
	histogram := func(µs ...int64) *hdrhistogram.Histogram {
		h := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
		for _, v := range µs {
			require.NoError(t, h.RecordValue(v))
		}
		return h
	}
	seen := &traffic.Record{
		Start: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Slot: 100 * time.Millisecond, First: -100 * time.Millisecond,
		Late: histogram(100, 200), Stages: map[string]*hdrhistogram.Histogram{"ledger": histogram(900), "xyz": histogram(1), "gate": histogram(50)},
		Abandoned: 1,
	}
	for class := range seen.Waited {
		seen.Waited[class], seen.Served[class] = histogram(), histogram()
	}
	seen.Waited[traffic.Accepted], seen.Served[traffic.Accepted] = histogram(2000, 3000), histogram(1000, 1000)
	seen.Waited[traffic.Looked], seen.Served[traffic.Looked] = histogram(500), histogram(400)
	seen.Verdicts[traffic.Buy] = map[string]int64{"replayed": 1, "taken": 1}
	seen.Verdicts[traffic.Look] = map[string]int64{"seen": 1}
	seen.Slots = []traffic.Slot{
		{Offered: 1, Sent: 1, Answers: [traffic.Classes]int64{traffic.Looked: 1}},
		{Offered: 2, Sent: 2, Answers: [traffic.Classes]int64{traffic.Accepted: 2}, Stages: map[string]traffic.StageSum{"ledger": {Count: 2, Sum: 3 * time.Millisecond}}},
		{},
	}
	r := &Report{Sale: "drop", Profile: "pulse", URL: "http://a http://b", Stock: 2, Path: "fast", Pass: true, Connections: 8}
	r.figures(seen)
	return r
}

func TestFigures(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	assert.EqualValues(t, 3, r.Offered)
	assert.EqualValues(t, 3, r.Sent)
	assert.InDelta(t, 0.2, r.Seconds, 1e-9, "to the last slot with an answer")
	assert.InDelta(t, 0.2, r.Due, 1e-9)
	assert.InDelta(t, -0.1, r.Slots[0].At, 1e-9)
	assert.Equal(t, map[string]int64{"accepted": 2}, r.Slots[1].Answers)
	assert.InDelta(t, 1.5, r.Slots[1].Stages["ledger"], 1e-9)
	require.Len(t, r.Pace, 2, "only what occurred")
	assert.Equal(t, "accepted", r.Pace[0].Class)
	assert.InDelta(t, 20, r.Pace[0].PerSecond, 1e-9)
	assert.InDelta(t, 3, r.Pace[0].Waited.P99, 0.01)
	assert.InDelta(t, 1, r.Pace[0].Served.P99, 0.01)
	assert.Equal(t, []Tally{{"look", "seen", 1}, {"buy", "replayed", 1}, {"buy", "taken", 1}}, r.Verdicts)
	assert.Equal(t, []string{"gate", "ledger", "xyz"}, []string{r.Stages[0].Name, r.Stages[1].Name, r.Stages[2].Name})
	assert.EqualValues(t, 1, r.count("buy", "taken"))
	assert.Zero(t, r.count("poll", "taken"))
}

func TestSummaryLeavesOutTheTimeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	mean, most := r.summary(&Series{Points: [][2]float64{{-3, 100}, {-0.1, 1}, {0, 2}, {0.1, 6}, {5, 100}}})
	assert.InDelta(t, 3, mean, 1e-9)
	assert.InDelta(t, 6, most, 1e-9)
}

// TestCoreSecondsAreOfAllThatWasDone: what a crowd costs, whose work may end after it.
func TestCoreSecondsAreOfAllThatWasDone(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	first := r.Slots[0].At
	points := [][2]float64{{first - 3, 100}, {first - 0.5, 1}, {first + 0.5, 2}, {first + 1, 4}, {first + 9, 0.5}}
	assert.Equal(t, "7.00 core-s", r.inAll(&Series{Unit: "cores", Points: points}))
	assert.Empty(t, r.inAll(&Series{Unit: "1/s", Points: points}))
	assert.Empty(t, new(Report).inAll(&Series{Unit: "cores", Points: points}))
}

// TestSummaryOfACounterThatLags: the mean is what was counted in all, over the run; a run
// that is too short for that has none.
func TestSummaryOfACounterThatLags(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	r.Probes = []Series{{Source: "postgres", Name: "rows inserted/s", Unit: "1/s", Lag: 1, Grown: 600, Points: [][2]float64{{0, 3}, {11, 9}}}}
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	assert.Regexp(t, `rows inserted/s +– +–\n`, text.String())
	r.Seconds = 12
	mean, most := r.summary(&r.Probes[0])
	assert.InDelta(t, 50, mean, 1e-9)
	assert.InDelta(t, 50, most, 1e-9, "never below the mean")
	text.Reset()
	require.NoError(t, r.WriteText(&text))
	assert.Regexp(t, `rows inserted/s +50`, text.String())
}

func TestCompare(t *testing.T) {
	t.Parallel()
	r, old := reportOf(t), reportOf(t)
	assert.Empty(t, Unlike(r, old))
	old.Profile, old.Shape.Buyers, old.URL = "bots", 7, "http://a"
	old.Pace[0].PerSecond, old.Pass = 10, false
	old.Judged, r.Judged = &Judged{Orders: 1, Waited: Quantiles{P50: 4}}, &Judged{Orders: 1, Waited: Quantiles{P50: 5}}
	assert.Equal(t, []string{"profile: pulse now, bots before", "buyers: 0 now, 7 before", "instances: 2 now, 1 before"}, Unlike(r, old))

	var text strings.Builder
	require.NoError(t, r.WriteCompared(&text, old))
	assert.Contains(t, text.String(), "WARNING: the two are not alike")
	assert.Regexp(t, `a second +10 +20 +\+100\.0 %`, text.String())
	assert.Regexp(t, `judged +waited p50 +4 ms +5 ms +\+25\.0 %`, text.String())
	assert.Regexp(t, `verdict +FAIL +PASS`, text.String())
	assert.NotContains(t, text.String(), "failed", "what occurred in neither is left out")
}

func TestRead(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	var file bytes.Buffer
	require.NoError(t, r.WriteJSON(&file))
	again, err := Read(&file)
	require.NoError(t, err)
	want, err := json.Marshal(r)
	require.NoError(t, err)
	got, err := json.Marshal(again)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(got))
	for _, text := range []string{"", "{}", `{"sale":"x"}`, "[1]", "<html>"} {
		_, err := Read(strings.NewReader(text))
		assert.ErrorContains(t, err, "no report of doorbuster bench", text)
	}
}

func TestTextOfAReport(t *testing.T) {
	t.Parallel()
	r := reportOf(t)
	r.Judged = &Judged{Orders: 2, Waited: Quantiles{P50: 7}}
	r.Checks = []Check{{Promise: "P5", Text: "every order exists", Checked: 4, Broken: 1, Example: "ord_1"}, {Promise: "P7", Text: "each charge"}}
	r.Warnings = []string{"the crowd itself was late"}
	r.Sold = SoldReport{Reserved: 1, Paid: 2, Oversold: 1}
	r.Pass = false
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	for _, want := range []string{
		"WARNING: the crowd itself was late.", "BROKEN  P5", "–       P7", "P5 is broken, for one: ord_1", "judged",
		"FAIL: 3 of 2 units sold (2 paid, 1 reserved), 1 oversold, 0 free.",
	} {
		assert.Contains(t, text.String(), want)
	}
	require.Error(t, r.WriteText(&fullDisk{}))
}

// fullDisk takes one line and no more.
type fullDisk struct{ lines int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.lines++; d.lines > 1 {
		return 0, assert.AnError
	}
	return len(p), nil
}

func TestWhatAnOrderMayBecome(t *testing.T) {
	t.Parallel()
	for seen, now := range map[buyers.States]string{
		buyers.Queued:                                 "rejected",
		buyers.Queued | buyers.Reserved:               "paid",
		buyers.Reserved | buyers.Paid:                 "refunded",
		buyers.Reserved:                               "expired",
		buyers.Queued | buyers.Reserved | buyers.Paid: "paid",
		buyers.Queued | buyers.Rejected:               "rejected",
		buyers.Reserved | buyers.Cancelled:            "cancelled",
	} {
		assert.True(t, mayBecome(seen, now), "%v, %s", seen, now)
	}
	for seen, now := range map[buyers.States]string{
		buyers.Reserved:                    "rejected",
		buyers.Paid:                        "reserved",
		buyers.Cancelled:                   "paid",
		buyers.Reserved | buyers.Rejected:  "reserved",
		buyers.Queued:                      "queued",
		buyers.Reserved | buyers.Expired:   "paid",
		buyers.Reserved | buyers.Cancelled: "expired",
	} {
		assert.False(t, mayBecome(seen, now), "%v, %s", seen, now)
	}
}
