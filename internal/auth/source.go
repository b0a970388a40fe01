package auth

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"
)

// Source describes where a verification key comes from: exactly one of the
// files or the URL, and the one algorithm it is bound to.
type Source struct {
	Algorithm  string // HS256, EdDSA, RS256, ES256
	ID         string // the kid it answers to; empty for any; not for key sets
	SecretFile string // HS256: text of at least 32 bytes
	PEMFile    string // public key or certificate
	JWKSFile   string
	JWKSURL    string // https, or http on a loopback address
}

// Load reads the key. For a URL it also starts the refreshing, which is paced by
// now and ends with ctx; failed is told of fetches that did not succeed.
func (s Source) Load(ctx context.Context, now func() time.Time, failed func(error)) (Key, error) {
	named := 0
	for _, place := range []string{s.SecretFile, s.PEMFile, s.JWKSFile, s.JWKSURL} {
		if place != "" {
			named++
		}
	}
	if named != 1 {
		return Key{}, fmt.Errorf("auth: a key needs exactly one of secret_file, pem_file, jwks_file and jwks_url, not %d", named)
	}
	switch {
	case s.SecretFile != "":
		return s.secret()
	case s.JWKSURL != "":
		return s.remote(ctx, now, failed)
	}
	raw, err := os.ReadFile(s.PEMFile + s.JWKSFile) // one of them is empty
	if err != nil {
		return Key{}, fmt.Errorf("auth: the key cannot be read: %w", err)
	}
	if s.PEMFile != "" {
		return PEMKey(s.Algorithm, s.ID, raw)
	}
	return JWKSKey(ctx, s.Algorithm, raw)
}

func (s Source) secret() (Key, error) {
	if s.Algorithm != HS256 {
		return Key{}, fmt.Errorf("auth: a secret is for %s, not for %q", HS256, s.Algorithm)
	}
	secret, err := ReadSecret(s.SecretFile)
	if err != nil {
		return Key{}, err
	}
	return SecretKey(s.ID, secret)
}

func (s Source) remote(ctx context.Context, now func() time.Time, failed func(error)) (Key, error) {
	u, err := url.Parse(s.JWKSURL)
	if err != nil {
		return Key{}, fmt.Errorf("auth: jwks_url cannot be read: %w", err)
	}
	if !private(u) {
		return Key{}, fmt.Errorf("auth: jwks_url must be https, or http on a loopback address, not %q", u.Scheme+"://"+u.Host)
	}
	remote := NewRemote(s.Algorithm, s.JWKSURL, now)
	go remote.Run(ctx, failed)
	return remote.Key(), nil
}

// private reports whether nobody on the way can change what comes from a URL.
func private(u *url.URL) bool {
	local := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	return u.Scheme == "https" || u.Scheme == "http" && local
}
