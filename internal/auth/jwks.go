package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

// JWKSKey returns a key set, bound to one algorithm, from a JSON Web Key Set.
// Keys of the set that do not fit the algorithm are passed over.
func JWKSKey(ctx context.Context, algorithm string, raw []byte) (Key, error) {
	set, err := parseSet(ctx, algorithm, raw)
	if err != nil {
		return Key{}, err
	}
	return Key{algorithm: algorithm, find: set.find}, nil
}

// keySet is a parsed key set.
type keySet struct {
	algorithm string
	keys      keyfunc.Keyfunc
}

func parseSet(ctx context.Context, algorithm string, raw []byte) (*keySet, error) {
	var listed jwkset.JWKSMarshal
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Errorf("auth: the key set is not JSON: %w", err)
	}
	store := jwkset.NewMemoryStorage()
	usable := 0
	for _, one := range listed.Keys {
		key, err := jwkset.NewJWKFromMarshal(one, jwkset.JWKMarshalOptions{Private: true}, jwkset.JWKValidateOptions{})
		if errors.Is(err, jwkset.ErrUnsupportedKey) {
			continue // an issuer may list keys for other purposes
		}
		if err != nil {
			return nil, fmt.Errorf("auth: a key of the set cannot be read: %w", err)
		}
		if err := store.KeyWrite(ctx, key); err != nil {
			return nil, fmt.Errorf("auth: a key of the set cannot be kept: %w", err)
		}
		if fits(algorithm, publicPart(key.Key())) {
			usable++
		}
	}
	if usable == 0 {
		return nil, fmt.Errorf("auth: the set holds no key that fits %s", algorithm)
	}
	found, err := keyfunc.New(keyfunc.Options{Storage: store})
	if err != nil {
		return nil, fmt.Errorf("auth: the key set cannot be used: %w", err)
	}
	return &keySet{algorithm: algorithm, keys: found}, nil
}

// find returns the keys of the set that may have signed the token: by kid if it
// has one, else all that fit.
func (s *keySet) find(ctx context.Context, t *jwt.Token) ([]jwt.VerificationKey, error) {
	found, err := s.keys.KeyfuncCtx(ctx)(t)
	if err != nil {
		return nil, errNoKey
	}
	candidates := []jwt.VerificationKey{found}
	if set, many := found.(jwt.VerificationKeySet); many {
		candidates = set.Keys
	}
	fitting := make([]jwt.VerificationKey, 0, len(candidates))
	for _, key := range candidates {
		if fits(s.algorithm, key) {
			fitting = append(fitting, key)
		}
	}
	if len(fitting) == 0 {
		return nil, errNoKey
	}
	return fitting, nil
}

func publicPart(key jwt.VerificationKey) jwt.VerificationKey {
	if private, ok := key.(interface{ Public() crypto.PublicKey }); ok {
		return private.Public()
	}
	return key
}
