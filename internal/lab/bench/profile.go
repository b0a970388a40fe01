package bench

import (
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

// Preset is a named crowd.
type Preset struct {
	Name    string
	Doc     string // in one line
	Profile traffic.Profile
	Conduct buyers.Conduct
	Stock   int64 // units of a sale that is made for it
}

// scarce is a unit for each tenth buyer of a pulse.
const scarce = 1000

// Presets returns the crowds that have a name, the first being the default.
func Presets() []Preset {
	return []Preset{
		{
			Name: "pulse", Doc: "10,000 buyers, each once, all within the first second",
			Profile: traffic.Profile{Buyers: 10_000, Spread: time.Second}, Stock: scarce,
		},
		{
			Name: "ramp", Doc: "buys from 100 to 4,000 a second, growing over 20 s, a unit for each: where does it bend?",
			Profile: traffic.Profile{Buyers: 41_000, From: 100, To: 4_000, Length: 20 * time.Second}, Stock: 41_000,
		},
		{
			Name: "constant", Doc: "1,000 buys a second for 15 s, a unit for each: what a buyer waits for when nothing is special",
			Profile: traffic.Profile{Buyers: 15_000, From: 1_000, To: 1_000, Length: 15 * time.Second}, Stock: 15_000,
		},
		{
			Name: "refresh", Doc: "2,000 looks a second in the 3 s before the start, then the pulse",
			Profile: traffic.Profile{Buyers: 10_000, Spread: time.Second, Refreshes: 2_000, Before: 3 * time.Second}, Stock: scarce,
		},
		{
			Name: "bots", Doc: "the pulse with 2 % of bots that click 50 times each, first of all, and 10 % of the others double-clicking",
			Profile: traffic.Profile{Buyers: 10_000, Spread: time.Second, Bots: 0.02, BotClicks: 50, DoubleClick: 0.1}, Stock: scarce,
		},
		{
			Name: "shop", Doc: "a whole sale: looks before, double clicks, buyers who come again when told to, 80 % pay and 10 % cancel after 1 s",
			Profile: traffic.Profile{
				Buyers: 10_000, Spread: 2 * time.Second, Refreshes: 1_000, Before: 3 * time.Second, DoubleClick: 0.1,
			},
			Conduct: buyers.Conduct{Think: time.Second, Pay: 0.8, Cancel: 0.1, Again: 5}, Stock: scarce,
		},
	}
}

// Shape is the numbers of a crowd; runs are alike only if they are equal.
type Shape struct {
	Buyers      int     `json:"buyers"`
	Spread      float64 `json:"spread_s"`
	From        float64 `json:"from"`
	To          float64 `json:"to"`
	Length      float64 `json:"length_s"`
	Refreshes   float64 `json:"refreshes"`
	Before      float64 `json:"before_s"`
	Bots        float64 `json:"bots"`
	BotClicks   int     `json:"bot_clicks"`
	DoubleClick float64 `json:"double_clicks"`
	Think       float64 `json:"think_s"`
	Pay         float64 `json:"pay"`
	Cancel      float64 `json:"cancel"`
	Again       int     `json:"again"`
}

func shapeOf(p *traffic.Profile, c *buyers.Conduct) Shape {
	return Shape{
		Buyers: p.Buyers, Spread: p.Spread.Seconds(), From: p.From, To: p.To, Length: p.Length.Seconds(),
		Refreshes: p.Refreshes, Before: p.Before.Seconds(), Bots: p.Bots, BotClicks: p.BotClicks, DoubleClick: p.DoubleClick,
		Think: c.Think.Seconds(), Pay: c.Pay, Cancel: c.Cancel, Again: c.Again,
	}
}
