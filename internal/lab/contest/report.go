package contest

import (
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
)

// What a row is expected to show.
const (
	Fails = string(strategy.Fails) // the column of its accident is not zero
	Holds = string(strategy.Holds) // every column is zero, unless there is bad luck
	Must  = string(strategy.Must)  // every column is zero
	Clean = "clean"                // the same, and the audit finds nothing, and no answer broke a promise
)

// Report is the outcome of all rows; --json writes it, --html draws it.
type Report struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Seconds   float64   `json:"seconds"`
	Seed      uint64    `json:"seed"`
	Buyers    int       `json:"buyers"`
	Clicks    int       `json:"clicks"` // buys sent in the rush, double clicks included
	Stock     int64     `json:"stock"`
	Redis     string    `json:"redis"`    // version and where from; empty where no row needed it
	Postgres  string    `json:"postgres"` // likewise
	Rows      []Row     `json:"rows"`
	// Pass says that Doorbuster's rows are clean, those that must hold did, and those that
	// must fail did.
	Pass bool `json:"pass"`
	// Missing names the rows that did not fail or hold as they must, whose fault did not
	// happen, or that could not run; but for those in which Doorbuster broke a promise.
	Missing []string `json:"missing,omitempty"`
	// CutOff names the rows that did not come to their end, since the lab was ended.
	CutOff []string `json:"cut_off,omitempty"`
	// Kept is the folder with the logs, and the ledgers that are files, of rows in which
	// Doorbuster broke a promise; empty where none did.
	Kept string `json:"kept,omitempty"`
}

// Row is one strategy, or Doorbuster in one way, as measured.
type Row struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Fault    string `json:"fault,omitempty"`    // what was done to it: a crash between two steps, a slow holder
	Why      string `json:"why"`                // why it fails, or holds
	Expect   string `json:"expect"`             // Fails, Holds, Must, Clean
	Ours     bool   `json:"ours"`               // it sells with Doorbuster, or a part of it
	Accident string `json:"accident,omitempty"` // the column that must not be zero if it fails
	As       bool   `json:"as_expected"`
	// Trouble is why the row has no figures.
	Trouble string `json:"trouble,omitempty"`
	// Struck is how often the fault happened, ToldAtKill of how many orders buyers had
	// been told when a process of Doorbuster's was killed.
	Struck     int64 `json:"struck"`
	ToldAtKill int64 `json:"told_at_kill,omitempty"`

	Seed       uint64 `json:"seed"` // of its crowd: that of the report, unless the row was repeated
	Sold       int64  `json:"sold"` // live orders' units at the end
	Oversold   int64  `json:"oversold"`
	Undersold  int64  `json:"undersold"`  // units that could not be sold although buyers asked
	Duplicates int64  `json:"duplicates"` // live orders beyond a buyer's first
	Lost       int64  `json:"lost"`       // orders that buyers were told of and the books do not hold
	Broken     int64  `json:"broken"`     // facts that break a promise, by Doorbuster's audit and by its answers

	Accepted Speed   `json:"accepted"` // clicks that got a unit, or on the fast path the promise of a judgement; no replays
	Judged   *Speed  `json:"judged,omitempty"`
	Refused  Speed   `json:"refused"`
	Failed   int64   `json:"failed"`  // no answer, an error, or told to come again
	Seconds  float64 `json:"seconds"` // from the start until a buyer of the rush heard, as the last one, that a unit is his
	Note     string  `json:"note,omitempty"`
}

// Speed is that of one kind of answer in the rush. Times count from the instant a
// click was due.
type Speed struct {
	Answers   int64   `json:"answers"`
	PerSecond float64 `json:"per_second"` // from the start to the last of them
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
}

// Clean reports whether every column of accidents is zero.
func (r *Row) Clean() bool {
	return r.Trouble == "" && r.Oversold == 0 && r.Undersold == 0 && r.Duplicates == 0 && r.Lost == 0 && r.Broken == 0
}

// accident returns the column that must not be zero.
func (r *Row) accident() int64 {
	switch r.Accident {
	case "oversold":
		return r.Oversold
	case "undersold":
		return r.Undersold
	case "duplicates":
		return r.Duplicates
	case "lost":
		return r.Lost
	}
	return 0
}

// void reports whether the row shows nothing since the fault did not happen. An accident
// that must not be stands all the same.
func (r *Row) void() bool {
	return r.Trouble == "" && r.Fault != "" && r.Struck == 0 && (r.Expect == Fails || r.Clean())
}

// judge decides whether the row shows what is expected.
func (r *Row) judge() {
	switch {
	case r.Trouble != "" || r.void():
		r.As = false
	case r.Expect == Fails:
		r.As = r.accident() > 0
	default:
		r.As = r.Clean()
	}
}

// broken reports whether Doorbuster, or a part of it, broke a promise in the row.
func (r *Row) broken() bool { return r.Ours && r.Trouble == "" && !r.Clean() }

// fell reports whether another row had an accident that no bad luck excuses.
func (r *Row) fell() bool { return r.Expect == Must && !r.Ours && r.Trouble == "" && !r.Clean() }

// judge draws the conclusion from all rows. That a row holds which may fail by bad luck,
// such as a lock without renewal, is not asked for.
func (r *Report) judge() {
	r.Missing = nil
	for i := range r.Rows {
		row := &r.Rows[i]
		row.judge()
		unlucky := row.Expect == Holds && row.Trouble == "" && !row.void()
		if !row.As && !row.broken() && !unlucky {
			r.Missing = append(r.Missing, row.Name)
		}
	}
	r.Pass = len(r.Missing) == 0 && len(r.Broken()) == 0
}

// cutOff enters the rows that were not filled, before the lab was ended.
func (r *Report) cutOff(rows []contender) {
	r.Pass = false
	for i := range rows {
		r.CutOff = append(r.CutOff, rows[i].Name)
	}
}

// Broken names the rows that ran and in which Doorbuster, or a part of it, broke a promise.
func (r *Report) Broken() []string { return r.names((*Row).broken) }

// names returns the names of the rows of which something is true.
func (r *Report) names(is func(*Row) bool) []string {
	var names []string
	for i := range r.Rows {
		if is(&r.Rows[i]) {
			names = append(names, r.Rows[i].Name)
		}
	}
	return names
}

// ours reports whether a row of Doorbuster's own is among those that ran.
func (r *Report) ours() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Expect == Clean })
}
