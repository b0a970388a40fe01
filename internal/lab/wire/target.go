package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Target is a server, as an address that can be dialed and a host that is asked
// for.
type Target struct {
	Addr   string      // host:port
	Host   string      // the Host header
	Prefix string      // path before every request's, without a slash at its end
	TLS    *tls.Config // nil: plain
	// Dialer opens the connection beneath; nil is TCP to Addr.
	Dialer func(ctx context.Context) (net.Conn, error)
}

// dialTimeout bounds opening a connection where the context has no earlier end.
const dialTimeout = 30 * time.Second

// ParseTarget reads a target from a URL such as http://127.0.0.1:8080 or
// https://shop.example/sales/. What a crowd could not use is an error: another
// scheme, a user and password, a query, a fragment.
func ParseTarget(text string) (*Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		// url.Parse repeats the text, which may hold a password.
		return nil, fmt.Errorf("the URL cannot be read: %w", errors.Unwrap(err))
	}
	ports := map[string]string{"http": "80", "https": "443"}
	port, known := ports[u.Scheme]
	switch {
	case !known:
		return nil, fmt.Errorf("the URL's scheme is %q; it must be http or https, as in http://127.0.0.1:8080", u.Scheme)
	case u.User != nil:
		return nil, errors.New("the URL names a user; leave that out, buyers show tokens")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("the URL names no host; it must be like http://127.0.0.1:8080")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("the URL has a query; leave out what begins with ?")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("the URL has a fragment; leave out what begins with #")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("the URL's port is %q; it must be from 1 to 65535", port)
	}
	host, zone, _ := strings.Cut(u.Host, "%") // the zone of an IPv6 address means something here only
	if zone != "" {
		host += "]" + zone[strings.IndexByte(zone, ']')+1:]
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return nil, errors.New("the URL's host is not in ASCII; write it as DNS knows it, xn--…")
	}
	t := &Target{
		Addr:   net.JoinHostPort(u.Hostname(), port),
		Host:   host,
		Prefix: strings.TrimRight(u.EscapedPath(), "/"),
	}
	if u.Scheme == "https" {
		t.TLS = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	return t, nil
}

// Dial opens a connection, within half a minute if ctx allows that much.
func (t *Target) Dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := t.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if t.TLS == nil {
		return newConn(conn, conn), nil
	}
	secure := tls.Client(conn, t.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("shake hands with %s: %w", t.Addr, err)
	}
	return newConn(secure, conn), nil
}

func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	if t.Dialer != nil {
		return t.Dialer(ctx)
	}
	var d net.Dialer // it sets TCP_NODELAY
	return d.DialContext(ctx, "tcp", t.Addr)
}
