package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

const (
	keyPrefix    = "dbk_"
	keyIDBytes   = 10 // 16 characters
	secretBytes  = 32 // 52 characters
	keyIDLen     = 16
	secretLen    = 52
	keyTextLen   = len(keyPrefix) + keyIDLen + 1 + secretLen
	base32Digits = "abcdefghijklmnopqrstuvwxyz234567"
)

// NewAPIKey draws a key. The text is shown once and kept nowhere; the record,
// which holds only the secret's hash, goes into the ledger.
func NewAPIKey(label string, scopes []string) (ledger.APIKey, string, error) {
	if _, err := ParseScopes(scopes); err != nil {
		return ledger.APIKey{}, "", err
	}
	var raw [keyIDBytes + secretBytes]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never fails since Go 1.24
	id := encoding().EncodeToString(raw[:keyIDBytes])
	secret := raw[keyIDBytes:]
	record := ledger.APIKey{ID: id, Hash: sha256.Sum256(secret), Scopes: scopes, Label: label}
	return record, keyPrefix + id + "_" + encoding().EncodeToString(secret), nil
}

// APIKeyOf returns the record of a key whose text exists already, and whether
// the text is one of a key.
func APIKeyOf(text, label string, scopes []string) (ledger.APIKey, bool) {
	id, hash, ok := splitAPIKey(text)
	return ledger.APIKey{ID: id, Hash: hash, Scopes: scopes, Label: label}, ok
}

func encoding() *base32.Encoding {
	return base32.NewEncoding(base32Digits).WithPadding(base32.NoPadding)
}

// isAPIKey reports whether a credential claims to be an API key.
func isAPIKey(credential string) bool { return strings.HasPrefix(credential, keyPrefix) }

// BringsKey reports whether the values of the Authorization header claim to hold an
// API key. Whether it is one is for Authenticate to find out.
func BringsKey(header []string) bool {
	credential, ok := bearer(header)
	return ok && isAPIKey(credential)
}

// splitAPIKey returns the id and the secret's hash. Exactly one text stands for
// each key.
func splitAPIKey(text string) (id string, hash [32]byte, ok bool) {
	if len(text) != keyTextLen || text[len(keyPrefix)+keyIDLen] != '_' {
		return "", hash, false
	}
	id = text[len(keyPrefix) : len(keyPrefix)+keyIDLen]
	secretText := text[len(text)-secretLen:]
	secret, err := encoding().DecodeString(secretText)
	if err != nil || encoding().EncodeToString(secret) != secretText {
		return "", hash, false
	}
	if _, err := encoding().DecodeString(id); err != nil {
		return "", hash, false
	}
	return id, sha256.Sum256(secret), true
}

func sameHash(a, b [32]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }
