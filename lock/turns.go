package lock

import "sync"

// turns lets callers of this process that want the same name of a store without
// topics ask one after the other: without a queue in the store, each of them would
// stand in the way of all others.
type turns struct {
	mu   sync.Mutex
	open map[string]*turn
}

type turn struct {
	refs int
	busy chan struct{} // full while somebody asks; waiting senders are served in order
}

func (t *turns) init() { t.open = map[string]*turn{} }

func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[name]
	if one == nil {
		one = &turn{busy: make(chan struct{}, 1)}
		t.open[name] = one
	}
	one.refs++
	return one
}

func (t *turns) leave(name string, one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.refs--; one.refs == 0 {
		delete(t.open, name)
	}
}
