package gate_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func saleKey() sale.Key { return sale.Key{1, 2, 3} }

// pass is Alice's first in sale 7, good for a quarter of an hour from noon.
func pass() gate.Pass {
	return gate.Pass{Sale: 7, User: "alice", Nonce: gate.Nonce(saleKey(), "alice", 0), NotBefore: noon, Expires: noon.Add(15 * time.Minute)}
}

func signed(tb testing.TB, k gate.Keys, p gate.Pass) string {
	tb.Helper()
	text, err := k.SignPass(p, noon)
	require.NoError(tb, err)
	return text
}

func TestPass(t *testing.T) {
	t.Parallel()
	k := oneKey()
	p := pass()
	p.NotBefore, p.Expires = p.NotBefore.Add(1234567), p.Expires.Add(1999999)
	text := signed(t, k, p)
	require.Len(t, text, 92)
	require.Regexp(t, `^[!-~]+$`, text)
	require.Equal(t, text, signed(t, k, p), "the same pass has the same text")
	require.NotContains(t, text, "alice")

	got, flaw := k.VerifyPass(text, "alice", 7, noon.Add(time.Minute))
	require.Equal(t, gate.Sound, flaw)
	p.NotBefore, p.Expires = noon.Add(time.Millisecond), noon.Add(15*time.Minute+time.Millisecond)
	require.Equal(t, p, got)
}

func TestPassWindowIsHalfOpen(t *testing.T) {
	t.Parallel()
	k, text := oneKey(), signed(t, oneKey(), pass())
	for after, want := range map[time.Duration]gate.Flaw{
		-time.Hour: gate.NotYet, -gate.MaxSkew - 1: gate.NotYet, -gate.MaxSkew: gate.Sound, 0: gate.Sound, 15*time.Minute - 1: gate.Sound, 15 * time.Minute: gate.Expired, life: gate.Expired,
	} {
		_, flaw := k.VerifyPass(text, "alice", 7, noon.Add(after))
		require.Equal(t, want, flaw, "%v", after)
	}
}

// C59: a pass that has expired buys nothing, but still finds the order that it became.
func TestC59ExpiredPassOpensAReplay(t *testing.T) {
	t.Parallel()
	k := oneKey()
	got, flaw := k.VerifyPass(signed(t, k, pass()), "alice", 7, noon.Add(time.Hour))
	require.Equal(t, gate.Expired, flaw)
	require.Equal(t, pass().Nonce, got.Nonce)
}

// C59: one pass is one order wherever it is presented, since its nonce names the
// order; that of another user or sale would be another one.
func TestC59ReplayedPassIsOneOrder(t *testing.T) {
	t.Parallel()
	k, text := oneKey(), signed(t, oneKey(), pass())
	ids := make(map[sale.OrderID]bool)
	for i := range 50 {
		p, flaw := k.VerifyPass(text, "alice", 7, noon.Add(time.Duration(i)*time.Second))
		require.Equal(t, gate.Sound, flaw)
		ids[sale.DeriveOrderID(saleKey(), 7, "alice", p.Nonce)] = true
	}
	require.Len(t, ids, 1)
}

// C59: nobody else's pass, and not in another sale.
func TestC59ForeignPass(t *testing.T) {
	t.Parallel()
	k, text := oneKey(), signed(t, oneKey(), pass())
	for _, user := range []string{"bob", "Alice", "alice ", "", "alic", "ａlice", "alice\x00"} {
		got, flaw := k.VerifyPass(text, user, 7, noon)
		require.Equal(t, gate.ForeignUser, flaw, user)
		require.Zero(t, got)
	}
	for _, number := range []sale.Number{0, 6, 8, 1 << 31} {
		got, flaw := k.VerifyPass(text, "alice", number, noon)
		require.Equal(t, gate.ForeignSale, flaw)
		require.Zero(t, got)
	}
}

// C59: no text but the one that was signed is a pass.
func TestC59ForgedPass(t *testing.T) {
	t.Parallel()
	k, text := oneKey(), signed(t, oneKey(), pass())
	for _, bad := range broken(text) {
		got, flaw := k.VerifyPass(bad, "alice", 7, noon)
		require.Contains(t, []gate.Flaw{gate.Malformed, gate.Forged, gate.UnknownKey}, flaw, "%q", bad)
		require.Zero(t, got)
	}
	// Each bit counts, behind a signature that fits nothing else.
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		_, flaw := k.VerifyPass(base64.RawURLEncoding.EncodeToString(raw), "alice", 7, noon)
		require.Contains(t, []gate.Flaw{gate.Malformed, gate.Forged, gate.UnknownKey}, flaw, "bit %d", bit)
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

// C59: asking again gives the same nonce until it became an order, and an attempt that
// failed changes nothing.
func TestC59MintingAgainGivesTheSamePass(t *testing.T) {
	t.Parallel()
	orders := make(map[string]bool)
	became := func(_ context.Context, nonce string) (bool, error) { return orders[nonce], nil }
	mint := func() string {
		nonce, n, err := gate.FreshNonce(t.Context(), saleKey(), "alice", became)
		require.NoError(t, err)
		require.Equal(t, gate.Nonce(saleKey(), "alice", n), nonce)
		require.Equal(t, len(orders), int(n))
		p := pass()
		p.Nonce = nonce
		return signed(t, oneKey(), p)
	}
	first := mint()
	for range 10 {
		require.Equal(t, first, mint())
	}
	orders[gate.Nonce(saleKey(), "alice", 0)] = true
	second := mint()
	require.NotEqual(t, first, second)
	require.Equal(t, second, mint())
	orders[gate.Nonce(saleKey(), "bob", 1)] = true
	delete(orders, gate.Nonce(saleKey(), "bob", 1))
	require.Equal(t, second, mint())
}

func TestFreshNonceEnds(t *testing.T) {
	t.Parallel()
	asked := 0
	_, _, err := gate.FreshNonce(t.Context(), saleKey(), "alice", func(context.Context, string) (bool, error) { asked++; return true, nil })
	require.ErrorIs(t, err, gate.ErrTooManyPasses)
	require.Equal(t, gate.MaxPasses, asked)
	down := errors.New("down")
	_, _, err = gate.FreshNonce(t.Context(), saleKey(), "alice", func(context.Context, string) (bool, error) { return false, down })
	require.ErrorIs(t, err, down)
}

func TestNonce(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, k := range []sale.Key{saleKey(), {9}} {
		for _, user := range []string{"a", "ab", "alice", "Alice", strings.Repeat("x", 128), "a\x00", "\x00a"} {
			for n := range uint32(3) {
				nonce := gate.Nonce(k, user, n)
				require.Regexp(t, `^pass_[0-9a-f]{32}$`, nonce)
				require.NotContains(t, seen, nonce)
				seen[nonce] = user
			}
		}
	}
	// The text is part of the protocol: orders are found by it.
	require.Equal(t, "pass_5ae8331ef59825d9125fad4b902a26f0", gate.Nonce(saleKey(), "alice", 0))
}

func TestSignPassRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gate.Pass){
		"no nonce":      func(p *gate.Pass) { p.Nonce = "" },
		"foreign nonce": func(p *gate.Pass) { p.Nonce = "click-1" },
		"upper case": func(p *gate.Pass) {
			p.Nonce = "pass_" + strings.ToUpper(strings.TrimPrefix(p.Nonce, "pass_"))
			p.Nonce = strings.Replace(p.Nonce, "0", "A", 1)
		},
		"long nonce":     func(p *gate.Pass) { p.Nonce += "00" },
		"no digits":      func(p *gate.Pass) { p.Nonce = "pass_" + strings.Repeat("g", 32) },
		"no start":       func(p *gate.Pass) { p.NotBefore = time.Time{} },
		"no end":         func(p *gate.Pass) { p.Expires = time.Time{} },
		"empty window":   func(p *gate.Pass) { p.Expires = p.NotBefore },
		"inverse window": func(p *gate.Pass) { p.Expires = p.NotBefore.Add(-time.Hour) },
		"far future":     func(p *gate.Pass) { p.Expires = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		p := pass()
		change(&p)
		_, err := oneKey().SignPass(p, noon)
		require.Error(t, err, name)
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	nonce := pass().Nonce
	path := gate.Path(saleKey(), "alice", nonce)
	require.Regexp(t, `^[0-9a-f]{32}$`, path)
	require.NotContains(t, nonce, path)
	require.True(t, gate.PathMatches(saleKey(), "alice", nonce, path))
	for _, bad := range []string{"", path[1:], path + "0", strings.ToUpper(path), gate.Path(saleKey(), "bob", nonce), gate.Path(sale.Key{}, "alice", nonce), gate.Path(saleKey(), "alice", gate.Nonce(saleKey(), "alice", 1))} {
		require.False(t, gate.PathMatches(saleKey(), "alice", nonce, bad), "%q", bad)
	}
}

// Whatever is presented, only what was signed is sound, and it says one thing.
func FuzzPass(f *testing.F) {
	k := oneKey()
	plain, proved := pass(), pass()
	proved.Proved = true
	passes := map[string]gate.Pass{signed(f, k, plain): plain, signed(f, k, proved): proved}
	for text := range passes {
		f.Add(text, "alice", uint32(7))
		f.Add(text, "bob", uint32(7))
	}
	f.Add(strings.Repeat("A", 92), "alice", uint32(0))
	f.Add("", "", uint32(0))
	f.Fuzz(func(t *testing.T, presented, user string, number uint32) {
		got, flaw := k.VerifyPass(presented, user, sale.Number(number), noon)
		if flaw != gate.Sound {
			require.Zero(t, got)
			return
		}
		require.Contains(t, passes, presented)
		require.Equal(t, passes[presented], got)
	})
}

func BenchmarkVerifyPass(b *testing.B) {
	k := gate.NewKeys([]ledger.GateKey{secretKey(1, noon.Add(-life), time.Time{})}, life, noon)
	text := signed(b, k, pass())
	b.ReportAllocs()
	for b.Loop() {
		if _, flaw := k.VerifyPass(text, "alice", 7, noon); flaw != gate.Sound {
			b.Fatal(flaw)
		}
	}
}
