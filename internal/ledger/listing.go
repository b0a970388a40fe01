package ledger

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// gateDesk is the judge's desk during one transaction on the gate.
type gateDesk struct {
	now time.Time
	out GateChanges
}

// onGate runs work at the gate's desk and writes what it decided, all in one
// transaction, then tells the watchers.
func (b *Book) onGate(ctx context.Context, work func(Tx, *gateDesk) error) error {
	changed := int64(0)
	err := b.store.Update(ctx, func(tx Tx) error {
		changed = 0
		version, err := tx.LockGate(ctx)
		if err != nil {
			return err
		}
		g := &gateDesk{now: tx.Now(), out: GateChanges{From: version, Version: version}}
		if err := work(tx, g); err != nil || g.out.Version == version {
			return err
		}
		changed = g.out.Version
		return tx.WriteGate(ctx, &g.out)
	})
	if err == nil && changed > 0 {
		b.watchers.tellGate(changed)
	}
	return err
}

// next raises the gate's version and returns it.
func (g *gateDesk) next() int64 {
	g.out.Version++
	return g.out.Version
}

// enter writes a listing and returns it as it is kept.
func (g *gateDesk) enter(l Listing) Listing {
	l.Version = g.next()
	g.out.Listings = append(g.out.Listings, l)
	return l
}

func refusedChange(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConstraint, fmt.Sprintf(format, args...))
}

// room refuses more listings in force than most.
func (g *gateDesk) room(ctx context.Context, r Reader, more, most int) error {
	if more == 0 {
		return nil
	}
	n, err := r.CountListings(ctx, g.now)
	if err != nil {
		return err
	}
	if n+more > most {
		return &sale.Error{
			Code: sale.CodeListingsFull, Message: fmt.Sprintf("the gate's lists hold %d entries, and can hold %d", n, most),
			Hint: "drop listings that are not needed, list networks instead of addresses, or let bans end sooner",
		}
	}
	return nil
}

// GateVersion implements Gate.
func (b *Book) GateVersion(ctx context.Context) (int64, error) {
	return b.store.Read().GateVersion(ctx)
}

// Listings implements Gate.
func (b *Book) Listings(ctx context.Context, after int64, limit int) ([]Listing, error) {
	return b.store.Read().Listings(ctx, after, page(limit))
}

// PutListing implements Gate.
func (b *Book) PutListing(ctx context.Context, l Listing) (Listing, error) {
	next, err := checkListing(&l)
	if err != nil {
		return Listing{}, err
	}
	var kept Listing
	err = b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		if !next.ExpiresAt.IsZero() && !g.now.Before(next.ExpiresAt) {
			return sale.Invalid("expires_at", "a listing ends in the future", "name a later time, or none for a listing without an end")
		}
		found, readErr := tx.ListingsOf(ctx, []Subject{next.Subject})
		if readErr != nil {
			return readErr
		}
		old, known := found[next.Subject]
		fresh := 1
		if known && old.InForce(g.now) {
			fresh = 0
			same := next
			same.CreatedAt, same.Version = old.CreatedAt, old.Version
			if old == same {
				kept = old
				return nil
			}
		}
		if roomErr := g.room(ctx, tx, fresh, MaxListings); roomErr != nil {
			return roomErr
		}
		entered := next
		entered.CreatedAt = g.now
		kept = g.enter(entered)
		return nil
	})
	if err != nil {
		return Listing{}, err
	}
	return kept, nil
}

// checkListing returns what an operator says in l, as it can be kept.
func checkListing(l *Listing) (Listing, error) {
	subject, err := l.Subject.Canonical()
	if err != nil {
		return Listing{}, err
	}
	switch l.Effect {
	case EffectDeny, EffectAllow, EffectChallenge:
	default:
		return Listing{}, sale.Invalid("effect", "the effect is unknown", "use deny, allow or challenge")
	}
	if err := sale.CheckLine("reason", l.Reason, MaxReason); err != nil {
		return Listing{}, err
	}
	if err := checkAuthor(l.Author); err != nil {
		return Listing{}, err
	}
	return Listing{Subject: subject, Effect: l.Effect, Reason: l.Reason, Author: l.Author, ExpiresAt: instant(l.ExpiresAt)}, nil
}

// checkAuthor refuses an operator without a name of his own.
func checkAuthor(author string) error {
	switch {
	case author == "":
		return sale.Invalid("author", "nobody is named as the author", "say who does this")
	case len(author) > MaxAuthor:
		return sale.Invalid("author", "the author's name is longer than 128 bytes", "use a shorter name")
	case author == GateAuthor:
		return sale.Invalid("author", "this is the name under which the gate itself acts", "use another name")
	}
	return sale.CheckLine("author", author, MaxAuthor)
}

// Canonical returns the one way in which a subject is kept, and refuses what is
// none: CodeInvalid. A network may be given as an address, which is a network of
// one, and an IPv4 network as a part of IPv6.
func (s Subject) Canonical() (Subject, error) {
	switch s.Kind {
	case SubjectUser:
		return s, sale.CheckUser(s.Value)
	case SubjectDevice:
		return s, checkDevice(s.Value)
	case SubjectNetwork:
		return canonicalNetwork(s.Value)
	}
	return s, sale.Invalid("kind", "the kind of subject is unknown", "use user, device or network")
}

func checkDevice(id string) error {
	bad := sale.Invalid("value", "a device's id has 1 to 64 visible ASCII characters", "copy it as the gate shows it")
	if len(id) == 0 || len(id) > MaxDevice {
		return bad
	}
	for i := range len(id) {
		if id[i] < '!' || id[i] > '~' {
			return bad
		}
	}
	return nil
}

func canonicalNetwork(text string) (Subject, error) {
	bad := sale.Invalid("value", "this is no network", "write an address, or a network such as 203.0.113.0/24 or 2001:db8::/64")
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, addrErr := netip.ParseAddr(text)
		if addrErr != nil || addr.Zone() != "" {
			return Subject{}, bad
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	network := NetworkOf(prefix)
	if Unmapped(prefix).Masked() != Unmapped(prefix) {
		bad.Message = "the address has bits beyond the network's prefix"
		bad.Hint = "write " + network.Value + " for the network, or leave the prefix out for the address alone"
		return Subject{}, bad
	}
	return network, nil
}

// NetworkOf returns the network that a valid prefix names, in canonical form: bits
// beyond the prefix are dropped, and a part of IPv6 that stands for IPv4 is IPv4.
func NetworkOf(p netip.Prefix) Subject {
	return Subject{Kind: SubjectNetwork, Value: Unmapped(p).Masked().String()}
}

// Unmapped writes an IPv4 network as such. A prefix shorter than the one that all of
// IPv4 shares within IPv6 names more than IPv4, and stays, as what is no prefix does.
func Unmapped(p netip.Prefix) netip.Prefix {
	const shared = 96
	if !p.Addr().Is4In6() || p.Bits() < shared {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-shared)
}

// DropListing implements Gate.
func (b *Book) DropListing(ctx context.Context, s Subject, author string) (Listing, error) {
	s, err := s.Canonical()
	if err != nil {
		return Listing{}, err
	}
	if err = checkAuthor(author); err != nil {
		return Listing{}, err
	}
	var kept Listing
	err = b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		found, readErr := tx.ListingsOf(ctx, []Subject{s})
		if readErr != nil {
			return readErr
		}
		l, known := found[s]
		if !known || !l.InForce(g.now) {
			return sale.ListingNotFound()
		}
		l.Author, l.Dropped, l.ExpiresAt = author, true, g.now
		kept = g.enter(l)
		return nil
	})
	if err != nil {
		return Listing{}, err
	}
	return kept, nil
}

// Ban implements Gate.
func (b *Book) Ban(ctx context.Context, offences []Offence) ([]Listing, error) {
	offences, subjects, err := checkOffences(offences)
	if err != nil || len(offences) == 0 {
		return nil, err
	}
	out := make([]Listing, len(offences))
	err = b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		stand, readErr := tx.ListingsOf(ctx, subjects)
		if readErr != nil {
			return readErr
		}
		more, sentenced := 0, make(map[Subject]bool)
		for i := range offences {
			s := subjects[i]
			old, known := stand[s]
			running := known && old.InForce(g.now)
			if running && !offences[i].outranks(&old) {
				continue
			}
			if !running {
				more++
			}
			stand[s], sentenced[s] = offences[i].sentence(&old, g.now), true
		}
		if roomErr := g.room(ctx, tx, more, MaxListings-ListingsOfOperators); roomErr != nil {
			return roomErr
		}
		for i, s := range subjects {
			if sentenced[s] {
				stand[s] = g.enter(stand[s])
				delete(sentenced, s)
			}
			out[i] = stand[s]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkOffences returns offences with canonical subjects, and these alone.
func checkOffences(offences []Offence) ([]Offence, []Subject, error) {
	if len(offences) > MaxOffences {
		return nil, nil, sale.Invalid("offences", fmt.Sprintf("there are more than %d offences", MaxOffences), "send them in parts")
	}
	out, subjects := make([]Offence, len(offences)), make([]Subject, len(offences))
	for i, o := range offences {
		var err error
		if o.Subject, err = o.Subject.Canonical(); err != nil {
			return nil, nil, err
		}
		if o.Effect != EffectDeny && o.Effect != EffectChallenge {
			return nil, nil, sale.Invalid("effect", "an offence is answered by a deny or a challenge", "")
		}
		if err := sale.CheckLine("reason", o.Reason, MaxReason); err != nil {
			return nil, nil, err
		}
		if o.Base, o.Max = span(o.Base), span(o.Max); o.Base <= 0 || o.Max < o.Base || o.Memory < 0 {
			return nil, nil, sale.Invalid("base", "the times of a ban are out of order", "base is a millisecond or more, max no less than base, memory not negative")
		}
		out[i], subjects[i] = o, o.Subject
	}
	return out, subjects, nil
}

// outranks reports whether the offence replaces a listing that is in force.
func (o *Offence) outranks(l *Listing) bool {
	return l.Author == GateAuthor && l.Effect == EffectChallenge && o.Effect == EffectDeny
}

// sentence returns the listing that answers an offence. old is the one that its
// subject had before, or the zero value. One that was dropped bears the name of who
// did it, and so counts for nothing.
func (o *Offence) sentence(old *Listing, now time.Time) Listing {
	level := 0
	switch {
	case old.Author != GateAuthor:
	case old.InForce(now):
		level = old.Level
	case now.Sub(old.ExpiresAt) < o.Memory:
		level = old.Level + 1
	}
	return Listing{
		Subject: o.Subject, Effect: o.Effect, Reason: o.Reason, Author: GateAuthor, Level: level,
		CreatedAt: now, ExpiresAt: now.Add(doubled(o.Base, o.Max, level)),
	}
}

// doubled returns a time doubled so many times, at most max.
func doubled(base, most time.Duration, times int) time.Duration {
	for ; times > 0 && base < most; times-- {
		base = min(base, most-base) + base
	}
	return base
}

// PruneListings implements Gate.
func (b *Book) PruneListings(ctx context.Context, before time.Time, limit int) (int, error) {
	n := 0
	err := b.onGate(ctx, func(tx Tx, g *gateDesk) (err error) {
		if before.After(g.now) { // nothing that is in force
			before = g.now
		}
		n, err = tx.PruneListings(ctx, before, page(limit))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
