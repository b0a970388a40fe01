package httpapi

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/obs"
)

// waits knows every request that waits for the judge. Such a request has given its
// place in its class back, so that a crowd of waiting buyers keeps nobody from
// buying; what bounds them is the caps. All of them end at once when the API ends.
type waits struct {
	caps    *caps
	counted *obs.HTTP

	mu      sync.Mutex
	seats   map[*seat]struct{}
	closing bool
}

// seat is the place of one request that waits.
type seat struct {
	waits *waits
	from  netip.Prefix
	user  string
	rise  context.CancelCauseFunc // ends the waiting
}

var errEndOfWaits = errors.New("httpapi: nobody waits any more")

func newWaits(l WaiterLimits, counted *obs.HTTP) *waits {
	return &waits{caps: newCaps(l.Total, l.PerIP, l.PerUser), counted: counted, seats: make(map[*seat]struct{})}
}

// sit returns a seat and the context under which its holder may wait, or nil if
// there is none to be had.
func (w *waits) sit(ctx context.Context, from netip.Prefix, user string) (*seat, context.Context) {
	if w.caps.admit(from, user) != admitted {
		return nil, nil
	}
	s := &seat{waits: w, from: from, user: user}
	own, rise := context.WithCancelCause(ctx)
	s.rise = rise
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		rise(errEndOfWaits)
		w.caps.release(from, user)
		return nil, nil
	}
	w.seats[s] = struct{}{}
	w.counted.Waiters.Inc()
	return s, own
}

// leave gives the seat back.
func (s *seat) leave() {
	s.rise(context.Canceled)
	s.waits.mu.Lock()
	delete(s.waits.seats, s)
	s.waits.mu.Unlock()
	s.waits.caps.release(s.from, s.user)
	s.waits.counted.Waiters.Dec()
}

// end has all who wait go on without what they wait for.
func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	for s := range w.seats {
		s.rise(errEndOfWaits)
	}
}

// EndWaits answers at once all who wait for the judge, with their orders as they
// are, and lets nobody wait any more. It belongs to the beginning of a shutdown:
// else the server would wait for the waiting.
func (a *API) EndWaits() { a.waits.end() }

// granted returns how long the request wants to wait for the judge and may, in
// whole seconds, and whether it has said anything about it.
func (x *exchange) granted() (time.Duration, bool) {
	wanted, said := preferredWait(x.r.Header)
	return min(wanted, x.api.opts.MaxWait, x.api.opts.Timeout).Truncate(time.Second), said
}

// applied says what waiting was granted.
func (x *exchange) applied(wait time.Duration) {
	x.w.Header()["Preference-Applied"] = []string{"wait=" + strconv.Itoa(int(wait/time.Second))}
}

// waiting calls work, which may wait for the judge of a user's order for up to
// wait: outside of the request's class, where a seat is to be had, else not at all.
// Work that is interrupted by the end of all waiting is called again, without it;
// it must be safe to repeat.
func (x *exchange) waiting(ctx context.Context, user string, wait time.Duration, work func(context.Context, time.Duration) error) error {
	var from netip.Prefix
	if x.who.KeyID == "" { // the buyers of a shop share its address
		from = bucket(x.api.clientIP(x.r))
	}
	s, own := x.api.waits.sit(ctx, from, user)
	if s == nil {
		return work(ctx, 0)
	}
	defer s.leave()
	x.leave()
	x.applied(wait)
	err := work(own, wait)
	if err != nil && errors.Is(context.Cause(own), errEndOfWaits) {
		err = work(ctx, 0)
	}
	return err
}
