package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func requireMode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, mode, info.Mode().Perm())
}

// idp is an identity provider that can rotate keys and fail.
type idp struct {
	url     string
	fetches atomic.Int64
	down    atomic.Bool

	mu   sync.Mutex
	keys map[string]ed25519.PrivateKey
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{keys: make(map[string]ed25519.PrivateKey)}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *idp) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.fetches.Add(1)
	if p.down.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = w.Write(p.set())
}

func (p *idp) set() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]map[string]string, 1, 1+len(p.keys))
	list[0] = map[string]string{"kty": "unknown", "kid": "strange"}
	for kid, key := range p.keys {
		public, _ := key.Public().(ed25519.PublicKey)
		list = append(list, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64.RawURLEncoding.EncodeToString(public)})
	}
	raw, _ := json.Marshal(map[string]any{"keys": list})
	return raw
}

func (p *idp) add(t *testing.T, kid string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[kid] = key
}

func (p *idp) token(t *testing.T, kid, user string) string {
	t.Helper()
	p.mu.Lock()
	key := p.keys[kid]
	p.mu.Unlock()
	claims := goodClaims()
	claims["sub"] = user
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = kid
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

func TestJWKSFile(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.add(t, "a")
	path := t.TempDir() + "/keys.json"
	require.NoError(t, os.WriteFile(path, p.set(), 0o600))
	key, err := auth.Source{Algorithm: auth.EdDSA, JWKSFile: path}.Load(t.Context(), atNoon, nil)
	require.NoError(t, err)
	now := noon
	v := verifier(t, &now, key)
	got, err := v.Verify(t.Context(), p.token(t, "a", "u1"))
	require.NoError(t, err)
	require.Equal(t, "u1", got.User)

	_, err = auth.Source{Algorithm: auth.RS256, JWKSFile: path}.Load(t.Context(), atNoon, nil)
	require.Error(t, err, "the set holds no RSA key")
	_, err = auth.JWKSKey(t.Context(), auth.EdDSA, []byte("{"))
	require.Error(t, err)
}

func TestRemoteRotation(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.add(t, "a")
	now, clock := noon, noon
	remote := auth.NewRemote(auth.EdDSA, p.url, func() time.Time { return clock })
	v := verifier(t, &now, remote.Key())

	_, err := v.Verify(t.Context(), p.token(t, "a", "u1"))
	require.NoError(t, err)
	require.EqualValues(t, 1, p.fetches.Load())

	p.add(t, "b")
	_, err = v.Verify(t.Context(), p.token(t, "b", "u1"))
	requireCode(t, sale.CodeUnauthenticated, err)
	require.EqualValues(t, 1, p.fetches.Load(), "an unknown key id must not make us fetch again at once")

	clock = clock.Add(11 * time.Second)
	var wg sync.WaitGroup
	errs := make([]error, 20)
	token := p.token(t, "b", "u1")
	for i := range errs {
		wg.Go(func() { _, errs[i] = v.Verify(t.Context(), token) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, p.fetches.Load(), int64(2), "those who wait share one fetch")
}

func TestRemoteOutage(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.add(t, "a")
	p.down.Store(true)
	now, clock := noon, noon
	remote := auth.NewRemote(auth.EdDSA, p.url, func() time.Time { return clock })
	v := verifier(t, &now, remote.Key())

	_, err := v.Verify(t.Context(), p.token(t, "a", "u1"))
	requireCode(t, sale.CodeUnavailable, err)
	_, err = v.Verify(t.Context(), p.token(t, "a", "u1"))
	requireCode(t, sale.CodeUnavailable, err)
	require.EqualValues(t, 1, p.fetches.Load())

	p.down.Store(false)
	clock = clock.Add(11 * time.Second)
	_, err = v.Verify(t.Context(), p.token(t, "a", "u1"))
	require.NoError(t, err)

	p.down.Store(true)
	clock = clock.Add(11 * time.Second)
	_, err = v.Verify(t.Context(), p.token(t, "a", "u2"))
	require.NoError(t, err, "the last set serves on while the issuer is out of reach")
}

func TestRemoteFollowsNoRedirectOutOfSafety(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.add(t, "a")
	to := make(chan string, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, <-to, http.StatusFound)
	}))
	t.Cleanup(srv.Close)
	now, clock := noon, noon
	v := verifier(t, &now, auth.NewRemote(auth.EdDSA, srv.URL, func() time.Time { return clock }).Key())

	to <- "http://keys.example.invalid/"
	_, err := v.Verify(t.Context(), p.token(t, "a", "u1"))
	requireCode(t, sale.CodeUnavailable, err)
	require.ErrorContains(t, err, "neither https nor loopback")

	to <- p.url
	clock = clock.Add(11 * time.Second)
	_, err = v.Verify(t.Context(), p.token(t, "a", "u1"))
	require.NoError(t, err)
}

func TestRemoteKeepsItsURLOutOfErrors(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	failed := make(chan error, 1)
	_, err := auth.Source{Algorithm: auth.EdDSA, JWKSURL: gone.URL + "/keys?token=hush"}.Load(t.Context(), atNoon, func(err error) { failed <- err })
	require.NoError(t, err)
	err = <-failed
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "hush")
}

func TestRemoteRunReportsFailures(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.down.Store(true)
	failed := make(chan error, 1)
	_, err := auth.Source{Algorithm: auth.EdDSA, JWKSURL: p.url}.Load(t.Context(), atNoon, func(err error) { failed <- err })
	require.NoError(t, err, "an issuer out of reach must not keep us from starting")
	require.ErrorContains(t, <-failed, "502")
}
