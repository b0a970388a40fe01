package lock

import (
	"runtime"
	"sync"
	"time"
)

// signal wakes a waiter. With a fence it is a grant, whose lease began not before
// sent; without one it means: ask again.
type signal taken

// waiters knows who waits in this process.
type waiters struct {
	mu   sync.Mutex
	here map[Owner]waiter
}

type waiter struct {
	signals chan signal
	topic   string
}

func (w *waiters) init() { w.here = map[Owner]waiter{} }

// add returns the channel of a new waiter. It has room for a grant beside a call
// to ask again; what does not fit is found by asking.
func (w *waiters) add(owner Owner, topic string) chan signal {
	signals := make(chan signal, 2)
	w.mu.Lock()
	w.here[owner] = waiter{signals: signals, topic: topic}
	w.mu.Unlock()
	return signals
}

func (w *waiters) remove(owner Owner) {
	w.mu.Lock()
	delete(w.here, owner)
	w.mu.Unlock()
}

// hand tells waiters of their grants, and lets them run before whoever gave the lock
// back: they hold it now. One that has just left releases its own.
func (w *waiters) hand(grants []Handoff, sent time.Time) {
	for _, g := range grants {
		w.tell(g.Owner, signal{fence: g.Fence, sent: sent})
	}
	if len(grants) > 0 {
		runtime.Gosched()
	}
}

// wake lets one waiter ask again.
func (w *waiters) wake(owner Owner) { w.tell(owner, signal{}) }

func (w *waiters) tell(owner Owner, s signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, ok := w.here[owner]; ok {
		one.send(s)
	}
}

// nudge lets everybody who listens to a topic ask again.
func (w *waiters) nudge(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.here {
		if one.topic == topic {
			one.send(signal{})
		}
	}
}

func (w waiter) send(s signal) {
	select {
	case w.signals <- s:
	default:
	}
}
