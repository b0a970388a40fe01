// Package auth tells who is calling: it verifies buyers' tokens and API keys,
// and makes both. What a caller may do is decided by the routes of httpapi.
//
// # Buyers' tokens
//
// A token is a JWT whose sub is the buyer. Each configured key is bound to one
// algorithm, so a public key can never be mistaken for a shared secret; issuer,
// audience and expiry are required. Checking a signature costs more than all the
// rest of a request, so verified tokens are remembered by their SHA-256, at most
// until they expire and at most for a few minutes, so that a key which has been
// withdrawn loses its power. The token itself is kept nowhere and never logged.
//
// # API keys
//
// The text of a key is dbk_<id>_<secret>. The ledger keeps the SHA-256 of the
// secret, which is 32 random bytes and therefore needs no slow hash. A key read
// from the ledger is believed for a second, so a revocation takes effect within
// two, on every instance.
package auth
