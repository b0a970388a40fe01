package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/lock"
)

// Quorum is a lock.Store on several servers that know nothing of each other
// (RedLock): what a majority says, counts. It has mutexes only and no queue,
// because each server would have another order; waiters ask again after a random
// while.
//
// It survives the loss of a minority, and no more: a server that comes back
// without its memory may vote a second time. Let servers keep every write (append
// only, synced always), or stay away for the longest lease after a crash.
type Quorum struct {
	nodes   []*Store
	confirm bool
	rounds  rounds
}

// NewQuorum returns a store over an odd number of servers, at least three, each
// with its own client. Errors are lock.ErrInvalid, also for two clients of one
// address: its vote would count twice.
func NewQuorum(clients []rueidis.Client, o Options) (*Quorum, error) {
	if len(clients) < 3 || len(clients)%2 == 0 {
		return nil, fmt.Errorf("%w: a quorum of %d servers; it takes an odd number from 3", lock.ErrInvalid, len(clients))
	}
	q := &Quorum{confirm: o.ConfirmFence, rounds: rounds{last: map[lock.Owner]*round{}}}
	seen := map[string]bool{}
	for _, c := range clients {
		for addr := range c.Nodes() {
			if seen[addr] {
				return nil, fmt.Errorf("%w: two clients of a quorum for %s", lock.ErrInvalid, addr)
			}
			seen[addr] = true
		}
		node, err := New(c, o)
		if err != nil {
			return nil, err
		}
		q.nodes = append(q.nodes, node)
	}
	return q, nil
}

// retry is how soon to ask again, at first.
const retry = 5 * time.Millisecond

// Acquire implements lock.Store. What it gave in vain to an owner it takes back
// beside the caller, and perhaps late.
func (q *Quorum) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	if r.Kind != lock.Mutex {
		return lock.Grant{}, fmt.Errorf("%w: a quorum has mutexes only", lock.ErrUnsupported)
	}
	one := *r
	one.Queue, one.Barging = 0, true
	calls := q.ask(ctx, r.Owner, func(ctx context.Context, i int) vote {
		g, err := q.nodes[i].Acquire(ctx, &one)
		return vote{yes: g.Fence != 0, grant: g, err: err}
	})
	t := q.decide(ctx, calls)
	if !q.won(&t) {
		err := q.failure("acquire", &t)
		// A take-over may be tried again: what it took from the other is its own.
		if t.no < len(q.nodes) && (err == nil || r.From == "") {
			q.undo(ctx, &one, calls)
		}
		return lock.Grant{Holder: t.best.Holder, Left: t.best.Left, Retry: retry}, err
	}
	if q.confirm {
		again := one
		again.Fence = t.best.Fence
		ok, err := q.Renew(ctx, &again)
		if err != nil || !ok {
			q.undo(ctx, &one, calls)
			return lock.Grant{Retry: retry}, err
		}
	}
	return lock.Grant{Fence: t.best.Fence}, nil
}

// undo gives back the votes of a round that was not won, so that others need not
// wait for their end, where the server has not said no.
func (q *Quorum) undo(ctx context.Context, r *lock.Request, calls *round) {
	q.ask(context.WithoutCancel(ctx), r.Owner, func(ctx context.Context, i int) vote {
		given := &calls.servers[i].vote // it was asked before
		if given.err == nil && !given.yes {
			return vote{}
		}
		_, err := q.nodes[i].Release(ctx, r) // what cannot be given back ends by itself
		return vote{err: err}
	})
}

// Renew implements lock.Store.
func (q *Quorum) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	one := *r
	t := q.decide(ctx, q.ask(ctx, r.Owner, func(ctx context.Context, i int) vote {
		ok, err := q.nodes[i].Renew(ctx, &one)
		return vote{yes: ok, err: err}
	}))
	if q.won(&t) {
		return true, nil
	}
	return false, q.failure("renew", &t)
}

// Release implements lock.Store.
func (q *Quorum) Release(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
	one := *r
	one.Barging = true
	t := q.decide(ctx, q.ask(ctx, r.Owner, func(ctx context.Context, i int) vote {
		out, err := q.nodes[i].Release(ctx, &one)
		return vote{yes: out.Released, err: err}
	}))
	if len(t.errs) > len(q.nodes)/2 {
		return lock.Outcome{}, q.failure("release", &t)
	}
	// Without those that are down, what is left of a majority may be a minority.
	return lock.Outcome{Released: t.yes > 0 && t.no <= len(q.nodes)/2}, nil
}

// Inspect implements lock.Store: it shows who holds a majority, if anybody does, and
// until when. A server that has not heard of a renewal yet does not make that earlier,
// unless it is needed for the majority.
func (q *Quorum) Inspect(ctx context.Context, kind lock.Kind, name string) (lock.Info, error) {
	calls := q.ask(ctx, "", func(ctx context.Context, i int) vote {
		info, err := q.nodes[i].Inspect(ctx, kind, name)
		return vote{info: info, err: err}
	})
	var out lock.Info
	var errs []error
	seen := map[lock.Owner]lock.Holder{}
	left := map[lock.Owner][]time.Duration{}
	for range q.nodes {
		v := <-calls.votes
		if v.err != nil {
			errs = append(errs, v.err)
			continue
		}
		out.Fence = max(out.Fence, v.info.Fence)
		for _, h := range v.info.Holders {
			if was, ok := seen[h.Owner]; ok {
				h.Fence = max(h.Fence, was.Fence)
			}
			seen[h.Owner] = h
			left[h.Owner] = append(left[h.Owner], h.Left)
		}
	}
	if len(errs) > len(q.nodes)/2 {
		return lock.Info{}, &lock.StoreError{Op: "inspect", Err: errors.Join(errs...)}
	}
	for owner, ends := range left {
		if len(ends) <= len(q.nodes)/2 {
			continue
		}
		h := seen[owner]
		slices.Sort(ends)
		h.Left = ends[len(ends)-1-len(q.nodes)/2] // when the majority becomes none
		out.Holders = append(out.Holders, h)
	}
	return out, nil
}

// Topic implements lock.Store: there is none.
func (q *Quorum) Topic(*lock.Request) string { return "" }

// Subscribe implements lock.Store; nobody calls it, for there are no topics.
func (q *Quorum) Subscribe(context.Context, string, func(), func(lock.Owner)) error {
	return lock.ErrUnsupported
}
