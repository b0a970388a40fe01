package gate_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// patchy is a ledger of which parts can be out, and which counts pages of listings.
type patchy struct {
	ledger.Gate
	mu       sync.Mutex
	out      map[string]error
	atPage   int // the page of a look at which listings fail; 0 for none
	pages    int
	restarts int // how often the listings were read from the beginning
}

func (p *patchy) set(part string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil {
		p.out = map[string]error{}
	}
	p.out[part] = err
}

func (p *patchy) is(part string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out[part]
}

func (p *patchy) GateVersion(ctx context.Context) (int64, error) {
	if err := p.is("version"); err != nil {
		return 0, err
	}
	return p.Gate.GateVersion(ctx)
}

func (p *patchy) GateKeys(ctx context.Context) ([]ledger.GateKey, error) {
	if err := p.is("keys"); err != nil {
		return nil, err
	}
	return p.Gate.GateKeys(ctx)
}

func (p *patchy) GateSettings(ctx context.Context) (ledger.Settings, error) {
	if err := p.is("settings"); err != nil {
		return ledger.Settings{}, err
	}
	return p.Gate.GateSettings(ctx)
}

func (p *patchy) Listings(ctx context.Context, after int64, limit int) ([]ledger.Listing, error) {
	p.mu.Lock()
	p.pages++
	if after == 0 {
		p.restarts++
	}
	bad := p.out["listings"]
	if p.atPage > 0 {
		bad = nil
		if p.pages%p.atPage == 0 {
			bad = errOut
		}
	}
	p.mu.Unlock()
	if bad != nil {
		return nil, bad
	}
	return p.Gate.Listings(ctx, after, limit)
}

func (p *patchy) read() (pages, restarts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages, p.restarts
}

// patched puts a patchy ledger in the place of a door's.
func patched(p *patchy) func(*gate.Options) {
	return func(o *gate.Options) {
		p.Gate = o.Ledger
		o.Ledger, o.Observer = p, &hurt{Observer: o.Observer}
	}
}

// hurt counts failures.
type hurt struct {
	gate.Observer
	n atomic.Int64
}

func (h *hurt) Failed(string, error) { h.n.Add(1) }

func (d *door) banned(user string) bool {
	d.t.Helper()
	r, refused := errors.AsType[*gate.RefusalError](d.try(d.visit(user, "192.0.2.1")))
	return refused && r.Err.Code == "banned"
}

// Each part of what the gate knows is learnt by itself: what is wrong with one keeps no
// ban and no key away.
func TestPartsAreLearntAlone(t *testing.T) {
	t.Parallel()
	const settings, ranges = "settings.json", "ranges"
	write := func(t *testing.T, dir, name, text string, at int) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		when := time.Unix(int64(at), 0)
		require.NoError(t, os.Chtimes(path, when, when))
	}
	for name, harm := range map[string]func(t *testing.T, d *door, p *patchy, dir string){
		"the settings' file": func(t *testing.T, _ *door, _ *patchy, dir string) { write(t, dir, settings, `{"no":1}`, 2000) },
		"no settings' file": func(t *testing.T, _ *door, _ *patchy, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, settings)))
		},
		"the ranges' file": func(t *testing.T, _ *door, _ *patchy, dir string) { write(t, dir, ranges, "nonsense", 2000) },
		"settings of a newer version": func(t *testing.T, d *door, _ *patchy, _ string) {
			_, err := d.book.PutGateSettings(t.Context(), 0, []byte(`{"of_the_future":true}`), "operator")
			require.NoError(t, err)
		},
		"settings that are out": func(_ *testing.T, _ *door, p *patchy, _ string) { p.set("settings", errOut) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, settings, `{"pass":{"life":"1m"}}`, 1000)
			write(t, dir, ranges, "::ffff:198.51.100.0/120\n", 1000)
			p := &patchy{}
			atDoor(t, func(t *testing.T, d *door) {
				harm(t, d, p, dir)
				d.settle()
				d.list(ledger.SubjectUser, "rogue", ledger.EffectDeny, 0)
				require.True(t, d.banned("rogue"), "the ban works all the same")
				_, err := d.book.RotateGateKey(t.Context(), gate.DeviceLife)
				require.NoError(t, err)
				d.pass(gate.KeySettle)
				require.Equal(t, uint32(2), d.Keys().SigningKey(d.Now()), "so does the key")
				s, _ := d.Settings()
				require.Equal(t, gate.Duration(time.Minute), s.Pass.Life, "the settings before stay")
				v := d.visit("ann", "198.51.100.7")
				require.Error(t, d.try(v), "so do the ranges, those of IPv4 that were written as IPv6")

				write(t, dir, settings, `{"pass":{"life":"2m"}}`, 3000)
				write(t, dir, ranges, "203.0.113.0/24", 3000)
				p.set("settings", nil)
				if name == "settings of a newer version" {
					_, err = d.book.PutGateSettings(t.Context(), 0, []byte(`{"pass":{"life":"2m"}}`), "operator")
					require.NoError(t, err)
				}
				d.settle()
				s, _ = d.Settings()
				require.Equal(t, gate.Duration(2*time.Minute), s.Pass.Life, "what is repaired is taken")
				require.NoError(t, d.try(d.visit("ann", "198.51.100.7")))
			}, patched(p), func(o *gate.Options) {
				o.SettingsFile, o.RangesFile = filepath.Join(dir, settings), filepath.Join(dir, ranges)
			})
		})
	}
}

// A server starts with settings and ranges that it cannot understand, as a new house,
// since it is the one over which they are repaired. A ledger that is out ends the start.
func TestStartsWithWhatItCannotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := ledger.New(ledgertest.MemWorld(t).Store)
		memory, err := memlimit.New(memlimit.Options{})
		require.NoError(t, err)
		_, err = book.PutGateSettings(t.Context(), 0, []byte(`{"of_the_future":true}`), "operator")
		require.NoError(t, err)
		told, p := &hurt{}, &patchy{Gate: book}
		told.Observer = newCounts()
		o := gate.Options{Ledger: p, Local: memory, Shared: memory, Now: time.Now, Observer: told, RangesFile: filepath.Join(t.TempDir(), "none")}
		k, err := gate.New(t.Context(), o)
		require.NoError(t, err)
		s, entered := k.Settings()
		require.Equal(t, gate.DefaultSettings(), s)
		require.Zero(t, entered)
		require.Equal(t, int64(2), told.n.Load())
		other := o
		other.Ledger, other.SettingsFile = ledger.New(ledgertest.MemWorld(t).Store), filepath.Join(t.TempDir(), "none")
		k, err = gate.New(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, gate.FromDefault, k.Origin(0), "those of the file are not in force")
		for _, part := range []string{"version", "keys", "listings", "settings"} {
			p.set(part, errOut)
			_, err = gate.New(t.Context(), o)
			require.ErrorIs(t, err, errOut, part)
			p.set(part, nil)
		}
	})
}

// A look that fails half-way keeps the pages that it has read, and the next goes on
// from there.
func TestListingsAreKeptPageByPage(t *testing.T) {
	t.Parallel()
	p := &patchy{}
	atDoor(t, func(t *testing.T, d *door) {
		d.list(ledger.SubjectUser, "first", ledger.EffectDeny, 0)
		p.mu.Lock()
		p.atPage = 2
		p.mu.Unlock()
		for n := range 3 {
			offences := make([]ledger.Offence, 0, ledger.MaxOffences)
			for i := range ledger.MaxOffences {
				offences = append(offences, ledger.Offence{
					Subject: ledger.Subject{Kind: ledger.SubjectUser, Value: strconv.Itoa(n) + "-" + strconv.Itoa(i)},
					Effect:  ledger.EffectDeny, Base: time.Hour, Max: time.Hour,
				})
			}
			_, err := d.book.Ban(t.Context(), offences)
			require.NoError(t, err)
		}
		d.pass(5 * time.Second)
		for _, user := range []string{"0-0", "1-999", "2-999", "first"} {
			require.True(t, d.banned(user), user)
		}
		_, restarts := p.read()
		require.LessOrEqual(t, restarts, 2, "at the start, and before there was any")
	}, patched(p))
}

// Listings that nobody needs are deleted, and who could not look for long reads anew,
// so that the end of one is not missed.
func TestListingsArePruned(t *testing.T) {
	t.Parallel()
	p := &patchy{}
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) { s.Bans.Memory = gate.Duration(time.Hour) })
		d.list(ledger.SubjectUser, "short", ledger.EffectDeny, time.Minute)
		d.list(ledger.SubjectUser, "long", ledger.EffectDeny, 0)
		d.pass(24 * time.Hour)
		require.Len(t, mustListings(t, d.book), 2, "a ban is remembered")
		d.pass(2 * time.Hour)
		require.Len(t, mustListings(t, d.book), 1)
		require.True(t, d.banned("long"))

		p.set("version", errOut)
		_, err := d.book.DropListing(t.Context(), ledger.Subject{Kind: ledger.SubjectUser, Value: "long"}, "operator")
		require.NoError(t, err)
		d.pass(13 * time.Hour)
		now, err := d.book.Now(t.Context())
		require.NoError(t, err)
		n, err := d.book.PruneListings(t.Context(), now, 0)
		require.NoError(t, err)
		require.Equal(t, 1, n, "before anybody has seen its end")
		require.True(t, d.banned("long"))
		p.set("version", nil)
		d.settle()
		require.False(t, d.banned("long"))
	}, patched(p))
}

func mustListings(t *testing.T, g ledger.Gate) []ledger.Listing {
	t.Helper()
	all, err := g.Listings(t.Context(), 0, 1000)
	require.NoError(t, err)
	return all
}

// However fast bans come, lists are put in order so often only.
func TestListsRest(t *testing.T) {
	t.Parallel()
	p := &patchy{}
	var ranges []byte
	for i := range 100_000 {
		ranges = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32).AppendTo(ranges)
		ranges = append(ranges, '\n')
	}
	file := filepath.Join(t.TempDir(), "ranges")
	require.NoError(t, os.WriteFile(file, ranges, 0o600))
	atDoor(t, func(t *testing.T, d *door) {
		d.settle()
		before, _ := p.read()
		for i := range 50 {
			_, err := d.book.PutListing(t.Context(), ledger.Listing{Subject: ledger.Subject{Kind: ledger.SubjectUser, Value: strconv.Itoa(i)}, Effect: ledger.EffectDeny, Author: "operator"})
			require.NoError(t, err)
			time.Sleep(40 * time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		}
		d.settle()
		after, _ := p.read()
		require.LessOrEqual(t, after-before, 6, "twice a second")
		require.True(t, d.banned("49"))
	}, patched(p), func(o *gate.Options) { o.RangesFile = file })
}
