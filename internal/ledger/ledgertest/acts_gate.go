package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func user(id string) ledger.Subject { return ledger.Subject{Kind: ledger.SubjectUser, Value: id} }

func network(cidr string) ledger.Subject {
	return ledger.Subject{Kind: ledger.SubjectNetwork, Value: cidr}
}

// deny is an operator's listing without an end.
func deny(s ledger.Subject) ledger.Listing {
	return ledger.Listing{Subject: s, Effect: ledger.EffectDeny, Reason: "resells", Author: "olga"}
}

// offence is answered by a minute's deny, then two, up to ten, for an hour.
func offence(s ledger.Subject) ledger.Offence {
	return ledger.Offence{
		Subject: s, Effect: ledger.EffectDeny, Reason: "too fast for a hand",
		Base: time.Minute, Max: 10 * time.Minute, Memory: time.Hour,
	}
}

func (w *world) list(t *testing.T, l ledger.Listing) ledger.Listing {
	t.Helper()
	kept, err := w.ledger.PutListing(t.Context(), l)
	require.NoError(t, err)
	return kept
}

func (w *world) ban(t *testing.T, offences ...ledger.Offence) []ledger.Listing {
	t.Helper()
	kept, err := w.ledger.Ban(t.Context(), offences)
	require.NoError(t, err)
	require.Len(t, kept, len(offences))
	return kept
}

func (w *world) settings(t *testing.T, version int64, text string) ledger.Settings {
	t.Helper()
	kept, err := w.ledger.PutGateSettings(t.Context(), version, []byte(text), "olga")
	require.NoError(t, err)
	return kept
}

// gateActs prepares the gate and returns every kind of write on it.
func (w *world) gateActs(t *testing.T) []act {
	t.Helper()
	w.list(t, deny(user("dropped")))
	w.list(t, deny(user("changed")))
	short := offence(user("pruned"))
	short.Base = time.Millisecond
	w.ban(t, short, offence(user("running")))
	ended := w.now(t).Add(time.Millisecond)
	w.Advance(2 * time.Millisecond)
	seen := w.settings(t, 0, `{"n":1}`)
	changed := deny(user("changed"))
	changed.Effect = ledger.EffectAllow
	return []act{
		{name: "list", do: listing(deny(network("192.0.2.0/24")))},
		{name: "list in the place of another", do: listing(changed)},
		{name: "drop a listing", fails: sale.CodeListingNotFound, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.DropListing(ctx, user("dropped"), "olga")
			return err
		}},
		{name: "ban", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.Ban(ctx, []ledger.Offence{offence(user("bad")), offence(network("2001:db8::/64")), offence(user("running"))})
			return err
		}},
		{name: "prune", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.PruneListings(ctx, ended.Add(time.Millisecond), 0)
			return err
		}},
		{name: "settings of the gate", fails: sale.CodeVersionMismatch, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.PutGateSettings(ctx, seen.Version, []byte(`{"n":2}`), "olga")
			return err
		}},
		{name: "the first key of the gate", do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.EnsureGateKey(ctx)
			return err
		}},
		{name: "rotate the keys of the gate", anew: true, do: func(ctx context.Context, l ledger.Ledger) error {
			_, err := l.RotateGateKey(ctx, time.Hour)
			return err
		}},
	}
}

func listing(li ledger.Listing) func(context.Context, ledger.Ledger) error {
	return func(ctx context.Context, l ledger.Ledger) error {
		_, err := l.PutListing(ctx, li)
		return err
	}
}

// gateContents is everything that a store holds of the gate.
type gateContents struct {
	version  int64
	settings ledger.Settings
	listings []ledger.Listing
	keys     []ledger.GateKey
}

func (c *gateContents) read(ctx context.Context, r ledger.Reader) (err error) {
	if c.version, err = r.GateVersion(ctx); err != nil {
		return err
	}
	if c.settings, err = r.GateSettings(ctx); err != nil {
		return err
	}
	if c.listings, err = r.Listings(ctx, 0, 1000); err != nil {
		return err
	}
	c.keys, err = r.GateKeys(ctx)
	return err
}
