package auth

import (
	"context"
	"strings"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Auth tells who sent a request.
type Auth struct {
	tokens *Verifier
	keys   *KeyRing
}

// New returns an Auth that accepts buyers' tokens and API keys. Either may be
// nil: then nobody gets in that way.
func New(tokens *Verifier, keys *KeyRing) *Auth { return &Auth{tokens: tokens, keys: keys} }

// Close lets the caches go.
func (a *Auth) Close() {
	if a.tokens != nil {
		a.tokens.Close()
	}
	if a.keys != nil {
		a.keys.Close()
	}
}

const scheme = "bearer "

// Authenticate returns who the values of the Authorization header stand for:
// CodeUnauthenticated for none, several or wrong ones, CodeUnavailable if it
// cannot be found out now.
func (a *Auth) Authenticate(ctx context.Context, header []string) (*Principal, error) {
	credential, ok := bearer(header)
	switch {
	case !ok:
	case isAPIKey(credential) && a.keys != nil:
		return a.keys.Verify(ctx, credential)
	case !isAPIKey(credential) && a.tokens != nil:
		return a.tokens.Verify(ctx, credential)
	}
	return nil, Unauthenticated()
}

// Buyer does the same where only buyers may come in. An API key is refused as it
// stands (CodeForbidden), so that no invented one costs a look into the ledger.
func (a *Auth) Buyer(ctx context.Context, header []string) (*Principal, error) {
	credential, ok := bearer(header)
	switch {
	case ok && isAPIKey(credential):
		return nil, Forbidden("send a buyer's token, or no credentials at all")
	case ok && a.tokens != nil:
		return a.tokens.Verify(ctx, credential)
	}
	return nil, Unauthenticated()
}

// bearer returns the one credential of an Authorization header.
func bearer(header []string) (string, bool) {
	if len(header) != 1 || len(header[0]) <= len(scheme) || !strings.EqualFold(header[0][:len(scheme)], scheme) {
		return "", false
	}
	return header[0][len(scheme):], true
}

// Forbidden returns the error for a caller who is known but may not do this.
func Forbidden(hint string) *sale.Error {
	return &sale.Error{Code: sale.CodeForbidden, Message: "these credentials do not allow this", Hint: hint}
}
