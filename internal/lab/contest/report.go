package contest

import "time"

// Report is the outcome of all strategies; --json writes it, --html draws it.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Seconds   float64   `json:"seconds"`
	Seed      uint64    `json:"seed"`
	Buyers    int       `json:"buyers"`
	Clicks    int       `json:"clicks"` // buys sent, double clicks included
	Stock     int64     `json:"stock"`
	Redis     string    `json:"redis"` // version and where from
	Postgres  string    `json:"postgres"`
	Rows      []Row     `json:"rows"`
	Pass      bool      `json:"pass"` // Doorbuster's rows are clean, and the unprotected ones failed
	Missing   []string  `json:"missing,omitempty"`
}

// Row is one strategy, as measured.
type Row struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Fault  string `json:"fault,omitempty"` // what was done to it: a crash between two steps, a slow holder
	Why    string `json:"why"`             // why it fails, or holds
	Expect string `json:"expect"`          // fails, holds, clean
	As     bool   `json:"as_expected"`

	Sold       int64 `json:"sold"` // live orders' units at the end
	Oversold   int64 `json:"oversold"`
	Undersold  int64 `json:"undersold"`  // units that could not be sold although buyers asked
	Duplicates int64 `json:"duplicates"` // orders beyond the first of one buyer's click or limit
	Lost       int64 `json:"lost"`       // buyers told yes whose order the books do not hold

	Accepted Speed   `json:"accepted"`
	Refused  Speed   `json:"refused"`
	Failed   int64   `json:"failed"`  // no answer, or an error
	Seconds  float64 `json:"seconds"` // from the start to the last unit sold in the rush
	Note     string  `json:"note,omitempty"`
}

// Speed is that of one kind of answer.
type Speed struct {
	Answers   int64   `json:"answers"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
}
