package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/redisconn/redisurl"
)

const sqliteScheme = "sqlite:"

// Validate returns an *Error that lists every mistake, or nil. Load has called
// it already.
func (c *Config) Validate() error {
	var found problems
	c.check(&found)
	return found.err()
}

func (c *Config) check(found *problems) {
	if c.DataDir == "" {
		found.add("data_dir", "", "the folder is missing", "name one, such as ./data")
	}
	c.API.check(found)
	checkListen("ops.listen", c.Ops.Listen, found)
	c.Ledger.check(found)
	c.Redis.check(found)
	c.Gate.check(found)
	c.Auth.JWT.check(found)
	if !c.Auth.JWT.Named() && validListen(c.API.Listen) && !Loopback(c.API.Listen) {
		found.add("auth.jwt", "", "a development key must not meet the network, and api.listen is "+c.API.Listen,
			"name the key of your issuer (auth.jwt.secret_file, public_key_file, jwks_file or jwks_url), or listen on 127.0.0.1")
	}
	c.checkRoles(found)
	c.Fast.check(found)
	between("engine.max_batch", c.Engine.MaxBatch, 1, 10_000, found)
	between("engine.max_queue", c.Engine.MaxQueue, 1, 1_000_000, found)
	lasts("engine.call_timeout", c.Engine.CallTimeout, 10*time.Millisecond, time.Minute, found)
	lasts("engine.refresh", c.Engine.Refresh, time.Millisecond, time.Second, found)
	lasts("holds.sweep_interval", c.Holds.SweepInterval, 10*time.Millisecond, time.Second, found)
	between("holds.sweep_batch", c.Holds.SweepBatch, 1, 10_000, found)
	oneOf("log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}, found)
	oneOf("log.format", c.Log.Format, []string{"text", "json"}, found)
	lasts("shutdown.grace", c.Shutdown.Grace, 0, time.Hour, found)
}

// The roles of a process.
const (
	RoleGate   = "gate"
	RoleWorker = "worker"
)

// Has reports whether the process has a role.
func (c *Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

func (c *Config) checkRoles(found *problems) {
	if len(c.Roles) == 0 {
		found.add("roles", "", "the process would do nothing", "name gate, worker or both")
	}
	for _, r := range c.Roles {
		oneOf("roles", r, []string{RoleGate, RoleWorker}, found)
	}
	if (!c.Has(RoleGate) || !c.Has(RoleWorker)) && strings.HasPrefix(c.Ledger.URL, sqliteScheme) && len(c.Roles) > 0 {
		found.add("roles", "", "a SQLite ledger belongs to one process, which then must do everything", "name both roles, or use a postgres:// ledger")
	}
}

func (f *Fast) check(found *problems) {
	oneOf("fast.default_path", f.DefaultPath, []string{"fast", "direct"}, found)
	between("fast.lanes", f.Lanes, 1, 64, found)
	lasts("fast.preheat_lead", f.PreheatLead, 0, 24*time.Hour, found)
	between("fast.max_queued", f.MaxQueued, 1, 10_000_000, found)
	between("fast.batch", f.Batch, 1, 10_000, found)
	lasts("fast.take_over", f.TakeOver, 100*time.Millisecond, time.Minute, found)
	lasts("fast.max_wait", f.MaxWait, time.Second, 20*time.Second, found)
}

func (a *API) check(found *problems) {
	checkListen("api.listen", a.Listen, found)
	for _, o := range a.CORSOrigins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.Scheme+"://"+u.Host != o) {
			found.add("api.cors_origins", "", quoted(o)+" is not an origin", "write scheme and host only, such as https://shop.example, or *")
		}
	}
	onOff("api.proxy_protocol", a.ProxyProtocol, found)
	if a.ProxyProtocol == On && len(a.TrustedProxies) == 0 {
		found.add("api.proxy_protocol", "", "nobody is trusted to say whose connection it is", "name your proxies in api.trusted_proxies, or set it to off")
	}
	between("api.max_body_bytes", a.MaxBodyBytes, 1<<10, 16<<20, found)
	between("api.max_header_bytes", a.MaxHeaderBytes, 4<<10, 1<<20, found)
	t := a.Timeouts
	for _, v := range []struct {
		key   string
		value time.Duration
	}{{"read_header", t.ReadHeader}, {"read", t.Read}, {"request", t.Request}, {"write", t.Write}, {"idle", t.Idle}} {
		lasts("api.timeouts."+v.key, v.value, 10*time.Millisecond, time.Hour, found)
	}
	if t.Write <= t.Request {
		found.add("api.timeouts.write", "", "it is not longer than api.timeouts.request, so the answer of a slow request would never be written",
			"make it longer than "+t.Request.String())
	}
	a.Limits.check(found)
	between("api.streams.total", a.Streams.Total, 1, 10_000_000, found)
	between("api.streams.per_ip", a.Streams.PerIP, 1, 10_000_000, found)
	between("api.streams.per_user", a.Streams.PerUser, 1, 10_000_000, found)
}

func (l *Limits) check(found *problems) {
	for _, class := range []struct {
		name  string
		limit Limit
	}{{"buy", l.Buy}, {"read", l.Read}, {"pay", l.Pay}, {"admin", l.Admin}} {
		key := "api.limits." + class.name
		between(key+".in_flight", class.limit.InFlight, 1, 1_000_000, found)
		between(key+".queue", class.limit.Queue, 1, 10_000_000, found)
		lasts(key+".wait", class.limit.Wait, time.Millisecond, time.Minute, found)
	}
}

func (l *Ledger) check(found *problems) {
	path, isSQLite := strings.CutPrefix(l.URL, sqliteScheme)
	switch {
	case strings.HasPrefix(l.URL, "postgres://"), strings.HasPrefix(l.URL, "postgresql://"):
		// The driver reads it, with all that libpq allows; here only what nobody means.
		if _, rest, _ := strings.Cut(l.URL, "://"); strings.Trim(rest, "/") == "" || strings.ContainsAny(rest, " \t\n") {
			found.add("ledger.url", "", "what follows postgres:// names no server", "use postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full")
		}
	case !isSQLite:
		found.add("ledger.url", "", "the kind of ledger is unknown", "use "+sqliteScheme+"PATH, such as sqlite:./data/doorbuster.db, or postgres://USER:PASSWORD@HOST:5432/DATABASE")
	case path == "" || strings.HasPrefix(path, ":") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "?#%"):
		found.add("ledger.url", "", "what follows sqlite: is not the plain path of a file", "use a path without ? # %, such as sqlite:./data/doorbuster.db; a ledger in memory would forget the orders")
	}
}

// SQLitePath returns the path of the embedded ledger's file.
func (l *Ledger) SQLitePath() string { return strings.TrimPrefix(l.URL, sqliteScheme) }

func (r *Redis) check(found *problems) {
	if r.URL != "" {
		u, err := redisurl.Parse(r.URL)
		if wrong, ok := errors.AsType[*redisurl.Error](err); ok {
			found.add("redis.url", "", wrong.Message, wrong.Hint)
		} else if r.CAFile != "" && !u.TLS {
			found.add("redis.ca_file", "", "redis.url does not use TLS", "write rediss:// in redis.url, or leave redis.ca_file out")
		}
	}
	if !validPrefix(r.Prefix) {
		found.add("redis.prefix", "", quoted(r.Prefix)+" is no prefix of keys", "use 1 to 64 of the characters a-z A-Z 0-9 . : _ -")
	}
	lasts("redis.call_timeout", r.CallTimeout, 10*time.Millisecond, 30*time.Second, found)
}

// validPrefix refuses above all braces, which would say where in a cluster a key
// lives.
func validPrefix(prefix string) bool {
	const longest = 64
	return prefix != "" && len(prefix) <= longest && strings.IndexFunc(prefix, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".:_-", r)
	}) < 0
}

func (j *JWT) check(found *problems) {
	if j.Issuer == "" {
		found.add("auth.jwt.issuer", "", "the issuer is missing", "name the iss claim of your tokens")
	}
	if j.Audience == "" {
		found.add("auth.jwt.audience", "", "the audience is missing", "name the aud claim of your tokens")
	}
	oneOf("auth.jwt.algorithm", j.Algorithm, []string{"HS256", "EdDSA", "RS256", "ES256"}, found)
	var named []string
	for _, s := range []struct{ name, value string }{
		{"secret_file", j.SecretFile}, {"public_key_file", j.PublicKeyFile}, {"jwks_file", j.JWKSFile}, {"jwks_url", j.JWKSURL},
	} {
		if s.value != "" {
			named = append(named, s.name)
		}
	}
	shared := j.Algorithm == "HS256"
	switch {
	case len(named) > 1:
		found.add("auth.jwt", "", "the key has several sources: "+strings.Join(named, ", "), "keep one of them")
	case j.SecretFile != "" && !shared:
		found.add("auth.jwt.algorithm", "", "secret_file is for HS256, not for "+quoted(j.Algorithm), "set algorithm to HS256, or name a public key")
	case len(named) == 1 && j.SecretFile == "" && shared:
		found.add("auth.jwt.algorithm", "", named[0]+" is for EdDSA, RS256 or ES256, not for HS256", "set algorithm to the one of your issuer's key")
	case len(named) == 0 && !shared:
		found.add("auth.jwt.algorithm", "", "the development key is for HS256, not for "+quoted(j.Algorithm), "name your issuer's key, or leave the algorithm at HS256")
	}
	if j.JWKSURL != "" && !fetchable(j.JWKSURL) {
		found.add("auth.jwt.jwks_url", "", "this is neither an https URL nor an http one on a loopback address", "keys that come over a plain network could be anybody's")
	}
}

func fetchable(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopbackHost(u.Hostname())
}

func checkListen(key, listen string, found *problems) {
	if !validListen(listen) {
		found.add(key, "", quoted(listen)+" is not an address to listen on", "write host and port, such as 127.0.0.1:8080 or [::1]:8080; port 0 takes a free one")
	}
}

func validListen(listen string) bool {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Loopback reports whether an address to listen on can be reached from this
// machine only.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func between(key string, n, low, high int, found *problems) {
	if n < low || n > high {
		found.add(key, "", strconv.Itoa(n)+" is out of range", "use "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
}

func lasts(key string, d, low, high time.Duration, found *problems) {
	if d < low || d > high {
		found.add(key, "", d.String()+" is out of range", "use "+low.String()+" to "+high.String())
	}
}

func onOff(key, value string, found *problems) { oneOf(key, value, []string{On, "off"}, found) }

func oneOf(key, value string, legal []string, found *problems) {
	if !slices.Contains(legal, value) {
		found.add(key, "", quoted(value)+" is unknown", "use "+strings.Join(legal, ", "))
	}
}
