package auth

import (
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Scope is a set of things that an API key may do.
type Scope uint8

// The scopes of API keys.
const (
	ScopeShop  Scope = 1 << iota // act for buyers, report payments, refund
	ScopeAdmin                   // create and change sales, see all orders
	ScopeOps                     // read the ops listener
)

// ScopeNames lists the names of the scopes.
func ScopeNames() []string { return []string{"shop", "admin", "ops"} }

// ParseScopes returns the set named by the list; CodeInvalid for an unknown or
// missing name.
func ParseScopes(names []string) (Scope, error) {
	var set Scope
	for _, name := range names {
		switch name {
		case "shop":
			set |= ScopeShop
		case "admin":
			set |= ScopeAdmin
		case "ops":
			set |= ScopeOps
		default:
			return 0, sale.Invalid("scopes", "the scope "+name+" is unknown", "use "+strings.Join(ScopeNames(), ", "))
		}
	}
	if set == 0 {
		return 0, sale.Invalid("scopes", "a key needs at least one scope", "use "+strings.Join(ScopeNames(), ", "))
	}
	return set, nil
}

// Principal is who is calling. Exactly one of User and KeyID is set; the zero
// value is nobody. Values are shared and must not be changed.
type Principal struct {
	User   string // a buyer, from the token's sub
	KeyID  string // an API key
	Scopes Scope  // of the key
	// Until is when a buyer's token expires; zero for keys.
	Until time.Time
}

// Has reports whether the caller holds an API key with one of the scopes.
func (p *Principal) Has(s Scope) bool { return p.Scopes&s != 0 }

// Unauthenticated returns the error for missing or unacceptable credentials. It
// does not say what is wrong with them.
func Unauthenticated() *sale.Error {
	return &sale.Error{
		Code: sale.CodeUnauthenticated, Message: "the request carries no valid credentials",
		Hint: "send Authorization: Bearer with a valid token of a buyer, or an API key",
	}
}
