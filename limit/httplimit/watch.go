package httplimit

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Stray tells of a forwarded header that was not believed.
type Stray struct {
	// Peer is the network, as of Network, that the header came from.
	Peer netip.Prefix
	// Header is the name of the header.
	Header string
	// Configured reports that the peer is one of the proxies: it names its clients in
	// a header that is never believed, and not in X-Forwarded-For, so they all count
	// as one.
	Configured bool
}

// DefaultWatch is how many networks a Watch remembers if nothing else is said.
const DefaultWatch = 256

// Watch finds requests with forwarded headers that the configuration ignores, so that
// an operator who forgot a proxy hears of it. Each network is told of once. Create it
// with NewWatch; it is safe for concurrent use.
type Watch struct {
	most int
	full atomic.Bool
	mu   sync.RWMutex
	seen map[netip.Prefix]struct{}
}

// NewWatch returns a Watch that tells of at most so many networks and is silent from
// then on; 0 takes DefaultWatch.
func NewWatch(most int) *Watch {
	if most <= 0 {
		most = DefaultWatch
	}
	return &Watch{most: most, seen: make(map[netip.Prefix]struct{})}
}

// Look returns what is to be told of this request: true at the first stray header of
// a network.
func (w *Watch) Look(p Proxies, r *http.Request) (Stray, bool) {
	if w.full.Load() {
		return Stray{}, false
	}
	name := forwardedHeader(r.Header)
	if name == "" {
		return Stray{}, false
	}
	peer := PeerIP(r)
	configured := p.Trust(peer)
	if configured && name == forwardedFor {
		return Stray{}, false
	}
	s := Stray{Peer: Network(peer), Header: name, Configured: configured}
	return s, w.first(s.Peer)
}

// first reports whether the network is new, and remembers it.
func (w *Watch) first(n netip.Prefix) bool {
	w.mu.RLock()
	_, known := w.seen[n]
	w.mu.RUnlock()
	if known {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known = w.seen[n]; known || len(w.seen) >= w.most {
		return false
	}
	w.seen[n] = struct{}{}
	w.full.Store(len(w.seen) >= w.most)
	return true
}

// forwardedHeader returns the name of a header by which proxies tell of a client, or
// nothing. X-Forwarded-For comes first, as the one that can be believed.
func forwardedHeader(h http.Header) string {
	for _, name := range [...]string{forwardedFor, "X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip"} {
		if len(h[name]) > 0 {
			return name
		}
	}
	return ""
}
