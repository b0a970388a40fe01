package traffic

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Record is what a crowd has seen.
//
// Each step that left has one answer in a class, be it Failed; so has each visit that
// found no connection, which is Failed without having left.
type Record struct {
	Start time.Time
	Slot  time.Duration

	// Verdicts counts the answers of each kind by what they meant.
	Verdicts [Kinds]map[string]int64
	// Waited holds, per class, µs from the instant a step was due to its answer; where it
	// was told to come again or got none, from the first time (Step.Since), but for each
	// answer TurnedOff or Failed by itself. Served is from the request's leaving to its
	// answer.
	Waited, Served [Classes]*hdrhistogram.Histogram
	// Late holds, in µs, how much after its instant each visit left. That is the
	// crowd's own failing, unless the server's slowness held every connection.
	Late *hdrhistogram.Histogram
	// Stages holds, per name of a Server-Timing entry, µs; of buys only.
	Stages map[string]*hdrhistogram.Histogram
	// Slots is the course in time, the first one at First after the start.
	First time.Duration
	Slots []Slot

	Abandoned int64 // steps that were due and never carried out
	Dialed    int64 // connections opened
	// Queued counts the visits that were due while nearly all connections for visits were
	// under way with another one and none was free: they left late because of the server.
	Queued int64

	Connections int // for visits, at most; those for what follows come on top
}

// Slot is what happened in one grain of time. An answer belongs to the slot in
// which it was heard.
type Slot struct {
	Offered  int64 // visits due
	Sent     int64 // steps that left
	Answers  [Classes]int64
	Verdicts map[string]int64 // of buys
	// Waits counts the buys heard in this slot by how long they had waited: bucket i
	// ends at WaitBuckets()[i].
	Waits  []int64
	Stages map[string]StageSum
}

// StageSum is the sum of one stage's times in a slot.
type StageSum struct {
	Count int64
	Sum   time.Duration
}
