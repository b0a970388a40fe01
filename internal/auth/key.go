package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// The algorithms a key may be bound to.
const (
	HS256 = "HS256"
	EdDSA = "EdDSA"
	RS256 = "RS256"
	ES256 = "ES256"
)

// Algorithms lists the algorithms a key may be bound to.
func Algorithms() []string { return []string{HS256, EdDSA, RS256, ES256} }

const (
	// MinSecretLen is the fewest bytes of an HS256 secret: the size of its hash.
	MinSecretLen = 32
	minRSABits   = 2048
)

// Key verifies the signatures of one algorithm. Make it with SecretKey, PEMKey,
// JWKSKey or a Remote.
type Key struct {
	algorithm string
	find      func(context.Context, *jwt.Token) ([]jwt.VerificationKey, error)
}

// errNoKey says that no configured key could have signed the token.
var errNoKey = errors.New("auth: no such key")

// SecretKey returns an HS256 key. An empty id fits tokens with any kid.
func SecretKey(id string, secret []byte) (Key, error) {
	if len(secret) < MinSecretLen {
		return Key{}, fmt.Errorf("auth: an %s secret needs at least %d bytes", HS256, MinSecretLen)
	}
	return single(HS256, id, slices.Clone(secret)), nil
}

// PEMKey returns a key from a PEM public key (PKIX) or certificate, bound to
// EdDSA, RS256 or ES256. An empty id fits tokens with any kid.
func PEMKey(algorithm, id string, text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, errors.New("auth: there is no PEM block")
	}
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = cert.PublicKey
		}
	default:
		return Key{}, fmt.Errorf("auth: a PEM block %q is not a public key", block.Type)
	}
	if err != nil {
		return Key{}, fmt.Errorf("auth: the PEM block cannot be read: %w", err)
	}
	if !fits(algorithm, public) {
		return Key{}, fmt.Errorf("auth: the key in the PEM block does not fit %s", algorithm)
	}
	return single(algorithm, id, public), nil
}

func single(algorithm, id string, key jwt.VerificationKey) Key {
	keys := []jwt.VerificationKey{key}
	return Key{algorithm: algorithm, find: func(_ context.Context, t *jwt.Token) ([]jwt.VerificationKey, error) {
		if kid, _ := t.Header["kid"].(string); id != "" && kid != "" && kid != id {
			return nil, errNoKey
		}
		return keys, nil
	}}
}

// fits reports whether a key is of the kind that the algorithm needs, and
// strong enough.
func fits(algorithm string, key jwt.VerificationKey) bool {
	switch k := key.(type) {
	case []byte:
		return algorithm == HS256 && len(k) >= MinSecretLen
	case ed25519.PublicKey:
		return algorithm == EdDSA
	case *rsa.PublicKey:
		return algorithm == RS256 && k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return algorithm == ES256 && k.Curve == elliptic.P256()
	}
	return false
}
