package ledger

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Store is what a database must do for Book: run transactions, load rows, write
// a set of guarded changes. It decides nothing.
type Store interface {
	Clock
	// Update runs fn in one write transaction, serializable with respect to
	// every sale that fn loads through Tx.LockSale, and commits if fn returns
	// nil. fn may be run again if the database asks for it, so it must not keep
	// anything between runs. A deadline of ctx rolls back.
	Update(ctx context.Context, fn func(Tx) error) error
	// Snapshot runs fn on a reader that sees one instant.
	Snapshot(ctx context.Context, fn func(Reader) error) error
	// Read returns a reader whose calls each see the latest commit.
	Read() Reader
	Close() error
}

// Record is a sale with the end of its journal.
type Record struct {
	sale.Sale
	Seq  uint64   // number of the last journal row; 0 before the first
	Head [32]byte // hash of that row; zeros before the first
}

// Holder is what one user counts for in one sale.
type Holder struct {
	User string
	// Live is the quantity of reserved and paid orders.
	Live int64
	// Refunded is the quantity that was paid once and refunded.
	Refunded int64
	// Unpaid counts holds let go since the last cool-down or payment.
	Unpaid int64
	// Cap is the sale's limit when Live was last raised; the database holds
	// Live ≤ Cap against any mistake above it.
	Cap int64
	// CoolUntil is when the present cool-down ends; zero if there was none.
	CoolUntil time.Time
}

// Counted returns what counts against the limit under a rule.
func (h Holder) Counted(rule sale.LimitRule) int64 {
	if rule == sale.LimitEverPaid {
		return h.Live + h.Refunded
	}
	return h.Live
}

// Terms is what an attempt was promised: the ledger keeps one per (sale, terms).
type Terms struct {
	Number   int64
	Currency string
	Hold     time.Duration
	Prices   []int64 // by item, in the sale's order
}

// PaymentRow is a stored payment notice.
type PaymentRow struct {
	sale.Payment
	Outcome sale.Outcome
	// PaidOrder is the order that the charge paid; it differs from Order where a
	// late payment bore a new one. Zero if it paid none.
	PaidOrder sale.OrderID
	At        time.Time // first notice
}

// Reader loads rows. Missing single rows are the coded not-found errors of
// package sale; lists come back empty.
type Reader interface {
	GateReader

	SaleBySlug(ctx context.Context, slug string) (Record, error)
	SaleByNumber(ctx context.Context, n sale.Number) (Record, error)
	ListSales(ctx context.Context, after sale.Number, limit int) ([]Record, error)
	// SaleNumbers returns the number of every sale there ever was, ascending,
	// deleted ones included: an audit must not overlook what was put away.
	SaleNumbers(ctx context.Context) ([]sale.Number, error)
	TermsOf(ctx context.Context, n sale.Number) ([]Terms, error)

	// OrdersByID returns those of the orders that exist.
	OrdersByID(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error)
	ListOrders(ctx context.Context, f OrderFilter) ([]sale.Order, error)
	// AnyReserved reports whether an order of a sale is reserved.
	AnyReserved(ctx context.Context, n sale.Number) (bool, error)
	// EachOrder calls fn with every order of a sale in order of id.
	EachOrder(ctx context.Context, n sale.Number, fn func(sale.Order) error) error
	// Due returns reserved orders with from ≤ expires_at ≤ now, oldest first.
	Due(ctx context.Context, from, now time.Time, limit int) (DuePage, error)
	Buyers(ctx context.Context, n sale.Number) ([]uint64, error)

	// Holders returns those of the users that have a row in the sale.
	Holders(ctx context.Context, n sale.Number, users []string) (map[string]Holder, error)
	// EachHolder calls fn with every holder row of a sale.
	EachHolder(ctx context.Context, n sale.Number, fn func(Holder) error) error

	// Payment returns one stored payment and whether it exists.
	Payment(ctx context.Context, id string) (PaymentRow, bool, error)
	// EachPayment calls fn with every payment for an order of the sale.
	EachPayment(ctx context.Context, n sale.Number, fn func(PaymentRow) error) error
	Refund(ctx context.Context, id sale.RefundID) (sale.Refund, error)
	ListRefunds(ctx context.Context, f RefundFilter) ([]sale.Refund, error)
	// EachRefund calls fn with every refund record of the sale.
	EachRefund(ctx context.Context, n sale.Number, fn func(sale.Refund) error) error

	Rows(ctx context.Context, n sale.Number, after uint64, limit int) ([]Entry, error)
	// LaneRows returns those of the rows for which Kind.ForLane holds.
	LaneRows(ctx context.Context, n sale.Number, after uint64, limit int) ([]Entry, error)

	// Letter returns one dead letter; CodeLetterNotFound.
	Letter(ctx context.Context, id LetterID) (Letter, error)
	// LetterOf returns the authentic dead letter of an order and whether there is one.
	LetterOf(ctx context.Context, id sale.OrderID) (Letter, bool, error)
	ListLetters(ctx context.Context, f LetterFilter) ([]Letter, error)

	APIKey(ctx context.Context, id string) (APIKey, error)
	ListAPIKeys(ctx context.Context) ([]APIKey, error)
}

// Tx is a write transaction.
type Tx interface {
	Reader
	GateTx
	// Now is the ledger's time, the same throughout the transaction.
	Now() time.Time
	// LockSale loads a sale and keeps every other writer away from it until the
	// end of the transaction. It comes before every other lock. What it returns,
	// and all that is read afterwards, contains what the writer before has written;
	// hence journal numbers, which are given under this lock, appear in order.
	LockSale(ctx context.Context, n sale.Number) (Record, error)
	// LockSlug does the same by slug.
	LockSlug(ctx context.Context, slug string) (Record, error)
	// InsertSale writes a new sale, its items and its first terms, and returns
	// its number; CodeSaleExists if the slug is taken.
	InsertSale(ctx context.Context, r Record) (sale.Number, error)
	// Write applies a set of changes to one locked sale. Each guard that does
	// not hold fails the transaction with ErrConstraint.
	Write(ctx context.Context, c *Changes) error
	PutAPIKey(ctx context.Context, k APIKey) error
	RevokeAPIKey(ctx context.Context, id string, at time.Time) error
}

// Changes is everything that one transaction writes to one sale.
type Changes struct {
	Sale sale.Number
	// Orders are inserted or moved; see OrderChange. Guards: a quantity of one or
	// more; a reason if, and only if, the order is rejected.
	Orders []OrderChange
	// Sold is added per item, by index. Guard: 0 ≤ sold ≤ stock. Units come back
	// before Revised is written.
	Sold []int64
	// Holders are upserted whole. Guards: no quantity below zero, Live ≤ Cap.
	Holders []Holder
	// Payments are upserted by id; the time of the first notice stays. Guards:
	// the same order, and of a captured one the same amount and currency.
	Payments []PaymentRow
	Refunds  []sale.Refund // upserted by id
	// Letters are upserted by id; of a known one only State and ClosedAt move. No
	// bytes of a text are refused, and no number: what has no place anywhere else
	// must have one here. Guard: the letter's sale.
	Letters []Letter
	// Entries are appended to the journal; Seq and Head are the new end.
	// Guard: the sale's seq is FromSeq.
	Entries []Entry
	FromSeq uint64
	Seq     uint64
	Head    [32]byte
	// Revised, if set, replaces slug, rules, state, terms, version, path, epoch,
	// build token and its time, salts, and item titles, prices and stocks of the sale. Its stock guards as above.
	// A deleted sale gives its slug free. NewTerms, if set, is inserted.
	Revised  *sale.Sale
	NewTerms *Terms
}

// OrderChange inserts After (From is Queued, the state without a row) or moves
// the stored order to After. Guard: From is the stored state, and no row is
// there on insert.
type OrderChange struct {
	From  sale.OrderState
	After sale.Order
}
