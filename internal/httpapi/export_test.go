package httpapi

import (
	"net/http"
	"net/netip"
)

// Line is a line of the table of routes, for tests.
type Line struct {
	Method, Pattern, Operation string
	Public, Optional           bool // needs no credentials; takes them if there are some
	Shop, Admin                bool // needs a key with this scope
}

// Table returns the routes.
func (a *API) Table() []Line {
	routes := a.routes()
	out := make([]Line, 0, len(routes))
	for _, r := range routes {
		out = append(out, Line{
			Method: r.method, Pattern: r.pattern, Operation: r.operation, Public: r.scope == anybody, Optional: r.scope == maybeBuyer,
			Shop: r.scope == shop, Admin: r.scope == admin,
		})
	}
	return out
}

// ClientIP returns what the API takes for the client's address.
func (a *API) ClientIP(r *http.Request) netip.Addr { return a.clientIP(r) }

// Bucket returns what caps count by.
func Bucket(a netip.Addr) netip.Prefix { return bucket(a) }

// Occupy takes a place of a class and returns what gives it back.
func (a *API) Occupy(name string) func() {
	g := map[string]*class{"buy": a.classes.buy, "read": a.classes.read, "pay": a.classes.pay, "admin": a.classes.admin}[name]
	g.places <- struct{}{}
	return func() { <-g.places }
}

// Waiting returns how many requests of the class wait for a place.
func (a *API) Waiting(name string) int64 {
	g := map[string]*class{"buy": a.classes.buy, "read": a.classes.read, "pay": a.classes.pay, "admin": a.classes.admin}[name]
	return g.waiting.Load()
}

// IdempotencyKey reads the header.
func IdempotencyKey(h http.Header) (string, error) { return idempotencyKey(h) }
