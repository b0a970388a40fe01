package gate_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
)

const life = time.Hour

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// secretKey is a key whose secret is its number over and over.
func secretKey(id uint32, created, retired time.Time) ledger.GateKey {
	k := ledger.GateKey{ID: id, CreatedAt: created, RetiredAt: retired}
	copy(k.Secret[:], bytes.Repeat([]byte{byte(id)}, len(k.Secret))) //nolint:gosec // small
	return k
}

// oneKey is the keys of an instance that has had one for long.
func oneKey() gate.Keys {
	return gate.NewKeys([]ledger.GateKey{secretKey(1, noon.Add(-life), time.Time{})}, life, noon)
}

// rotated is the keys after key 1 was replaced by key 2 at noon.
func rotated(now time.Time) gate.Keys {
	return gate.NewKeys([]ledger.GateKey{secretKey(1, noon.Add(-life), noon), secretKey(2, noon, time.Time{})}, life, now)
}

// broken returns every text that differs from this one in one character, and some
// that differ more.
func broken(text string) []string {
	list := []string{"", " " + text, text + " ", text + "=", text + "\n", text[1:], text[:len(text)-1], strings.ToUpper(text), text + text, text[:8] + "\n" + text[9:]}
	for i := range len(text) {
		for _, c := range []byte{'A', 'b', '-', '=', '\n', 0} {
			if text[i] != c {
				list = append(list, text[:i]+string(rune(c))+text[i+1:])
			}
		}
	}
	return list
}

func TestNoKeys(t *testing.T) {
	t.Parallel()
	retired := gate.NewKeys([]ledger.GateKey{secretKey(1, noon.Add(-life), noon.Add(-time.Minute))}, life, noon)
	for name, k := range map[string]gate.Keys{"zero": {}, "none": gate.NewKeys(nil, life, noon), "all retired": retired} {
		_, err := k.SignPass(pass(), noon)
		require.ErrorIs(t, err, gate.ErrNoKey, name)
		_, err = k.SignDevice(gate.NewDevice(noon), noon)
		require.ErrorIs(t, err, gate.ErrNoKey, name)
		_, err = k.NewChallenge(gate.Bound{}, 1, noon.Add(life), noon)
		require.ErrorIs(t, err, gate.ErrNoKey, name)
		require.Zero(t, k.SigningKey(noon), name)
	}
	early := pass()
	early.NotBefore = noon.Add(-2 * time.Minute)
	text, err := oneKey().SignPass(early, noon)
	require.NoError(t, err)
	_, flaw := gate.Keys{}.VerifyPass(text, "alice", 7, noon)
	require.Equal(t, gate.UnknownKey, flaw)
	_, flaw = retired.VerifyPass(text, "alice", 7, noon)
	require.Equal(t, gate.Sound, flaw, "a retired key still verifies")
	text, err = oneKey().SignPass(pass(), noon)
	require.NoError(t, err)
	_, flaw = retired.VerifyPass(text, "alice", 7, noon)
	require.Equal(t, gate.RetiredKey, flaw, "but not what was made after its time")
	forEver := pass()
	forEver.Expires = noon.Add(100 * 365 * 24 * time.Hour)
	text, err = oneKey().SignPass(forEver, noon)
	require.NoError(t, err)
	_, flaw = oneKey().VerifyPass(text, "alice", 7, noon)
	require.Equal(t, gate.Forged, flaw, "the house makes none that is good for so long")
}

// A new key signs when every instance knows it, and the one before it verifies for as
// long as what it signed lives.
func TestRotation(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]uint32{
		-time.Second: 1, 0: 1, gate.KeySettle - 1: 1, gate.KeySettle: 2, life: 2, 100 * life: 2,
	} {
		now := noon.Add(after)
		require.Equal(t, want, rotated(now).SigningKey(now), "%v", after)
		require.Equal(t, want, rotated(noon).SigningKey(now), "a list that was read earlier says the same: %v", after)
	}
	first := gate.NewKeys([]ledger.GateKey{secretKey(1, noon, time.Time{})}, life, noon)
	require.Equal(t, uint32(1), first.SigningKey(noon), "the first key of all need not settle")

	long := pass()
	long.Expires = noon.Add(2 * gate.MaxPassLife)
	text, err := oneKey().SignPass(long, noon)
	require.NoError(t, err)
	end := noon.Add(life + gate.KeySettle)
	for _, x := range []struct {
		read, now time.Time
		want      gate.Flaw
	}{
		{noon, end, gate.Sound},
		{end, end, gate.Sound},
		{noon, end.Add(1), gate.RetiredKey},
		{end.Add(1), end.Add(1), gate.RetiredKey},
		{end.Add(1), end, gate.RetiredKey}, // the secret is not kept
	} {
		_, flaw := rotated(x.read).VerifyPass(text, "alice", 7, x.now)
		require.Equal(t, x.want, flaw, "%+v", x)
	}
	_, flaw := gate.NewKeys([]ledger.GateKey{secretKey(2, noon, time.Time{})}, life, noon).VerifyPass(text, "alice", 7, noon)
	require.Equal(t, gate.UnknownKey, flaw)
}

// What was signed for one use is nothing in another, and a key's number is no secret
// whose change goes unseen.
func TestTokensAreOfOneKind(t *testing.T) {
	t.Parallel()
	k := oneKey()
	p, err := k.SignPass(pass(), noon)
	require.NoError(t, err)
	d, err := k.SignDevice(gate.NewDevice(noon), noon)
	require.NoError(t, err)
	_, flaw := k.VerifyPass(d, "alice", 7, noon)
	require.Equal(t, gate.Malformed, flaw)
	_, flaw = k.VerifyDevice(p, life, noon)
	require.Equal(t, gate.Malformed, flaw)

	other := gate.NewKeys([]ledger.GateKey{secretKey(9, noon.Add(-life), time.Time{})}, life, noon)
	same := gate.NewKeys([]ledger.GateKey{{ID: 1, Secret: secretKey(9, noon, noon).Secret, CreatedAt: noon.Add(-life)}}, life, noon)
	_, flaw = other.VerifyPass(p, "alice", 7, noon)
	require.Equal(t, gate.UnknownKey, flaw)
	_, flaw = same.VerifyPass(p, "alice", 7, noon)
	require.Equal(t, gate.Forged, flaw)
}

func TestKeysAreSafeTogether(t *testing.T) {
	t.Parallel()
	k := rotated(noon)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				p := pass()
				p.User = fmt.Sprint(i, n)
				text, err := k.SignPass(p, noon.Add(time.Duration(n)*time.Minute/4))
				if err != nil {
					panic(err)
				}
				if _, flaw := k.VerifyPass(text, p.User, 7, noon); flaw != gate.Sound {
					panic(flaw)
				}
			}
		})
	}
	all.Wait()
}

// Nothing that prints keys prints their secrets.
func TestKeysDoNotTell(t *testing.T) {
	t.Parallel()
	k := gate.NewKeys([]ledger.GateKey{secretKey('A', noon, time.Time{})}, life, noon)
	_, err := k.SignDevice(gate.NewDevice(noon), noon)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		text := fmt.Sprintf(verb, k)
		require.NotContains(t, text, strings.Repeat("A", 8), verb)
		require.NotContains(t, text, "0x41, 0x41", verb)
		require.NotContains(t, text, strings.Repeat("41", 8), verb)
		require.NotContains(t, text, "65 65 65", verb)
	}
}

func TestFlawNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for f := gate.Sound; f <= gate.Used; f++ {
		require.NotEqual(t, "unknown", f.String())
		require.False(t, seen[f.String()])
		seen[f.String()] = true
	}
	require.Equal(t, "unknown", (gate.Used + 1).String())
}
