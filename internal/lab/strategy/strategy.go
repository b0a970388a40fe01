package strategy

import (
	"context"
	"slices"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Column is a column of the comparison in which an accident shows.
type Column string

// The columns. All count units or orders; zero is well.
const (
	Oversold   Column = "oversold"   // live orders beyond the stock
	Undersold  Column = "undersold"  // units that nobody could buy although somebody asked
	Duplicates Column = "duplicates" // live orders beyond a buyer's first
	Lost       Column = "lost"       // buyers told yes of whom the books know nothing
)

// Verdict is what a strategy is expected to do.
type Verdict string

// The verdicts.
const (
	Fails Verdict = "fails" // Accident is not zero
	Holds Verdict = "holds" // every column is zero, with some luck
	Must  Verdict = "must"  // every column is zero, by design
)

// Info is what a person is told of a strategy.
type Info struct {
	Name  string // as in --strategy
	Title string
	Fault string // what is done to it, which needs Redis; empty: nothing
	Why   string // why it fails, or holds and at what price; whole sentences
	// Expect is what a run must show, Accident the column that must not be zero if
	// it fails.
	Expect   Verdict
	Accident Column
	// Redis says that it needs one. PostgreSQL is needed by all.
	Redis bool
	// Ours says that what it sells with is a part of Doorbuster.
	Ours bool
}

// Strategy is a way to sell.
type Strategy struct {
	Info
	// prepare adds to the tables what this strategy has beyond them; nil: nothing.
	prepare func(ctx context.Context, w *World, stock int64) error
	// open starts the part of one process.
	open func(w *World) (Shop, error)
	// counts says that the stock is counted in Redis, under the key stock.
	counts bool
	// settle waits until the books hold all that buyers were promised and that is
	// still to be found; nil: they always do.
	settle func(ctx context.Context, w *World) error
}

// Shop sells in one process. A Shop that is an io.Closer is closed when no call runs
// any more. The context of a call says how long its buyer waits for his turn; what has
// begun by then is finished.
type Shop interface {
	// Buy sells one unit and returns the order. Errors are *sale.Error with
	// CodeSoldOut, CodeLimitReached or CodeBusy; others are trouble, and what came
	// of the call is then unknown.
	Buy(ctx context.Context, c Click) (order string, err error)
	// Cancel ends an order, whose unit may be sold again. Errors are
	// CodeOrderNotFound, also for one that has ended, CodeBusy, and trouble.
	Cancel(ctx context.Context, order string) error
}

// Click is a buyer's attempt at one unit.
type Click struct {
	Buyer string
	Key   string // the same for a click that is sent again
}

// All returns every strategy, in the order in which people come to try them.
func All() []Strategy {
	return []Strategy{
		none(), mutex(), forUpdate(), conditionalUpdate(), uniqueIndex(),
		setnxExpire(), plainDel(), compareDelete(), noRenewal(), fairLock(),
		redisDecr(), lua(), luaPublish(),
	}
}

// Find returns the strategy of a name; a mistake is CodeInvalid.
func Find(name string) (Strategy, error) {
	all := All()
	i := slices.IndexFunc(all, func(s Strategy) bool { return s.Name == name })
	if i < 0 {
		return Strategy{}, sale.Invalid("strategy", "there is no strategy "+name, "doorbuster lab --help lists them")
	}
	return all[i], nil
}

func soldOut() error {
	return &sale.Error{Code: sale.CodeSoldOut, Message: "there is nothing left", Hint: "somebody may still cancel"}
}

func limitReached() error {
	return &sale.Error{Code: sale.CodeLimitReached, Message: "this buyer has one already", Hint: "one unit each"}
}
