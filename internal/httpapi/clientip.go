package httpapi

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/doorbuster/doorbuster/limit/httplimit"
)

func parseProxies(list []string) (httplimit.Proxies, error) {
	p, err := httplimit.ParseProxies(list...)
	if err != nil {
		return p, fmt.Errorf("httpapi: trusted proxies: %w", err)
	}
	return p, nil
}

// clientIP returns the address that the request comes from: the right-most hop
// that is no trusted proxy. The zero address if even the peer is unknown.
func (a *API) clientIP(r *http.Request) netip.Addr { return a.proxies.ClientIP(r) }

// bucket returns what a cap per address counts by: an IPv4 address, or the /64
// of an IPv6 address.
func bucket(a netip.Addr) netip.Prefix { return httplimit.Network(a) }
