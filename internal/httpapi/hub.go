package httpapi

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// frameInterval is the least time between two looks at a sale.
	frameInterval = 250 * time.Millisecond
	// maxFrameRate bounds the messages a second that one sale's changes cause;
	// with more listeners the looks become rarer.
	maxFrameRate = 10_000
	// lookTime bounds one look.
	lookTime = 2 * time.Second
)

// hub follows one sale for all who listen to it: one reader, one rendering,
// however many streams there are.
type hub struct {
	api    *API
	number sale.Number
	slug   string
	done   chan struct{} // closed when the hub has ended; its streams end too

	mu        sync.Mutex
	listeners map[*listener]struct{}
	frame     *frame // the sale as last told
}

// frame is the sale in the form of one message.
type frame struct {
	etag string
	text []byte
}

// listener is one stream's place at a hub. It holds the newest frame only, so a
// slow reader skips states and never falls behind.
type listener struct {
	wake chan struct{}
	mu   sync.Mutex
	next *frame // nil if the stream has written the newest
}

func newListener() *listener { return &listener{wake: make(chan struct{}, 1)} }

func (l *listener) show(f *frame) {
	l.mu.Lock()
	l.next = f
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() *frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.next
	l.next = nil
	return f
}

// run follows the sale until nobody listens, the sale is gone, or the feed ends.
func (h *hub) run(ctx context.Context, acts *event.Subscription) {
	defer h.api.streams.retire(h)
	defer acts.Close()
	tick := time.NewTimer(frameInterval)
	defer tick.Stop()
	for {
		select {
		case _, open := <-acts.Events():
			if !open { // the feed has ended, or we were too slow: streams come back and ask again
				return
			}
			continue // an operator's act is seen at the next look
		case <-tick.C:
		}
		if err := h.look(ctx); err != nil {
			return
		}
		listening := h.count()
		if listening == 0 && h.api.streams.leaveIdle(h) {
			return
		}
		tick.Reset(max(frameInterval, time.Duration(listening)*time.Second/maxFrameRate))
	}
}

var errGone = errors.New("httpapi: the sale is gone")

// look reads the sale and tells the listeners if it has changed. Passing trouble
// leaves things as they are.
func (h *hub) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	v, err := h.api.engine.Sale(ctx, h.slug)
	switch {
	case err == nil && v.Number != h.number, err != nil && sale.CodeOf(err) == sale.CodeSaleNotFound:
		return errGone
	case err == nil:
		h.show(v)
	}
	return nil
}

// show hands a sale out if it differs from what was told last.
func (h *hub) show(v *engine.View) {
	p := h.api.pages.sale(v, h.api.engine.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frame != nil && h.frame.etag == p.etag[0] {
		return
	}
	h.frame = &frame{etag: p.etag[0], text: append(message("sale", p.body), '\n')}
	for l := range h.listeners {
		l.show(h.frame)
	}
}

// join adds a listener and shows it the sale at once.
func (h *hub) join(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = struct{}{}
	l.show(h.frame)
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners)
}

// message writes a message of the stream without the blank line that ends it.
func message(kind string, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + kind + "\ndata: ")
	b.Write(data) // JSON has no line breaks of its own
	b.WriteString("\n")
	return b.Bytes()
}
