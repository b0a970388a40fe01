package httplimit

import "net/netip"

// How many bits of an address tell one party from another.
const (
	networkBits4, subnetBits4 = 32, 24
	networkBits6, subnetBits6 = 64, 48
)

// Network returns what one household or server has to itself: an IPv4 address (/32)
// or the /64 of an IPv6 address. IPv4-mapped addresses are IPv4 addresses, and zones
// do not count. The zero prefix for the zero address.
func Network(a netip.Addr) netip.Prefix { return cut(a, networkBits4, networkBits6) }

// Subnet returns the /24 of an IPv4 address or the /48 of an IPv6 address, which
// mostly belong to one customer or one machine room. The zero prefix for the zero
// address.
func Subnet(a netip.Addr) netip.Prefix { return cut(a, subnetBits4, subnetBits6) }

func cut(a netip.Addr, bits4, bits6 int) netip.Prefix {
	a = plain(a)
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	p, err := a.Prefix(bits)
	if err != nil { // the zero address
		return netip.Prefix{}
	}
	return p
}
