package ledgertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// gate is everything of the gate.
type gate struct {
	version  int64
	settings ledger.Settings
	listings map[ledger.Subject]ledger.Listing
	keys     map[uint32]ledger.GateKey
}

func (g *gate) copy() gate {
	c := *g
	c.listings, c.keys = cloned(g.listings), cloned(g.keys)
	return c
}

// GateVersion implements ledger.Reader.
func (r *memReader) GateVersion(ctx context.Context) (int64, error) {
	if err := r.statement(ctx); err != nil {
		return 0, err
	}
	return r.at().gate.version, nil
}

// GateSettings implements ledger.Reader.
func (r *memReader) GateSettings(ctx context.Context) (ledger.Settings, error) {
	if err := r.statement(ctx); err != nil {
		return ledger.Settings{}, err
	}
	s := r.at().gate.settings
	s.Text = bytes.Clone(s.Text)
	return s, nil
}

// ListingsOf implements ledger.Reader.
func (r *memReader) ListingsOf(ctx context.Context, subjects []ledger.Subject) (map[ledger.Subject]ledger.Listing, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	out := make(map[ledger.Subject]ledger.Listing)
	for _, s := range subjects {
		if l, found := r.at().gate.listings[s]; found {
			out[s] = l
		}
	}
	return out, nil
}

// Listings implements ledger.Reader.
func (r *memReader) Listings(ctx context.Context, after int64, limit int) ([]ledger.Listing, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	var out []ledger.Listing
	for _, l := range r.at().gate.listings {
		if l.Version > after {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b ledger.Listing) int { return cmp.Compare(a.Version, b.Version) })
	return out[:min(len(out), limit)], nil
}

// CountListings implements ledger.Reader.
func (r *memReader) CountListings(ctx context.Context, now time.Time) (int, error) {
	if err := r.statement(ctx); err != nil {
		return 0, err
	}
	n := 0
	for _, l := range r.at().gate.listings {
		if l.InForce(now) {
			n++
		}
	}
	return n, nil
}

// GateKeys implements ledger.Reader.
func (r *memReader) GateKeys(ctx context.Context) ([]ledger.GateKey, error) {
	if err := r.statement(ctx); err != nil {
		return nil, err
	}
	keys := slices.SortedFunc(maps.Values(r.at().gate.keys), func(a, b ledger.GateKey) int { return cmp.Compare(b.ID, a.ID) })
	return keys, nil
}

// LockGate implements ledger.Tx.
func (tx *memTx) LockGate(ctx context.Context) (int64, error) {
	tx.gated = true
	return tx.GateVersion(ctx)
}

var errGateUnlocked = errors.New("ledgertest: the gate is written but not locked")

// WriteGate implements ledger.Tx: all guards of ledger.GateChanges.
func (tx *memTx) WriteGate(ctx context.Context, c *ledger.GateChanges) error {
	if err := tx.step(ctx); err != nil {
		return err
	}
	if !tx.gated {
		return errGateUnlocked
	}
	if err := c.Check(); err != nil {
		return err
	}
	g := &tx.at().gate
	if g.version != c.From {
		return refused("the gate's version is %d, not %d", g.version, c.From)
	}
	g.version = c.Version
	for _, l := range c.Listings {
		if err := tx.step(ctx); err != nil {
			return err
		}
		l.CreatedAt, l.ExpiresAt = instant(l.CreatedAt), instant(l.ExpiresAt)
		g.listings[l.Subject] = l
	}
	if c.Settings != nil {
		g.settings = *c.Settings
		g.settings.Text, g.settings.At = bytes.Clone(c.Settings.Text), instant(c.Settings.At)
	}
	return tx.writeGateKeys(ctx, g, c)
}

func (tx *memTx) writeGateKeys(ctx context.Context, g *gate, c *ledger.GateChanges) error {
	for _, k := range c.Keys {
		if err := tx.step(ctx); err != nil {
			return err
		}
		if old, known := g.keys[k.ID]; known && old.Secret != k.Secret {
			return refused("%v has another secret", k)
		}
		k.CreatedAt, k.RetiredAt = instant(k.CreatedAt), instant(k.RetiredAt)
		g.keys[k.ID] = k
	}
	for _, id := range c.Forgotten {
		if _, known := g.keys[id]; !known {
			return refused("there is no gate key %d", id)
		}
		delete(g.keys, id)
	}
	return nil
}

// PruneListings implements ledger.Tx.
func (tx *memTx) PruneListings(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := tx.step(ctx); err != nil {
		return 0, err
	}
	if !tx.gated {
		return 0, errGateUnlocked
	}
	g := &tx.at().gate
	var ended []ledger.Listing
	for _, l := range g.listings {
		if !l.ExpiresAt.IsZero() && l.ExpiresAt.Before(before) {
			ended = append(ended, l)
		}
	}
	slices.SortFunc(ended, func(a, b ledger.Listing) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.Version, b.Version))
	})
	ended = ended[:min(len(ended), limit)]
	for i := range ended {
		delete(g.listings, ended[i].Subject)
	}
	return len(ended), nil
}
