package gate

import (
	"context"
	"sync"
	"time"
)

const (
	// lookEvery is how often an instance looks for changes that nobody told it of.
	lookEvery = time.Second
	// lookWithin bounds one look. A key that signs must be known everywhere, so
	// KeySettle is longer than a look that just misses it, the wait and the next look.
	lookWithin = 2 * time.Second
	// restPerListing is how long the next look waits for each listing that had to be put
	// in order, up to mostRest: however many bans there are in an attack, keeping the
	// lists takes a small part of the machine.
	restPerListing = 5 * time.Microsecond
	mostRest       = time.Second / 2
)

const (
	// pruneFirst and pruneEvery are how long after the start, and how often from then
	// on, listings are deleted that ended longer ago than anybody needs them.
	pruneFirst = time.Minute
	pruneEvery = time.Hour
	// pruneAfter is how long they stay beyond BanRules.Memory. An instance that could
	// not look for half of that reads all anew, so that it misses no end of a listing.
	pruneAfter  = 24 * time.Hour
	pruneAtOnce = 1000
)

// Nudge lets the instance look for changes now.
func (k *Keeper) Nudge() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// Run follows changes, counts strikes and prunes lists until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	stop := k.o.Ledger.WatchGate(func(int64) { k.Nudge() })
	defer stop()
	var others sync.WaitGroup // a slow limiter must not hold up lists
	defer others.Wait()
	others.Go(func() {
		for {
			select {
			case s := <-k.strikes:
				k.punish(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	})
	others.Go(func() {
		for next := pruneFirst; sleep(ctx, next); next = pruneEvery {
			k.prune(ctx)
		}
	})
	k.follow(ctx)
	return nil
}

// follow looks for changes until ctx ends.
func (k *Keeper) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	looked := k.o.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.nudge:
		}
		from, now := k.known.Load(), k.o.Now()
		if now.Sub(looked) > pruneAfter/2 {
			from = from.anew()
		}
		next, ok := k.look(ctx, from)
		if ok {
			looked = now
		}
		if next.lists != from.lists {
			sleep(ctx, min(time.Duration(len(next.listings)+len(next.ranges))*restPerListing, mostRest))
		}
	}
}

// anew returns the same knowledge, of which all listings are read again.
func (n *knowledge) anew() *knowledge {
	again := *n
	again.read, again.parts.listings = 0, -1
	return &again
}

// look learns what has changed, and keeps what it knew where it cannot. It reports
// whether it could learn everything.
func (k *Keeper) look(ctx context.Context, old *knowledge) (next *knowledge, ok bool) {
	long := min(k.o.CallTimeout, lookWithin)
	if old.read == 0 { // all listings, the keys before them
		long = startWithin
	}
	bounded, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	next, troubles := k.update(bounded, old)
	if next != old {
		k.known.Store(next)
		k.o.Observer.Known(next.version, len(next.listings))
	}
	if ctx.Err() != nil {
		return next, false
	}
	for i := range troubles {
		k.o.Observer.Failed(troubles[i].doing, troubles[i].err)
	}
	return next, len(troubles) == 0
}

// prune deletes listings that nobody needs any more. Every instance does, in small
// parts.
func (k *Keeper) prune(ctx context.Context) {
	before := k.o.Now().Add(-time.Duration(k.known.Load().settings.Bans.Memory) - pruneAfter)
	for {
		bounded, cancel := context.WithTimeout(ctx, k.o.CallTimeout)
		n, err := k.o.Ledger.PruneListings(bounded, before, pruneAtOnce)
		cancel()
		if err != nil && ctx.Err() == nil {
			k.o.Observer.Failed("pruning the gate's lists", err)
		}
		if err != nil || n < pruneAtOnce || !sleep(ctx, mostRest) {
			return
		}
	}
}

// sleep waits, and reports whether it did to the end: ctx may be over before.
func sleep(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
