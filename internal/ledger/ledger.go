package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Ledger is the book of record. One implementation of the rules, Book, serves
// every database; a database brings a Store. ledgertest is its examiner.
//
// Methods are safe for concurrent use. Each write is one transaction: after it
// returns nil all of it is durable, after an error none of it is — except that
// an error from the commit itself leaves the outcome unknown. What concerns an
// order, a payment or a refund is safe to repeat, because ids are derived and
// transitions conditional; an act on a sale is, when it names the version it
// has seen.
// Business refusals are *sale.Error or verdicts; any other error is
// infrastructure trouble.
type Ledger interface {
	Clock
	Sales
	Attempts
	Orders
	Payments
	Journal
	Handover
	Letters
	Keys
	Gate

	// Watch registers fn to be called after each commit with the journal rows of
	// that transaction. Calls may run at once and out of order; they must return
	// quickly and must not call the ledger. A watcher is a nudge, not a promise:
	// rows may be missed (another process wrote them), so consumers look for
	// themselves at least once a second. stop waits for a running call.
	Watch(fn func(rows []Entry)) (stop func())

	// Close waits for running transactions and lets the database go.
	Close() error
}

// Clock tells the ledger's time, which decides windows and holds everywhere.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Sales keeps sales, their items and terms.
type Sales interface {
	// CreateSale enters a draft: slug, rules and items of s count; number, key,
	// version 1, terms 1, epoch 1 and path direct are given by the ledger.
	// CodeSaleExists if the slug is taken.
	CreateSale(ctx context.Context, s sale.Sale) (sale.Sale, error)
	// ChangeSale applies one change. version is the version that the caller has
	// seen, or 0 for any; CodeVersionMismatch if the sale has moved on.
	// Deleting is refused (CodeIllegalState) while the sale is on the fast path, where
	// orders may be queued, and while reserved ones wait. ErrWrongEpoch if the change
	// names a path that the sale is not on.
	ChangeSale(ctx context.Context, slug string, version int64, c sale.Change) (sale.Sale, error)
	// Sale returns the sale with this slug, drafts included; CodeSaleNotFound.
	Sale(ctx context.Context, slug string) (sale.Sale, error)
	// SaleByNumber returns the sale with this number, deleted ones included.
	SaleByNumber(ctx context.Context, n sale.Number) (sale.Sale, error)
	// ListSales returns sales that are not deleted in order of number, those
	// above after, at most limit. One unreadable sale never hides the others.
	ListSales(ctx context.Context, after sale.Number, limit int) ([]sale.Sale, error)
}

// Attempts is the door through which orders come to exist.
type Attempts interface {
	// Reserve decides a batch of attempts on one sale in one transaction, in
	// order, and returns one result per attempt. Look-up by id precedes every
	// refusal. ErrWrongEpoch, with nothing decided, if an attempt without a slip
	// believes in another epoch or path. A row that the database refuses fails
	// alone: its Result carries Err, the others are decided.
	//
	// An attempt with a slip has been taken by the fast counter: it becomes an
	// order whatever happens, reserved, paid or rejected.
	Reserve(ctx context.Context, b Batch) (Batched, error)
}

// ErrWrongEpoch says that the sale has moved to another path or epoch: read the
// sale again and repeat the batch.
var ErrWrongEpoch = errors.New("ledger: wrong epoch")

// ErrConstraint wraps a deterministic refusal by the database: the same write
// will be refused again, so a batch that meets it is split until the culprit is
// alone.
var ErrConstraint = errors.New("ledger: the database refused a row")

// Batch is a list of attempts on one sale under the epoch they believe in.
type Batch struct {
	Sale     sale.Number
	Epoch    int64
	Attempts []Attempt
}

// Attempt is one request to buy.
type Attempt struct {
	ID       sale.OrderID // derived from sale, user and idempotency key
	User     string
	SKU      string // empty for the only item of the sale
	Quantity int64
	// Expected, if set, is the amount and currency the buyer agreed to; other
	// terms are refused with sale.TermsChanged.
	Expected *Money
	// Slip is set where the fast counter has taken the attempt already.
	Slip *Slip
}

// Slip is under what an attempt was taken by the fast counter. It is judged by
// that, never by the judge's now, and is believed: who brings it has checked its
// MAC.
type Slip struct {
	Epoch   int64
	Terms   int64
	TakenAt time.Time // in the ledger's time
	// Presented says that the buyer brought it, not the tray, so that the counter
	// may not know of it.
	Presented bool
}

// Money is an amount in minor units of a currency.
type Money struct {
	Amount   int64
	Currency string
}

// Batched is the answer to a batch.
type Batched struct {
	Results []Result
	At      time.Time // the ledger's time at which the batch was judged
	Version int64     // the sale's version under which it was judged
	// Seq is the number of the sale's last journal row afterwards: while it stays,
	// nothing has happened in the sale.
	Seq uint64
}

// Result is the answer to one attempt.
type Result struct {
	// Verdict is a refusal also for a slip that became a rejected order.
	Verdict sale.Verdict
	Order   sale.Order // for Taken and Replayed, and for every slip
	// Left is the item's stock that nobody holds, after this attempt.
	Left int64
	// RetryAt is when a cool-down ends; zero for other verdicts.
	RetryAt time.Time
	// Err, if not nil, says that this attempt alone could not be decided.
	Err error
}

// Orders keeps orders and moves them along their states.
type Orders interface {
	// Order returns one order, ReplacedBy filled; CodeOrderNotFound. An order
	// whose row the database refused, and whose slip therefore is a dead letter,
	// is rejected.
	Order(ctx context.Context, id sale.OrderID) (sale.Order, error)
	// OrdersByID returns those of the orders that exist, ReplacedBy not filled.
	OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error)
	// ListOrders returns orders that match, newest first.
	ListOrders(ctx context.Context, f OrderFilter) ([]sale.Order, error)
	// AnyReserved reports whether an order of a sale is reserved.
	AnyReserved(ctx context.Context, n sale.Number) (bool, error)
	// CancelQueued ends an order that the fast counter has taken and the ledger
	// does not hold yet: the slip, coming later, meets a final order. What the
	// ledger holds already is treated as Cancel does. a is believed.
	CancelQueued(ctx context.Context, a Attempt) (sale.Order, error)
	// Cancel ends a reserved order; repeated on a cancelled one it returns it
	// unchanged. CodeIllegalState in any other state. user, if not empty, must
	// be the order's, else CodeOrderNotFound.
	Cancel(ctx context.Context, id sale.OrderID, user string) (sale.Order, error)
	// Due returns the ids of reserved orders whose hold is over and did not end
	// before from, longest overdue first, at most limit. Whoever turns pages begins
	// the next one where the last one ended: all that was ended before may still lie
	// in the way, as long as somebody has an older snapshot open.
	Due(ctx context.Context, from time.Time, limit int) (DueOrders, error)
	// Expire ends those of the orders, all of one sale, that are reserved and
	// overdue, in one transaction, and returns how many it ended. An order in
	// any other state is left alone. ErrConstraint if the database refuses one:
	// nothing was done, split the list.
	Expire(ctx context.Context, ids []sale.OrderID) (int, error)
	// Refund ends a paid order and leaves a refund record for its charge.
	// Repeated on a refunded order it returns it unchanged. ErrWrongEpoch if the
	// sale is not on the path of r.
	Refund(ctx context.Context, id sale.OrderID, r Refunding) (sale.Order, error)
	// Buyers returns the hash of each user that has any order in the sale.
	Buyers(ctx context.Context, n sale.Number) ([]uint64, error)
}

// Refunding is what becomes of the units of an order that is refunded.
type Refunding struct {
	Restock bool // they are put up again; else they leave the stock
	// Path, if set, is the one that the sale must be on when an order is refunded.
	Path sale.Path
}

// OrderFilter selects orders; zero fields select everything.
type OrderFilter struct {
	Sale  sale.Number
	User  string
	State sale.OrderState
	// Before continues a listing: only orders older than (At, ID).
	Before Cursor
	Limit  int // 1–1000; 0 is 100
}

// Cursor marks a place in a listing ordered by time, then id, both descending.
type Cursor struct {
	At time.Time
	ID sale.OrderID
}

// DueOrders is what a sweeper has to do.
type DueOrders struct {
	IDs     []sale.OrderID
	Overdue time.Duration // of the oldest; zero if none
	Upto    time.Time     // when the hold of the last one ended; zero if none
}

// DuePage is a page of reserved orders whose hold is over: their ids, and when the hold
// of the first and of the last one ended; zero if there are none.
type DuePage struct {
	IDs         []sale.OrderID
	First, Last time.Time
}

// Payments books charges and what must go back.
type Payments interface {
	// Pay books a notice and moves the order. CodeOrderNotFound and
	// CodePaymentMismatch (the id is known with another order, or captured
	// currency) store nothing; everything else is stored and never an error.
	Pay(ctx context.Context, p sale.Payment) (Paid, error)
	// ListRefunds returns refund records in the order they came to be, those
	// after the record named by after, at most limit (0 is 100).
	ListRefunds(ctx context.Context, f RefundFilter) ([]sale.Refund, error)
	// RefundDone marks a record as returned; repeated, it changes nothing.
	RefundDone(ctx context.Context, id sale.RefundID) (sale.Refund, error)
}

// Paid is what became of a payment.
type Paid struct {
	Outcome sale.Outcome
	// Order is the order as it is now; where a late payment bore a new one, that.
	Order sale.Order
}

// RefundFilter selects refund records; zero fields select everything.
type RefundFilter struct {
	State sale.RefundState
	After sale.RefundID // continues a listing
	Limit int
}

// Journal reads what has happened.
type Journal interface {
	// Rows returns journal rows of a sale with a number above after, in order.
	Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]Entry, error)
	// LaneRows returns the rows above after that a lane of the fast counter must
	// learn of, in order, at most limit, and the number up to which that is all.
	LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) (LaneRows, error)
	// End returns the number of the last row of a sale's journal.
	End(ctx context.Context, n sale.Number) (uint64, error)
	// Snapshot calls fn with a reader on which every read sees the same instant.
	// The reader is valid until fn returns.
	Snapshot(ctx context.Context, fn func(Reader) error) error
}

// Keys keeps API keys, hashed.
type Keys interface {
	PutAPIKey(ctx context.Context, k APIKey) error
	APIKey(ctx context.Context, id string) (APIKey, error) // CodeKeyNotFound
	ListAPIKeys(ctx context.Context) ([]APIKey, error)
	RevokeAPIKey(ctx context.Context, id string) error // CodeKeyNotFound; repeated, it changes nothing
}

// APIKey is a named credential. The secret itself is never stored.
type APIKey struct {
	ID        string
	Hash      [32]byte // SHA-256 of the secret, which is 32 random bytes
	Scopes    []string
	Label     string
	CreatedAt time.Time
	RevokedAt time.Time // zero while valid
}
