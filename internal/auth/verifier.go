package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// VerifierOptions say which tokens are accepted. Keys, Issuer, Audience and Now
// are required.
type VerifierOptions struct {
	// Keys may sign tokens; at least one.
	Keys     []Key
	Issuer   string
	Audience string
	// Leeway is how far the issuer's clock may be off; default 5 s.
	Leeway time.Duration
	// CacheSize bounds the verified tokens remembered; default 65,536.
	CacheSize int
	// CacheFor bounds how long a withdrawn key is still honoured for a token
	// seen before; default 5 min.
	CacheFor time.Duration
	// Now is the clock; required.
	Now func() time.Time
}

const (
	defaultLeeway    = 5 * time.Second
	defaultCacheSize = 1 << 16
	defaultCacheFor  = 5 * time.Minute
	// maxTokenLen bounds the work that a token can cause.
	maxTokenLen = 8 << 10
)

// Verifier verifies buyers' tokens.
type Verifier struct {
	opts   VerifierOptions
	parser *jwt.Parser
	cache  *otter.Cache[[sha256.Size]byte, verified]
}

// verified is a token that has passed.
type verified struct {
	principal *Principal
	until     time.Time // no longer believed from here on
}

// NewVerifier returns a verifier of tokens signed by one of the keys. Close lets
// its cache go.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	switch {
	case o.Issuer == "" || o.Audience == "":
		return nil, errors.New("auth: issuer and audience of buyers' tokens are required")
	case o.Now == nil:
		return nil, errors.New("auth: a verifier needs a clock")
	case len(o.Keys) == 0:
		return nil, errors.New("auth: there is no key to verify buyers' tokens with")
	}
	if o.Leeway <= 0 {
		o.Leeway = defaultLeeway
	}
	if o.CacheSize <= 0 {
		o.CacheSize = defaultCacheSize
	}
	if o.CacheFor <= 0 {
		o.CacheFor = defaultCacheFor
	}
	var methods []string
	for _, k := range o.Keys {
		if !slices.Contains(Algorithms(), k.algorithm) {
			return nil, errors.New("auth: the algorithm " + k.algorithm + " is not supported")
		}
		methods = append(methods, k.algorithm)
	}
	cache, err := otter.New(&otter.Options[[sha256.Size]byte, verified]{
		MaximumSize:      o.CacheSize,
		ExpiryCalculator: otter.ExpiryWriting[[sha256.Size]byte, verified](o.CacheFor),
		Logger:           &otter.NoopLogger{},
	})
	if err != nil {
		return nil, err
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods(methods), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience),
		jwt.WithExpirationRequired(), jwt.WithLeeway(o.Leeway), jwt.WithTimeFunc(o.Now), jwt.WithStrictDecoding(),
	)
	return &Verifier{opts: o, parser: parser, cache: cache}, nil
}

// Close ends the cache's goroutines.
func (v *Verifier) Close() { v.cache.StopAllGoroutines() }

// Verify returns the buyer that the token names; CodeUnauthenticated if it is
// not acceptable, CodeUnavailable if the issuer's keys cannot be had.
func (v *Verifier) Verify(ctx context.Context, token string) (*Principal, error) {
	if len(token) > maxTokenLen {
		return nil, Unauthenticated()
	}
	mark := sha256.Sum256([]byte(token))
	if seen, ok := v.cache.GetIfPresent(mark); ok && v.opts.Now().Before(seen.until) {
		return seen.principal, nil
	}
	var claims jwt.RegisteredClaims
	_, err := v.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) { return v.candidates(ctx, t) })
	if err != nil {
		if trouble, ok := errors.AsType[*sale.Error](err); ok {
			return nil, trouble
		}
		return nil, Unauthenticated()
	}
	if err := sale.CheckUser(claims.Subject); err != nil {
		return nil, Unauthenticated()
	}
	seen := verified{principal: &Principal{User: claims.Subject, Until: claims.ExpiresAt.Time}, until: v.until(claims.ExpiresAt.Time)}
	v.cache.Set(mark, seen)
	return seen.principal, nil
}

// until returns when a verified token must be looked at again.
func (v *Verifier) until(expires time.Time) time.Time {
	end := expires.Add(v.opts.Leeway)
	if soon := v.opts.Now().Add(v.opts.CacheFor); soon.Before(end) {
		return soon
	}
	return end
}

// candidates returns the keys of the token's algorithm that may have signed it.
func (v *Verifier) candidates(ctx context.Context, t *jwt.Token) (jwt.VerificationKeySet, error) {
	var set jwt.VerificationKeySet
	var trouble *sale.Error
	for _, k := range v.opts.Keys {
		if k.algorithm != t.Method.Alg() {
			continue
		}
		keys, err := k.find(ctx, t)
		if err != nil {
			if coded, ok := errors.AsType[*sale.Error](err); ok {
				trouble = coded
			}
			continue
		}
		set.Keys = append(set.Keys, keys...)
	}
	switch {
	case len(set.Keys) > 0:
		return set, nil
	case trouble != nil:
		return set, trouble
	}
	return set, errNoKey
}
