package redislock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/lock"
)

// longest is how long one call to one server of a quorum may take.
const longest = time.Second

// rounds are the calls of a quorum that some servers have not answered yet. All
// calls of one owner reach each server in the order in which they were made.
type rounds struct {
	mu   sync.Mutex
	last map[lock.Owner]*round
}

// round is one call to every server.
type round struct {
	votes   chan vote
	servers []answer
	missing atomic.Int64
}

// answer is that of one server.
type answer struct {
	done chan struct{}
	vote vote // from then on
}

type vote struct {
	yes   bool
	grant lock.Grant
	info  lock.Info
	err   error
}

// ask calls every server at once and outlives its caller, who goes on with the
// majority: what was begun at a server is also sent there. An empty owner waits
// for nobody.
func (q *Quorum) ask(ctx context.Context, owner lock.Owner, call func(context.Context, int) vote) *round {
	limit := longest
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	out := &round{votes: make(chan vote, len(q.nodes)), servers: make([]answer, len(q.nodes))}
	out.missing.Store(int64(len(q.nodes)))
	for i := range out.servers {
		out.servers[i].done = make(chan struct{})
	}
	before := q.rounds.next(owner, out)
	for i := range out.servers {
		go func() {
			if before != nil {
				<-before.servers[i].done
			}
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			v := call(within, i)
			out.servers[i].vote = v
			close(out.servers[i].done)
			out.votes <- v
			if out.missing.Add(-1) == 0 {
				q.rounds.end(owner, out)
			}
		}()
	}
	return out
}

// next makes a round the last one of an owner and returns the one before it.
func (r *rounds) next(owner lock.Owner, now *round) (before *round) {
	if owner == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.last[owner]
	r.last[owner] = now
	return before
}

func (r *rounds) end(owner lock.Owner, now *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[owner] == now {
		delete(r.last, owner)
	}
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
