package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

	mu   sync.Mutex
	late map[lock.Owner]*round // acquisitions that some servers have not answered yet
}

// NewQuorum returns a store over an odd number of servers, at least three, each
// with its own client. Errors are lock.ErrInvalid.
func NewQuorum(clients []rueidis.Client, o Options) (*Quorum, error) {
	if len(clients) < 3 || len(clients)%2 == 0 {
		return nil, fmt.Errorf("%w: a quorum of %d servers; it takes an odd number from 3", lock.ErrInvalid, len(clients))
	}
	q := &Quorum{confirm: o.ConfirmFence, late: map[lock.Owner]*round{}}
	for _, c := range clients {
		node, err := New(c, o)
		if err != nil {
			return nil, err
		}
		q.nodes = append(q.nodes, node)
	}
	return q, nil
}

// round is one call to every server.
type round struct {
	votes chan vote
	done  []chan struct{} // closed when a server has answered
}

type vote struct {
	yes   bool
	grant lock.Grant
	err   error
}

// ask calls every server at once and outlives its caller, who goes on with the
// majority: what was begun at a server is also sent there. A release waits, at
// each server, for the acquisition before it.
func (q *Quorum) ask(ctx context.Context, before *round, call func(context.Context, *Store) vote) *round {
	const longest = time.Second
	limit := longest
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	out := &round{votes: make(chan vote, len(q.nodes)), done: make([]chan struct{}, len(q.nodes))}
	for i, node := range q.nodes {
		out.done[i] = make(chan struct{})
		go func() {
			defer close(out.done[i])
			if before != nil {
				<-before.done[i]
			}
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			out.votes <- call(within, node)
		}()
	}
	return out
}

// tally is what the servers have said so far.
type tally struct {
	yes, no int
	best    lock.Grant // of the votes for it the highest fence, else the longest lease in the way
	errs    []error
}

func (t *tally) add(v vote) {
	switch {
	case v.err != nil:
		t.errs = append(t.errs, v.err)
	case v.yes:
		t.yes++
		t.best.Fence = max(t.best.Fence, v.grant.Fence)
	default:
		t.no++
		if v.grant.Left > t.best.Left {
			t.best.Left, t.best.Holder = v.grant.Left, v.grant.Holder
		}
	}
}

// decide waits until the majority is known, one way or the other.
func (q *Quorum) decide(ctx context.Context, r *round) tally {
	var t tally
	majority := len(q.nodes)/2 + 1
	for range q.nodes {
		select {
		case v := <-r.votes:
			t.add(v)
		case <-ctx.Done():
			t.errs = append(t.errs, ctx.Err())
			return t
		}
		if t.yes >= majority || t.no >= majority || len(t.errs) >= majority {
			return t
		}
	}
	return t
}

func (q *Quorum) won(t *tally) bool { return t.yes > len(q.nodes)/2 }

// failure is an error if servers that did not answer might have changed the
// outcome.
func (q *Quorum) failure(op string, t *tally) error {
	if len(t.errs) == 0 || t.no > len(q.nodes)/2 {
		return nil
	}
	err := errors.Join(t.errs...)
	every := len(t.errs) == len(q.nodes)
	for _, one := range t.errs {
		trouble, ok := errors.AsType[*lock.StoreError](one)
		every = every && ok && trouble.Permanent
	}
	return &lock.StoreError{Op: op, Permanent: every, Err: err}
}

// retry is how soon to ask again, at first.
const retry = 5 * time.Millisecond

// Acquire implements lock.Store.
func (q *Quorum) Acquire(ctx context.Context, r *lock.Request) (lock.Grant, error) {
	if r.Kind != lock.Mutex {
		return lock.Grant{}, fmt.Errorf("%w: a quorum has mutexes only", lock.ErrUnsupported)
	}
	one := *r
	one.Queue, one.Barging = 0, true
	calls := q.ask(ctx, nil, func(ctx context.Context, s *Store) vote {
		g, err := s.Acquire(ctx, &one)
		return vote{yes: g.Fence != 0, grant: g, err: err}
	})
	q.remember(r.Owner, calls)
	t := q.decide(ctx, calls)
	if q.won(&t) {
		if one.Fence = t.best.Fence; q.confirm {
			ok, err := q.Renew(ctx, &one)
			if err != nil || !ok {
				return lock.Grant{}, q.undo(ctx, &one, err)
			}
		}
		return lock.Grant{Fence: t.best.Fence}, nil
	}
	err := q.failure("acquire", &t)
	if t.yes > 0 || err != nil {
		err = q.undo(ctx, &one, err)
	}
	return lock.Grant{Holder: t.best.Holder, Left: t.best.Left, Retry: retry}, err
}

// undo gives back the votes of a minority, so that others need not wait for their
// end, and returns the error it was given.
func (q *Quorum) undo(ctx context.Context, r *lock.Request, err error) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = q.Release(within, r) // what cannot be given back ends by itself
	return err
}

// remember keeps a round until every server has answered.
func (q *Quorum) remember(owner lock.Owner, r *round) {
	q.mu.Lock()
	q.late[owner] = r
	q.mu.Unlock()
	go func() {
		for _, done := range r.done {
			<-done
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.late[owner] == r {
			delete(q.late, owner)
		}
	}()
}

// Renew implements lock.Store.
func (q *Quorum) Renew(ctx context.Context, r *lock.Request) (bool, error) {
	one := *r
	t := q.decide(ctx, q.ask(ctx, nil, func(ctx context.Context, s *Store) vote {
		ok, err := s.Renew(ctx, &one)
		return vote{yes: ok, err: err}
	}))
	if q.won(&t) {
		return true, nil
	}
	return false, q.failure("renew", &t)
}

// Release implements lock.Store.
func (q *Quorum) Release(ctx context.Context, r *lock.Request) (lock.Outcome, error) {
	q.mu.Lock()
	before := q.late[r.Owner]
	q.mu.Unlock()
	one := *r
	one.Barging = true
	t := q.decide(ctx, q.ask(ctx, before, func(ctx context.Context, s *Store) vote {
		out, err := s.Release(ctx, &one)
		return vote{yes: out.Released, err: err}
	}))
	if len(t.errs) > len(q.nodes)/2 {
		return lock.Outcome{}, q.failure("release", &t)
	}
	return lock.Outcome{Released: t.yes > 0}, nil
}

// Inspect implements lock.Store: it shows who holds a majority, if anybody does.
func (q *Quorum) Inspect(ctx context.Context, kind lock.Kind, name string) (lock.Info, error) {
	infos := make(chan lock.Info, len(q.nodes))
	calls := q.ask(ctx, nil, func(ctx context.Context, s *Store) vote {
		info, err := s.Inspect(ctx, kind, name)
		if err == nil {
			infos <- info
		}
		return vote{err: err, yes: err == nil}
	})
	var out lock.Info
	var errs []error
	seen := map[lock.Owner]lock.Holder{}
	count := map[lock.Owner]int{}
	for range q.nodes {
		v := <-calls.votes
		if v.err != nil {
			errs = append(errs, v.err)
			continue
		}
		info := <-infos
		out.Fence = max(out.Fence, info.Fence)
		for _, h := range info.Holders {
			if was, ok := seen[h.Owner]; ok {
				h.Fence, h.Left = max(h.Fence, was.Fence), min(h.Left, was.Left)
			}
			seen[h.Owner] = h
			count[h.Owner]++
		}
	}
	if len(errs) > len(q.nodes)/2 {
		return lock.Info{}, &lock.StoreError{Op: "inspect", Err: errors.Join(errs...)}
	}
	for owner, n := range count {
		if n > len(q.nodes)/2 {
			out.Holders = append(out.Holders, seen[owner])
		}
	}
	return out, nil
}

// Topic implements lock.Store: there is none.
func (q *Quorum) Topic(*lock.Request) string { return "" }

// Subscribe implements lock.Store; nobody calls it, for there are no topics.
func (q *Quorum) Subscribe(context.Context, string, func(), func(lock.Owner)) error {
	return lock.ErrUnsupported
}
