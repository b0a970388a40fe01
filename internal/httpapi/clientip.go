package httpapi

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the networks whose X-Forwarded-For entries are believed.
type proxies []netip.Prefix

func parseProxies(list []string) (proxies, error) {
	p := make(proxies, 0, len(list))
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, fmt.Errorf("httpapi: the trusted proxy %q is neither an address nor a network", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		p = append(p, prefix.Masked())
	}
	return p, nil
}

func (p proxies) trust(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// clientIP returns the address that the request comes from: the right-most hop
// that is no trusted proxy. An entry that cannot be read ends the walk at the
// hop that reported it. The zero address if even the peer is unknown.
func (a *API) clientIP(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap().WithZone("")
	if len(a.proxies) == 0 {
		return client
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for _, text := range slices.Backward(strings.Split(line, ",")) {
			if !a.proxies.trust(client) {
				return client
			}
			hop, ok := parseHop(strings.TrimSpace(text))
			if !ok {
				return client
			}
			client = hop
		}
	}
	return client
}

// parseHop reads an address, with or without port and brackets.
func parseHop(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone(""), true
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}

// bucketBits is the part of an IPv6 address that one household or server has to
// itself.
const bucketBits = 64

// bucket returns what a cap per address counts by: an IPv4 address, or the /64
// of an IPv6 address.
func bucket(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = bucketBits
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
