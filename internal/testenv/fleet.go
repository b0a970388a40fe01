package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doorbuster/doorbuster/internal/auth"
)

// FleetOptions say what a fleet is made of. The zero value is three whole servers
// with a Redis and a database of their own.
type FleetOptions struct {
	// Roles has one entry per server, the value of --roles; nil is three times
	// "gate,worker". A server without the role gate has no URL.
	Roles []string
	// RedisURL and LedgerURL are where the servers find their parts, for a proxy in
	// between; empty starts a Redis and takes a fresh database.
	RedisURL, LedgerURL string
	Args                []string // further arguments of every server
}

// Fleet is several servers that sell the same sales: one ledger, one Redis.
type Fleet struct {
	Servers []*Server
	// Redis and Postgres are those that the fleet started; nil where a URL was given.
	Redis    *RedisServer
	Postgres *PostgresServer
}

// ServeFleet starts the servers and waits until all are ready. All accept the
// tokens of each.
func ServeFleet(tb testing.TB, o FleetOptions) *Fleet {
	tb.Helper()
	f := &Fleet{}
	if o.Roles == nil {
		o.Roles = []string{"gate,worker", "gate,worker", "gate,worker"}
	}
	if o.RedisURL == "" {
		f.Redis = Redis(tb)
		o.RedisURL = f.Redis.URL
	}
	if o.LedgerURL == "" {
		f.Postgres = Postgres(tb)
		o.LedgerURL = f.Postgres.URL
	}
	secret, _, err := auth.EnsureSecret(filepath.Join(tb.TempDir(), "jwt.key"))
	if err != nil {
		tb.Fatalf("make a token key: %v", err)
	}
	for _, roles := range o.Roles {
		dir := tb.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "jwt.key"), secret, 0o600); err != nil {
			tb.Fatalf("share the token key: %v", err)
		}
		args := append([]string{"--ledger-url", o.LedgerURL, "--redis-url", o.RedisURL, "--roles", roles}, o.Args...)
		f.Servers = append(f.Servers, newServer(tb, dir, args))
	}
	for _, s := range f.Servers { // the first brings the schema of the ledger up to date
		s.Start()
	}
	return f
}

// Via returns the URL with the address of its server replaced by a proxy's.
func Via(url, server string, p *Proxy) string { return strings.Replace(url, server, p.Addr, 1) }
