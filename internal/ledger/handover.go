package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Handover moves a sale between paths. Everything a builder of the fast counter
// does is fenced by a token that only grows, so no lock outside is needed.
type Handover interface {
	// StartBuild gives the right to load the fast counter of a sale that is in the
	// epoch that the caller has seen, else ErrWrongEpoch: somebody was quicker.
	// Nothing of the sale changes but the token. ErrBuilding while another build is
	// younger than BuildLease; CodeIllegalState for a draft, CodeSaleNotFound for a
	// deleted sale.
	StartBuild(ctx context.Context, n sale.Number, epoch int64) (Build, error)
	// FinishBuild puts the sale on the fast path under the token as its epoch.
	// While the sale is locked, load brings the counter from what was read at the
	// journal's number f.After to the present; its error, or the end of ctx, undoes
	// everything. Repeated while the sale is as it left it, it returns the sale and
	// loads nothing. ErrSuperseded if a newer token was given, or the sale has left
	// the epoch of this one; of a sale that was put away the errors of StartBuild.
	FinishBuild(ctx context.Context, f Finish) (sale.Sale, error)
	// GoDirect puts a fast sale of the epoch from on the direct path under the epoch
	// to, which must be higher. A sale that is direct already is returned as it is.
	// ErrWrongEpoch if from is not the sale's epoch.
	GoDirect(ctx context.Context, n sale.Number, from, to int64) (sale.Sale, error)
}

// BuildLease is how long a build may take before the ledger lets another one begin.
const BuildLease = 5 * time.Second

// Why a build cannot go on.
var (
	ErrBuilding   = errors.New("ledger: another build is under way")
	ErrSuperseded = errors.New("ledger: a newer build has begun")
)

// Build is the right to load the fast counter of a sale.
type Build struct {
	Sale  sale.Sale // as it was when the token was given
	Token int64
}

// Finish is the last step of a build.
type Finish struct {
	Build
	After uint64   // the journal's number that the builder's reading contains
	Salts []uint32 // of the lanes
	// Load is called with the sale as it will be, every row of the journal after
	// After, and the number that the journal will have: the counter then contains
	// them. It may be called again where the database has the transaction run
	// again, and what it did may be undone.
	Load func(ctx context.Context, now Present) error
}

// Present is a sale at the end of a build.
type Present struct {
	Sale  sale.Sale // on the fast path already
	Delta []Entry   // without the row that this very step writes, which Seq counts
	Seq   uint64
}

// LaneRows is a stretch of the journal for the lanes of a sale.
type LaneRows struct {
	Rows []Entry
	Upto uint64 // every lane row up to this number is in Rows or was before
}

// Letters keeps slips that could not be judged, for an operator.
type Letters interface {
	// Park stores slips of one sale, each once however often it is parked. A slip
	// with an Attempt was made by an instance of ours: unless its order is there,
	// its buyer gets a rejected one, or, where the database refuses even that row,
	// what the counter took goes back all the same. Of a letter only ID, Place,
	// Cause, Raw and Attempt count.
	Park(ctx context.Context, n sale.Number, letters []Letter) error
	// ListLetters returns dead letters in the order they were parked.
	ListLetters(ctx context.Context, f LetterFilter) ([]Letter, error)
	// Letter returns one; CodeLetterNotFound.
	Letter(ctx context.Context, id LetterID) (Letter, error)
	// CloseLetter marks an open letter as replayed or dropped; repeated, it changes
	// nothing.
	CloseLetter(ctx context.Context, id LetterID, s LetterState) (Letter, error)
}

// LetterID names a dead letter.
type LetterID = sale.LetterID

// LetterState is what became of a dead letter.
type LetterState string

// The states of a dead letter.
const (
	LetterOpen     LetterState = "open"
	LetterReplayed LetterState = "replayed"
	LetterDropped  LetterState = "dropped"
)

// Letter is a slip that could not be judged.
type Letter struct {
	ID    LetterID
	Sale  sale.Number
	Place string // lane, entry and index of the slip
	Cause string
	Raw   []byte // the slip or the entry as found, at most MaxRaw bytes
	// Attempt is set if the slip is authentic, with its Slip, which is kept as
	// presented: what the counter took has gone back, so whoever has it judged
	// again has the counter learn of the order. Expected is not kept.
	Attempt  *Attempt
	State    LetterState
	ParkedAt time.Time
	ClosedAt time.Time // zero while open
}

// MaxRaw is how much of an unreadable entry is kept.
const MaxRaw = 64 << 10

// LetterFilter selects dead letters; zero fields select everything.
type LetterFilter struct {
	Sale  sale.Number
	State LetterState
	After LetterID // continues a listing
	Limit int      // 1–1000; 0 is 100
}
