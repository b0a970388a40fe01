package engine

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Options of an engine. Zero values take the defaults.
type Options struct {
	MaxBatch    int           // attempts decided by one call; default 256, which is also the most for the fast counter
	MaxQueue    int           // attempts waiting per lane, beyond which the engine is busy; default 4096
	MaxWaiters  int           // callers waiting for queued orders, beyond which nobody waits; default 100,000
	CallTimeout time.Duration // deadline of one call of the ledger or the counter; default 5 s
	Refresh     time.Duration // age at which a cached sale is read again; default 1 s
	// Alone says that no other process writes to the ledger, so that memory may
	// answer more.
	Alone bool
	// Trouble, if set, is told that a sale's fast counter must be built anew. It may
	// be called for every batch, and must return quickly.
	Trouble func(sale.Number)
	// Stale, if set, is told that a lane has forgotten something that this instance
	// has seen in an epoch: its server went back in time. Called like Trouble.
	Stale func(n sale.Number, epoch int64)
	// WhileFrozen, if set, runs do while no lane of a fast sale sells, and has the
	// lanes built anew: what it takes to cut the stock of several, or to count by
	// another limit rule what has been refunded already.
	WhileFrozen func(ctx context.Context, s *sale.Sale, do func(context.Context) error) error
	// Clear, if set, judges what is queued in a closed sale and removes its lanes: what
	// it takes to put the sale away.
	Clear func(ctx context.Context, s *sale.Sale) error
	// Clock is the process's clock, with its monotonic reading; required. It
	// measures ages and, through an offset, tells the ledger's time.
	Clock    func() time.Time
	Observer Observer // nil: nobody watches
}

const (
	defaultMaxBatch    = 256
	defaultMaxQueue    = 4096
	defaultMaxWaiters  = 100_000
	defaultCallTimeout = 5 * time.Second
	defaultRefresh     = time.Second
	// memoryLife is how long a shortage is believed without asking again.
	memoryLife = time.Second
	// staleLimit is how old a cached sale may be shown while the ledger fails.
	staleLimit = 5 * time.Second
	// startMargin keeps refusals from memory away from the opening instant by
	// more than clocks may differ; within it the judge of the attempts is asked.
	startMargin = 100 * time.Millisecond
	// rereadInterval is how often batches that find their sale moved may have it
	// read again.
	rereadInterval = 100 * time.Millisecond
)

func (o *Options) fill(counter stock.Counter) {
	o.MaxBatch = orDefault(o.MaxBatch, defaultMaxBatch)
	if counter != nil {
		o.MaxBatch = min(o.MaxBatch, stock.MaxBatch)
	}
	o.MaxQueue = orDefault(o.MaxQueue, defaultMaxQueue)
	o.MaxWaiters = orDefault(o.MaxWaiters, defaultMaxWaiters)
	o.CallTimeout = orDefault(o.CallTimeout, defaultCallTimeout)
	o.Refresh = orDefault(o.Refresh, defaultRefresh)
	if o.Observer == nil {
		o.Observer = nobody{}
	}
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// Observer is told what the engine does. Calls come from many goroutines and
// must return quickly.
type Observer interface {
	// Batched reports one call that decided attempts, of the ledger or of the fast
	// counter: their number, how long it took, its error.
	Batched(by Source, attempts int, took time.Duration, err error)
	// Decided reports one verdict and who gave it.
	Decided(v sale.Verdict, by Source)
	// Gathered reports a search for units in the other lanes of a sale.
	Gathered(took time.Duration, err error)
	// Mirrored reports that a change of the ledger's was brought to the fast counter
	// at once, or why not; the journal brings it later.
	Mirrored(err error)
}

// Source says who gave a verdict.
type Source string

// The sources of a verdict.
const (
	FromMemory  Source = "memory"
	FromCounter Source = "counter"
	FromLedger  Source = "ledger"
)

type nobody struct{}

func (nobody) Batched(Source, int, time.Duration, error) {}
func (nobody) Decided(sale.Verdict, Source)              {}
func (nobody) Gathered(time.Duration, error)             {}
func (nobody) Mirrored(error)                            {}
