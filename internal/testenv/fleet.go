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
	Servers []FleetServer // nil is three of the zero value
	// Redis and Postgres are what the servers share; nil starts a Redis and takes a
	// fresh database.
	Redis    *RedisServer
	Postgres *PostgresServer
	Cluster  *RedisNodes // in place of Redis, if set
	Args     []string    // further arguments of every server
	// Lasting says that the fleet is there for many tests, so that it takes no place
	// from the fleets that come and go.
	Lasting bool
}

// FleetServer is one server of a fleet. The zero value does everything and is
// connected directly.
type FleetServer struct {
	Roles string // the value of --roles; a server without the role gate has no URL
	// RedisBy and LedgerBy stand between the server and what it needs; nil ones do not.
	RedisBy, LedgerBy *Proxy
}

// Fleet is several servers that sell the same sales: one ledger, one Redis.
type Fleet struct {
	Servers  []*Server
	Redis    *RedisServer // nil where there is a Cluster
	Cluster  *RedisNodes
	Postgres *PostgresServer
}

// berths bounds the fleets of this test process that are out at once: more of them
// would only wait for each other.
//
//nolint:gochecknoglobals // see above
var berths = make(chan struct{}, 2)

// ServeFleet starts the servers and waits until all are ready. All accept the
// tokens of each. Where too many fleets are out, it waits for one to end.
func ServeFleet(tb testing.TB, o FleetOptions) *Fleet {
	tb.Helper()
	if !o.Lasting {
		berths <- struct{}{}
		tb.Cleanup(func() { <-berths })
	}
	f := &Fleet{Redis: o.Redis, Cluster: o.Cluster, Postgres: o.Postgres}
	if o.Servers == nil {
		o.Servers = make([]FleetServer, 3)
	}
	if f.Redis == nil && f.Cluster == nil {
		f.Redis = Redis(tb)
	}
	if f.Postgres == nil {
		f.Postgres = Postgres(tb)
	}
	secret, _, err := auth.EnsureSecret(filepath.Join(tb.TempDir(), "jwt.key"))
	if err != nil {
		tb.Fatalf("make a token key: %v", err)
	}
	for _, one := range o.Servers {
		dir := tb.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "jwt.key"), secret, 0o600); err != nil {
			tb.Fatalf("share the token key: %v", err)
		}
		s := newServer(tb, dir, append(f.arguments(&one), o.Args...))
		f.Servers = append(f.Servers, s)
		s.Start() // one after the other: the first brings the schema up to date
	}
	return f
}

func (f *Fleet) arguments(s *FleetServer) []string {
	roles := s.Roles
	if roles == "" {
		roles = "gate,worker"
	}
	var redis string
	if f.Cluster != nil {
		redis = f.Cluster.URL()
	} else {
		redis = via(f.Redis.URL, f.Redis.Addr, s.RedisBy)
	}
	return []string{
		"--roles", roles, "--redis-url", redis,
		"--ledger-url", via(f.Postgres.URL, f.Postgres.Addr(), s.LedgerBy),
	}
}

// via returns the URL with the address of its server replaced by a proxy's.
func via(url, server string, p *Proxy) string {
	if p == nil {
		return url
	}
	return strings.Replace(url, server, p.Addr, 1)
}
