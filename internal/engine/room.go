package engine

import (
	"context"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// room is where callers wait until their queued orders are judged. They are woken
// by news of other instances and by the journal rows of this process; as a net,
// all of them together are looked up about once a second. Nobody polls for himself.
type room struct {
	ledger ledger.Ledger
	opts   *Options

	mu      sync.Mutex
	waiting map[sale.OrderID][]*waiter
	count   int
	named   map[sale.OrderID]struct{} // those of the waiting who are said to be judged
	closed  bool

	wake chan struct{} // one token: there is something to do
	gone chan struct{} // closed at the end
}

// waiter is one caller who waits for one order.
type waiter struct {
	id     sale.OrderID
	judged chan sale.Order // receives at most once
}

const (
	// netInterval is how often all who wait are looked up, news or not. Waits are of
	// whole seconds: this is less, so that a last look comes before their ends and
	// does not race with them.
	netInterval = 900 * time.Millisecond
	// maxWait is the longest that anybody may wait.
	maxWait = 20 * time.Second
)

func newRoom(l ledger.Ledger, o *Options) *room {
	return &room{
		ledger: l, opts: o, waiting: make(map[sale.OrderID][]*waiter), named: make(map[sale.OrderID]struct{}),
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// enter begins to wait, or returns nil if the room is full or closed.
func (r *room) enter(id sale.OrderID) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.count >= r.opts.MaxWaiters {
		return nil
	}
	w := &waiter{id: id, judged: make(chan sale.Order, 1)}
	r.waiting[id] = append(r.waiting[id], w)
	r.count++
	if r.count == 1 {
		r.stir()
	}
	return w
}

// leave ends the waiting, whatever came of it.
func (r *room) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting[w.id]
	for i := range all {
		if all[i] == w {
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			r.count--
			break
		}
	}
	if len(all) == 0 {
		delete(r.waiting, w.id)
		delete(r.named, w.id)
		return
	}
	r.waiting[w.id] = all
}

// wait returns the order once it is judged, or false after d, at the end of ctx,
// or when the engine closes.
func (r *room) wait(ctx context.Context, w *waiter, d time.Duration) (sale.Order, bool) {
	timer := time.NewTimer(min(d, maxWait))
	defer timer.Stop()
	select {
	case o := <-w.judged:
		return o, true
	case <-timer.C:
	case <-ctx.Done():
	case <-r.gone:
	}
	return sale.Order{}, false
}

// judged takes in that these orders are in the ledger now.
func (r *room) judged(ids []sale.OrderID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.name(id)
	}
}

// heard takes in journal rows of this process.
func (r *room) heard(rows []ledger.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 {
		return
	}
	for i := range rows {
		if rows[i].Kind.OfOrder() {
			r.name(rows[i].Order)
		}
	}
}

// name is called with the lock held.
func (r *room) name(id sale.OrderID) {
	if _, awaited := r.waiting[id]; awaited {
		r.named[id] = struct{}{}
		r.stir()
	}
}

// lookAgain has everybody looked up: news may have been lost.
func (r *room) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.waiting {
		r.name(id)
	}
}

func (r *room) stir() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.gone)
	}
}

// run looks up those who wait until ctx ends.
func (r *room) run(ctx context.Context) {
	net := time.NewTimer(netInterval)
	defer net.Stop()
	for {
		due := net.C
		if r.empty() {
			due = nil
		}
		all := false
		select {
		case <-r.wake:
			select { // both may be there
			case <-due:
				all = true
			default:
			}
		case <-due:
			all = true
		case <-ctx.Done():
			return
		}
		if all || due == nil { // nil: this is the first one in an empty room
			net.Reset(netInterval)
		}
		if all {
			r.deliver(ctx, r.everybody())
		} else {
			r.deliver(ctx, r.take())
		}
	}
}

func (r *room) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count == 0
}

// take returns those who are said to be judged.
func (r *room) take() []sale.OrderID {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]sale.OrderID, 0, len(r.named))
	for id := range r.named {
		ids = append(ids, id)
	}
	clear(r.named)
	return ids
}

func (r *room) everybody() []sale.OrderID {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]sale.OrderID, 0, len(r.waiting))
	for id := range r.waiting {
		ids = append(ids, id)
	}
	clear(r.named)
	return ids
}

// deliver looks ids up and answers those who wait for what is found. What the
// ledger does not tell now is looked up again by the net.
func (r *room) deliver(ctx context.Context, ids []sale.OrderID) {
	for len(ids) > 0 && ctx.Err() == nil {
		n := min(len(ids), maxLookUp)
		found, err := r.look(ctx, ids[:n])
		if err != nil {
			return
		}
		r.mu.Lock()
		for id, o := range found {
			for _, w := range r.waiting[id] {
				select {
				case w.judged <- o:
				default: // he has it already and is about to leave
				}
			}
		}
		r.mu.Unlock()
		ids = ids[n:]
	}
}

func (r *room) look(ctx context.Context, ids []sale.OrderID) (map[sale.OrderID]sale.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.CallTimeout)
	defer cancel()
	return r.ledger.OrdersByID(ctx, ids)
}
