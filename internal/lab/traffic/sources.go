package traffic

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// visits hands out the visits of a plan as they come due. One worker at a time waits
// for the next instant, the others wait for their turn to wait: so there is one alarm,
// and visits leave in order.
type visits struct {
	plan  []Visit
	taken atomic.Int64 // of the plan
	turn  chan struct{}
	alarm alarm // of the one whose turn it is
	now   func() time.Duration

	idle   atomic.Int64 // workers that wait for a visit
	busy   atomic.Int64 // visits that are under way
	full   int64        // so many busy workers are nearly all
	queued atomic.Int64 // visits that were due, and no worker was there to take them
}

// busyShare is the part of the connections for visits that is taken for all of them:
// some are always being opened anew.
const busyShare = 0.9

func newVisits(plan []Visit, now func() time.Duration, a alarm) *visits {
	v := &visits{plan: plan, turn: make(chan struct{}, 1), alarm: a, now: now}
	v.turn <- struct{}{}
	return v
}

// next waits until the next visit is due and puts it into s. It reports whether there
// was one before ctx ended.
func (v *visits) next(ctx context.Context, s *Step) bool {
	if ok, over := v.claim(s); ok || over {
		if ok && v.idle.Load() == 0 && v.busy.Load() >= v.full {
			v.queued.Add(1)
		}
		return ok
	}
	v.idle.Add(1)
	defer v.idle.Add(-1)
	select {
	case <-v.turn:
	case <-ctx.Done():
		return false
	}
	defer func() { v.turn <- struct{}{} }()
	for ctx.Err() == nil {
		if ok, over := v.claim(s); ok || over {
			return ok
		}
		if wait := v.due() - v.now(); wait > 0 {
			v.alarm.wait(wait)
		}
	}
	return false
}

// claim takes the next visit if it is due. over says that there is none any more.
func (v *visits) claim(s *Step) (ok, over bool) {
	for {
		i := v.taken.Load()
		if i >= int64(len(v.plan)) {
			return false, true
		}
		visit := &v.plan[i]
		if visit.At > v.now() {
			return false, false
		}
		if v.taken.CompareAndSwap(i, i+1) {
			v.busy.Add(1)
			*s = Step{Due: visit.At, Kind: visit.Kind, Buyer: visit.Buyer, Click: visit.Click}
			return true, false
		}
	}
}

// due returns when the next visit is due, or an instant that has passed.
func (v *visits) due() time.Duration {
	if i := v.taken.Load(); i < int64(len(v.plan)) {
		return v.plan[i].At
	}
	return v.now()
}

// answered is told of each visit that is over.
func (v *visits) answered() { v.busy.Add(-1) }

// mostFollowing bounds how many steps may wait to follow.
const mostFollowing = 1 << 20

// following hands out what follows from visits as it comes due. It is over when the
// plan is and nothing waits or is under way.
type following struct {
	now   func() time.Duration
	turn  chan struct{}
	alarm alarm // of the one whose turn it is
	over  chan struct{}

	mu        sync.Mutex
	steps     []Step // a heap: the first is due first
	open      int    // steps that wait or are under way, and one for the plan
	abandoned int64
	closed    bool
}

func newFollowing(now func() time.Duration, a alarm) *following {
	f := &following{now: now, turn: make(chan struct{}, 1), alarm: a, over: make(chan struct{}), open: 1}
	f.turn <- struct{}{}
	return f
}

// push lets a step follow. One too many, or too late, is abandoned.
func (f *following) push(s *Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.steps) == mostFollowing {
		f.abandoned++
		return
	}
	f.open++
	f.steps = append(f.steps, *s)
	if f.rise(len(f.steps)-1) == 0 {
		f.alarm.ring()
	}
}

// answered is told of each step that is over, after what follows from it was pushed;
// and once that the plan is.
func (f *following) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open--; f.open == 0 {
		f.end()
	}
}

// end lets nobody wait any more. The caller holds the lock.
func (f *following) end() {
	if !f.closed {
		f.closed = true
		close(f.over)
		f.alarm.ring()
	}
}

// abandon ends it, whatever is left, and returns how many steps were abandoned.
func (f *following) abandon() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandoned += int64(len(f.steps))
	f.steps = nil
	f.end()
	return f.abandoned
}

// next waits until a step is due and puts it into s. It reports whether there was one
// before ctx or the whole ended.
func (f *following) next(ctx context.Context, s *Step) bool {
	select {
	case <-f.turn:
	case <-f.over:
		return false
	case <-ctx.Done():
		return false
	}
	defer func() { f.turn <- struct{}{} }()
	for ctx.Err() == nil {
		wait, ok := f.pop(s)
		if ok || wait < 0 {
			return ok
		}
		f.alarm.wait(wait)
	}
	return false
}

// pop takes the first step if it is due, or says how long it is until then; less
// than nothing is for ever.
func (f *following) pop(s *Step) (wait time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return -1, false
	case len(f.steps) == 0:
		return time.Hour, false // somebody will ring
	}
	if wait = f.steps[0].Due - f.now(); wait > 0 {
		return wait, false
	}
	*s = f.steps[0]
	last := len(f.steps) - 1
	f.steps[0], f.steps[last] = f.steps[last], Step{}
	f.steps = f.steps[:last]
	f.sink()
	return 0, true
}

// rise moves a step up in the heap to its place, which it returns.
func (f *following) rise(i int) int {
	for i > 0 {
		above := (i - 1) / 2
		if f.steps[above].Due <= f.steps[i].Due {
			break
		}
		f.steps[above], f.steps[i] = f.steps[i], f.steps[above]
		i = above
	}
	return i
}

// sink moves the first step down in the heap to its place.
func (f *following) sink() {
	for i := 0; ; {
		below := 2*i + 1
		if below >= len(f.steps) {
			return
		}
		if below+1 < len(f.steps) && f.steps[below+1].Due < f.steps[below].Due {
			below++
		}
		if f.steps[i].Due <= f.steps[below].Due {
			return
		}
		f.steps[i], f.steps[below] = f.steps[below], f.steps[i]
		i = below
	}
}
