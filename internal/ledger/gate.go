package ledger

import (
	"context"
	"time"
)

// Gate keeps what the doorkeepers of all instances share: listings, settings and
// the secrets that they sign with. Every change raises one growing number, so that
// an instance knows with one cheap look whether it must read again.
//
// Acts of operators name their author, who is never GateAuthor; what the gate does
// by itself bears that name.
type Gate interface {
	// GateVersion returns the number of the last change; 0 before the first.
	GateVersion(ctx context.Context) (int64, error)

	// Listings returns the listings that were changed after a number, in order of
	// their versions, at most limit (1–1000; 0 is 100). Dropped ones and those whose
	// time is over are among them until they are pruned, so that who asks again with
	// the version of the last one misses nothing. One unreadable listing never hides
	// the others.
	Listings(ctx context.Context, after int64, limit int) ([]Listing, error)
	// PutListing enters an operator's listing in the place of any other of its
	// subject, and returns it as it is kept: with the subject's canonical form,
	// CreatedAt and Version, at level 0. What is in force already, word for word, stays
	// as it is. CodeInvalid; CodeListingsFull where MaxListings are in force.
	PutListing(ctx context.Context, l Listing) (Listing, error)
	// DropListing takes back the listing of a subject, whoever made it, and returns it
	// as it is kept: dropped, with this author, at an end. CodeInvalid;
	// CodeListingNotFound where none is in force, as when it is repeated.
	DropListing(ctx context.Context, s Subject, author string) (Listing, error)
	// Ban is the gate's own act: it enters a listing for each offence, at most
	// MaxOffences, in one transaction, and returns for each the listing that is now in
	// force for its subject. An operator's listing stays as it is. So does one of the
	// gate itself, but for a challenge, which gives way to a deny at the same level: two
	// instances that see the same offence at once punish it once. CodeInvalid;
	// CodeListingsFull, with nothing done.
	Ban(ctx context.Context, offences []Offence) ([]Listing, error)
	// PruneListings deletes listings that ended before an instant, longest ago first,
	// at most limit (1–1000; 0 is 100), and returns how many. An instance that has not
	// read since then must read all anew, and a ban that is gone doubles no other: so
	// the instant lies further back than the longest Offence.Memory.
	PruneListings(ctx context.Context, before time.Time, limit int) (int, error)

	// GateSettings returns the doorkeeper's settings; the zero value before the first.
	GateSettings(ctx context.Context) (Settings, error)
	// PutGateSettings replaces the settings by a text of 1 to MaxSettings bytes, which
	// is not looked into. version is that of the settings that the caller has seen, NoSettings
	// if there were none, or 0 for any; CodeVersionMismatch if they have changed since.
	// CodeInvalid.
	PutGateSettings(ctx context.Context, version int64, text []byte, author string) (Settings, error)

	// GateKeys returns the keys that the gate signs and verifies with, newest first;
	// none before the first call of EnsureGateKey or RotateGateKey.
	GateKeys(ctx context.Context) ([]GateKey, error)
	// EnsureGateKey returns the newest key. The first call of all makes the first one,
	// however many instances start at once.
	EnsureGateKey(ctx context.Context) (GateKey, error)
	// RotateGateKey enters a new key and retires the one that was in use. Keys that were
	// retired longer ago than keep, which is the longest life of what they signed, are
	// deleted, but for the first of all: what is derived from it, such as the names of
	// subjects in a shared store, must not change. Each call makes a key. CodeInvalid;
	// CodeIllegalState while MaxGateKeys must still be kept.
	RotateGateKey(ctx context.Context, keep time.Duration) (GateKey, error)

	// WatchGate registers fn to be called after each change with the number that it
	// raised the version to, as Watch does for rows of journals. It is a nudge, not a
	// promise: whoever depends on the version asks for it once a second.
	WatchGate(fn func(version int64)) (stop func())
}

const (
	// NoSettings stands for the version of settings that nobody has entered yet.
	NoSettings = -1
	// GateAuthor is the author of the gate's own listings.
	GateAuthor = "gate"
	// MaxListings is how many listings can be in force at once.
	MaxListings = 100_000
	// ListingsOfOperators is how many of MaxListings the gate's own bans leave alone, so
	// that no attack keeps an operator from listing somebody.
	ListingsOfOperators = 10_000
	// MaxOffences is how many offences one call of Ban takes.
	MaxOffences = 1000
	// MaxReason is the length of a listing's reason, in characters.
	MaxReason = 200
	// MaxAuthor is the length of an author's name, in bytes.
	MaxAuthor = 128
	// MaxDevice is the length of a device's id.
	MaxDevice = 64
	// MaxSettings is the length of the doorkeeper's settings, in bytes.
	MaxSettings = 64 << 10
	// MaxGateKeys is how many keys there can be at once, retired ones included.
	MaxGateKeys = 64
)

// SubjectKind says what a subject is.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectUser    SubjectKind = "user"
	SubjectDevice  SubjectKind = "device"
	SubjectNetwork SubjectKind = "network"
)

// Subject is whom a listing is about.
type Subject struct {
	Kind SubjectKind
	// Value is a user's id, byte for byte; a device's id, 1–64 visible ASCII
	// characters; or a network as netip.Prefix writes it, without bits beyond the
	// prefix, and an IPv4 network as such, never as a part of IPv6.
	Value string
}

// Effect is what a listing does to its subject.
type Effect string

// The effects.
const (
	EffectDeny      Effect = "deny"
	EffectAllow     Effect = "allow"
	EffectChallenge Effect = "challenge"
)

// Listing is an entry in the gate's lists. There is one for a subject at most.
type Listing struct {
	Subject Subject
	Effect  Effect
	Reason  string // at most MaxReason characters; may be empty
	Author  string // who made it, or dropped it
	// CreatedAt is when it was made, or took the place of another.
	CreatedAt time.Time
	// ExpiresAt is when it ends, or ended; zero: never.
	ExpiresAt time.Time
	// Level is how often the time of a ban of the gate has been doubled; 0 for an
	// operator's.
	Level int
	// Dropped says that it was taken back, at ExpiresAt.
	Dropped bool
	Version int64 // the gate's version that its last change made
}

// InForce reports whether a listing that was made has an effect at now.
func (l *Listing) InForce(now time.Time) bool {
	return !l.Dropped && (l.ExpiresAt.IsZero() || now.Before(l.ExpiresAt))
}

// Offence is what the gate punishes.
type Offence struct {
	Subject Subject
	Effect  Effect // EffectDeny or EffectChallenge
	Reason  string // at most MaxReason characters; may be empty
	// Base is the time of a first ban, at least a millisecond. It is doubled once more
	// than that of the ban before, where that one ended less than Memory ago, up to Max.
	// A ban that an operator dropped is forgiven.
	Base, Max, Memory time.Duration
}

// Settings are the doorkeeper's settings. The ledger does not look into them.
type Settings struct {
	Version int64 // the gate's version that they made; 0 before the first
	Text    []byte
	Author  string
	At      time.Time
}

// GateReader loads what belongs to the gate.
type GateReader interface {
	GateVersion(ctx context.Context) (int64, error)
	GateSettings(ctx context.Context) (Settings, error)
	// ListingsOf returns those of the subjects that have a listing, in force or not.
	ListingsOf(ctx context.Context, subjects []Subject) (map[Subject]Listing, error)
	Listings(ctx context.Context, after int64, limit int) ([]Listing, error)
	// CountListings returns how many listings are in force.
	CountListings(ctx context.Context, now time.Time) (int, error)
	GateKeys(ctx context.Context) ([]GateKey, error)
}

// GateTx writes what belongs to the gate.
type GateTx interface {
	// LockGate keeps every other writer away from the gate until the end of the
	// transaction, as LockSale does from a sale, and returns its version. No
	// transaction locks both.
	LockGate(ctx context.Context) (version int64, err error)
	// WriteGate applies changes to the locked gate. Each guard that does not hold
	// fails the transaction with ErrConstraint.
	WriteGate(ctx context.Context, c *GateChanges) error
	// PruneListings deletes listings of the locked gate that ended before an instant,
	// longest ago first, at most limit, and returns how many.
	PruneListings(ctx context.Context, before time.Time, limit int) (int, error)
}

// GateChanges is everything that one transaction writes to the gate.
type GateChanges struct {
	// From is the version before, Version the one after. Guards: the gate's version is
	// From; Version is above it.
	From, Version int64
	// Listings are upserted by subject. Guards: versions above From, up to Version,
	// ascending; no subject twice.
	Listings []Listing
	Settings *Settings // replaces the settings, if set
	Keys     []GateKey // upserted by id
	// Forgotten are the ids of keys that are deleted. Guard: they are there.
	Forgotten []uint32
}

// Check returns ErrConstraint, with what is wrong, if the changes cannot be written
// to any gate. It is for stores.
func (c *GateChanges) Check() error {
	if c.Version <= c.From {
		return refusedChange("version %d does not follow %d", c.Version, c.From)
	}
	last, seen := c.From, make(map[Subject]bool, len(c.Listings))
	for i := range c.Listings {
		l := &c.Listings[i]
		if l.Version <= last || l.Version > c.Version || seen[l.Subject] {
			return refusedChange("the listing of %s %q is out of order", l.Subject.Kind, l.Subject.Value)
		}
		last, seen[l.Subject] = l.Version, true
	}
	return nil
}
