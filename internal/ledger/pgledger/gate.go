package pgledger

import (
	"context"
	"fmt"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// GateVersion implements ledger.Reader.
func (r *reader) GateVersion(ctx context.Context) (int64, error) {
	return ofGate(ctx, r, "gate_version", decodeVersion)
}

// GateSettings implements ledger.Reader.
func (r *reader) GateSettings(ctx context.Context) (ledger.Settings, error) {
	return ofGate(ctx, r, "gate_settings", decodeSettings)
}

// ofGate reads something of the gate's only row.
func ofGate[T any](ctx context.Context, r *reader, name string, decode func(*row) (T, error)) (T, error) {
	v, found, err := one(ctx, r, step{name: name}, decode)
	if err == nil && !found {
		err = errNoGate()
	}
	return v, err
}

func errNoGate() error { return corrupt("the gate's row is missing") }

func decodeVersion(row *row) (int64, error) {
	version := row.int()
	return version, row.done()
}

func decodeSettings(row *row) (ledger.Settings, error) {
	s := ledger.Settings{Version: row.int(), Text: row.blob(), Author: row.text(), At: row.time()}
	if err := row.done(); err != nil {
		return ledger.Settings{}, fmt.Errorf("the gate's settings: %w", err)
	}
	return s, nil
}

// ListingsOf implements ledger.Reader.
func (r *reader) ListingsOf(ctx context.Context, subjects []ledger.Subject) (map[ledger.Subject]ledger.Listing, error) {
	out := make(map[ledger.Subject]ledger.Listing)
	args := []any{
		column(subjects, func(s *ledger.Subject) string { return string(s.Kind) }),
		column(subjects, func(s *ledger.Subject) string { return s.Value }),
	}
	err := r.query(ctx, "listings_of_subjects", args, func(row *row) error {
		l, err := decodeListing(row)
		out[l.Subject] = l
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Listings implements ledger.Reader. A listing that cannot be read is left out and
// reported to Options.OnCorrupt.
func (r *reader) Listings(ctx context.Context, after int64, limit int) ([]ledger.Listing, error) {
	return full(limit, func(limit int, out *[]ledger.Listing) (rows int, err error) {
		err = r.query(ctx, "listings_after", []any{after, limit}, counted(&rows, list(r, out, decodeListing)))
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
	err = r.query(ctx, "listings_count", []any{ledger.Millis(now)}, func(row *row) error {
		n = int(row.int())
		return row.done()
	})
	return n, err
}

// GateKeys implements ledger.Reader. One that cannot be read is an error: without it
// the gate would refuse what it has signed, or begin anew.
func (r *reader) GateKeys(ctx context.Context) ([]ledger.GateKey, error) {
	var out []ledger.GateKey
	if err := r.query(ctx, "gate_keys", nil, all(&out, decodeGateKey)); err != nil {
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

// LockGate implements ledger.Tx. As with a sale, statements after it see all that
// writers before have written, and the time is that at which the wait was over.
func (t *tx) LockGate(ctx context.Context) (version int64, err error) {
	found := false
	lock := step{name: "gate_lock", want: anyRows, each: func(row *row) error {
		version, err = decodeVersion(row)
		found = true
		return err
	}}
	run := t.run
	if !t.settled {
		run = t.timed
	}
	if err := run(ctx, lock); err != nil {
		return 0, err
	}
	t.settled = true
	if !found {
		return 0, errNoGate()
	}
	return version, nil
}

// WriteGate implements ledger.Tx: one statement for each table, all in one go.
func (t *tx) WriteGate(ctx context.Context, c *ledger.GateChanges) error {
	if err := c.Check(); err != nil {
		return err
	}
	steps := []step{{name: "gate_advance", want: 1, args: []any{c.Version, c.From}}}
	if len(c.Listings) > 0 {
		steps = append(steps, putListings(c.Listings))
	}
	if s := c.Settings; s != nil {
		text := append([]byte{}, s.Text...) // never NULL
		steps = append(steps, step{name: "gate_settings_put", want: 1, args: []any{s.Version, text, s.Author, ledger.Millis(s.At)}})
	}
	if len(c.Keys) > 0 {
		steps = append(steps, putGateKeys(c.Keys))
	}
	if n := len(c.Forgotten); n > 0 {
		ids := column(c.Forgotten, func(id *uint32) int64 { return int64(*id) })
		steps = append(steps, step{name: "gate_keys_forget", want: int64(n), args: []any{ids}})
	}
	if err := t.run(ctx, steps...); err != nil {
		return err
	}
	t.tell(ledger.Span{From: uint64(c.From), To: uint64(c.Version)}) //nolint:gosec // the table holds them above zero
	return nil
}

func putListings(rows []ledger.Listing) step {
	type listing = ledger.Listing
	return step{name: "listings_put", want: int64(len(rows)), args: []any{
		column(rows, func(l *listing) string { return string(l.Subject.Kind) }),
		column(rows, func(l *listing) string { return l.Subject.Value }),
		column(rows, func(l *listing) string { return string(l.Effect) }),
		column(rows, func(l *listing) string { return l.Reason }),
		column(rows, func(l *listing) string { return l.Author }),
		column(rows, func(l *listing) int64 { return ledger.Millis(l.CreatedAt) }),
		column(rows, func(l *listing) int64 { return ledger.Millis(l.ExpiresAt) }),
		column(rows, func(l *listing) int64 { return int64(l.Level) }),
		column(rows, func(l *listing) bool { return l.Dropped }),
		column(rows, func(l *listing) int64 { return l.Version }),
	}}
}

func putGateKeys(keys []ledger.GateKey) step {
	type key = ledger.GateKey
	return step{name: "gate_keys_put", want: int64(len(keys)), args: []any{
		column(keys, func(k *key) int64 { return int64(k.ID) }),
		column(keys, func(k *key) []byte { return k.Secret[:] }),
		column(keys, func(k *key) int64 { return ledger.Millis(k.CreatedAt) }),
		column(keys, func(k *key) int64 { return ledger.Millis(k.RetiredAt) }),
	}}
}

// PruneListings implements ledger.Tx.
func (t *tx) PruneListings(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = t.run(ctx, step{name: "listings_prune", want: anyRows, args: []any{ledger.Millis(before), limit}, each: func(*row) error {
		n++
		return nil
	}})
	return n, err
}
