package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	remoteRefresh = 15 * time.Minute
	// remotePause is the least time between two fetches, so that tokens with
	// invented key ids cannot make us hammer the issuer.
	remotePause   = 10 * time.Second
	remoteTimeout = 5 * time.Second
	maxSetBytes   = 1 << 20
)

// Remote is a key set behind a URL. It is fetched again every quarter of an
// hour, and when a token names a key that it lacks, at most every ten seconds.
// While the issuer is out of reach the last set serves on.
type Remote struct {
	url       string
	algorithm string
	client    *http.Client
	now       func() time.Time

	mu     sync.Mutex
	set    *keySet // nil until the first fetch
	err    error   // of the last fetch
	at     time.Time
	flight chan struct{} // closed when the fetch under way ends; nil if none
}

// NewRemote returns the key set at a URL, bound to one algorithm. Nothing is
// fetched before Run or the first token.
func NewRemote(algorithm, from string, now func() time.Time) *Remote {
	client := &http.Client{Timeout: remoteTimeout, CheckRedirect: staySafe}
	return &Remote{url: from, algorithm: algorithm, client: client, now: now}
}

const maxRedirects = 5

var errRedirect = errors.New("auth: the key set is redirected too often, or to a place that is neither https nor loopback")

// staySafe keeps redirects where the first request had to be: whoever changes
// the key set on the way signs tokens for every buyer.
func staySafe(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects || !private(next.URL) {
		return errRedirect
	}
	return nil
}

// Key returns the key that a Verifier uses.
func (r *Remote) Key() Key { return Key{algorithm: r.algorithm, find: r.find} }

// Run keeps the set fresh until ctx ends and tells failed of every fetch that
// did not succeed.
func (r *Remote) Run(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(remoteRefresh)
	defer tick.Stop()
	for {
		if err := r.refresh(ctx, r.fetched()); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Remote) find(ctx context.Context, t *jwt.Token) ([]jwt.VerificationKey, error) {
	r.mu.Lock()
	set, err, at := r.set, r.err, r.at
	r.mu.Unlock()
	if set != nil {
		if keys, missing := set.find(ctx, t); missing == nil {
			return keys, nil
		}
	}
	if at.IsZero() || r.now().Sub(at) >= remotePause {
		err = r.refresh(ctx, at)
	}
	if err != nil { // we could not learn whether the issuer has such a key
		return nil, sale.Unavailable(err)
	}
	r.mu.Lock()
	set = r.set
	r.mu.Unlock()
	return set.find(ctx, t)
}

// fetched returns when the last fetch ended; zero before the first.
func (r *Remote) fetched() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// refresh fetches the set, or waits for the fetch under way, unless one has
// ended since the caller saw it fetched at seen.
func (r *Remote) refresh(ctx context.Context, seen time.Time) error {
	r.mu.Lock()
	if !r.at.Equal(seen) {
		defer r.mu.Unlock()
		return r.err
	}
	flight := r.flight
	if flight == nil {
		flight = make(chan struct{})
		r.flight = flight
		go r.fetch(context.WithoutCancel(ctx), flight)
	}
	r.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Remote) fetch(ctx context.Context, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	set, err := r.load(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.set = set
	}
	r.err, r.at, r.flight = err, r.now(), nil
	close(flight)
}

func (r *Remote) load(ctx context.Context) (set *keySet, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("auth: the URL of the key set cannot be used: %w", err)
	}
	resp, err := r.client.Do(req)
	if whole, ok := errors.AsType[*url.Error](err); ok {
		err = whole.Err // the URL, which may hold a secret, does not belong in logs
	}
	if err != nil {
		return nil, fmt.Errorf("auth: the key set cannot be fetched: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("auth: the key set cannot be fetched: %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxSetBytes))
	if err != nil {
		return nil, fmt.Errorf("auth: the key set cannot be read: %w", err)
	}
	return parseSet(ctx, r.algorithm, raw)
}
