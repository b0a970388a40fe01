package httpapi

import (
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/doorbuster/doorbuster/limit/httplimit"
)

// ProxyHeaderTimeout is how long a proxy may take to send its header after it has
// connected, if nothing else is said.
const ProxyHeaderTimeout = 2 * time.Second

// ProxyProtocol returns a listener whose connections from trusted peers begin with a
// header of the PROXY protocol, version 1 or 2, and have the address that it names.
// Such a peer must send one: who guesses whether there is a header takes a client's
// bytes for one. A header that is missing, damaged, longer than 4 KiB or not there
// within the timeout (0 takes ProxyHeaderTimeout) ends the connection. A peer that
// speaks for itself (LOCAL, as in health checks), or of a client without an IP
// address (UNKNOWN, a Unix socket), keeps its own address.
//
// Connections from all others are left alone, so their headers are no HTTP requests
// and get 400. The header is read at the first use of a connection, never by Accept.
func ProxyProtocol(l net.Listener, trusted httplimit.Proxies, timeout time.Duration) net.Listener {
	if timeout <= 0 {
		timeout = ProxyHeaderTimeout
	}
	return &proxyproto.Listener{
		Listener: l, ReadHeaderTimeout: timeout,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if peer, ok := addrOf(o.Upstream); ok && trusted.Trust(peer) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
		ValidateHeader: func(h *proxyproto.Header) error {
			if _, ok := addrOf(h.SourceAddr); !ok {
				h.Command = proxyproto.LOCAL
			}
			return nil
		},
	}
}

// addrOf returns the IP address of a TCP endpoint.
func addrOf(a net.Addr) (netip.Addr, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	addr := tcp.AddrPort().Addr()
	return addr, addr.IsValid() && !addr.Unmap().IsUnspecified()
}
