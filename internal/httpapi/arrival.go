package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// arrive asks the limits by address, before anything is done for the request. The
// house itself is not asked. A shop's servers share few addresses, so whoever claims an
// API key where one has come from lately is let by, and counted if it is none.
func (x *exchange) arrive(ctx context.Context) error {
	a := x.api
	a.lookForStrays(ctx, x.r)
	x.guest.ip = a.clientIP(x.r)
	if a.gate == nil || x.route.class == nil {
		return nil
	}
	if x.guest.inside = a.gate.Inside(httplimit.PeerIP(x.r)) && !forwarded(x.r.Header) && !proxied(ctx); x.guest.inside {
		return nil
	}
	// Routes for everybody look at no key, and would never find out that it is none.
	if x.guest.key = x.route.scope > maybeBuyer && auth.BringsKey(x.r.Header["Authorization"]) && a.shops.has(bucket(x.guest.ip), x.begun); x.guest.key {
		return nil
	}
	return a.gate.Arrive(ctx, x.route.class.name, x.guest.ip)
}

// identified remembers where API keys come from, and counts a request at last that was
// let by with one that is none, so that guessing them is no way around the limits by
// address. err is what became of the request's credentials.
func (x *exchange) identified(ctx context.Context, err error) error {
	switch {
	case x.api.gate == nil:
	case err == nil && x.who != nil && x.who.KeyID != "":
		x.api.shops.add(bucket(x.guest.ip), x.begun)
	case x.guest.key && sale.CodeOf(err) == sale.CodeUnauthenticated:
		if refusal := x.api.gate.Arrive(ctx, x.route.class.name, x.guest.ip); refusal != nil {
			return refusal
		}
	}
	return err
}

// forwarded reports whether something between tells of a client: then the connection
// is not the client's own, whoever is believed.
func forwarded(h http.Header) bool {
	for name := range h {
		switch name {
		case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For",
			"Cf-Connecting-Ip", "Fastly-Client-Ip", "True-Client-Ip":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// proxiedKey marks the context of a connection that a header of the PROXY protocol
// speaks for.
type proxiedKey struct{}

// ConnContext is to be the ConnContext of a server that listens on ProxyProtocol: it
// tells connections that speak for themselves from those whose address is what a proxy
// says.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if _, is := c.(*proxyproto.Conn); is {
		return context.WithValue(ctx, proxiedKey{}, true)
	}
	return ctx
}

func proxied(ctx context.Context) bool { return ctx.Value(proxiedKey{}) != nil }

// shops remembers the networks from which an API key came that was one, for one to two
// times shopsFor. It is safe for concurrent use.
type shops struct {
	mu       sync.RWMutex
	turn     time.Time // when the young become old
	now, old map[netip.Prefix]struct{}
}

const (
	shopsFor = 10 * time.Minute
	maxShops = 4096 // in a generation
)

func newShops() *shops {
	return &shops{now: make(map[netip.Prefix]struct{}), old: make(map[netip.Prefix]struct{})}
}

func (s *shops) has(n netip.Prefix, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, young := s.now[n]
	_, old := s.old[n]
	return n.IsValid() && (young || old) && now.Before(s.turn.Add(shopsFor))
}

func (s *shops) add(n netip.Prefix, now time.Time) {
	s.mu.RLock()
	_, young := s.now[n]
	fresh := now.Before(s.turn)
	s.mu.RUnlock()
	if young && fresh || !n.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.turn) {
		if s.old = s.now; !now.Before(s.turn.Add(shopsFor)) {
			clear(s.old)
		}
		s.now, s.turn = make(map[netip.Prefix]struct{}), now.Add(shopsFor)
	}
	if len(s.now) < maxShops {
		s.now[n] = struct{}{}
	}
}
