package auth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// shelf keeps API keys and can be switched off.
type shelf struct {
	ledger.Keys
	mu    sync.Mutex
	keys  map[string]ledger.APIKey
	down  error
	reads int
}

func (s *shelf) APIKey(_ context.Context, id string) (ledger.APIKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.down != nil {
		return ledger.APIKey{}, s.down
	}
	k, ok := s.keys[id]
	if !ok {
		return ledger.APIKey{}, &sale.Error{Code: sale.CodeKeyNotFound, Message: "there is no such key"}
	}
	return k, nil
}

func (s *shelf) put(k ledger.APIKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k.ID] = k
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func newRing(t *testing.T) (*auth.KeyRing, *shelf) {
	t.Helper()
	s := &shelf{keys: make(map[string]ledger.APIKey)}
	ring, err := auth.NewKeyRing(s)
	require.NoError(t, err)
	t.Cleanup(ring.Close)
	return ring, s
}

func TestKeyRing(t *testing.T) {
	t.Parallel()
	ring, s := newRing(t)
	record, text, err := auth.NewAPIKey("till", []string{"shop", "ops"})
	require.NoError(t, err)
	require.NotContains(t, string(record.Hash[:]), text)
	s.put(record)
	other, otherText, err := auth.NewAPIKey("other", []string{"admin"})
	require.NoError(t, err)

	for range 100 {
		p, verr := ring.Verify(t.Context(), text)
		require.NoError(t, verr)
		require.Equal(t, record.ID, p.KeyID)
		require.Empty(t, p.User)
		require.True(t, p.Has(auth.ScopeShop))
		require.True(t, p.Has(auth.ScopeOps))
		require.False(t, p.Has(auth.ScopeAdmin))
	}
	require.Equal(t, 1, s.count(), "a key in use is not read for every request")

	before := s.count()
	for range 100 {
		_, err = ring.Verify(t.Context(), otherText)
		requireCode(t, sale.CodeUnauthenticated, err)
	}
	require.Equal(t, before+1, s.count(), "an unknown id is remembered too")

	swapped := strings.Replace(otherText, other.ID, record.ID, 1)
	for name, bad := range map[string]string{
		"foreign secret": swapped,
		"upper case":     strings.ToUpper(text),
		"cut":            text[:len(text)-1],
		"longer":         text + "a",
		"no secret":      "dbk_" + record.ID,
		"spare bits":     text[:len(text)-1] + "b",
		"not base32":     text[:len(text)-1] + "1",
		"only a prefix":  "dbk_",
	} {
		_, err := ring.Verify(t.Context(), bad)
		require.Error(t, err, name)
		require.Equal(t, sale.CodeUnauthenticated, sale.CodeOf(err), name)
	}
}

func TestRevocationTakesEffect(t *testing.T) {
	t.Parallel()
	ring, s := newRing(t)
	record, text, err := auth.NewAPIKey("till", []string{"shop"})
	require.NoError(t, err)
	s.put(record)
	_, err = ring.Verify(t.Context(), text)
	require.NoError(t, err)
	record.RevokedAt = noon
	s.put(record)
	require.Eventually(t, func() bool {
		_, err := ring.Verify(t.Context(), text)
		return err != nil && sale.CodeOf(err) == sale.CodeUnauthenticated
	}, 2*time.Second, 50*time.Millisecond)
}

func TestLedgerDownIsNotARefusal(t *testing.T) {
	t.Parallel()
	ring, s := newRing(t)
	record, text, err := auth.NewAPIKey("till", []string{"shop"})
	require.NoError(t, err)
	s.put(record)
	s.down = errors.New("disk on fire")
	_, err = ring.Verify(t.Context(), text)
	requireCode(t, sale.CodeUnavailable, err)
	s.mu.Lock()
	s.down = nil
	s.mu.Unlock()
	_, err = ring.Verify(t.Context(), text)
	require.NoError(t, err, "a failed read is not remembered")
}

func TestUnknownScopesAllowNothing(t *testing.T) {
	t.Parallel()
	ring, s := newRing(t)
	record, text, err := auth.NewAPIKey("till", []string{"shop"})
	require.NoError(t, err)
	record.Scopes = []string{"shop", "everything"}
	s.put(record)
	_, err = ring.Verify(t.Context(), text)
	requireCode(t, sale.CodeUnauthenticated, err)

	for _, scopes := range [][]string{nil, {""}, {"Shop"}, {"shop", "root"}} {
		_, _, err := auth.NewAPIKey("x", scopes)
		requireCode(t, sale.CodeInvalid, err)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	ring, s := newRing(t)
	record, text, err := auth.NewAPIKey("till", []string{"shop"})
	require.NoError(t, err)
	s.put(record)
	key, err := auth.SecretKey("", secret('k'))
	require.NoError(t, err)
	now := noon
	a := auth.New(verifier(t, &now, key), ring)
	token, err := auth.Mint(secret('k'), auth.Claims{User: "u1", Issuer: issuer, Audience: audience, Expires: noon.Add(time.Hour)})
	require.NoError(t, err)

	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} {
		p, err := a.Authenticate(t.Context(), []string{scheme + token})
		require.NoError(t, err)
		require.Equal(t, "u1", p.User)
		p, err = a.Authenticate(t.Context(), []string{scheme + text})
		require.NoError(t, err)
		require.Equal(t, record.ID, p.KeyID)
	}
	for name, header := range map[string][]string{
		"none":         nil,
		"two":          {"Bearer " + token, "Bearer " + token},
		"basic":        {"Basic " + token},
		"bare":         {token},
		"empty":        {"Bearer "},
		"two spaces":   {"Bearer  " + token},
		"empty header": {""},
	} {
		_, err := a.Authenticate(t.Context(), header)
		require.Error(t, err, name)
		require.Equal(t, sale.CodeUnauthenticated, sale.CodeOf(err), name)
	}
	closed := auth.New(nil, nil)
	closed.Close()
	for _, credential := range []string{token, text} {
		_, err := closed.Authenticate(t.Context(), []string{"Bearer " + credential})
		requireCode(t, sale.CodeUnauthenticated, err)
	}
}

func BenchmarkVerifyRemembered(b *testing.B) {
	key, err := auth.SecretKey("", secret('k'))
	require.NoError(b, err)
	v, err := auth.NewVerifier(auth.VerifierOptions{Keys: []auth.Key{key}, Issuer: issuer, Audience: audience, Now: func() time.Time { return noon }})
	require.NoError(b, err)
	defer v.Close()
	token, err := auth.Mint(secret('k'), auth.Claims{User: "u1", Issuer: issuer, Audience: audience, Expires: noon.Add(time.Hour)})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func TestInventedKeyCostsNothingWhereOnlyBuyersComeIn(t *testing.T) {
	t.Parallel()
	nobody := auth.New(nil, nil) // no ledger that could be asked
	_, err := nobody.Buyer(t.Context(), []string{"Bearer dbk_invented"})
	require.Equal(t, sale.CodeForbidden, sale.CodeOf(err))
	for _, header := range [][]string{nil, {""}, {"Bearer "}, {"Basic dbk_x"}, {"Bearer a", "Bearer b"}, {"Bearer token"}} {
		_, err = nobody.Buyer(t.Context(), header)
		require.Equal(t, sale.CodeUnauthenticated, sale.CodeOf(err), "%q", header)
	}
}
