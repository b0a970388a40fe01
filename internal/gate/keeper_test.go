package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/ledgertest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/memlimit"
)

// door is a keeper at work in a bubble of fake time, over a ledger whose clock moves
// with the bubble's.
type door struct {
	*gate.Keeper
	t     *testing.T
	book  *ledger.Book
	world ledgertest.World
	told  *counts
	frail *frail
	sale  sale.Sale

	options gate.Options
}

// frail is a ledger that can be out.
type frail struct {
	ledger.Gate
	mu  sync.Mutex
	out error
}

var errOut = errors.New("out")

func (f *frail) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = err
}

func (f *frail) GateVersion(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out != nil {
		return 0, f.out
	}
	return f.Gate.GateVersion(ctx)
}

// atDoor runs a test at a door.
func atDoor(t *testing.T, run func(t *testing.T, d *door), tune ...func(*gate.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &door{t: t, world: ledgertest.MemWorld(t), told: newCounts()}
		d.book = ledger.New(d.world.Store)
		d.frail = &frail{Gate: d.book}
		d.sale = sale.Sale{Number: 7, Slug: "drop", Key: sale.Key{1}, Items: []sale.Item{{SKU: "shoe", Stock: 100}}}
		memory, err := memlimit.New(memlimit.Options{})
		require.NoError(t, err)
		o := gate.Options{
			Ledger: d.frail, Local: memory, Shared: memory, Observer: d.told,
			Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Now: func() time.Time {
				now, failed := d.book.Now(context.WithoutCancel(t.Context()))
				require.NoError(t, failed)
				return now
			},
		}
		for _, f := range tune {
			f(&o)
		}
		d.options = o
		d.Keeper, err = gate.New(t.Context(), o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		run(t, d)
		cancel()
		require.NoError(t, <-ended)
	})
}

// pass lets time go by at the ledger and here.
func (d *door) pass(long time.Duration) {
	d.world.Advance(long)
	time.Sleep(long) //nolint:forbidigo // moves the bubble's clock
	synctest.Wait()
}

// settle waits until what was told is known.
func (d *door) settle() { d.pass(2 * time.Second) }

// set puts settings in force.
func (d *door) set(change func(*gate.Settings)) {
	d.t.Helper()
	s := gate.DefaultSettings()
	change(&s)
	text, err := json.Marshal(s)
	require.NoError(d.t, err)
	_, err = d.book.PutGateSettings(d.t.Context(), 0, text, "operator")
	require.NoError(d.t, err)
	d.settle()
}

func (d *door) list(kind ledger.SubjectKind, value string, effect ledger.Effect, long time.Duration) {
	d.t.Helper()
	l := ledger.Listing{Subject: ledger.Subject{Kind: kind, Value: value}, Effect: effect, Reason: "a test", Author: "operator"}
	if long > 0 {
		now, err := d.book.Now(d.t.Context())
		require.NoError(d.t, err)
		l.ExpiresAt = now.Add(long)
	}
	_, err := d.book.PutListing(d.t.Context(), l)
	require.NoError(d.t, err)
	d.settle()
}

func (d *door) visit(user, ip string) *gate.Visit {
	v := &gate.Visit{User: user}
	if ip != "" {
		v.IP = netip.MustParseAddr(ip)
	}
	v.At(&d.sale)
	return v
}

// try takes a visit through the whole gate.
func (d *door) try(v *gate.Visit) error {
	d.t.Helper()
	if err := d.Arrive(d.t.Context(), gate.Buy, v.IP); err != nil {
		return err
	}
	if _, err := d.Enter(v); err != nil {
		return err
	}
	return d.Admit(d.t.Context(), v)
}

func (d *door) code(v *gate.Visit) sale.Code {
	d.t.Helper()
	return codeOf(d.try(v))
}

func codeOf(err error) sale.Code {
	if err == nil {
		return free
	}
	return sale.CodeOf(err)
}

const free = sale.Code("")

// unlimited switches every limit off.
func unlimited(s *gate.Settings) { s.Limits = []gate.Limit{} }

// only leaves one limit.
func only(l gate.Limit) func(*gate.Settings) {
	return func(s *gate.Settings) { s.Limits = []gate.Limit{l} }
}

func TestListsDecide(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			s.Limits = []gate.Limit{{Name: "user", By: gate.ByUser, Quota: 4, Window: gate.Duration(time.Hour), Shared: true}}
		})
		d.list(ledger.SubjectNetwork, "198.51.100.0/24", ledger.EffectDeny, 0)
		d.list(ledger.SubjectNetwork, "198.51.100.7/32", ledger.EffectAllow, 0)
		d.list(ledger.SubjectNetwork, "2001:db8::/32", ledger.EffectChallenge, 0)
		d.list(ledger.SubjectUser, "mallory", ledger.EffectDeny, time.Hour)
		d.list(ledger.SubjectUser, "vip", ledger.EffectAllow, 0)
		d.list(ledger.SubjectUser, "watched", ledger.EffectChallenge, 0)
		for _, c := range []struct {
			user, ip string
			want     sale.Code
		}{
			{"a", "198.51.100.9", sale.CodeBanned},
			{"b", "198.51.100.7", free},
			{"c", "203.0.113.1", free},
			{"d", "2001:db8:1::1", sale.CodeChallengeRequired},
			{"mallory", "203.0.113.1", sale.CodeBanned},
			{"mallory", "198.51.100.7", sale.CodeBanned}, // of the user before that of the network
			{"watched", "198.51.100.9", sale.CodeBanned}, // a challenge takes nothing from a denial
			{"watched", "198.51.100.7", free},            // nor from what is allowed
			{"watched", "203.0.113.1", sale.CodeChallengeRequired},
			{"Mallory", "203.0.113.1", free}, // another user: nothing is folded
			{"vip", "198.51.100.9", free},
			{"e", "", free},
		} {
			require.Equal(t, c.want, d.code(d.visit(c.user, c.ip)), c)
		}
		for range 5 {
			require.Equal(t, free, d.code(d.visit("vip", "203.0.113.1")), "past every limit")
		}
		for range 3 {
			require.Equal(t, free, d.code(d.visit("c", "203.0.113.1")))
		}
		require.Equal(t, sale.CodeRateLimited, d.code(d.visit("c", "203.0.113.1")))
		for range 2 {
			require.Equal(t, sale.CodeBanned, d.code(d.visit("mallory", "")))
		}
		require.Equal(t, sale.CodeRateLimited, d.code(d.visit("mallory", "")), "also of who is denied, whose order is looked up")
		d.pass(time.Hour)
		require.Equal(t, free, d.code(d.visit("mallory", "203.0.113.1")), "it has ended")
		_, err := d.book.DropListing(t.Context(), ledger.Subject{Kind: ledger.SubjectNetwork, Value: "198.51.100.0/24"}, "operator")
		require.NoError(t, err)
		d.settle()
		require.Equal(t, free, d.code(d.visit("z", "198.51.100.9")))
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	hour := gate.Duration(time.Hour)
	t.Run("PerSubject", func(t *testing.T) {
		t.Parallel()
		for by, same := range map[gate.By][2]*gate.Visit{
			gate.ByUser:    {{User: "a", IP: netip.MustParseAddr("192.0.2.1")}, {User: "a", IP: netip.MustParseAddr("203.0.113.1")}},
			gate.ByNetwork: {{User: "a", IP: netip.MustParseAddr("2001:db8::1")}, {User: "b", IP: netip.MustParseAddr("2001:db8::2")}},
			gate.BySubnet:  {{User: "a", IP: netip.MustParseAddr("192.0.2.1")}, {User: "b", IP: netip.MustParseAddr("192.0.2.200")}},
			gate.ByDevice:  {{User: "a", Device: gate.DeviceID{1}}, {User: "b", Device: gate.DeviceID{1}}},
			gate.BySale:    {{User: "a"}, {User: "b"}},
			gate.ByService: {{User: "a"}, {User: "b"}},
		} {
			for _, shared := range []bool{false, by != gate.ByService} {
				atDoor(t, func(t *testing.T, d *door) {
					d.set(only(gate.Limit{Name: "one", By: by, Quota: 1, Window: hour, Shared: shared}))
					for i, v := range same {
						one := *v
						one.At(&d.sale)
						require.Equal(t, []sale.Code{free, sale.CodeRateLimited}[i], d.code(&one), by)
					}
				})
			}
		}
	})
	t.Run("OfStock", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(only(gate.Limit{Name: "rush", By: gate.BySale, Quota: 1, OfStock: 0.05, Window: hour, Then: gate.Prove, Shared: true}))
			for i := range 5 { // of 100
				require.Equal(t, free, d.code(d.visit(strconv.Itoa(i), "")))
			}
			require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("late", "")))
			shop := d.visit("bought for", "")
			shop.Shop = true
			require.Equal(t, free, d.code(shop), "a shop is asked for no proof")
		})
	})
	t.Run("EachUserOnce", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(only(gate.Limit{Name: "crowd", By: gate.ByNetwork, Each: gate.ByUser, Quota: 2, Window: hour, Then: gate.Prove, Shared: true}))
			for range 3 {
				require.Equal(t, free, d.code(d.visit("a", "192.0.2.1")))
				require.Equal(t, free, d.code(d.visit("b", "192.0.2.1")))
			}
			require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("c", "192.0.2.1")))
			require.Equal(t, free, d.code(d.visit("c", "192.0.2.2")))
		})
	})
	t.Run("EachUserOnceOverInstances", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(only(gate.Limit{Name: "crowd", By: gate.ByNetwork, Each: gate.ByUser, Quota: 2, Window: hour, Then: gate.Prove, Shared: true}))
			for range 6 { // instances that share the limits and remember nothing of each other
				other := *d
				var err error
				other.Keeper, err = gate.New(t.Context(), d.options)
				require.NoError(t, err)
				require.Equal(t, free, other.code(d.visit("a", "192.0.2.1")))
			}
			require.Equal(t, free, d.code(d.visit("b", "192.0.2.1")))
			require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("c", "192.0.2.1")))
			require.Equal(t, sale.CodeChallengeRequired, d.code(d.visit("c", "192.0.2.1")), "who was refused is not known")
		})
	})
	t.Run("Harden", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(func(s *gate.Settings) {
				s.Limits = []gate.Limit{
					{Name: "crowd", By: gate.ByNetwork, Each: gate.ByUser, Quota: 1, Window: hour, Then: gate.Harden, Harder: 2, Shared: true},
					{Name: "rush", By: gate.BySale, Quota: 3, Window: hour, Then: gate.Prove, Harder: 1, Shared: true},
				}
			})
			for i, want := range []int{0, 0, 0, gate.EasiestChallenge * 8} {
				err := d.try(d.visit(strconv.Itoa(i), "192.0.2.1"))
				if want == 0 {
					require.NoError(t, err, "being one of many is no reason by itself")
					continue
				}
				refused := &gate.RefusalError{}
				require.ErrorAs(t, err, &refused)
				require.Equal(t, "rush", refused.Layer)
				require.Equal(t, want, refused.Challenge.MaxNumber)
			}
			refused := &gate.RefusalError{}
			require.ErrorAs(t, d.try(d.visit("alone", "203.0.113.1")), &refused)
			require.Equal(t, gate.EasiestChallenge*2, refused.Challenge.MaxNumber)
			full := d.visit("in a full house", "203.0.113.2")
			full.Load = 1
			require.ErrorAs(t, d.try(full), &refused)
			require.Equal(t, gate.EasiestChallenge*16, refused.Challenge.MaxNumber)
		})
	})
	t.Run("Shadow", func(t *testing.T) {
		t.Parallel()
		for _, shared := range []bool{false, true} {
			for _, then := range []gate.Action{gate.Refuse, gate.Prove} {
				atDoor(t, func(t *testing.T, d *door) {
					d.set(only(gate.Limit{Name: "dark", By: gate.BySubnet, Quota: 1, Window: hour, Then: then, Shared: shared, Shadow: true}))
					for range 3 {
						require.Equal(t, free, d.code(d.visit("a", "192.0.2.1")))
					}
					require.Equal(t, 2, d.told.shadowed["dark"])
				})
			}
		}
	})
	t.Run("Exempt", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(only(gate.Limit{Name: "user", By: gate.ByUser, Quota: 1, Window: hour, Shared: true}))
			inside := func() *gate.Visit {
				v := d.visit("a", "127.0.0.1")
				v.Inside = d.Inside(v.IP)
				return v
			}
			require.False(t, d.Inside(netip.MustParseAddr("192.0.2.1")))
			for range 3 {
				require.Equal(t, free, d.code(inside()))
			}
			require.Equal(t, free, d.code(d.visit("a", "127.0.0.1")))
			require.Equal(t, sale.CodeRateLimited, d.code(d.visit("a", "127.0.0.1")), "an address that is claimed is no peer")
			d.list(ledger.SubjectUser, "a", ledger.EffectDeny, 0)
			require.Equal(t, sale.CodeBanned, d.code(inside()), "lists hold for everybody")
		})
	})
	t.Run("NothingIsSpentByARefusal", func(t *testing.T) {
		t.Parallel()
		atDoor(t, func(t *testing.T, d *door) {
			d.set(func(s *gate.Settings) {
				s.Limits = []gate.Limit{
					{Name: "user", By: gate.ByUser, Quota: 1, Window: hour, Shared: true},
					{Name: "sale", By: gate.BySale, Quota: 2, Window: hour, Shared: true},
				}
			})
			for range 5 {
				_ = d.try(d.visit("greedy", ""))
			}
			require.Equal(t, free, d.code(d.visit("other", "")), "the greedy one has spent one of the sale's two")
			require.Equal(t, sale.CodeRateLimited, d.code(d.visit("third", "")))
		})
	})
}

// C50: what the store of the shared limits does not answer, each limit's policy does.
func TestC50LimiterStoreIsDown(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]sale.Code{"open": free, "closed": sale.CodeUnavailable, "": free} {
		atDoor(t, func(t *testing.T, d *door) {
			d.set(only(gate.Limit{Name: "user", By: gate.ByUser, Quota: 10, Window: gate.Duration(time.Hour), Shared: true, OnError: policy}))
			require.Equal(t, want, d.code(d.visit("a", "")), policy)
			d.set(only(gate.Limit{Name: "crowd", By: gate.ByNetwork, Each: gate.ByUser, Quota: 10, Window: gate.Duration(time.Hour), Shared: true, OnError: policy}))
			require.Equal(t, want, d.code(d.visit("b", "192.0.2.1")), policy)
		}, func(o *gate.Options) { o.Shared = downLimiter{o.Local} })
	}
}

// downLimiter decides by policy, as a limiter does whose store is away.
type downLimiter struct{ limit.Limiter }

func (l downLimiter) AllowAll(_ context.Context, checks []limit.Check) ([]limit.Decision, error) {
	out := make([]limit.Decision, len(checks))
	for i, c := range checks {
		out[i] = limit.Decision{Allowed: true, Degraded: true}
		for _, r := range c.Rates {
			if r.OnError == limit.Closed {
				out[i] = limit.Decision{Reason: limit.Unavailable, Degraded: true}
			}
		}
	}
	return out, nil
}

// Settings and lists take effect without a restart, and trouble with the ledger
// changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gate.json")
	write := func(text string, at time.Time) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(file, at, at))
	}
	begun := time.Now()
	write(`{"limits": [{"name": "a", "by": "user", "quota": 1, "window": "1h", "shared": true}]}`, begun)
	atDoor(t, func(t *testing.T, d *door) {
		require.Equal(t, free, d.code(d.visit("u", "")))
		require.Equal(t, sale.CodeRateLimited, d.code(d.visit("u", "")))
		write(`{"limits": []}`, begun.Add(time.Second))
		d.settle()
		require.Equal(t, free, d.code(d.visit("u", "")))
		write(`{"limits": 7}`, begun.Add(2*time.Second))
		d.settle()
		require.Equal(t, free, d.code(d.visit("u", "")), "a broken file changes nothing")
		d.set(only(gate.Limit{Name: "b", By: gate.ByUser, Quota: 1, Window: gate.Duration(time.Hour), Shared: true}))
		require.Equal(t, free, d.code(d.visit("u", "")))
		require.Equal(t, sale.CodeRateLimited, d.code(d.visit("u", "")), "the ledger's come first")
		d.frail.set(errOut)
		d.list(ledger.SubjectNetwork, "192.0.2.0/24", ledger.EffectDeny, 0)
		require.Equal(t, free, d.code(d.visit("v", "192.0.2.1")))
		d.frail.set(nil)
		d.settle()
		require.Equal(t, sale.CodeBanned, d.code(d.visit("w", "192.0.2.1")))
	}, func(o *gate.Options) { o.SettingsFile = file })
}

func TestProxyRanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ranges")
	require.NoError(t, os.WriteFile(file, []byte("# hosters\n192.0.2.0/24 # one\n\n2001:db8::/32\n::ffff:198.51.100.4\n"), 0o600))
	atDoor(t, func(t *testing.T, d *door) {
		d.set(unlimited)
		for ip, want := range map[string]sale.Code{
			"192.0.2.9": sale.CodeChallengeRequired, "2001:db8::9": sale.CodeChallengeRequired, "198.51.100.4": sale.CodeChallengeRequired,
			"203.0.113.1": free,
		} {
			require.Equal(t, want, d.code(d.visit("a", ip)), ip)
		}
		d.list(ledger.SubjectNetwork, "192.0.2.0/24", ledger.EffectAllow, 0)
		require.Equal(t, free, d.code(d.visit("a", "192.0.2.9")), "a listing of the same network says otherwise")
	}, func(o *gate.Options) { o.RangesFile = file })
}
