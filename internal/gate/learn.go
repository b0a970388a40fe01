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
	version  int64
	settings Settings
	entered  ledger.Settings // those of the ledger; zero if the file's or the default ones are in force
	keys     Keys
	lists    *lists
	listings map[ledger.Subject]ledger.Listing
	read     int64 // the version of the last listing that was read
	files    stamps

	arrival           map[Class][]*compiled // narrowest first
	refusing, proving []*compiled
}

// stamps tell whether files have changed.
type stamps struct{ settings, ranges time.Time }

// DeviceLife is how long the gate knows a device by the name it gave it, and so for
// how long a retired key is kept.
const DeviceLife = 90 * 24 * time.Hour

// lookEvery is how often an instance looks for changes that nobody told it of.
const lookEvery = time.Second

// Nudge lets the instance look for changes now.
func (k *Keeper) Nudge() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// Run follows changes and counts strikes until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	stop := k.o.Ledger.WatchGate(func(int64) { k.Nudge() })
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	done := make(chan struct{})
	go func() { // a slow limiter must not hold up lists
		defer close(done)
		for {
			select {
			case s := <-k.strikes:
				k.punish(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { <-done }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-k.nudge:
		}
		k.look(ctx)
	}
}

// look learns what has changed, and keeps what it knew where it cannot.
func (k *Keeper) look(ctx context.Context) {
	old := k.known.Load()
	next, err := k.learn(ctx, old)
	if err != nil {
		if ctx.Err() == nil {
			k.o.Observer.Failed("looking for changes of the gate", err)
		}
		return
	}
	if next != old {
		k.known.Store(next)
		k.o.Observer.Known(next.version, len(next.listings))
	}
}

// learn returns what is known now: old if nothing has changed.
func (k *Keeper) learn(ctx context.Context, old *knowledge) (*knowledge, error) {
	ctx, cancel := context.WithTimeout(ctx, k.o.CallTimeout)
	defer cancel()
	if old == nil {
		if _, err := k.o.Ledger.EnsureGateKey(ctx); err != nil {
			return nil, err
		}
		old = &knowledge{listings: map[ledger.Subject]ledger.Listing{}, version: -1}
	}
	version, err := k.o.Ledger.GateVersion(ctx)
	if err != nil {
		return nil, err
	}
	files := stamps{settings: changedAt(k.o.SettingsFile), ranges: changedAt(k.o.RangesFile)}
	if version == old.version && files == old.files {
		return old, nil
	}
	next := &knowledge{version: version, files: files, read: old.read, listings: maps.Clone(old.listings)}
	if err = k.readListings(ctx, next); err != nil {
		return nil, err
	}
	secrets, err := k.o.Ledger.GateKeys(ctx)
	if err != nil {
		return nil, err
	}
	next.keys = NewKeys(secrets, DeviceLife, k.o.Now())
	if err = k.readSettings(ctx, next); err != nil {
		return nil, err
	}
	ranges, err := readRanges(k.o.RangesFile)
	if err != nil {
		return nil, err
	}
	next.lists = newLists(next.listings, ranges)
	return next, next.compile()
}

const listingsAtOnce = 1000

// readListings follows the listings from where the last look ended, and forgets
// those that are over.
func (k *Keeper) readListings(ctx context.Context, n *knowledge) error {
	for {
		page, err := k.o.Ledger.Listings(ctx, n.read, listingsAtOnce)
		if err != nil {
			return err
		}
		for i := range page {
			n.listings[page[i].Subject] = page[i]
			n.read = page[i].Version
		}
		if len(page) < listingsAtOnce {
			break
		}
	}
	now := k.o.Now()
	maps.DeleteFunc(n.listings, func(_ ledger.Subject, l ledger.Listing) bool { return !l.InForce(now) })
	return nil
}

func (k *Keeper) readSettings(ctx context.Context, n *knowledge) error {
	entered, err := k.o.Ledger.GateSettings(ctx)
	if err != nil {
		return err
	}
	text, from := entered.Text, "the ledger"
	if entered.Version == 0 && k.o.SettingsFile != "" {
		from = k.o.SettingsFile
		if text, err = os.ReadFile(k.o.SettingsFile); err != nil {
			return fmt.Errorf("gate: settings: %w", err)
		}
	}
	if len(text) == 0 {
		n.settings = DefaultSettings()
		return nil
	}
	n.entered = entered
	if n.settings, err = ParseSettings(text); err != nil {
		return fmt.Errorf("gate: settings of %s: %w", from, err)
	}
	return nil
}

// compile makes the limits ready.
func (n *knowledge) compile() error {
	n.arrival = map[Class][]*compiled{}
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
		out = append(out, p.Masked())
	}
	return out, lines.Err()
}
