package lock

import (
	"context"
	"sync"
	"time"
)

// linger is how long a subscription outlives its last waiter: a busy name has
// another one soon.
const linger = 10 * time.Second

// topics keeps one subscription for each topic that somebody waits on. A lost
// subscription is made again; until then waiters find their grants by asking.
type topics struct {
	l    *Locker
	mu   sync.Mutex
	open map[string]*topic
}

type topic struct {
	refs   int
	idle   *time.Timer
	cancel context.CancelFunc
}

func (t *topics) init(l *Locker) { t.l, t.open = l, map[string]*topic{} }

func (t *topics) join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.open[name]; one != nil {
		one.refs++
		return
	}
	if !t.l.begin() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // it is not only for the one who is first
	t.open[name] = &topic{refs: 1, cancel: cancel}
	go func() {
		defer t.l.work.Done()
		t.listen(ctx, name)
	}()
}

func (t *topics) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[name]
	if one == nil {
		return
	}
	if one.refs--; one.refs == 0 {
		if one.idle != nil {
			one.idle.Stop()
		}
		one.idle = time.AfterFunc(linger, func() { t.retire(name, one) })
	}
}

func (t *topics) retire(name string, one *topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.refs == 0 && t.open[name] == one {
		delete(t.open, name)
		one.cancel()
	}
}

func (t *topics) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, one := range t.open {
		if one.idle != nil {
			one.idle.Stop()
		}
		delete(t.open, name)
		one.cancel()
	}
}

// listen subscribes again and again until ctx ends. When a subscription stands,
// those who asked before it did ask again, because their grant may have been told
// to nobody.
func (t *topics) listen(ctx context.Context, name string) {
	const first, most = 10 * time.Millisecond, time.Second
	wait := first
	for {
		_ = t.l.store.Subscribe(ctx, name, func() {
			wait = first
			t.l.waiters.nudge(name)
		}, t.l.waiters.wake)
		if ctx.Err() != nil || !rest(ctx, jitter(wait)) {
			return
		}
		wait = min(2*wait, most)
	}
}
