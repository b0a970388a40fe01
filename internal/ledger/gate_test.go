package ledger

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// TestSecretsAreNeverPrinted: by no verb, encoder or logger, alone or inside of
// something else.
func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	k := GateKey{ID: 7, CreatedAt: time.Unix(1, 0)}
	for i := range k.Secret {
		k.Secret[i] = 0xa7
	}
	inside := struct {
		Key  GateKey
		Keys []GateKey
		At   *GateKey
	}{k, []GateKey{k}, &k}
	var printed strings.Builder
	for _, v := range []any{k, &k, k.Secret, &k.Secret, inside, []GateSecret{k.Secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q", "%o", "%c"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		printed.Write(raw)
		slog.New(slog.NewTextHandler(&printed, nil)).Info("x", slog.Any("v", v))
		slog.New(slog.NewJSONHandler(&printed, nil)).Info("x", slog.Any("v", v))
	}
	fmt.Fprintln(&printed, k.Secret.String(), k.String())
	text := printed.String()
	require.Contains(t, text, "gate key 7")
	require.Contains(t, text, hidden)
	for name, leak := range map[string]string{
		"bytes": "167 167", "list": "167,167", "octal": "247 247", "literal": "0xa7, 0xa7",
		"hex": hex.EncodeToString(k.Secret[:4]), "HEX": strings.ToUpper(hex.EncodeToString(k.Secret[:4])),
		"base64": base64.StdEncoding.EncodeToString(k.Secret[:6]), "raw": string(bytes.Repeat([]byte{0xa7}, 4)), "runes": "§ §",
	} {
		require.NotContains(t, text, leak, name)
	}
}

func TestDoubled(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(1<<63 - 1)
	for _, c := range []struct {
		base, most time.Duration
		times      int
		want       time.Duration
	}{
		{time.Minute, time.Hour, 0, time.Minute},
		{time.Minute, time.Hour, 5, 32 * time.Minute},
		{time.Minute, time.Hour, 6, time.Hour},
		{time.Minute, time.Hour, 1 << 40, time.Hour},
		{time.Minute, time.Minute, 9, time.Minute},
		{longest - 1, longest, 3, longest},
		{time.Nanosecond, longest, 62, 1 << 62},
		{time.Nanosecond, longest, 63, longest},
	} {
		require.Equal(t, c.want, doubled(c.base, c.most, c.times), "%+v", c)
	}
}

// FuzzCanonical: whatever text a network is given as, its one form is a fixed point
// of reading it, so that two ways of writing it are one subject.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:0:0/95", "fe80::1%eth0", "2001:db8::/129", "1.2.3.4", "", "::ffff:1.2.3.4/95"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Subject{Kind: SubjectNetwork, Value: text}.Canonical()
		if err != nil {
			require.Equal(t, sale.CodeInvalid, sale.CodeOf(err))
			return
		}
		again, err := s.Canonical()
		require.NoError(t, err, s.Value)
		require.Equal(t, s, again)
	})
}

// crowded is a store whose gate holds n listings in force, one of them known.
type crowded struct {
	Store
	n       int
	known   Listing
	key     GateKey // to be seen in a transaction only
	written int     // listings and keys
}

func (*crowded) Read() Reader { return crowdedReader{} }

// crowdedReader has not seen what another instance writes at this moment.
type crowdedReader struct{ Reader }

func (crowdedReader) GateKeys(context.Context) ([]GateKey, error) { return nil, nil }

func (c *crowded) Update(_ context.Context, fn func(Tx) error) error {
	return fn(&crowdedTx{crowded: c})
}

type crowdedTx struct {
	Tx
	*crowded
}

func (*crowdedTx) Now() time.Time                          { return time.UnixMilli(1_000_000) }
func (*crowdedTx) LockGate(context.Context) (int64, error) { return 5, nil }

func (c *crowdedTx) ListingsOf(context.Context, []Subject) (map[Subject]Listing, error) {
	return map[Subject]Listing{c.known.Subject: c.known}, nil
}

func (c *crowdedTx) CountListings(context.Context, time.Time) (int, error) { return c.n, nil }

func (c *crowdedTx) WriteGate(_ context.Context, w *GateChanges) error {
	c.written += len(w.Listings) + len(w.Keys)
	return nil
}

func (c *crowdedTx) GateKeys(context.Context) ([]GateKey, error) { return []GateKey{c.key}, nil }

// TestFirstKeyOfAnother: who finds no key at first finds the one that another
// instance has made meanwhile.
func TestFirstKeyOfAnother(t *testing.T) {
	t.Parallel()
	c := &crowded{key: GateKey{ID: 1, Secret: GateSecret{7}}}
	k, err := New(c).EnsureGateKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.key, k)
	require.Zero(t, c.written)
}

// TestListingsAreBounded: at the bound nothing new is taken, while what is in force
// can still be replaced.
func TestListingsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ann, bob := Subject{Kind: SubjectUser, Value: "ann"}, Subject{Kind: SubjectUser, Value: "bob"}
	challenge := Offence{Subject: ann, Effect: EffectChallenge, Base: time.Minute, Max: time.Hour}
	known := challenge.sentence(&Listing{}, time.UnixMilli(999_000))
	deny := challenge
	deny.Effect = EffectDeny
	other := deny
	other.Subject = bob
	full := func(err error, c *crowded) {
		t.Helper()
		require.Equal(t, sale.CodeListingsFull, sale.CodeOf(err))
		require.Zero(t, c.written)
	}

	c := &crowded{n: MaxListings, known: known}
	b := New(c)
	_, err := b.PutListing(ctx, Listing{Subject: bob, Effect: EffectDeny, Author: "olga"})
	full(err, c)
	_, err = b.Ban(ctx, []Offence{deny, other})
	full(err, c)
	_, err = b.PutListing(ctx, Listing{Subject: ann, Effect: EffectDeny, Author: "olga"})
	require.NoError(t, err)
	_, err = b.Ban(ctx, []Offence{deny})
	require.NoError(t, err)
	require.Equal(t, 2, c.written)

	c = &crowded{n: MaxListings - ListingsOfOperators, known: known}
	b = New(c)
	_, err = b.Ban(ctx, []Offence{other})
	full(err, c)
	_, err = b.PutListing(ctx, Listing{Subject: bob, Effect: EffectDeny, Author: "olga"})
	require.NoError(t, err, "the gate's own bans leave room for operators")

	c = &crowded{n: MaxListings - ListingsOfOperators - 1, known: known}
	b = New(c)
	third := other
	third.Subject.Value = "cid"
	_, err = b.Ban(ctx, []Offence{other, third})
	full(err, c)
	_, err = b.Ban(ctx, []Offence{other, deny, other})
	require.NoError(t, err)
	require.Equal(t, 2, c.written)
}
