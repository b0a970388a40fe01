package gate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// lists is what is known of users, devices and networks, ready for look-ups. It is
// immutable.
type lists struct {
	users, devices map[string]*ledger.Listing
	networks       map[netip.Prefix]*ledger.Listing
	bits4, bits6   []int // the lengths that occur, longest first
}

// newLists orders listings. Ranges of proxies that the operator supplied ask for a
// proof where no listing of the same network says otherwise.
func newLists(all map[ledger.Subject]ledger.Listing, ranges []netip.Prefix) *lists {
	l := &lists{
		users: map[string]*ledger.Listing{}, devices: map[string]*ledger.Listing{},
		networks: make(map[netip.Prefix]*ledger.Listing, len(ranges)),
	}
	proxy := &ledger.Listing{Effect: ledger.EffectChallenge, Reason: "known proxy range", Author: ledger.GateAuthor}
	for _, p := range ranges {
		l.networks[p.Masked()] = proxy
	}
	for subject, one := range all {
		switch subject.Kind {
		case ledger.SubjectUser:
			l.users[subject.Value] = &one
		case ledger.SubjectDevice:
			l.devices[subject.Value] = &one
		case ledger.SubjectNetwork:
			if p, err := netip.ParsePrefix(subject.Value); err == nil {
				l.networks[p.Masked()] = &one
			}
		}
	}
	for p := range l.networks {
		bits := &l.bits4
		if p.Addr().Is6() {
			bits = &l.bits6
		}
		if !slices.Contains(*bits, p.Bits()) {
			*bits = append(*bits, p.Bits())
		}
	}
	for _, bits := range [][]int{l.bits4, l.bits6} {
		slices.Sort(bits)
		slices.Reverse(bits)
	}
	return l
}

// of returns the listing that denies or allows a visit, or nil: that of the user, else
// that of the device, else that of the narrowest network. Challenges take nothing
// from it: proves reports whether any listing asks for a proof.
func (l *lists) of(v *Visit, now time.Time) (decides *ledger.Listing, proves bool) {
	heed := func(one *ledger.Listing) {
		switch {
		case one == nil || !one.InForce(now):
		case one.Effect == ledger.EffectChallenge:
			proves = true
		case decides == nil:
			decides = one
		}
	}
	heed(l.users[v.User])
	if !v.Device.IsZero() {
		heed(l.devices[v.Device.String()])
	}
	bits := l.bits4
	if v.IP.Is6() {
		bits = l.bits6
	}
	for _, n := range bits {
		if p, err := v.IP.Prefix(n); err == nil && p.IsValid() {
			heed(l.networks[p])
		}
	}
	return decides, proves
}
