package gate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// knowledge is what an instance knows at a moment. It is immutable.
type knowledge struct {
	version  int64 // what is known of the ledger's is no older
	parts    parts
	settings Settings
	entered  ledger.Settings // those of the ledger; zero if the file's or the default ones are in force
	origin   Origin
	keys     Keys
	listings map[ledger.Subject]ledger.Listing
	read     int64 // the version of the last listing that was read
	ranges   []netip.Prefix
	lists    *lists

	arrival           map[Class][]*compiled // narrowest first
	refusing, proving []*compiled
}

// parts say how far each part of knowledge is: the gate's version at which those of
// the ledger were read, and when the files were changed. What cannot be read is tried
// again with the next look.
type parts struct {
	listings, keys, settings int64
	settingsFile, rangesFile time.Time
}

// DeviceLife is how long the gate knows a device by the name it gave it, and so for
// how long a retired key is kept.
const DeviceLife = 90 * 24 * time.Hour

// trouble is a part of knowledge that could not be learnt.
type trouble struct {
	doing string
	err   error
	text  bool // it is there, but nothing that can be understood
}

// startWithin bounds the first look, which has all listings to read.
const startWithin = 30 * time.Second

// learn returns what is known at the start. The ledger must answer. Settings and
// ranges that cannot be understood are those of a new house until they can: the server
// that cannot start is the one over which they would be repaired.
func (k *Keeper) learn(ctx context.Context) (*knowledge, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if _, err := k.o.Ledger.EnsureGateKey(ctx); err != nil {
		return nil, err
	}
	never := time.Unix(-1, 0)
	nothing := &knowledge{
		version: -1, parts: parts{listings: -1, keys: -1, settings: -1, settingsFile: never, rangesFile: never},
		settings: DefaultSettings(), origin: FromDefault, listings: map[ledger.Subject]ledger.Listing{},
	}
	if err := nothing.compile(); err != nil {
		return nil, err
	}
	next, troubles := k.update(ctx, nothing)
	for i := range troubles {
		if !troubles[i].text {
			return nil, troubles[i].err
		}
		k.o.Observer.Failed(troubles[i].doing, troubles[i].err)
	}
	return next, nil
}

// update returns what is known now: old if nothing has changed. One part that cannot
// be learnt stays as it is and hinders no other; version tells that it is behind.
func (k *Keeper) update(ctx context.Context, old *knowledge) (*knowledge, []trouble) {
	version, err := k.o.Ledger.GateVersion(ctx)
	if err != nil {
		return old, []trouble{{doing: "looking for changes of the gate", err: err}}
	}
	now := parts{
		listings: version, keys: version, settings: version,
		settingsFile: changedAt(k.o.SettingsFile), rangesFile: changedAt(k.o.RangesFile),
	}
	if now == old.parts {
		return old, nil
	}
	next := *old
	var troubles []trouble
	failed := func(doing string, text bool, err error) {
		if err != nil {
			troubles = append(troubles, trouble{doing: doing, text: text, err: err})
		}
	}
	if next.parts.keys != now.keys { // first, since they must be known everywhere before they sign
		failed("reading the gate's keys", false, k.readKeys(ctx, &next, now.keys))
	}
	if next.parts.listings != now.listings {
		failed("reading the gate's listings", false, k.readListings(ctx, &next, now.listings))
	}
	if next.parts.settings != now.settings || next.parts.settingsFile != now.settingsFile {
		text, err := k.readSettings(ctx, &next, &now)
		failed("reading the gate's settings; those before stay in force", text, err)
	}
	if next.parts.rangesFile != now.rangesFile {
		failed("reading the proxy ranges; those before stay in force", true, k.readRanges(&next, now.rangesFile))
	}
	if next.lists == nil {
		next.lists = newLists(next.listings, next.ranges)
	}
	next.version = min(next.parts.listings, next.parts.keys, next.parts.settings)
	if next.parts == old.parts && next.lists == old.lists {
		return old, troubles
	}
	return &next, troubles
}

func (k *Keeper) readKeys(ctx context.Context, n *knowledge, version int64) error {
	secrets, err := k.o.Ledger.GateKeys(ctx)
	if err != nil {
		return err
	}
	n.keys, n.parts.keys = NewKeys(secrets, DeviceLife, k.o.Now()), version
	return nil
}

const listingsAtOnce = 1000

// readListings follows the listings from where the last look ended, and forgets those
// that are over. What was read before an error is kept, but where all are read anew.
func (k *Keeper) readListings(ctx context.Context, n *knowledge, version int64) error {
	all, read, anew := maps.Clone(n.listings), n.read, n.read == 0
	if anew {
		all = map[ledger.Subject]ledger.Listing{}
	}
	var failed error
	for {
		page, err := k.o.Ledger.Listings(ctx, read, listingsAtOnce)
		if err != nil {
			failed = err
			break
		}
		for i := range page {
			all[page[i].Subject] = page[i]
			read = page[i].Version
		}
		if len(page) < listingsAtOnce {
			break
		}
	}
	if failed == nil {
		n.parts.listings = version
	}
	if read == n.read && !anew || failed != nil && anew {
		return failed
	}
	now := k.o.Now()
	maps.DeleteFunc(all, func(_ ledger.Subject, l ledger.Listing) bool { return !l.InForce(now) })
	n.listings, n.read, n.lists = all, read, nil
	return failed
}

// readSettings takes the settings over that are in force. text reports whether the
// error is one of what they say.
func (k *Keeper) readSettings(ctx context.Context, n *knowledge, now *parts) (text bool, err error) {
	entered, err := k.o.Ledger.GateSettings(ctx)
	if err != nil {
		return false, err
	}
	next, from := *n, "the ledger"
	next.parts.settings, next.parts.settingsFile = now.settings, now.settingsFile
	next.settings, next.entered, next.origin = DefaultSettings(), entered, FromLedger
	said := entered.Text
	switch {
	case entered.Version > 0:
	case k.o.SettingsFile == "":
		next.origin = FromDefault
	default:
		from, next.origin = k.o.SettingsFile, FromFile
		if said, err = os.ReadFile(k.o.SettingsFile); err != nil {
			return true, fmt.Errorf("gate: settings: %w", err)
		}
	}
	if len(said) > 0 {
		if next.settings, err = ParseSettings(said); err != nil {
			return true, fmt.Errorf("gate: settings of %s: %w", from, err)
		}
	}
	if err = next.compile(); err != nil {
		return true, fmt.Errorf("gate: settings of %s: %w", from, err)
	}
	*n = next
	return false, nil
}

func (k *Keeper) readRanges(n *knowledge, changed time.Time) error {
	ranges, err := readRanges(k.o.RangesFile)
	if err != nil {
		return err
	}
	n.ranges, n.parts.rangesFile, n.lists = ranges, changed, nil
	return nil
}

// compile makes the limits ready.
func (n *knowledge) compile() error {
	n.arrival, n.refusing, n.proving = map[Class][]*compiled{}, nil, nil
	for i := range n.settings.Limits {
		l := &n.settings.Limits[i]
		r, err := l.rate(0)
		if err != nil {
			return err
		}
		c := &compiled{Limit: l, fixed: r}
		switch {
		case l.arrival():
			for _, class := range []Class{Buy, Read, Pay, Admin} {
				if l.on(class) {
					n.arrival[class] = append(n.arrival[class], c)
				}
			}
		case l.then() != Refuse:
			n.proving = append(n.proving, c)
		default:
			n.refusing = append(n.refusing, c)
		}
	}
	for _, limits := range n.arrival {
		slices.SortStableFunc(limits, func(a, b *compiled) int { return width(a.By) - width(b.By) })
	}
	// Limits of one subject stand together, so that one call asks them.
	slices.SortStableFunc(n.refusing, func(a, b *compiled) int { return width(a.By) - width(b.By) })
	return nil
}

// width orders layers from the narrowest to the widest.
func width(by By) int {
	return slices.Index([]By{ByUserSale, ByUser, ByDevice, ByNetwork, BySubnet, BySale, ByService}, by)
}

// changedAt returns when a file was changed last; zero if it is not there.
func changedAt(path string) time.Time {
	if path == "" {
		return time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readRanges reads one address or network a line; # begins a comment.
func readRanges(path string) ([]netip.Prefix, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own
	if err != nil {
		return nil, fmt.Errorf("gate: proxy ranges: %w", err)
	}
	var out []netip.Prefix
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := netip.ParsePrefix(line)
		if a, single := netip.ParseAddr(line); single == nil {
			a = a.Unmap().WithZone("")
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("gate: proxy ranges: line %d of %s is no address or network: %q", n, path, line)
		}
		out = append(out, ledger.Unmapped(p).Masked())
	}
	return out, lines.Err()
}
