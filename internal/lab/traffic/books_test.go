package traffic

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestServerTiming(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]time.Duration{
		"":                                   {},
		"gate;dur=0.051, engine;dur=12.5":    {"gate": 51 * time.Microsecond, "engine": 12500 * time.Microsecond},
		"gate;dur=7":                         {"gate": 7 * time.Millisecond},
		"db;desc=\"x\";dur=1.000001;a=b ,c,": {"db": 1000001 * time.Nanosecond},
		"a;dur=1.0000000000000000001":        {"a": time.Millisecond},
		"a;dur=,b;dur=x,c;dur=1.x,d;dur=-1,;dur=1,e;dur=1234567890, f;dur=.5": {},
		"a,b;c": {},
	} {
		got := make(map[string]time.Duration)
		for rest := []byte(text); len(rest) > 0; {
			var s stage
			if s, rest = nextStage(rest); s.told {
				got[string(s.name)] = s.spent
			}
		}
		assert.Equal(t, want, got, text)
	}
}

// TestWaitsSinceTheFirstTime: an answer has waited since its step was due for the first
// time; being told to come again, and no answer, wait by themselves.
func TestWaitsSinceTheFirstTime(t *testing.T) {
	t.Parallel()
	b := newBooks(time.Second)
	step := &Step{Kind: Buy, Due: 3 * time.Second, First: time.Second, Again: true}
	for class := range Classes {
		b.shards[0].enter(&entry{step: step, outcome: &Outcome{Class: class}, sent: 3 * time.Second, heard: 4 * time.Second})
	}
	r := b.record()
	for class := range Classes {
		want := 3_000_000
		if class == TurnedOff || class == Failed {
			want = 1_000_000
		}
		assert.InDelta(t, want, r.Waited[class].Max(), 3000, class)
		assert.InDelta(t, 1_000_000, r.Served[class].Max(), 1000)
	}
}

func TestWaitBuckets(t *testing.T) {
	t.Parallel()
	bounds := WaitBuckets()
	assert.True(t, slices.IsSorted(bounds))
	assert.Equal(t, 100*time.Microsecond, bounds[0])
	assert.GreaterOrEqual(t, bounds[len(bounds)-1], time.Minute)
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Hour)).Draw(t, "wait"))
		want := slices.IndexFunc(bounds, func(bound time.Duration) bool { return wait <= bound })
		if want < 0 {
			want = len(bounds) - 1
		}
		require.Equal(t, want, bucket(bounds, wait))
	})
}

// A script that gives every answer a meaning of its own, or a server that names new
// stages for ever, does not fill the memory.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var n names
	for i := range 1000 {
		n.number("verdict " + strconv.Itoa(i))
		n.numberBytes(strconv.AppendInt(nil, int64(i), 10))
	}
	assert.LessOrEqual(t, len(n.list), mostNames)
	assert.Equal(t, n.number(otherName), n.number("one more"))
	assert.Equal(t, 0, n.number("verdict 0"))
}

// What is entered in several books is put together as if it were one.
func TestBooksAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	within := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	split, whole := newBooks(time.Second), newBooks(time.Second)
	split.shards = append(split.shards, newBooks(time.Second).shards...)
	for range 2000 {
		step := Step{Due: within(5 * time.Second), Kind: []Kind{Look, Buy, Poll, Pay, Cancel}[random.IntN(5)]}
		outcome := Outcome{
			Class:   []Class{Accepted, Refused, Looked, Settled, TurnedOff, Failed}[random.IntN(6)],
			Verdict: []string{"a", "b", "c", "d"}[random.IntN(4)],
		}
		e := entry{step: &step, outcome: &outcome, sent: step.Due + within(time.Second), followed: random.IntN(2) == 0}
		e.heard = e.sent + within(time.Second)
		e.timing = []byte([]string{"", "x;dur=1", "y;dur=2,x;dur=3"}[random.IntN(3)])
		if random.IntN(4) == 0 {
			e.sent = unsent
		} else {
			split.shards[0].sent.Add(1)
		}
		split.shards[random.IntN(len(split.shards))].enter(&e)
		whole.shards[0].enter(&e)
	}
	a, z := whole.record(), split.record()
	assert.Equal(t, a.Verdicts, z.Verdicts)
	assert.Equal(t, a.Slots, z.Slots)
	assert.Equal(t, figures(a), figures(z))
	assert.Zero(t, split.live().InFlight)
}

// figures are what tells histograms apart.
func figures(r *Record) map[string][4]int64 {
	of := func(h *hdrhistogram.Histogram) [4]int64 {
		return [4]int64{h.TotalCount(), h.Min(), h.Max(), h.ValueAtQuantile(50)}
	}
	all := map[string][4]int64{"late": of(r.Late)}
	for class := range r.Waited {
		all["waited "+strconv.Itoa(class)], all["served "+strconv.Itoa(class)] = of(r.Waited[class]), of(r.Served[class])
	}
	for name, h := range r.Stages {
		all["stage "+name] = of(h)
	}
	return all
}

// Steps leave the heap in the order in which they are due.
func TestFollowingIsOrdered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFollowing(func() time.Duration { return time.Hour }, newTimerAlarm())
		var want []time.Duration
		var s Step
		for range rapid.IntRange(0, 200).Draw(t, "moves") {
			if len(want) > 0 && rapid.Bool().Draw(t, "pop") {
				_, ok := f.pop(&s)
				require.True(t, ok)
				require.Equal(t, slices.Min(want), s.Due)
				want = slices.Delete(want, slices.Index(want, s.Due), slices.Index(want, s.Due)+1)
				continue
			}
			due := time.Duration(rapid.IntRange(0, 20).Draw(t, "due"))
			want = append(want, due)
			f.push(&Step{Due: due})
		}
		require.Equal(t, int64(len(want)), f.abandon())
		f.push(&s)
		require.Equal(t, int64(len(want)+1), f.abandon())
	})
}
