package stock

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// MaxBatch is the most attempts that one Take may carry.
const MaxBatch = 256

// MaxActs is the most acts that one Load may carry: one script carries them out, and
// buyers wait for no more than some milliseconds.
const MaxActs = 256

// Counter is a fast counter. Methods are safe for concurrent use. Each changes
// its lane in one atomic step or not at all, and may be sent again after an error
// whose outcome is unknown: nothing is taken, given back or loaded twice.
//
// An error is infrastructure trouble, never a business answer; ErrLane and its
// kin say that the lane is not in the state that the call needs.
type Counter interface {
	// Take decides the attempts of a call in order. Look-up by id comes before
	// every refusal; a refusal changes nothing. A lane whose clock is more than
	// MaxDrift from AskedAt takes nothing: its slips could not be judged.
	Take(ctx context.Context, c Call) (Reply, error)
	// Records returns what the lane has recorded of one user, oldest first, with
	// the lane's epoch and state; nil if nothing.
	Records(ctx context.Context, l Lane, user string) (Records, error)
	// Holders returns the hash (sale.UserHash) of every user that the lane has
	// recorded, and the generation and the number by which all of them were there. It
	// may take many calls of the server, each with a deadline of its own; what moves
	// the lane to another server meanwhile ends it. ErrCold; ErrStale if the lane has
	// forgotten something since it began.
	Holders(ctx context.Context, l Lane) (Holders, error)
	// Read returns the lane's standing. A lane that is not there is Cold, and so is one
	// whose tray nobody can judge any more: what is left of that tells its Epoch and by
	// whom it is frozen, and nothing else.
	Read(ctx context.Context, l Lane) (Standing, error)
	// ReadAll is Read of several lanes, each at an instant of its own.
	ReadAll(ctx context.Context, lanes []Lane) ([]Standing, error)
	// Clock tells the time of the lane's own clock.
	Clock(ctx context.Context, l Lane) (time.Time, error)

	Mirror
	Mover
	Builder
	Tray
	News
}

// Lane names one of the slices of a sale in the counter.
type Lane struct {
	Sale  sale.Number
	Index int
	// Salt spreads lanes over the masters of a cluster; it is part of every key.
	Salt uint32
}

// Call is a batch of attempts for one lane.
type Call struct {
	Lane  Lane
	Epoch int64
	// Terms are those that the caller believes to be in force; the MACs are over
	// them, so a lane with others answers WrongTerms.
	Terms int64
	// Seen is the highest sequence number that the caller has seen of this epoch.
	// A lane behind it has lost something and answers Stale.
	Seen uint64
	// AskedAt is the caller's estimate of the ledger's time, under the MACs.
	AskedAt  time.Time
	Attempts []Attempt // at most MaxBatch
}

// Attempt is one request to buy.
type Attempt struct {
	ID       sale.OrderID
	User     string
	Item     int // index of the item in the sale; −1 for one that it does not have
	Quantity int64
	// OtherTerms says that the buyer agreed to other terms than the call's.
	OtherTerms bool
	MAC        MAC
}

// State is how a lane stands.
type State string

// The states of a lane, and why a whole call was refused.
const (
	Open       State = "open"
	Cold       State = "cold"        // nothing is loaded
	Frozen     State = "frozen"      // a builder holds it
	Stale      State = "stale"       // behind what the caller has seen
	WrongEpoch State = "wrong_epoch" // the caller believes in another epoch
	WrongTerms State = "wrong_terms" // the caller believes in other terms
	Full       State = "busy"        // too many slips wait for the judge
)

// Reply is the answer to a call. Unless State is Open nothing was decided, and
// Results is nil.
type Reply struct {
	State      State
	Seq        uint64    // the lane's sequence number after the call
	Generation uint64    // changes whenever somebody may have been recorded or units may have come or gone, other than by Take
	Version    int64     // the sale's version that the lane sells under
	At         time.Time // the time of the call in the ledger's clock, ms
	Left       []int64   // by item, after the call; never below zero
	Results    []Result
}

// Result is the answer to one attempt.
type Result struct {
	Verdict sale.Verdict // Taken, Replayed, KeyMismatch or a refusal
	// Left is what the item had when the attempt was refused for want of stock,
	// and what it has after the call otherwise.
	Left    int64
	RetryAt time.Time // when a cool-down ends
	Record  Record    // for Taken, Replayed and KeyMismatch
}

// Record is what a lane remembers of one order.
type Record struct {
	ID   sale.OrderID
	Item int
	// Quantity is what the order holds; 0 is a tombstone: the order has ended, and
	// its id still is a replay.
	Quantity int64
	// Counted is what counts against the limit; above Quantity for a refunded
	// order of a sale that counts what was ever paid.
	Counted int64
	TakenAt time.Time // the ledger's clock, ms
}

// Records is what a lane knows of one user.
type Records struct {
	State     State // Open, Cold or Frozen
	Epoch     int64
	Orders    []Record
	CoolUntil time.Time // zero if no cool-down was ever set
}

// Holders is everybody that a lane had recorded by Seq; some may have come since.
type Holders struct {
	Epoch      int64
	Generation uint64
	Seq        uint64
	Hashes     []uint64
}

// Standing is a lane as it is at one instant.
type Standing struct {
	State    State // Open, Cold or Frozen
	Epoch    int64
	FrozenBy int64 // the build token, 0 if not frozen
	// Steps is how many calls of Load and Set have reached the lane since it was frozen
	// by that token; nobody else's call changes it. 0 if not frozen.
	Steps   int64
	Version int64
	Applied uint64 // the journal number up to which rows have reached the lane
	Seq     uint64
	// Generation is as in Reply.
	Generation uint64
	Queued     int64 // slips in the tray
	// Taken and Returned count units for ever, within the epoch.
	Taken, Returned int64
	Stock, Left     []int64 // by item; Left may be below zero
	// Moved is what has come from other lanes less what has gone there, by item:
	// orders hold Stock + Moved − Left.
	Moved []int64
	// Given has the last transfer to each lane that units have gone to, without From,
	// and Received the number of the last one from each that they have come from, by
	// that lane's index; nil where there are none.
	Given    map[int]Transfer
	Received map[int]uint64
	Offset   time.Duration
}

// Gone reports whether nothing of the lane is there any more.
func (s *Standing) Gone() bool { return s.State == Cold && s.Epoch == 0 && s.FrozenBy == 0 }

// Mirror carries to a lane what the ledger did without it.
type Mirror interface {
	// Apply carries out the acts of the journal rows (from, to], exactly once: a
	// lane whose Applied is not from changes nothing. It returns the lane's
	// Applied afterwards; after an error the lane may stand at the last number of
	// some of the rows. ErrFrozen, ErrCold, ErrEpoch.
	Apply(ctx context.Context, l Lane, a Acts) (uint64, error)
	// Return gives units and limit of orders back at once, ahead of the journal.
	// An order that is not recorded, or has been given back, changes nothing. It
	// takes no other kind of act. ErrFrozen, ErrCold, ErrEpoch.
	Return(ctx context.Context, l Lane, epoch int64, acts []Act) error
	// Sync brings the rules of a sale's version to the lane; an older or equal
	// version changes nothing. Stock travels as the lane's share of the total, and
	// left moves by what that has moved. It returns the version
	// the lane has afterwards. ErrFrozen, ErrCold, ErrEpoch.
	Sync(ctx context.Context, l Lane, epoch int64, r Rules) (int64, error)
	// SetOffset corrects the distance of the lane's clock from the ledger's. A frozen
	// lane has its builder's. ErrFrozen, ErrCold, ErrEpoch.
	SetOffset(ctx context.Context, l Lane, epoch int64, offset time.Duration) error
}

// Mover moves units from one lane of a sale to another, in two steps. Between them
// the units are in neither lane, and anybody who finds the first may do the second:
// a transfer has a number, and its target takes each number once.
type Mover interface {
	// Give takes units out of lane l, which is t.From, for t.To: as many of t.Units
	// as are left, and nothing happens where none are. t.Number must follow that of
	// the last transfer which arrived. If the lane has given one of that number or a
	// higher one, it is that which is returned, and nothing happens: it may not have
	// arrived. ErrWanted while the lane wants units and has the lower index.
	// ErrFrozen, ErrCold, ErrEpoch.
	Give(ctx context.Context, l Lane, t Transfer) (Transfer, error)
	// Receive brings a transfer to lane l, which is t.To. One that has arrived before
	// changes nothing. ErrStale if it does not follow the last one that did. ErrFrozen,
	// ErrCold, ErrEpoch.
	Receive(ctx context.Context, l Lane, t Transfer) error
	// Want keeps the units of lane l from lanes with a higher index for so long; of
	// several lanes that gather more than one unit each, the lowest gets them. Zero
	// ends it. ErrFrozen, ErrCold, ErrEpoch.
	Want(ctx context.Context, l Lane, epoch int64, d time.Duration) error
}

// Transfer is units of one item on their way from one lane to another.
type Transfer struct {
	Epoch    int64
	From, To int    // indexes of lanes
	Number   uint64 // from 1 on, for each pair of lanes
	Item     int
	Units    int64
}

// ActKind is what an act does.
type ActKind string

// The kinds of acts.
const (
	// ActReturn gives back what the record holds, raises left, and leaves a
	// tombstone. Counted becomes the act's.
	ActReturn ActKind = "return"
	// ActAdopt records an order that the ledger accepted without the lane and
	// lowers left, unless the record holds something already.
	ActAdopt ActKind = "adopt"
)

// Act is one change that the ledger made.
type Act struct {
	Kind ActKind
	// Seq is the number of the journal row, for Apply alone. Several acts may come
	// from one row; they reach the lane together.
	Seq uint64
	// ID may be zero in an act that only sets CoolUntil.
	ID       sale.OrderID
	User     string
	Item     int
	Quantity int64 // of the order, for ActAdopt and Load
	Counted  int64 // what goes on counting against the limit
	TakenAt  time.Time
	// CoolUntil, if not zero, is when the user's cool-down ends; of several the
	// latest counts. It is set whatever becomes of the act.
	CoolUntil time.Time
}

// Acts is a stretch of the journal.
type Acts struct {
	Epoch    int64
	From, To uint64
	Acts     []Act // in the journal's order, with their numbers
}

// Rules is what a lane must know of its sale.
type Rules struct {
	Version          int64
	State            sale.State // Published or Paused; any other sells nothing, as Closed
	StartsAt, EndsAt time.Time
	PerUserLimit     int64
	Terms            int64
	Stock            []int64 // total by item
}

// RulesOf returns what a lane must know of s.
func RulesOf(s *sale.Sale) Rules {
	r := Rules{
		Version: s.Version, State: s.State, StartsAt: s.StartsAt, EndsAt: s.EndsAt,
		PerUserLimit: s.PerUserLimit, Terms: s.Terms, Stock: make([]int64, len(s.Items)),
	}
	for i := range s.Items {
		r.Stock[i] = s.Items[i].Stock
	}
	return r
}

// Builder loads a lane. All of it is fenced by the ledger's build token: a
// builder that has been overtaken gets ErrFrozen and changes nothing.
type Builder interface {
	// Freeze stops the lane for the builder with this token and drops what an
	// unfinished build left; a lane that is not there comes to be, frozen. Taken
	// slips stay in the tray. ErrFrozen if a newer token holds it.
	Freeze(ctx context.Context, l Lane, token int64) (Standing, error)
	// Load puts records into the keys of the epoch that will be token: an act's id
	// is recorded with its Quantity (ActReturn: 0) and Counted, in place of what was
	// loaded of it before; an act with the zero id only sets the user's CoolUntil.
	// What is left does not move. One call is one step, however many acts it has, so
	// that whoever counts his calls knows when one is forgotten. Without any it shows
	// that the builder is at work.
	// ErrInvalid for more than MaxActs, ErrFrozen if the lane is not frozen by the token.
	Load(ctx context.Context, l Lane, token int64, acts []Act) error
	// Set gives the lane its rules, what is left, and the journal number that is
	// contained in them; transfers are forgotten. The lane stays frozen. ErrFrozen.
	Set(ctx context.Context, l Lane, token int64, s Setting) error
	// Unfreeze opens the lane under the epoch token and forgets the records of the
	// epoch before. Repeated, it changes nothing. ErrFrozen; ErrCold if nothing has
	// been Set.
	Unfreeze(ctx context.Context, l Lane, token int64) error
	// Clear removes the lane, records and tray, while frozen by token and the tray
	// is empty. Repeated, it changes nothing. ErrFrozen, ErrTray.
	Clear(ctx context.Context, l Lane, token int64) error
	// Salts returns salts for so many lanes of first's sale that spread them evenly
	// over the servers, as those are now: each the first one from first.Salt on.
	Salts(ctx context.Context, first Lane, lanes int) ([]uint32, error)
}

// Setting is what a lane starts with.
type Setting struct {
	Rules
	Left      []int64 // by item
	Applied   uint64
	MaxQueued int64 // slips in the tray from which on Take answers Full
	Offset    time.Duration
}

// Tray is the queue of slips of a lane.
type Tray interface {
	// Claim returns entries that no consumer has, for this one, at most max. It
	// waits up to wait for the first; nil if none came. ErrCold.
	Claim(ctx context.Context, l Lane, c Claim) ([]Entry, error)
	// TakeOver returns entries that were claimed at least idle ago and not done,
	// by whomever, for this consumer now, at most limit. ErrCold.
	TakeOver(ctx context.Context, l Lane, consumer string, idle time.Duration, limit int) ([]Entry, error)
	// Look returns entries after one id ("" for the first), claimed or not, and
	// claims nothing.
	Look(ctx context.Context, l Lane, after string, limit int) ([]Entry, error)
	// Done removes entries that have been judged. Repeated, it changes nothing.
	Done(ctx context.Context, l Lane, entries []Entry) error
	// Retire removes a consumer that has nothing claimed; another stays.
	Retire(ctx context.Context, l Lane, consumer string) error
}

// Claim says who claims, and how much.
type Claim struct {
	Consumer string
	Max      int // entries
	Wait     time.Duration
}

// Entry is what one Take left in the tray.
type Entry struct {
	ID string
	// Fields is the entry as found, for ReadSlips. Nil for an entry that was
	// trimmed or deleted while claimed: there is nothing to judge.
	Fields map[string]string
}

// News carries short messages between instances. They are nudges: lost ones cost
// time, never correctness; they may come in another order, and in parts.
type News interface {
	// Tell sends a message to every instance, this one included.
	Tell(ctx context.Context, m Message) error
	// Listen calls fn for each message, one at a time, until ctx ends, and returns
	// nil then. fn must return quickly. Whenever messages begin to come, at first
	// and after a lost connection, it calls fn with one of KindGap: earlier ones may
	// have been missed.
	Listen(ctx context.Context, fn func(Message)) error
}

// MessageKind is what a message is about.
type MessageKind string

// The kinds of messages.
const (
	KindJudged     MessageKind = "judged"      // slips have become orders: IDs
	KindSellsAgain MessageKind = "sells_again" // units came back or the rules changed
	KindGap        MessageKind = "gap"         // messages may have been lost
)

// Message is one piece of news about a sale.
type Message struct {
	Kind MessageKind
	Sale sale.Number
	IDs  []sale.OrderID
}

// Why a lane refused a call.
var (
	ErrCold   = errors.New("stock: the lane is not loaded")
	ErrFrozen = errors.New("stock: the lane is frozen by another build")
	ErrEpoch  = errors.New("stock: the lane is in another epoch")
	ErrTray   = errors.New("stock: the tray is not empty")
	ErrWanted = errors.New("stock: the lane wants its units itself")
	ErrStale  = errors.New("stock: the lane has forgotten something that was seen")
	ErrStuck  = errors.New("stock: slips in the tray cannot be judged")
)

// ErrUnavailable wraps trouble of the counter's server: nothing was decided, or
// what was decided is unknown and a repetition tells.
var ErrUnavailable = errors.New("stock: the counter does not answer")
