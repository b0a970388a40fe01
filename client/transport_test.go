package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// offline returns a client whose tries are answered by fn without a network, so
// that it can run in a bubble of fake time.
func offline(t *testing.T, retry client.Retry, fn func(try int) (*http.Response, error)) *client.Client {
	t.Helper()
	try := 0
	c, err := client.New(client.Options{
		URL: "http://door", Retry: retry,
		HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			try++
			return fn(try)
		})},
	})
	require.NoError(t, err)
	return c
}

func response(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	if status >= 300 {
		h.Set("Content-Type", "application/problem+json")
	}
	for pair := range slices.Chunk(headers, 2) {
		h.Set(pair[0], pair[1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
