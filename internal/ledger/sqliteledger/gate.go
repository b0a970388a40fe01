package sqliteledger

import (
	"context"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// GateVersion implements ledger.Reader.
func (r *reader) GateVersion(ctx context.Context) (int64, error) {
	return ofGate(ctx, r, "gate_version", func(row *row) (int64, error) {
		version := row.int()
		return version, row.done()
	})
}

// GateSettings implements ledger.Reader.
func (r *reader) GateSettings(ctx context.Context) (ledger.Settings, error) {
	return ofGate(ctx, r, "gate_settings", decodeSettings)
}

// ofGate reads something of the gate's only row.
func ofGate[T any](ctx context.Context, r *reader, name string, decode func(*row) (T, error)) (v T, err error) {
	found := false
	err = r.get(ctx, name, nil, each(func(read T) error {
		v, found = read, true
		return nil
	}, decode))
	if err == nil && !found {
		err = corrupt("the gate's row is missing")
	}
	return v, err
}

func decodeSettings(row *row) (ledger.Settings, error) {
	s := ledger.Settings{Version: row.int(), Text: row.blob(), Author: row.text(), At: row.time()}
	if len(s.Text) == 0 {
		s.Text = nil
	}
	if err := row.done(); err != nil {
		return ledger.Settings{}, fmt.Errorf("the gate's settings: %w", err)
	}
	return s, nil
}

// ListingsOf implements ledger.Reader. Each is a statement of its own, so outside of a
// transaction they may see different instants.
func (r *reader) ListingsOf(ctx context.Context, subjects []ledger.Subject) (map[ledger.Subject]ledger.Listing, error) {
	out := make(map[ledger.Subject]ledger.Listing)
	for _, s := range subjects {
		err := r.get(ctx, "listing_of_subject", func(a *args) {
			a.text(string(s.Kind))
			a.text(s.Value)
		}, each(func(l ledger.Listing) error {
			out[s] = l
			return nil
		}, decodeListing))
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Listings implements ledger.Reader. A listing that cannot be read is left out and
// reported to Options.OnCorrupt.
func (r *reader) Listings(ctx context.Context, after int64, limit int) ([]ledger.Listing, error) {
	return full(limit, func(limit int, out *[]ledger.Listing) (rows int, err error) {
		err = r.scan(ctx, "listings_after", func(a *args) {
			a.int(after)
			a.int(int64(limit))
		}, counted(&rows, list(r, out, decodeListing)))
		return rows, err
	})
}

func decodeListing(row *row) (ledger.Listing, error) {
	l := ledger.Listing{
		Subject: ledger.Subject{Kind: oneOf(row, ledger.SubjectUser, ledger.SubjectDevice, ledger.SubjectNetwork), Value: row.text()},
		Effect:  oneOf(row, ledger.EffectDeny, ledger.EffectAllow, ledger.EffectChallenge),
		Reason:  row.text(), Author: row.text(), CreatedAt: row.time(), ExpiresAt: row.time(), Level: int(row.int()),
		Dropped: row.int() != 0, Version: row.int(),
	}
	if err := row.done(); err != nil {
		return ledger.Listing{}, fmt.Errorf("listing %d: %w", l.Version, err)
	}
	return l, nil
}

// CountListings implements ledger.Reader.
func (r *reader) CountListings(ctx context.Context, now time.Time) (n int, err error) {
	err = r.scan(ctx, "listings_count", func(a *args) { a.time(now) }, func(row *row) error {
		n = int(row.int())
		return row.done()
	})
	return n, err
}

// GateKeys implements ledger.Reader. One that cannot be read is an error: without it
// the gate would refuse what it has signed, or begin anew.
func (r *reader) GateKeys(ctx context.Context) ([]ledger.GateKey, error) {
	var out []ledger.GateKey
	err := r.get(ctx, "gate_keys", nil, each(func(k ledger.GateKey) error {
		out = append(out, k)
		return nil
	}, decodeGateKey))
	if err != nil {
		return nil, err
	}
	return out, nil
}

func decodeGateKey(row *row) (ledger.GateKey, error) {
	k := ledger.GateKey{
		ID: uint32(row.int()), Secret: row.digest(), CreatedAt: row.time(), RetiredAt: row.time(), //nolint:gosec // the table holds it in range
	}
	if err := row.done(); err != nil {
		return ledger.GateKey{}, fmt.Errorf("%v: %w", k, err)
	}
	return k, nil
}

// LockGate implements ledger.Tx.
func (t *tx) LockGate(ctx context.Context) (int64, error) { return t.GateVersion(ctx) }

// WriteGate implements ledger.Tx.
func (t *tx) WriteGate(ctx context.Context, c *ledger.GateChanges) error {
	if err := c.Check(); err != nil {
		return err
	}
	err := t.must(ctx, "gate_advance", func(a *args) {
		a.int(c.Version)
		a.int(c.From)
	})
	for i := 0; err == nil && i < len(c.Listings); i++ {
		err = t.putListing(ctx, &c.Listings[i])
	}
	if s := c.Settings; err == nil && s != nil {
		err = t.must(ctx, "gate_settings_put", func(a *args) {
			a.int(s.Version)
			a.blob(append([]byte{}, s.Text...)) // never NULL
			a.text(s.Author)
			a.time(s.At)
		})
	}
	for i := 0; err == nil && i < len(c.Keys); i++ {
		k := &c.Keys[i]
		err = t.must(ctx, "gate_key_put", func(a *args) {
			a.int(int64(k.ID))
			a.blob(k.Secret[:])
			a.time(k.CreatedAt)
			a.time(k.RetiredAt)
		})
	}
	for i := 0; err == nil && i < len(c.Forgotten); i++ {
		err = t.must(ctx, "gate_key_forget", func(a *args) { a.int(int64(c.Forgotten[i])) })
	}
	return err
}

func (t *tx) putListing(ctx context.Context, l *ledger.Listing) error {
	dropped := int64(0)
	if l.Dropped {
		dropped = 1
	}
	return t.must(ctx, "listing_put", func(a *args) {
		a.text(string(l.Subject.Kind))
		a.text(l.Subject.Value)
		a.text(string(l.Effect))
		a.text(l.Reason)
		a.text(l.Author)
		a.time(l.CreatedAt)
		a.time(l.ExpiresAt)
		a.int(int64(l.Level))
		a.int(dropped)
		a.int(l.Version)
	})
}

// PruneListings implements ledger.Tx.
func (t *tx) PruneListings(ctx context.Context, before time.Time, limit int) (int, error) {
	n, _, err := t.exec(ctx, "listings_prune", func(a *args) {
		a.time(before)
		a.int(int64(limit))
	})
	return int(n), err
}
