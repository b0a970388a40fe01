// Package redisurl reads redis.url, the address of one server, of a primary
// behind sentinels, or of a cluster:
//
//	redis://[[user]:password@]host[:6379][/db]
//	redis://[[user]:password@]host[:26379],host,…[/db]?sentinel=NAME
//	redis://[[user]:password@]host[:6379],host,…?cluster=true
//
// rediss:// is the same over TLS. With sentinel=NAME the hosts are sentinels and
// NAME is what they call the primary; user and password are those of the primary
// and its replicas, and sentinel_user and sentinel_password those of the
// sentinels, if they ask for any. With cluster=true the hosts are some nodes of
// the cluster, from which the others are learned. Reserved characters in names
// and passwords are percent-encoded, as in every URL.
//
// Which of the three it is must be said: a host that turns out to be something
// else is a mistake that had better be found at the start than in a sale.
package redisurl

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Kind is what stands behind the hosts.
type Kind string

// The kinds.
const (
	Single   Kind = "single"
	Sentinel Kind = "sentinel"
	Cluster  Kind = "cluster"
)

// URL is a read redis.url.
type URL struct {
	Kind  Kind
	TLS   bool
	Hosts []string // host:port, at least one; sentinels for Sentinel
	DB    int      // number of the database; 0 for Cluster

	User     string // empty is the default user
	Password Secret

	// Primary is what the sentinels call the primary; empty unless Kind is
	// Sentinel.
	Primary          string
	SentinelUser     string
	SentinelPassword Secret
}

// Secret is text that is not printed.
type Secret string

const masked = "********"

// String returns asterisks.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString returns asterisks, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns asterisks, for logs in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Error is a mistake in a URL. It quotes nothing that may be a secret.
type Error struct {
	Message string // what is wrong, without a full stop
	Hint    string // what to write instead
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func mistake(message, hint string) *Error { return &Error{Message: message, Hint: hint} }

const (
	serverPort   = "6379"
	sentinelPort = "26379"
	lastPort     = 65_535
	// lastDB bounds the number of a database; servers have 16 unless told.
	lastDB = 9_999
)

// Parse reads a URL. The error is an *Error.
func Parse(text string) (URL, error) {
	u := parser{URL{Kind: Single}}
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case found && scheme == "redis":
	case found && scheme == "rediss":
		u.TLS = true
	default:
		return URL{}, mistake("the URL does not start with redis:// or rediss://", "write redis://HOST:6379, or rediss:// for TLS")
	}
	if strings.Contains(rest, "#") {
		return URL{}, mistake("the URL has a fragment", "write a # in a password as %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path+query, "@") {
		// What stands before it is a password, and must not be quoted below.
		return URL{}, mistake("an @ stands behind the host", "write / ? @ in a password as %2F %3F %40")
	}
	for _, read := range []func() error{
		func() error { return u.readQuery(query) },
		func() error { return u.readPath(path) },
		func() error { return u.readAuthority(authority) },
	} {
		if err := read(); err != nil {
			return URL{}, err
		}
	}
	return u.URL, nil
}

// parser fills a URL.
type parser struct{ URL }

func (u *parser) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return mistake("the parameters after the ? cannot be read", "write them as name=value, with & between them")
	}
	for name, said := range values {
		if len(said) != 1 || said[0] == "" {
			return mistake("the parameter "+strconv.Quote(name)+" is empty or said twice", "give it one value, or leave it out")
		}
		switch name {
		case "sentinel":
			u.Primary = said[0]
		case "cluster":
			if said[0] != "true" {
				return mistake("cluster is neither true nor left out", "write cluster=true for a Redis Cluster, and nothing for one server")
			}
			u.Kind = Cluster
		case "sentinel_user":
			u.SentinelUser = said[0]
		case "sentinel_password":
			u.SentinelPassword = Secret(said[0])
		default:
			return mistake("the parameter "+strconv.Quote(name)+" is unknown", "use sentinel, sentinel_user, sentinel_password or cluster")
		}
	}
	switch {
	case u.Primary != "" && u.Kind == Cluster:
		return mistake("both sentinel and cluster are said", "keep the one that describes your Redis")
	case u.Primary != "":
		u.Kind = Sentinel
	case u.SentinelUser != "" || u.SentinelPassword != "":
		return mistake("there is an account for sentinels, but no sentinel=NAME", "add sentinel=NAME, or leave the account out")
	}
	return nil
}

func (u *parser) readPath(path string) error {
	if path == "" {
		return nil
	}
	n, err := strconv.ParseUint(path, 10, 16)
	if err != nil || n > lastDB {
		return mistake("what follows the host is not the number of a database", "write /0 to /15, or leave it out")
	}
	if u.Kind == Cluster && n != 0 {
		return mistake("a Redis Cluster has no database but 0", "leave the number out")
	}
	u.DB = int(n)
	return nil
}

func (u *parser) readAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var errUser, errPassword error
		u.User, errUser = url.PathUnescape(user)
		password, errPassword = url.PathUnescape(password)
		u.Password = Secret(password)
		if errUser != nil || errPassword != nil {
			return mistake("user and password cannot be read", "write reserved characters percent-encoded, such as %2F for /")
		}
		if u.User != "" && u.Password == "" {
			return mistake("the user has no password", "write user:password@, or :password@ for the default user")
		}
	}
	for i, host := range strings.Split(hosts, ",") {
		full, ok := u.withPort(host)
		if !ok { // it is not quoted: without its @, it may be a password
			return mistake("host number "+strconv.Itoa(i+1)+" is neither host nor host:port",
				"write them such as 10.0.0.7:6379 or [fd00::7]:6379, with commas between several")
		}
		if slices.Contains(u.Hosts, full) {
			return mistake("host number "+strconv.Itoa(i+1)+" is said twice", "name each host once")
		}
		u.Hosts = append(u.Hosts, full)
	}
	if u.Kind == Single && len(u.Hosts) > 1 {
		return mistake("there are several hosts, but it is not said what they are", "add ?cluster=true for a Redis Cluster, or ?sentinel=NAME if they are sentinels")
	}
	return nil
}

func (u *parser) withPort(text string) (string, bool) {
	port := serverPort
	if u.Kind == Sentinel {
		port = sentinelPort
	}
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		host = text[1 : len(text)-1]
	} else if strings.Contains(text, ":") {
		return "", false
	}
	n, err := strconv.ParseUint(port, 10, 32)
	// What would be an address elsewhere, such as a stray @ of a password, is none.
	if err != nil || n == 0 || n > lastPort || host == "" || strings.ContainsAny(host, "@[]% \t") {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// String returns the URL without passwords.
func (u URL) String() string {
	out := "redis://"
	if u.TLS {
		out = "rediss://"
	}
	if u.User != "" || u.Password != "" {
		out += url.PathEscape(u.User) + ":" + masked + "@"
	}
	out += strings.Join(u.Hosts, ",")
	if u.DB != 0 {
		out += "/" + strconv.Itoa(u.DB)
	}
	switch u.Kind {
	case Single:
	case Sentinel:
		out += "?sentinel=" + url.QueryEscape(u.Primary)
		if u.SentinelPassword != "" {
			out += "&sentinel_user=" + url.QueryEscape(u.SentinelUser) + "&sentinel_password=" + masked
		}
	case Cluster:
		out += "?cluster=true"
	}
	return out
}
