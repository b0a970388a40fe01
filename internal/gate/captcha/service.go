package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// DefaultTimeout bounds a question to a service if nothing else is said.
	DefaultTimeout = 3 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 16 << 10
	// maxConns bounds the questions that are under way at once; beyond that, callers
	// are told that the server is busy. They are a part of those who buy.
	maxConns = 64
)

// service is where questions go.
type service struct {
	endpoint string
	timeout  time.Duration
	client   *http.Client
	places   chan struct{}
	circuit  circuit
	tell     func(error)
}

// newService returns the service at endpoint, or at fallback if that is empty.
func newService(endpoint, fallback string, timeout time.Duration, tell func(error)) (*service, error) {
	if endpoint == "" {
		endpoint = fallback
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("captcha: %q is not the address of a service", endpoint)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("captcha: the address %q must begin with https, since a secret goes there", endpoint)
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	if tell == nil {
		tell = func(error) {}
	}
	return &service{endpoint: endpoint, timeout: timeout, places: make(chan struct{}, maxConns), tell: tell, client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns / 4,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Close closes idle connections. Questions may still be asked.
func (s *service) Close() { s.client.CloseIdleConnections() }

// silence says that a question got no answer that decides anything. Its cause is no part
// of what callers see, who would take one question for the state of the service.
type silence struct{ cause error }

// Error implements error.
func (s *silence) Error() string { return "the captcha service did not answer: " + s.cause.Error() }

func noAnswer(cause error) error { return &silence{cause: cause} }

// put puts a question, unless the service is out or has as many as it can take.
func (s *service) put(ctx context.Context, now time.Time, question func(context.Context) error) error {
	if s.circuit.open(now) {
		return fmt.Errorf("%w to the last questions", gate.ErrCaptchaDown)
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return sale.Busy()
	}
	err := question(ctx)
	none, silent := errors.AsType[*silence](err)
	switch {
	case !silent:
		s.circuit.answered()
		return err
	case ctx.Err() != nil: // who has gone says nothing about the service
		return context.Cause(ctx)
	}
	s.tell(err)
	if s.circuit.silent(now) {
		return fmt.Errorf("%w: %w", gate.ErrCaptchaDown, none.cause)
	}
	busy := sale.Busy()
	busy.Err = err
	return busy
}

// ask posts a form and reads the JSON of the answer, whatever its status: services
// explain refusals with 4xx. All errors are a silence, and none names the secret.
func (s *service) ask(ctx context.Context, query string, form url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint+query, strings.NewReader(form.Encode()))
	if err != nil {
		return noAnswer(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return noAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return noAnswer(err)
	case len(text) > maxAnswer:
		return noAnswer(fmt.Errorf("its answer is longer than %d bytes", maxAnswer))
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 300 && resp.StatusCode < 400:
		return noAnswer(fmt.Errorf("status %d", resp.StatusCode))
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return noAnswer(fmt.Errorf("status %d, and what came is not its JSON", resp.StatusCode))
	}
	return nil
}

// errNoSolution refuses what no widget returns, without asking.
var errNoSolution = errors.New("there is no solution")

// errNoVerdict says that an answer says neither yes nor no.
var errNoVerdict = errors.New("the answer says neither yes nor no")

func checkLength(response string) error {
	if response == "" || len(response) > gate.MaxCaptcha {
		return fmt.Errorf("%w: %w", gate.ErrCaptchaRefused, errNoSolution)
	}
	return nil
}
