package handover

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// Options of a keeper. Zero values take the defaults.
type Options struct {
	Lead        time.Duration // how long before its start a sale is loaded; default 5 min
	Lanes       int           // slices of a sale in the counter; default 1
	MaxQueued   int64         // slips in a lane's tray beyond which buyers are told busy; default 100,000
	Interval    time.Duration // pause between looks at the sales; default 500 ms
	CallTimeout time.Duration // deadline of one call; default 5 s
	// Clock is the process's clock; required. It measures how long a state lasts.
	Clock func() time.Time
	// Drain judges every slip in a lane's tray; required. stock.ErrStuck says that some
	// cannot be judged though the sale can be written to.
	Drain    func(ctx context.Context, l stock.Lane, s *sale.Sale) error
	Observer Observer // nil: nobody watches
}

const (
	defaultLead        = 5 * time.Minute
	defaultMaxQueued   = 100_000
	defaultInterval    = 500 * time.Millisecond
	defaultCallTimeout = 5 * time.Second

	// frozenLimit is how long a lane may be frozen before anybody rebuilds it.
	frozenLimit = 2 * time.Second
	// lockLimit is how long the end of a build may keep the sale's row locked.
	lockLimit = 500 * time.Millisecond
	// goneLife is how long lanes of sales that are over are left alone when they were
	// gone, for a server that goes back in time has them again; silentLife, when they
	// could not be read. Both are less for some, down to half, so that those of many
	// sales are not read at once each time.
	goneLife   = time.Minute
	silentLife = 10 * time.Second
	pageSize   = 1000
	// breath is the pause between two looks that nobody's trouble makes shorter.
	breath = 50 * time.Millisecond
	// maxHands is how many sales that run are tended at once, and how many others.
	maxHands = 8
	// maxReaders is how many builds read from the ledger at once. Each keeps a snapshot,
	// and its connection, for as long as it loads; the ledger has few for all.
	maxReaders = 2
)

// Why says what a build or a way back was for.
type Why string

// The reasons to move a sale.
const (
	WhyPreheat  Why = "preheat"  // the sale is about to start, or somebody asked for it
	WhyCold     Why = "cold"     // the counter has lost the lane
	WhyFrozen   Why = "frozen"   // a builder left the lane behind
	WhyEpoch    Why = "epoch"    // the lane is of another epoch
	WhyLoss     Why = "loss"     // the lane counts fewer units taken than the ledger has sold
	WhyStale    Why = "stale"    // an instance has seen more of the lane than it knows
	WhyStock    Why = "stock"    // the stock of several lanes was cut, or the limit rule changed
	WhyOperator Why = "operator" // an operator's command
	WhyOver     Why = "over"     // the sale has ended, and nothing waits any more
)

// Observer is told what a keeper does. Calls come from several goroutines.
type Observer interface {
	// Built reports a build: for what, how many orders were loaded, how long it took.
	Built(n sale.Number, why Why, orders int, took time.Duration)
	// WentDirect reports that a sale left the fast path.
	WentDirect(n sale.Number, why Why)
	// Failed reports a step that did not succeed and will be tried again.
	Failed(n sale.Number, why Why, err error)
}

type nobody struct{}

func (nobody) Built(sale.Number, Why, int, time.Duration) {}
func (nobody) WentDirect(sale.Number, Why)                {}
func (nobody) Failed(sale.Number, Why, error)             {}

// Keeper looks after the sales that prefer the fast path. Methods are safe for
// concurrent use; any number of keepers, here and elsewhere, may run at once.
type Keeper struct {
	ledger  ledger.Ledger
	counter stock.Counter
	opts    Options
	nudge   chan struct{}
	hands   chan struct{} // one for each sale that is tended at once
	spare   chan struct{} // the same for sales that are over
	readers chan struct{} // one for each build that reads from the ledger

	mu      sync.Mutex
	busy    map[sale.Number]bool      // sales that are being tended
	tidying bool                      // those that are over are being tended
	frozen  map[stock.Lane]since      // lanes found frozen by a token that is not in force
	resting map[sale.Number]rest      // sales that are over and are left alone for now
	stale   map[sale.Number]int64     // sales with a lane that has forgotten something, by epoch
	builds  map[sale.Number]progress  // builds of others that were not over
	marks   map[stock.Lane]stock.Mark // how far the lanes of fast sales have been seen
}

// since is a token and when it was first seen.
type since struct {
	token int64
	at    time.Time
}

// rest is until when the lanes of a sale are left alone, as of a build token.
type rest struct {
	token int64
	until time.Time
}

// New returns a keeper.
func New(l ledger.Ledger, c stock.Counter, o Options) *Keeper {
	if o.Lead <= 0 {
		o.Lead = defaultLead
	}
	if o.Lanes <= 0 {
		o.Lanes = 1
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = defaultMaxQueued
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return &Keeper{
		ledger: l, counter: c, opts: o, nudge: make(chan struct{}, 1),
		hands: make(chan struct{}, maxHands), spare: make(chan struct{}, maxHands),
		readers: make(chan struct{}, maxReaders), busy: make(map[sale.Number]bool),
		frozen: make(map[stock.Lane]since), resting: make(map[sale.Number]rest), stale: make(map[sale.Number]int64),
		builds: make(map[sale.Number]progress), marks: make(map[stock.Lane]stock.Mark),
	}
}

// Trouble asks for a look at the sales soon: somebody met a lane that is not as it
// should be. Any number of calls makes one look.
func (k *Keeper) Trouble(sale.Number) {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// Stale says that a lane of a sale has forgotten something of an epoch. What it has
// forgotten may have been in the tray only, so that no count shows it: the sale is
// rebuilt, unless it has left that epoch.
func (k *Keeper) Stale(n sale.Number, epoch int64) {
	k.mu.Lock()
	k.stale[n] = max(epoch, k.stale[n])
	k.mu.Unlock()
	k.Trouble(n)
}

// forgetful reports whether a lane of the sale has forgotten something of the
// present epoch.
func (k *Keeper) forgetful(s *sale.Sale) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	epoch, said := k.stale[s.Number]
	if said && epoch < s.Epoch {
		delete(k.stale, s.Number)
	}
	return said && epoch == s.Epoch
}

// Run looks after the sales until ctx ends, and returns nil then.
func (k *Keeper) Run(ctx context.Context) error {
	stop := k.ledger.Watch(func(rows []ledger.Entry) {
		for i := range rows {
			if rows[i].Kind.OfSale() {
				k.Trouble(rows[i].Sale)
				return
			}
		}
	})
	defer stop()
	var tending sync.WaitGroup
	defer tending.Wait()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.nudge:
		case <-pause.C:
		}
		k.look(ctx, &tending)
		if wait(ctx, min(breath, k.opts.Interval)) != nil { // troubles come as often as buyers do
			return nil
		}
		pause.Reset(k.opts.Interval)
	}
}

// Look looks at every sale once and does what is due. One sale never stops the
// others; what fails is reported and due again at the next look.
func (k *Keeper) Look(ctx context.Context) {
	var tending sync.WaitGroup
	k.look(ctx, &tending)
	tending.Wait()
}

// look is Look that does not wait until everything is done: while one sale is being
// built, the next looks see to the others. Sales that are over are many, and some may
// be on servers that are gone for good: those that run never wait for them.
func (k *Keeper) look(ctx context.Context, tending *sync.WaitGroup) {
	var over []sale.Sale
	for after := sale.Number(0); ctx.Err() == nil; {
		page, now, err := k.page(ctx, after)
		if err != nil {
			k.failed(ctx, 0, "", err)
			return
		}
		for i := range page {
			s := &page[i]
			after = s.Number
			switch {
			case s.State != sale.Closed && now.Before(s.EndsAt):
				k.begin(ctx, s, now, k.hands, tending)
			case s.Path == sale.PathFast || !k.rests(s):
				over = append(over, *s)
			}
		}
		if len(page) < pageSize {
			k.tidy(ctx, over, now, tending)
			return
		}
	}
}

// tidy tends sales that are over, those first that have been left alone for longest.
// What takes too long is left to the next look, which knows them as they are then.
func (k *Keeper) tidy(ctx context.Context, over []sale.Sale, now time.Time, tending *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tidying || len(over) == 0 {
		return
	}
	k.tidying = true
	slices.SortStableFunc(over, func(a, b sale.Sale) int { return k.resting[a.Number].until.Compare(k.resting[b.Number].until) })
	began := k.opts.Clock()
	tending.Go(func() {
		for i := range over {
			if ctx.Err() != nil || k.opts.Clock().Sub(began) > k.opts.CallTimeout {
				break
			}
			k.begin(ctx, &over[i], now, k.spare, tending)
		}
		k.mu.Lock()
		k.tidying = false
		k.mu.Unlock()
	})
}

// begin tends a sale beside the others when a hand is free, unless that is still going on.
func (k *Keeper) begin(ctx context.Context, s *sale.Sale, now time.Time, hands chan struct{}, tending *sync.WaitGroup) {
	k.mu.Lock()
	if k.busy[s.Number] {
		k.mu.Unlock()
		return
	}
	k.busy[s.Number] = true
	k.mu.Unlock()
	hands <- struct{}{}
	tending.Go(func() {
		k.tend(ctx, s, now)
		<-hands
		k.mu.Lock()
		delete(k.busy, s.Number)
		k.mu.Unlock()
	})
}

func (k *Keeper) page(ctx context.Context, after sale.Number) ([]sale.Sale, time.Time, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	now, err := k.ledger.Now(call)
	if err != nil {
		return nil, time.Time{}, err
	}
	page, err := k.ledger.ListSales(call, after, pageSize)
	return page, now, err
}

func (k *Keeper) failed(ctx context.Context, n sale.Number, why Why, err error) {
	if ctx.Err() == nil && !overtaken(err) {
		k.opts.Observer.Failed(n, why, err)
	}
}

// tend does what is due for one sale.
func (k *Keeper) tend(ctx context.Context, s *sale.Sale, now time.Time) {
	why, err := k.due(ctx, s, now)
	switch {
	case err != nil || why == "":
	case why == WhyOver:
		err = k.clear(ctx, s)
	case why == WhyOperator:
		_, err = k.direct(ctx, s, why)
	default:
		_, err = k.build(ctx, s, why)
	}
	if err != nil {
		k.failed(ctx, s.Number, why, err)
	}
}

// due returns what a sale needs, or nothing.
func (k *Keeper) due(ctx context.Context, s *sale.Sale, now time.Time) (Why, error) {
	wanted := s.Preferred == sale.PathFast && s.Visible() && s.State != sale.Closed && now.Before(s.EndsAt)
	switch {
	case s.Path == sale.PathDirect && wanted && !now.Before(s.StartsAt.Add(-k.opts.Lead)):
		return WhyPreheat, nil
	case s.Path == sale.PathDirect:
		return k.leftBehind(ctx, s, wanted)
	case !wanted && s.Preferred != sale.PathFast && s.State != sale.Closed && now.Before(s.EndsAt):
		return WhyOperator, nil
	case !wanted:
		why, err := k.over(ctx, s)
		if err != nil {
			k.rest(s, silentLife) // others that are over come first
		}
		return why, err
	}
	return k.ill(ctx, s)
}

// leftBehind returns WhyOver where a sale that is on the direct path for good
// still has lanes, be it those of a build that was never finished.
func (k *Keeper) leftBehind(ctx context.Context, s *sale.Sale, wanted bool) (Why, error) { //nolint:revive // what due has found out
	if wanted || k.rests(s) {
		return "", nil
	}
	gone, err := k.nothingLeft(ctx, s)
	if err != nil {
		k.rest(s, silentLife)
	}
	if err != nil || gone {
		return "", err
	}
	return WhyOver, nil
}

// rests reports whether the lanes of a sale that is on the direct path for good may be
// left alone for now, if it ever had any.
func (k *Keeper) rests(s *sale.Sale) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.resting[s.Number]
	return s.BuildToken == known.token && (known.token == 0 || k.opts.Clock().Before(known.until))
}

// rest has the lanes of a sale left alone for a while.
func (k *Keeper) rest(s *sale.Sale, life time.Duration) {
	const ways = 30
	life -= life / 2 * time.Duration(s.Number%ways) / ways
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resting[s.Number] = rest{s.BuildToken, k.opts.Clock().Add(life)}
}

// nothingLeft reports whether the counter has none of a sale's lanes any more.
func (k *Keeper) nothingLeft(ctx context.Context, s *sale.Sale) (bool, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	lanes, err := k.lanesOf(call, s)
	if err != nil {
		return false, err
	}
	at, err := k.counter.ReadAll(call, lanes)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(at, func(l stock.Standing) bool { return !l.Gone() }) {
		return false, nil
	}
	k.rest(s, goneLife)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range lanes {
		delete(k.marks, l)
	}
	return true, nil
}

// over returns WhyOver when nothing of a fast sale that has ended waits any more, or
// its lanes are ill: the ledger tells what is asked now as well.
func (k *Keeper) over(ctx context.Context, s *sale.Sale) (Why, error) {
	if why, err := k.ill(ctx, s); err != nil || why != "" {
		return WhyOver, err
	}
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	waiting, err := k.ledger.AnyReserved(call, s.Number)
	if err != nil || waiting {
		return "", err
	}
	at, err := k.counter.ReadAll(call, stock.LanesOf(s))
	if err != nil {
		return "", err
	}
	for i := range at {
		if at[i].Queued > 0 {
			return "", nil
		}
	}
	return WhyOver, nil
}

func (k *Keeper) read(ctx context.Context, lanes []stock.Lane) ([]stock.Standing, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	return k.counter.ReadAll(call, lanes)
}

func (k *Keeper) sale(ctx context.Context, n sale.Number) (sale.Sale, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	return k.ledger.SaleByNumber(call, n)
}
