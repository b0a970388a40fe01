package auth

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// A revocation takes effect within the read time plus the life of what was read.
	keyLife     = time.Second
	keyReadTime = time.Second
	// maxKeys bounds what is remembered, unknown ids included. The cache keeps
	// what is asked for often, so a flood of invented ids cannot push out the
	// keys in use.
	maxKeys = 4096
)

// KeyRing verifies API keys against the ledger.
type KeyRing struct {
	keys  ledger.Keys
	cache *otter.Cache[string, knownKey]
}

// knownKey is what was read about one id; the zero value is no key.
type knownKey struct {
	principal *Principal // nil: unknown, revoked or unusable
	hash      [32]byte
}

// NewKeyRing returns a ring over the ledger's keys. Close lets its cache go.
func NewKeyRing(keys ledger.Keys) (*KeyRing, error) {
	cache, err := otter.New(&otter.Options[string, knownKey]{
		MaximumSize:      maxKeys,
		ExpiryCalculator: otter.ExpiryWriting[string, knownKey](keyLife),
		Logger:           &otter.NoopLogger{},
	})
	if err != nil {
		return nil, err
	}
	return &KeyRing{keys: keys, cache: cache}, nil
}

// Close ends the cache's goroutines.
func (r *KeyRing) Close() { r.cache.StopAllGoroutines() }

// Verify returns whose key the text is; CodeUnauthenticated if it is nobody's,
// CodeUnavailable if the ledger cannot say.
func (r *KeyRing) Verify(ctx context.Context, text string) (*Principal, error) {
	id, hash, ok := splitAPIKey(text)
	if !ok {
		return nil, Unauthenticated()
	}
	known, err := r.cache.Get(ctx, id, otter.LoaderFunc[string, knownKey](r.read))
	if err != nil {
		return nil, sale.Unavailable(err)
	}
	// The hash is compared for unknown ids too, so that both take the same time.
	if !sameHash(known.hash, hash) || known.principal == nil {
		return nil, Unauthenticated()
	}
	return known.principal, nil
}

// read looks one id up. Callers share it, so it does not end with the first.
func (r *KeyRing) read(ctx context.Context, id string) (knownKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyReadTime)
	defer cancel()
	k, err := r.keys.APIKey(ctx, id)
	switch {
	case err != nil && sale.CodeOf(err) == sale.CodeKeyNotFound:
		return knownKey{}, nil
	case err != nil:
		return knownKey{}, err
	case !k.RevokedAt.IsZero():
		return knownKey{}, nil
	}
	scopes, err := ParseScopes(k.Scopes)
	if err != nil {
		return knownKey{}, nil // a key whose scopes we do not know may do nothing
	}
	return knownKey{principal: &Principal{KeyID: k.ID, Scopes: scopes}, hash: k.Hash}, nil
}
