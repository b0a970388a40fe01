package client

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options says how a Client reaches a server. Only URL is needed.
type Options struct {
	// URL is the server's address, such as http://127.0.0.1:8080. A path in it
	// is put before the API's own paths.
	URL string
	// Token is sent as bearer credential: a buyer's JWT or an API key
	// (dbk_…). Empty: only public calls work.
	Token string
	// TokenFunc, if set, is asked before each try instead of Token, so that an
	// expiring token can be renewed. It must be safe for concurrent use.
	TokenFunc func(ctx context.Context) (string, error)
	// HTTPClient carries the requests. Its Timeout should be zero: tries are
	// bounded by Retry.TryTimeout, and a stream of events has no end. nil is a
	// client of its own that follows no redirects.
	HTTPClient *http.Client
	// UserAgent is sent with each request; empty is "doorbuster-go".
	UserAgent string
	Retry     Retry
}

// Retry bounds the tries of one call. Zero fields take the defaults.
type Retry struct {
	Tries      int           // most tries of one call, the first included; default 4, 1 is no retry
	TryTimeout time.Duration // longest time of one try, the body included; default 10 s, and what the server shall wait for besides
	Pause      time.Duration // before the second try, then doubled, ± half at random; default 100 ms
	MaxPause   time.Duration // longest pause; who is told to wait longer gets the error; default 5 s
}

const (
	defaultTries      = 4
	defaultTryTimeout = 10 * time.Second
	defaultPause      = 100 * time.Millisecond
	defaultMaxPause   = 5 * time.Second
	defaultUserAgent  = "doorbuster-go"
	dialTimeout       = 5 * time.Second
	maxIdlePerHost    = 256
)

func (r Retry) withDefaults() Retry {
	if r.Tries <= 0 {
		r.Tries = defaultTries
	}
	if r.TryTimeout <= 0 {
		r.TryTimeout = defaultTryTimeout
	}
	if r.Pause <= 0 {
		r.Pause = defaultPause
	}
	if r.MaxPause <= 0 {
		r.MaxPause = defaultMaxPause
	}
	return r
}

// Client speaks to one server with one credential. It is safe for concurrent
// use; make one and share it.
type Client struct {
	base  *url.URL
	token func(ctx context.Context) (string, error)
	http  *http.Client
	agent string
	retry Retry
}

// New returns a client. It does not connect. The error, an *Error with
// ErrInvalid, says what is wrong with the URL.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, own(ErrInvalid, "the server's URL cannot be read", "write it like http://127.0.0.1:8080", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, own(ErrInvalid, "the server's URL is not a plain http or https address", "write it like http://127.0.0.1:8080", nil)
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), strings.TrimRight(base.RawPath, "/")
	c := &Client{base: base, token: o.TokenFunc, http: o.HTTPClient, agent: o.UserAgent, retry: o.Retry.withDefaults()}
	if c.token == nil {
		c.token = fixed(o.Token)
	}
	if c.http == nil {
		c.http = newHTTPClient()
	}
	if c.agent == "" {
		c.agent = defaultUserAgent
	}
	return c, nil
}

// As returns a client for the same server, over the same connections, with
// another token.
func (c *Client) As(token string) *Client {
	other := *c
	other.token = fixed(token)
	return &other
}

func fixed(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

func newHTTPClient() *http.Client {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: maxIdlePerHost,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
