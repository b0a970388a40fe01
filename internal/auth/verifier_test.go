package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	issuer   = "https://shop.example"
	audience = "doorbuster"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func secret(fill byte) []byte { return []byte(strings.Repeat(string(fill), auth.MinSecretLen)) }

func goodClaims() jwt.MapClaims {
	return jwt.MapClaims{"sub": "u1", "iss": issuer, "aud": audience, "exp": noon.Add(time.Hour).Unix()}
}

func sign(t *testing.T, method jwt.SigningMethod, key crypto.PrivateKey, claims jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return text
}

func publicPEM(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func verifier(t *testing.T, now *time.Time, keys ...auth.Key) *auth.Verifier {
	t.Helper()
	v, err := auth.NewVerifier(auth.VerifierOptions{Keys: keys, Issuer: issuer, Audience: audience, Now: func() time.Time { return *now }})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

func requireCode(t *testing.T, code sale.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, sale.CodeOf(err), "%v", err)
}

func TestVerifierClaims(t *testing.T) {
	t.Parallel()
	key, err := auth.SecretKey("", secret('k'))
	require.NoError(t, err)
	now := noon
	v := verifier(t, &now, key)
	with := func(name string, value any) jwt.MapClaims {
		c := goodClaims()
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
		return c
	}
	cases := map[string]struct {
		claims jwt.MapClaims
		ok     bool
	}{
		"good":                   {goodClaims(), true},
		"one of two audiences":   {with("aud", []string{"other", audience}), true},
		"inside the leeway":      {with("exp", noon.Add(-4*time.Second).Unix()), true},
		"spaces are not trimmed": {with("sub", " u1 "), true},
		"expired":                {with("exp", noon.Add(-6*time.Second).Unix()), false},
		"without expiry":         {with("exp", nil), false},
		"not yet valid":          {with("nbf", noon.Add(time.Minute).Unix()), false},
		"without issuer":         {with("iss", nil), false},
		"other issuer":           {with("iss", issuer+"/"), false},
		"without audience":       {with("aud", nil), false},
		"other audience":         {with("aud", "Doorbuster"), false},
		"without user":           {with("sub", nil), false},
		"empty user":             {with("sub", ""), false},
		"control character":      {with("sub", "u\n1"), false},
		"user too long":          {with("sub", strings.Repeat("u", sale.MaxUserLen+1)), false},
		"user of wrong type":     {with("sub", 7), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodHS256, secret('k'), c.claims))
			if !c.ok {
				requireCode(t, sale.CodeUnauthenticated, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.claims["sub"], p.User)
			require.Empty(t, p.KeyID)
		})
	}
}

func TestVerifierAlgorithms(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	now := noon
	rsaPEM := publicPEM(t, rsaKey.Public())
	pemKey := func(alg string, text []byte) auth.Key {
		k, kerr := auth.PEMKey(alg, "", text)
		require.NoError(t, kerr)
		return k
	}
	hs, err := auth.SecretKey("", secret('k'))
	require.NoError(t, err)
	keys := map[string]auth.Key{
		auth.HS256: hs,
		auth.RS256: pemKey(auth.RS256, rsaPEM),
		auth.ES256: pemKey(auth.ES256, publicPEM(t, ecKey.Public())),
		auth.EdDSA: pemKey(auth.EdDSA, publicPEM(t, edPublic)),
	}
	tokens := map[string]string{
		auth.HS256: sign(t, jwt.SigningMethodHS256, secret('k'), goodClaims()),
		auth.RS256: sign(t, jwt.SigningMethodRS256, rsaKey, goodClaims()),
		auth.ES256: sign(t, jwt.SigningMethodES256, ecKey, goodClaims()),
		auth.EdDSA: sign(t, jwt.SigningMethodEdDSA, edKey, goodClaims()),
	}
	all := verifier(t, &now, keys[auth.HS256], keys[auth.RS256], keys[auth.ES256], keys[auth.EdDSA])
	for alg, token := range tokens {
		_, err := all.Verify(t.Context(), token)
		require.NoError(t, err, alg)
		for other, key := range keys {
			_, err := verifier(t, &now, key).Verify(t.Context(), token)
			require.Equal(t, alg == other, err == nil, "a %s token against a %s key", alg, other)
		}
	}
	bad := map[string]string{
		"none":                     sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, goodClaims()),
		"public key as the secret": sign(t, jwt.SigningMethodHS256, rsaPEM, goodClaims()),
		"HS512":                    sign(t, jwt.SigningMethodHS512, secret('k'), goodClaims()),
		"PS256":                    sign(t, jwt.SigningMethodPS256, rsaKey, goodClaims()),
		"other secret":             sign(t, jwt.SigningMethodHS256, secret('x'), goodClaims()),
		"tampered":                 strings.Replace(tokens[auth.HS256], ".", ".A", 1),
		"no signature":             tokens[auth.HS256][:strings.LastIndex(tokens[auth.HS256], ".")+1],
		"empty":                    "",
		"huge":                     strings.Repeat("a", 1<<20),
	}
	for name, token := range bad {
		_, err := all.Verify(t.Context(), token)
		require.Error(t, err, name)
		require.Equal(t, sale.CodeUnauthenticated, sale.CodeOf(err), name)
	}
}

func TestVerifierKeyID(t *testing.T) {
	t.Parallel()
	k1, err := auth.SecretKey("one", secret('1'))
	require.NoError(t, err)
	k2, err := auth.SecretKey("two", secret('2'))
	require.NoError(t, err)
	now := noon
	v := verifier(t, &now, k1, k2)
	signed := func(kid any, key []byte) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, goodClaims())
		if kid != nil {
			token.Header["kid"] = kid
		}
		text, err := token.SignedString(key)
		require.NoError(t, err)
		return text
	}
	for _, good := range []string{signed("one", secret('1')), signed("two", secret('2')), signed(nil, secret('2'))} {
		_, err := v.Verify(t.Context(), good)
		require.NoError(t, err)
	}
	for _, bad := range []string{signed("one", secret('2')), signed("three", secret('1'))} {
		_, err := v.Verify(t.Context(), bad)
		requireCode(t, sale.CodeUnauthenticated, err)
	}
}

func TestVerifierRemembersUntilExpiry(t *testing.T) {
	t.Parallel()
	now := noon
	key, err := auth.SecretKey("", secret('k'))
	require.NoError(t, err)
	v := verifier(t, &now, key)
	claims := goodClaims()
	claims["exp"] = noon.Add(time.Minute).Unix()
	token := sign(t, jwt.SigningMethodHS256, secret('k'), claims)
	first, err := v.Verify(t.Context(), token)
	require.NoError(t, err)
	second, err := v.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Same(t, first, second, "the second look must come from memory")
	now = noon.Add(time.Minute + 6*time.Second)
	_, err = v.Verify(t.Context(), token)
	requireCode(t, sale.CodeUnauthenticated, err)
}

func TestKeysRefused(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // the weakness is the point
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(edKey)
	require.NoError(t, err)
	cases := map[string]struct {
		alg string
		pem []byte
	}{
		"weak RSA":        {auth.RS256, publicPEM(t, weak.Public())},
		"other curve":     {auth.ES256, publicPEM(t, p384.Public())},
		"other kind":      {auth.RS256, publicPEM(t, edPublic)},
		"secret as a PEM": {auth.HS256, publicPEM(t, edPublic)},
		"private key":     {auth.EdDSA, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})},
		"broken":          {auth.EdDSA, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})},
		"no PEM":          {auth.EdDSA, []byte("hello")},
	}
	for name, c := range cases {
		_, kerr := auth.PEMKey(c.alg, "", c.pem)
		require.Error(t, kerr, name)
	}
	_, err = auth.SecretKey("", []byte("short"))
	require.Error(t, err)
	key, err := auth.SecretKey("", secret('k'))
	require.NoError(t, err)
	for _, o := range []auth.VerifierOptions{{Issuer: issuer, Now: atNoon}, {Audience: audience, Now: atNoon}, {Issuer: issuer, Audience: audience}} {
		o.Keys = []auth.Key{key}
		_, err = auth.NewVerifier(o)
		require.Error(t, err, "issuer and audience are required")
	}
	_, err = auth.NewVerifier(auth.VerifierOptions{Issuer: issuer, Audience: audience, Now: atNoon})
	require.Error(t, err)
}

func TestMintAndSecrets(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/jwt.key"
	first, created, err := auth.EnsureSecret(path)
	require.NoError(t, err)
	require.True(t, created)
	again, created, err := auth.EnsureSecret(path)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first, again)
	requireMode(t, path, 0o600)

	key, err := auth.Source{Algorithm: auth.HS256, SecretFile: path}.Load(t.Context(), atNoon, nil)
	require.NoError(t, err)
	now := noon
	token, err := auth.Mint(first, auth.Claims{User: "u1", Issuer: issuer, Audience: audience, IssuedAt: noon, Expires: noon.Add(time.Hour)})
	require.NoError(t, err)
	p, err := verifier(t, &now, key).Verify(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "u1", p.User)

	_, err = auth.Mint(first, auth.Claims{User: ""})
	requireCode(t, sale.CodeInvalid, err)
	_, err = auth.Mint([]byte("short"), auth.Claims{User: "u1"})
	require.Error(t, err)
}

func TestSourceRefused(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]auth.Source{
		"nothing":           {Algorithm: auth.HS256},
		"two places":        {Algorithm: auth.HS256, SecretFile: "a", PEMFile: "b"},
		"secret for RS256":  {Algorithm: auth.RS256, SecretFile: "a"},
		"missing file":      {Algorithm: auth.RS256, PEMFile: t.TempDir() + "/none"},
		"unencrypted URL":   {Algorithm: auth.RS256, JWKSURL: "http://issuer.example/keys"},
		"unreadable URL":    {Algorithm: auth.RS256, JWKSURL: "https://%zz"},
		"other URL schemes": {Algorithm: auth.RS256, JWKSURL: "file:///etc/passwd"},
	} {
		_, err := s.Load(t.Context(), atNoon, nil)
		require.Error(t, err, name)
	}
}

func atNoon() time.Time { return noon }
