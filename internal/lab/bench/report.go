package bench

import (
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
)

// Report is what one run has seen; --json writes it, --html draws it, --compare
// reads it again.
type Report struct {
	Version   string    `json:"version"` // of the program that measured
	Server    string    `json:"server"`  // version of the server, if it told
	URL       string    `json:"url"`     // of all instances, with spaces between
	Sale      string    `json:"sale"`
	Path      string    `json:"path"` // fast or direct, as the sale was sold
	Stock     int64     `json:"stock"`
	Profile   string    `json:"profile"`
	Shape     Shape     `json:"shape"`   // the numbers behind the profile
	Command   string    `json:"command"` // the words after doorbuster, secrets left out
	Seed      uint64    `json:"seed"`
	StartedAt time.Time `json:"started_at"`  // the start of the sale
	Due       float64   `json:"due_seconds"` // from the first visit to the last, as planned
	Seconds   float64   `json:"seconds"`     // from the first visit to the last answer

	Buyers      int   `json:"buyers"`
	Offered     int64 `json:"offered"` // visits due
	Sent        int64 `json:"sent"`    // requests that left
	Connections int   `json:"connections"`
	Abandoned   int64 `json:"abandoned"`

	Verdicts []Tally `json:"verdicts"`
	// Warnings are why the figures may not be what they seem; empty on a good run.
	Warnings []string `json:"warnings"`
	Pace     []Pace   `json:"pace"`             // accepted, refused, looked, settled, turned_off, failed: those that occurred
	Judged   *Judged  `json:"judged,omitempty"` // nil: no order was queued
	// Saturated says that 1 visit of 100, or more, stood in line since all connections were
	// waiting for the server: visits that left late did so because of it.
	Saturated bool         `json:"saturated"`
	Late      Quantiles    `json:"late"` // how much after its instant a visit left
	Stages    []Stage      `json:"stages"`
	Slots     []Slot       `json:"slots"` // the course in time
	Buckets   []float64    `json:"wait_buckets_ms"`
	Probes    []Series     `json:"probes"`          // what server, Redis, PostgreSQL and nginx told of themselves
	Notes     []probe.Note `json:"notes,omitempty"` // what those had to say in words
	Checks    []Check      `json:"checks"`          // the crowd's books against the server's
	Sold      SoldReport   `json:"sold"`

	Audit *client.AuditReport `json:"audit"` // nil: not asked for
	Pass  bool                `json:"pass"`
	// Unproved says why nothing is proved, though nothing is broken; then Pass is false.
	Unproved string `json:"unproved,omitempty"`
}

// Tally counts answers of one kind with one meaning.
type Tally struct {
	Kind    string `json:"kind"` // look, buy, poll, pay, cancel
	Verdict string `json:"verdict"`
	Count   int64  `json:"count"`
}

// Quantiles are times in ms.
type Quantiles struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

// Pace is the speed of one class of answers. Waited counts from the instant the step
// was due, also where it was told to come again meanwhile (turned_off and failed count
// each try by itself), Served from its leaving.
type Pace struct {
	Class     string    `json:"class"`
	Answers   int64     `json:"answers"`
	PerSecond float64   `json:"per_second"` // from the first to the last of them
	Peak      float64   `json:"peak"`       // a second, in the best tenth of a second; 0: all came within less
	Waited    Quantiles `json:"waited"`
	Served    Quantiles `json:"served"`
	// Waits is the whole distribution for the chart: pairs of quantile (0 to 1) and ms.
	Waits [][2]float64 `json:"waits"`
}

// Judged tells how long the buyers of queued orders waited for the judgement: from the
// instant their click was due until they heard of it by polling.
type Judged struct {
	Orders int64        `json:"orders"`
	Waited Quantiles    `json:"waited"`
	Waits  [][2]float64 `json:"waits"` // as in Pace
}

// Stage is one stage of the server's work on buys, as Server-Timing tells it.
type Stage struct {
	Name  string    `json:"name"`
	Count int64     `json:"count"`
	Times Quantiles `json:"times"`
	Mean  float64   `json:"mean_ms"`
}

// Slot is what happened in one grain of time.
type Slot struct {
	At       float64            `json:"at"` // seconds after the start, of its beginning
	Offered  int64              `json:"offered"`
	Sent     int64              `json:"sent"`
	Answers  map[string]int64   `json:"answers"`  // by class
	Verdicts map[string]int64   `json:"verdicts"` // of buys
	Waits    []int64            `json:"waits"`    // buys by wait_buckets_ms
	Stages   map[string]float64 `json:"stages"`   // mean ms
}

// Series is one figure in the course of time, as package probe records it.
type Series = probe.Series

// Check is one comparison of what buyers were told with what the server holds.
type Check struct {
	Promise string `json:"promise"` // P1 …
	Text    string `json:"text"`
	Checked int64  `json:"checked"`
	Broken  int64  `json:"broken"`
	Example string `json:"example,omitempty"`
}

// SoldReport is what became of the stock.
type SoldReport struct {
	Reserved int64 `json:"reserved"`
	Paid     int64 `json:"paid"`
	Free     int64 `json:"free"`
	Oversold int64 `json:"oversold"`
}
