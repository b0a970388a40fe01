package traffic

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// profiles are crowds of every form.
func profiles() *rapid.Generator[Profile] {
	return rapid.Custom(func(t *rapid.T) Profile {
		p := Profile{
			Buyers:    rapid.IntRange(1, 500).Draw(t, "buyers"),
			Refreshes: rapid.SampledFrom([]float64{0, .7, 100}).Draw(t, "refreshes"),
			Before:    time.Duration(rapid.IntRange(0, 3000).Draw(t, "before")) * time.Millisecond,
			Bots:      rapid.SampledFrom([]float64{0, .01, .3, 1}).Draw(t, "bots"),
			BotClicks: rapid.IntRange(1, 5).Draw(t, "bot clicks"),
		}
		p.DoubleClick = rapid.SampledFrom([]float64{0, .1, 1}).Draw(t, "double clicks")
		if rapid.Bool().Draw(t, "pulse") {
			p.Spread = time.Duration(rapid.IntRange(0, 2000).Draw(t, "spread")) * time.Millisecond
			return p
		}
		p.From = rapid.SampledFrom([]float64{0, 1, 50, 300}).Draw(t, "from")
		p.To = rapid.SampledFrom([]float64{1, 50, 300}).Draw(t, "to")
		p.Length = time.Duration(rapid.IntRange(1, 5000).Draw(t, "length")) * time.Millisecond
		return p
	})
}

// Whatever the profile: visits are in order and within their bounds, as many as the
// profile says, nobody's click is used twice but by a double click, and clicks count
// up from 0.
func TestPlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		plan, err := p.Plan(rapid.Uint64().Draw(t, "seed"))
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(plan, func(a, b Visit) int { return int(a.At - b.At) }))

		looks := 0
		clicks := make(map[int32][]Visit)
		for _, v := range plan {
			require.True(t, v.Buyer >= 0 && int(v.Buyer) < p.Buyers)
			if v.Kind == Look {
				require.True(t, v.At >= -p.Before && v.At < 0)
				looks++
				continue
			}
			require.Equal(t, Buy, v.Kind)
			require.True(t, v.At >= 0 && v.At < max(1, p.Spread, p.Length))
			clicks[v.Buyer] = append(clicks[v.Buyer], v)
		}
		require.Equal(t, round(p.Refreshes*p.Before.Seconds()), looks)

		bots := round(p.Bots * float64(p.Buyers))
		sent, doubles, distinct := 0, 0, 0
		for _, visits := range clicks {
			next, twice := int16(0), false
			for i, v := range visits {
				if i > 0 && v.Click == next-1 {
					require.Equal(t, visits[i-1], v, "both halves of a double click")
					twice = true
					continue
				}
				require.Equal(t, next, v.Click)
				next++
			}
			sent += len(visits)
			distinct += int(next)
			if twice {
				require.Len(t, visits, 2*int(next), "who clicks twice does so always")
				doubles++
			}
		}
		if p.byRate() {
			require.Equal(t, round((p.From+p.To)/2*p.Length.Seconds()), distinct)
			return
		}
		require.Len(t, clicks, p.Buyers)
		require.Equal(t, p.Buyers+bots*(p.BotClicks-1), distinct)
		require.Equal(t, round(p.DoubleClick*float64(p.Buyers-bots)), doubles)
		require.Equal(t, distinct+doubles, sent)
		first := make(map[int32]bool)
		for _, v := range plan[looks : looks+bots] {
			require.Zero(t, v.At)
			first[v.Buyer] = true
		}
		require.Len(t, first, bots, "each bot is there at the start")
	})
}

func TestPlanOfASeed(t *testing.T) {
	t.Parallel()
	p := Profile{Buyers: 1000, Spread: time.Second, Refreshes: 100, Before: time.Second, Bots: .1, BotClicks: 3, DoubleClick: .1}
	a, err := p.Plan(1)
	require.NoError(t, err)
	again, err := p.Plan(1)
	require.NoError(t, err)
	other, err := p.Plan(2)
	require.NoError(t, err)
	assert.Equal(t, a, again)
	assert.Len(t, other, len(a))
	assert.NotEqual(t, a, other)
}

// The clicks of a ramp lie where the integral of its rate says, within what chance
// allows: the largest distance between the two distributions (Kolmogorov-Smirnov) is
// below 2/√n, which one seed of a thousand misses, and not these.
func TestPlanRates(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Profile{
		"constant": {From: 5000, To: 5000, Length: 10 * time.Second},
		"up":       {From: 0, To: 10_000, Length: 10 * time.Second},
		"down":     {From: 10_000, To: 0, Length: 10 * time.Second},
		"steeper":  {From: 1000, To: 9000, Length: 10 * time.Second},
		"pulse":    {Spread: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Buyers = 50_000
			plan, err := p.Plan(3)
			require.NoError(t, err)
			require.Len(t, plan, 50_000)
			var worst float64
			for i, v := range plan {
				x := v.At.Seconds() / 10
				share := x
				if p.byRate() {
					share = (p.From*x + (p.To-p.From)*x*x/2) / ((p.From + p.To) / 2)
				}
				worst = max(worst, math.Abs(share-float64(i)/50_000))
			}
			assert.Less(t, worst, 2/math.Sqrt(50_000))
		})
	}
}

// A constant crowd comes as a Poisson process: the gaps are exponential, whose standard
// deviation is their mean.
func TestPlanIsPoisson(t *testing.T) {
	t.Parallel()
	p := Profile{Buyers: 100, From: 10_000, To: 10_000, Length: 10 * time.Second}
	plan, err := p.Plan(5)
	require.NoError(t, err)
	var sum, squares float64
	for i := range plan[1:] {
		gap := (plan[i+1].At - plan[i].At).Seconds()
		sum += gap
		squares += gap * gap
	}
	n := float64(len(plan) - 1)
	mean := sum / n
	assert.InDelta(t, 1e-4, mean, 1e-6)
	assert.InDelta(t, 1, math.Sqrt(squares/n-mean*mean)/mean, .02)
	assert.Equal(t, int16(999), slices.MaxFunc(plan, func(a, b Visit) int { return int(a.Click) - int(b.Click) }).Click, "everybody comes a thousand times")
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for says, p := range map[string]Profile{
		"the number of buyers is -1":                      {Buyers: -1},
		"the number of buyers is 3e+07":                   {Buyers: 30_000_000},
		"the spread is -1":                                {Spread: -1},
		"the rate at the beginning is NaN":                {Buyers: 1, From: math.NaN(), Length: 1},
		"the rate at the end is +Inf":                     {Buyers: 1, To: math.Inf(1), Length: 1},
		"the length is 9e+13":                             {Buyers: 1, To: 1, Length: 25 * time.Hour},
		"the share of bots is 1.1":                        {Buyers: 1, Bots: 1.1},
		"the share of double clicks is -0.1":              {Buyers: 1, DoubleClick: -.1},
		"there are rates, but no buyers":                  {From: 1, Length: time.Second},
		"either within a spread or by rate":               {Buyers: 1, From: 1, Length: 1, Spread: 1},
		"no length of time":                               {Buyers: 1, From: 1},
		"they click 0 times":                              {Buyers: 1, Bots: .5},
		"the plan would have 20000001 visits":             {Buyers: 20_000_000, Refreshes: 1, Before: time.Second},
		"the plan would have 30000000 visits; at most 20": {Buyers: 10_000_000, Bots: 1, BotClicks: 3},
		"would have to come back":                         {Buyers: 1, From: 40_000, To: 40_000, Length: time.Second},
		"a bot's clicks is 32768":                         {Buyers: 1, BotClicks: 32768},
	} {
		_, err := p.Plan(1)
		require.ErrorContains(t, err, says)
	}
	nobody, err := new(Profile).Plan(1)
	require.NoError(t, err)
	assert.Empty(t, nobody)
}
