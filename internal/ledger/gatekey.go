package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// GateKey is a key that the gate signs with. The newest one signs; retired ones
// still verify.
type GateKey struct {
	ID        uint32 // from 1, never given again
	Secret    GateSecret
	CreatedAt time.Time
	RetiredAt time.Time // zero while in use
}

// String names the key and does not tell its secret.
func (k GateKey) String() string { return "gate key " + strconv.FormatUint(uint64(k.ID), 10) }

// Format implements fmt.Formatter: every verb writes what String returns. Without it
// a verb that does not fit would show what lies behind a pointer.
func (k GateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue implements slog.LogValuer; it does not tell the secret.
func (k GateKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// GateSecret is 32 random bytes. They are stored as they are, since the gate must
// sign with them, but every way of printing or encoding them writes "hidden".
type GateSecret [32]byte

const hidden = "hidden"

// Format implements fmt.Formatter for every verb.
func (GateSecret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String implements fmt.Stringer.
func (GateSecret) String() string { return hidden }

// MarshalText implements encoding.TextMarshaler, which JSON uses.
func (GateSecret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements slog.LogValuer.
func (GateSecret) LogValue() slog.Value { return slog.StringValue(hidden) }

// GateKeys implements Gate.
func (b *Book) GateKeys(ctx context.Context) ([]GateKey, error) {
	return b.store.Read().GateKeys(ctx)
}

// EnsureGateKey implements Gate.
func (b *Book) EnsureGateKey(ctx context.Context) (GateKey, error) {
	keys, err := b.store.Read().GateKeys(ctx)
	if err != nil {
		return GateKey{}, err
	}
	if len(keys) > 0 {
		return keys[0], nil
	}
	var key GateKey
	err = b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		found, readErr := tx.GateKeys(ctx) // another instance may have been first
		if readErr != nil {
			return readErr
		}
		if len(found) > 0 {
			key = found[0]
			return nil
		}
		key = g.newKey(1)
		return nil
	})
	if err != nil {
		return GateKey{}, err
	}
	return key, nil
}

// newKey enters a key.
func (g *gateDesk) newKey(id uint32) GateKey {
	k := GateKey{ID: id, CreatedAt: g.now}
	_, _ = rand.Read(k.Secret[:]) // it never fails
	g.next()
	g.out.Keys = append(g.out.Keys, k)
	return k
}

// RotateGateKey implements Gate.
func (b *Book) RotateGateKey(ctx context.Context, keep time.Duration) (GateKey, error) {
	if keep < 0 {
		return GateKey{}, sale.Invalid("keep", "keys cannot be kept for a negative time", "keep them as long as the longest life of what they signed")
	}
	var key GateKey
	err := b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		keys, err := tx.GateKeys(ctx)
		if err != nil {
			return err
		}
		newest, first := uint32(0), uint32(math.MaxUint32)
		for _, k := range keys {
			newest, first = max(newest, k.ID), min(first, k.ID)
		}
		for _, k := range keys {
			switch {
			case k.RetiredAt.IsZero():
				k.RetiredAt = g.now
				g.out.Keys = append(g.out.Keys, k)
			case k.ID != first && g.now.Sub(k.RetiredAt) > keep:
				g.out.Forgotten = append(g.out.Forgotten, k.ID)
			}
		}
		if len(keys)-len(g.out.Forgotten) >= MaxGateKeys {
			return sale.IllegalState(fmt.Sprintf("%d keys of the gate must still be kept", MaxGateKeys), "rotate less often, or keep retired keys for a shorter time")
		}
		key = g.newKey(newest + 1)
		return nil
	})
	if err != nil {
		return GateKey{}, err
	}
	return key, nil
}

// GateSettings implements Gate.
func (b *Book) GateSettings(ctx context.Context) (Settings, error) {
	return b.store.Read().GateSettings(ctx)
}

// PutGateSettings implements Gate.
func (b *Book) PutGateSettings(ctx context.Context, version int64, text []byte, author string) (Settings, error) {
	if len(text) == 0 || len(text) > MaxSettings {
		return Settings{}, sale.Invalid("settings", "the gate's settings have 1 to 65536 bytes", "")
	}
	if err := checkAuthor(author); err != nil {
		return Settings{}, err
	}
	var kept Settings
	err := b.onGate(ctx, func(tx Tx, g *gateDesk) error {
		old, err := tx.GateSettings(ctx)
		if err != nil {
			return err
		}
		if version != 0 && max(version, 0) != old.Version {
			return &sale.Error{
				Code: sale.CodeVersionMismatch, Message: "the gate's settings have changed since you read them",
				Hint: "read them again, look at the difference, and repeat with their new version",
			}
		}
		kept = Settings{Version: g.next(), Text: bytes.Clone(text), Author: author, At: g.now}
		g.out.Settings = &kept
		return nil
	})
	if err != nil {
		return Settings{}, err
	}
	return kept, nil
}
