package handover

import (
	"context"
	"errors"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// maxTries is how often the end of a build is tried before it is given up.
const maxTries = 5

// build loads the lanes of a sale and puts it on the fast path. What is durable
// after each step, and what a crash there leaves:
//
//  1. token: nothing has changed; the next builder gets a higher one.
//  2. freeze: buyers of a fast sale are told busy. Left behind, the lane is rebuilt
//     by anybody after two seconds.
//  3. drain: the slips of the old lane are orders, so nobody is robbed.
//  4. direct: buyers buy from the ledger while the lane is loaded. So they do if a slip
//     cannot be judged, which is the end of the build: it is judged when it can be, if
//     units are left.
//  5. load: the records of the new epoch, beside those in force.
//  6. finish: under the sale's lock, the last rows and what is left; the commit
//     puts path and epoch in force. Left behind before the commit, or rolled back, it
//     is the next builder's to begin anew. Left behind after it, the lane is frozen by
//     the token that is the epoch: anybody opens it.
//  7. unfreeze: the lane sells.
func (k *Keeper) build(ctx context.Context, s *sale.Sale, why Why) (sale.Sale, error) {
	started := k.opts.Clock()
	w, err := k.start(ctx, s)
	if err != nil {
		return sale.Sale{}, err
	}
	if err := inTurn(ctx, w.freeze, w.makeWay, w.load, w.finish, w.open); err != nil {
		if sale.CodeOf(err) == sale.CodeSaleNotFound { // put away meanwhile: nobody else looks after its lanes
			err = errors.Join(err, w.erase(ctx))
		}
		return sale.Sale{}, err
	}
	k.opts.Observer.Built(s.Number, why, w.orders, k.opts.Clock().Sub(started))
	return w.after, nil
}

func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start begins a build, on the lanes that the sale has or new ones.
func (k *Keeper) start(ctx context.Context, s *sale.Sale) (*work, error) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	if s.BuildToken > s.Epoch && k.atWork(call, s) {
		return nil, ledger.ErrBuilding
	}
	b, err := k.ledger.StartBuild(call, s.Number, s.Epoch)
	if err != nil {
		return nil, err
	}
	lanes, err := k.lanesOf(call, &b.Sale)
	if err != nil {
		return nil, err
	}
	return &work{k: k, build: b, lanes: lanes, steps: make([]int64, len(lanes))}, nil
}

// lanesOf returns the lanes of a sale, or those that a build of it begins with.
func (k *Keeper) lanesOf(ctx context.Context, s *sale.Sale) ([]stock.Lane, error) {
	if len(s.Salts) > 0 {
		return stock.LanesOf(s), nil
	}
	salts, err := k.counter.Salts(ctx, stock.FirstLane(s), k.opts.Lanes)
	first := sale.Sale{Number: s.Number, Salts: salts}
	return stock.LanesOf(&first), err
}

// work is one build under way.
type work struct {
	k      *Keeper
	build  ledger.Build
	lanes  []stock.Lane
	steps  []int64   // by lane: what has been brought there
	after  sale.Sale // as it is now
	seq    uint64    // the journal's number that the records contain
	orders int
	read   sale.Sale // as it was with the orders: by its limit rule the records count
}

func (w *work) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.k.opts.CallTimeout)
}

func (w *work) freeze(ctx context.Context) error {
	w.after = w.build.Sale
	for _, l := range w.lanes {
		call, cancel := w.call(ctx)
		_, err := w.k.counter.Freeze(call, l, w.build.Token)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *work) drain(ctx context.Context) error {
	for _, l := range w.lanes {
		if err := w.k.opts.Drain(ctx, l, &w.build.Sale); err != nil {
			return err
		}
	}
	return nil
}

// makeWay has the queued judged and lets buyers buy from the ledger, who must not wait
// for a slip that cannot be judged.
func (w *work) makeWay(ctx context.Context) error {
	undrained := w.drain(ctx)
	if undrained != nil && !errors.Is(undrained, stock.ErrStuck) {
		return undrained
	}
	if err := w.stepAside(ctx); err != nil {
		return err
	}
	return undrained
}

// stepAside lets buyers of a fast sale buy from the ledger while the build goes on,
// under the epoch that StartBuild left free for that.
func (w *work) stepAside(ctx context.Context) error {
	return w.goDirect(ctx, w.build.Token-1)
}

func (w *work) goDirect(ctx context.Context, epoch int64) (err error) {
	if w.build.Sale.Path != sale.PathFast {
		return nil
	}
	call, cancel := w.call(ctx)
	defer cancel()
	w.after, err = w.k.ledger.GoDirect(call, w.build.Sale.Number, w.build.Sale.Epoch, epoch)
	return err
}

// leave takes the sale to the direct path for good: with the token as its epoch the
// build is over.
func (w *work) leave(ctx context.Context) error { return w.goDirect(ctx, w.build.Token) }

// finish puts the lanes in force. Trouble with the counter ends the build: a call that
// nobody waits for any more may still arrive, and only a newer token keeps it out. So it
// is with a try that is rolled back: what it has loaded stands there under the token, and
// a server that goes back to it would be opened by it. A try after that only finds out
// whether the other one was committed.
func (w *work) finish(ctx context.Context) error {
	var failed error
	loaded := false
	for range maxTries {
		if !loaded { // else the lanes may be in force
			if err := w.catchUp(ctx); err != nil {
				return err
			}
		}
		began := w.k.opts.Clock()
		locked, cancel := context.WithTimeout(ctx, lockLimit)
		after, err := w.k.ledger.FinishBuild(locked, ledger.Finish{
			Build: w.build, After: w.seq, Salts: salts(w.lanes),
			Load: func(ctx context.Context, now ledger.Present) error {
				switch {
				case loaded:
					return errTried
				case w.k.opts.Clock().Sub(began) > lockLimit/2:
					return errLate // before anything is under way
				}
				loaded = true
				return w.settle(ctx, &now)
			},
		})
		late := !loaded && locked.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			w.after = after
			return nil
		}
		switch {
		case errors.Is(err, errTried):
			return errors.Join(err, failed)
		case late:
			err = errors.Join(errLate, err)
		}
		failed = err
		if errors.Is(err, ledger.ErrSuperseded) || errors.Is(err, stock.ErrFrozen) || errors.Is(err, stock.ErrUnavailable) ||
			errors.Is(err, errForgot) || errors.Is(err, errRule) || ctx.Err() != nil {
			break
		}
	}
	return failed
}

func salts(lanes []stock.Lane) []uint32 {
	out := make([]uint32, len(lanes))
	for i := range lanes {
		out[i] = lanes[i].Salt
	}
	return out
}

// errLate says that the lock did not come, or when too little of its time was left for
// the counter.
var errLate = errors.New("handover: the sale was locked for too long by others")

// errTried says that an end of the build was tried and not committed.
var errTried = errors.New("handover: the ledger has not committed the end of the build")

// errRule says that the records count by a limit rule that is not in force any more.
var errRule = errors.New("handover: the limit rule has changed during the build")

// settle brings the lanes to the present while the sale is locked.
func (w *work) settle(ctx context.Context, now *ledger.Present) error {
	if now.Sale.LimitRule != w.read.LimitRule {
		return errRule
	}
	if err := w.rows(ctx, &now.Sale, now.Delta); err != nil {
		return err
	}
	for i, l := range w.lanes {
		offset, err := w.offset(ctx, l)
		if err != nil {
			return err
		}
		set := stock.Setting{
			Rules: stock.RulesOf(&now.Sale), Left: make([]int64, len(now.Sale.Items)), Applied: now.Seq,
			MaxQueued: w.k.opts.MaxQueued, Offset: offset,
		}
		for j := range now.Sale.Items {
			it := &now.Sale.Items[j]
			set.Stock[j] = stock.Share(it.Stock, i, len(w.lanes))
			set.Left[j] = set.Stock[j] - stock.Share(it.Sold, i, len(w.lanes))
		}
		if err := w.k.counter.Set(ctx, l, w.build.Token, set); err != nil {
			return err
		}
		w.steps[i]++
		if err := w.remembers(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// errForgot says that the server of a lane went back to before something was loaded.
var errForgot = errors.New("handover: the lane has forgotten part of what was loaded")

// remembers refuses a lane that does not know of everything that was loaded.
func (w *work) remembers(ctx context.Context, i int) error {
	at, err := w.k.counter.Read(ctx, w.lanes[i])
	if err == nil && (at.State != stock.Frozen || at.FrozenBy != w.build.Token || at.Steps != w.steps[i]) {
		err = errForgot
	}
	return err
}

// A look at two clocks is as good as it is quick: a call that had to connect first
// says little.
const (
	quickLook = time.Millisecond
	maxLooks  = 3
)

// offset measures how far the lane's clock is ahead of the ledger's.
func (w *work) offset(ctx context.Context, l stock.Lane) (best time.Duration, err error) {
	shortest := time.Duration(-1)
	for range maxLooks {
		offset, took, err := w.compare(ctx, l)
		if err != nil {
			return 0, err
		}
		if shortest < 0 || took < shortest {
			best, shortest = offset, took
		}
		if took <= quickLook {
			break
		}
	}
	return best, nil
}

// compare looks at both clocks once, and says how long that took.
func (w *work) compare(ctx context.Context, l stock.Lane) (offset, took time.Duration, err error) {
	sent := w.k.opts.Clock()
	there, err := w.k.counter.Clock(ctx, l)
	if err != nil {
		return 0, 0, err
	}
	middle := w.k.opts.Clock()
	ledgers, err := w.k.ledger.Now(ctx)
	if err != nil {
		return 0, 0, err
	}
	got := w.k.opts.Clock()
	// Each reading belongs to the middle of its call.
	apart := middle.Sub(sent)/2 + got.Sub(middle)/2
	return there.Add(apart).Sub(ledgers).Truncate(time.Millisecond), got.Sub(sent), nil
}

// open lets the lanes sell. It does not end with ctx: they are in force already, and
// where the last worker is told to stop nobody else would come to open them.
func (w *work) open(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for _, l := range w.lanes {
		call, cancel := w.call(ctx)
		err := w.k.counter.Unfreeze(call, l, w.build.Token)
		cancel()
		if err != nil {
			return err
		}
	}
	w.k.tell(ctx, w.build.Sale.Number)
	return nil
}

func (k *Keeper) tell(ctx context.Context, n sale.Number) {
	call, cancel := context.WithTimeout(ctx, k.opts.CallTimeout)
	defer cancel()
	if err := k.counter.Tell(call, stock.Message{Kind: stock.KindSellsAgain, Sale: n}); err != nil {
		k.failed(ctx, n, "", err)
	}
}
