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
)

const (
	// DefaultTimeout bounds a question to a service if nothing else is said.
	DefaultTimeout = 3 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 16 << 10
	// maxConns bounds the connections to a service: beyond that, questions wait until
	// their deadline.
	maxConns = 64
)

// service is where questions go.
type service struct {
	endpoint string
	timeout  time.Duration
	client   *http.Client
}

// newService returns the service at endpoint, or at fallback if that is empty.
func newService(endpoint, fallback string, timeout time.Duration) (*service, error) {
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
	return &service{endpoint: endpoint, timeout: timeout, client: &http.Client{
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

// ask posts a form and reads the JSON of the answer, whatever its status: services
// explain refusals with 4xx. All errors are ErrCaptchaDown, and none names the secret.
func (s *service) ask(ctx context.Context, query string, form url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint+query, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("%w: %w", gate.ErrCaptchaDown, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", gate.ErrCaptchaDown, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", gate.ErrCaptchaDown, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%w: its answer is longer than %d bytes", gate.ErrCaptchaDown, maxAnswer)
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("%w: status %d", gate.ErrCaptchaDown, resp.StatusCode)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%w: status %d, and what came is not its JSON", gate.ErrCaptchaDown, resp.StatusCode)
	}
	return nil
}

// errNoSolution refuses what no widget returns, without asking.
var errNoSolution = errors.New("there is no solution")

func checkLength(response string) error {
	if response == "" || len(response) > gate.MaxCaptcha {
		return fmt.Errorf("%w: %w", gate.ErrCaptchaRefused, errNoSolution)
	}
	return nil
}
