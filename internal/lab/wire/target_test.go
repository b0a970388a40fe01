package wire

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Target{
		"http://127.0.0.1:8080":          {Addr: "127.0.0.1:8080", Host: "127.0.0.1:8080"},
		"http://shop.example":            {Addr: "shop.example:80", Host: "shop.example"},
		"HTTP://shop.example/":           {Addr: "shop.example:80", Host: "shop.example"},
		"http://shop.example/a/b//":      {Addr: "shop.example:80", Host: "shop.example", Prefix: "/a/b"},
		"http://shop.example/a%20b/c":    {Addr: "shop.example:80", Host: "shop.example", Prefix: "/a%20b/c"},
		"http://[::1]:8080":              {Addr: "[::1]:8080", Host: "[::1]:8080"},
		"http://[::1]":                   {Addr: "[::1]:80", Host: "[::1]"},
		"http://[fe80::1%25eth0]:81":     {Addr: "[fe80::1%eth0]:81", Host: "[fe80::1]:81"},
		"http://shop.example:08080/":     {Addr: "shop.example:08080", Host: "shop.example:08080"},
		"http://xn--bcher-kva.example:1": {Addr: "xn--bcher-kva.example:1", Host: "xn--bcher-kva.example:1"},
	} {
		got, err := ParseTarget(text)
		require.NoError(t, err, text)
		assert.Equal(t, &want, got, text)
	}
	got, err := ParseTarget("https://shop.example/x")
	require.NoError(t, err)
	assert.Equal(t, "shop.example:443", got.Addr)
	assert.Equal(t, "shop.example", got.TLS.ServerName)
	assert.Equal(t, "/x", got.Prefix)
}

func TestParseTargetRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                             `scheme is ""`,
		"127.0.0.1:8080":               "cannot be read",
		"shop.example":                 `scheme is ""`,
		"ftp://shop.example":           `scheme is "ftp"`,
		"ws://shop.example":            `scheme is "ws"`,
		"http:":                        "names no host",
		"http://":                      "names no host",
		"http:///path":                 "names no host",
		"http://:8080":                 "names no host",
		"http:shop.example":            "names no host",
		"http://secret:word@shop/":     "names a user",
		"http://secret@shop":           "names a user",
		"http://shop/?secret=1":        "has a query",
		"http://shop/?":                "has a query",
		"http://shop/#secret":          "has a fragment",
		"http://shop/#":                "has a fragment",
		"http://shop:port/":            "cannot be read",
		"http://shop:99999/":           "port",
		"http://shop:0/":               "port",
		"http://secret:wo rd@shop:x/":  "cannot be read",
		"http://shop/secret\r\nX: y":   "cannot be read",
		"http://shop/%zz":              "cannot be read",
		"http://sh op/":                "cannot be read",
		"http://[::1/":                 "cannot be read",
		"http://b\u00fccher.example/":  "ASCII",
		"http://shop.example/b\u00fc/": "",
	} {
		got, err := ParseTarget(text)
		if says == "" {
			require.NoError(t, err)
			assert.Equal(t, "/b%C3%BC", got.Prefix)
			continue
		}
		require.ErrorContains(t, err, says, text)
		assert.NotContains(t, err.Error(), "secret", text)
	}
}

func TestDialRefused(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	target := parsed(t, "http://"+listener.Addr().String())
	_, err = target.Dial(t.Context())
	require.ErrorContains(t, err, "refused")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = target.Dial(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
