package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is the one header whose entries are believed, in the form in which
// http.Header keeps it.
const forwardedFor = "X-Forwarded-For"

// maxHops bounds how many entries of configured proxies are walked through. A chain
// that long is a loop or an attack; its walk ends where it has come to.
const maxHops = 32

// Proxies are the networks of the operator's own proxies. The zero value has none:
// then every request comes from its peer. Proxies are immutable and safe for
// concurrent use.
type Proxies struct{ networks []netip.Prefix }

// NewProxies returns the proxies of these networks. A network of IPv4-mapped
// addresses is the same as the IPv4 network; invalid ones match nothing.
func NewProxies(networks ...netip.Prefix) Proxies {
	p := Proxies{networks: make([]netip.Prefix, 0, len(networks))}
	for _, n := range networks {
		if a := n.Addr(); a.Is4In6() && n.Bits() >= mappedBits {
			n = netip.PrefixFrom(a.Unmap(), n.Bits()-mappedBits)
		}
		if n.IsValid() {
			p.networks = append(p.networks, n.Masked())
		}
	}
	return p
}

// mappedBits is the length of the prefix of IPv4-mapped addresses, ::ffff:0:0/96.
const mappedBits = 96

// ParseProxies reads addresses, such as 192.0.2.7, and networks, such as 10.0.0.0/8.
func ParseProxies(list ...string) (Proxies, error) {
	networks := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil || addr.Zone() != "" {
				return Proxies{}, fmt.Errorf("httplimit: the proxy %q is neither an address nor a network", text)
			}
			network = netip.PrefixFrom(addr, addr.BitLen())
		}
		networks = append(networks, network)
	}
	return NewProxies(networks...), nil
}

// Trust reports whether a is one of the proxies.
func (p Proxies) Trust(a netip.Addr) bool {
	a = plain(a)
	for _, n := range p.networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// ClientIP returns the address that the request comes from: the right-most hop that
// is no configured proxy, without zone, and as IPv4 if it is an IPv4-mapped address.
// An entry that cannot be read ends the walk at the hop that reported it. The zero
// address only if the peer itself has none, as on a Unix socket.
func (p Proxies) ClientIP(r *http.Request) netip.Addr {
	client := PeerIP(r)
	if len(p.networks) == 0 || !p.Trust(client) {
		return client
	}
	hops := 0
	for _, line := range slices.Backward(r.Header[forwardedFor]) {
		for more := true; more; {
			if hops++; hops > maxHops {
				return client
			}
			var last string
			line, last, more = cutLast(line)
			hop, ok := parseHop(last)
			if !ok {
				return client
			}
			client = hop
			if !p.Trust(client) {
				return client
			}
		}
	}
	return client
}

// cutLast cuts the last entry off a list; more reports whether others are left.
func cutLast(list string) (rest, last string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return "", list, false
}

// PeerIP returns the address at the other end of the connection, as ClientIP does
// where no proxy is configured.
func PeerIP(r *http.Request) netip.Addr {
	peer, _ := parseHop(r.RemoteAddr)
	return peer
}

// longestHop is what an entry can need: an IPv6 address in its longest form, with
// brackets and a port, and a zone of a length that occurs.
const longestHop = 96

// parseHop reads an address with or without port and brackets. The unspecified
// address is a proxy's word for one it does not know, so it is none.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.Trim(text, " \t")
	if text == "" || len(text) > longestHop {
		return netip.Addr{}, false
	}
	addr, err := parseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	addr = plain(addr)
	if addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	return addr, true
}

// parseAddr reads [v6], [v6]:port, v4:port and bare addresses. It tries only what the
// text can be, since a failure costs an allocation.
func parseAddr(text string) (netip.Addr, error) {
	if n := len(text); text[0] == '[' && text[n-1] == ']' {
		return netip.ParseAddr(text[1 : n-1])
	}
	if text[0] == '[' || strings.Count(text, ":") == 1 {
		with, err := netip.ParseAddrPort(text)
		return with.Addr(), err
	}
	return netip.ParseAddr(text)
}

// plain gives an address its one form.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
