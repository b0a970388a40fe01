package httpapi

import (
	"context"
	"net/netip"
	"sync"

	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/event"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// streams knows every open stream: it keeps the caps, and one hub for each sale
// that somebody listens to. All of them end when the feed is closed.
type streams struct {
	api  *API
	feed *event.Feed
	caps *caps

	mu   sync.Mutex
	hubs map[sale.Number]*hub
}

func newStreams(a *API, feed *event.Feed, limits StreamLimits) *streams {
	return &streams{
		api: a, feed: feed, caps: newCaps(limits.Total, limits.PerIP, limits.PerUser), hubs: make(map[sale.Number]*hub),
	}
}

// open returns how many streams there are.
func (s *streams) open() int { return s.caps.count() }

// admit counts a stream in, or refuses it: CodeBusy where the whole is full,
// too_many_streams where one address or user has too many.
func (s *streams) admit(from netip.Prefix, user string) error {
	switch s.caps.admit(from, user) {
	case admitted:
		s.api.metrics.Streams.Inc()
		return nil
	case full:
		s.api.metrics.StreamsRefused.Inc()
		return sale.Busy()
	case tooMany:
	}
	s.api.metrics.StreamsRefused.Inc()
	return &sale.Error{
		Code: codeTooManyStreams, Message: "too many streams are open from this address or for this buyer",
		Hint: "one stream a page is enough; close the others, or poll the sale", Retry: true,
	}
}

func (s *streams) release(from netip.Prefix, user string) {
	s.caps.release(from, user)
	s.api.metrics.Streams.Dec()
}

// listen joins the hub of a sale, starting it for the first listener.
func (s *streams) listen(ctx context.Context, v *engine.View, l *listener) (*hub, error) {
	if h := s.join(v.Number, l); h != nil {
		return h, nil
	}
	acts, err := s.feed.Subscribe(ctx, v.Number, 0, event.Public())
	if err != nil {
		return nil, err
	}
	fresh := &hub{api: s.api, number: v.Number, slug: v.Slug, done: make(chan struct{}), listeners: make(map[*listener]struct{})}
	fresh.show(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hubs[v.Number]; h != nil { // somebody else was first
		acts.Close()
		h.join(l)
		return h, nil
	}
	s.hubs[v.Number] = fresh
	fresh.join(l)
	go fresh.run(context.WithoutCancel(ctx), acts)
	return fresh, nil
}

func (s *streams) join(n sale.Number, l *listener) *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[n]
	if h != nil {
		h.join(l)
	}
	return h
}

// leaveIdle takes a hub out if nobody listens to it; nobody can join meanwhile.
func (s *streams) leaveIdle(h *hub) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.count() > 0 {
		return false
	}
	delete(s.hubs, h.number)
	return true
}

// retire takes a hub that has ended out, so that the next listener starts
// another, and ends the streams that still listen to it.
func (s *streams) retire(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hubs[h.number] == h {
		delete(s.hubs, h.number)
	}
	close(h.done)
}
