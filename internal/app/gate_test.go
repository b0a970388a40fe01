package app

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// limits writes a file of settings.
func limits(t *testing.T, text string) config.Flag {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return config.Flag{Name: "--set", Key: "gate.settings_file", Value: path}
}

func content(t *testing.T, dir, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	return strings.TrimSpace(string(raw))
}

// as returns a client of the server on a folder, without retries.
func as(t *testing.T, dir, credential string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: "http://" + content(t, dir, APIAddressFile), Token: credential, Retry: client.Retry{Tries: 1}})
	require.NoError(t, err)
	return c
}

// openSale opens a sale and returns a buyer of it.
func openSale(t *testing.T, dir, user string) *client.Client {
	t.Helper()
	desk := as(t, dir, content(t, dir, AdminKeyFile))
	_, err := desk.CreateSale(t.Context(), client.NewSale{
		ID: "drop", StartsAt: "2020-01-01T00:00:00Z", EndsAt: "2099-01-01T00:00:00Z", PerUserLimit: 2, Currency: "EUR", PreferredPath: "direct",
		Items: []client.NewItem{{SKU: "unit", Price: 1000, Stock: 10}},
	})
	require.NoError(t, err)
	_, err = desk.Publish(t.Context(), "drop")
	require.NoError(t, err)
	now := time.Now()
	token, err := auth.Mint([]byte(content(t, dir, TokenKeyFile)), auth.Claims{User: user, Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: now, Expires: now.Add(time.Hour)})
	require.NoError(t, err)
	return as(t, dir, token)
}

// With Redis the limits are there, under the configured prefix, and tell nothing of
// whom they are about.
func TestGateSharesLimitsOverRedis(t *testing.T) {
	t.Parallel()
	redis, dir := testenv.Redis(t), t.TempDir()
	cfg := load(t, dir,
		limits(t, `{"limits":[{"name":"user","by":"user","quota":1,"window":"1h","shared":true,"on_error":"closed"}]}`),
		config.Flag{Name: "--redis-url", Key: "redis.url", Value: redis.URL}, config.Flag{Name: "--set", Key: "redis.prefix", Value: "house"})
	cfg.Gate.Exempt = nil
	stop := start(t, cfg)
	buyer := openSale(t, dir, "somebody")
	_, err := buyer.Buy(t.Context(), "drop", "a", client.Attempt{Quantity: 1})
	require.NoError(t, err)
	_, err = buyer.Buy(t.Context(), "drop", "b", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrRateLimited)
	c := redis.Client()
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("house:limit:*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NotContains(t, keys[0], "somebody")
	settings, err := as(t, dir, content(t, dir, AdminKeyFile)).GateSettings(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(gate.FromFile), settings.From)
	require.NoError(t, stop())
}

// Without a gate nobody is limited, and there are no passes.
func TestGateOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := load(t, dir, config.Flag{Name: "--set", Key: "gate.mode", Value: "off"},
		limits(t, `{"limits":[{"name":"user","by":"user","quota":1,"window":"1h"}]}`))
	cfg.Gate.Exempt = nil
	stop := start(t, cfg)
	buyer := openSale(t, dir, "u1")
	for _, key := range []string{"a", "b"} {
		_, err := buyer.Buy(t.Context(), "drop", key, client.Attempt{Quantity: 1})
		require.NoError(t, err)
	}
	_, err := buyer.Pass(t.Context(), "drop", "", client.PassRequest{})
	require.ErrorIs(t, err, client.ErrIllegalState)
	require.NoError(t, stop())
}

// The address that a trusted proxy names in its PROXY header is the one that counts.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := load(t, dir, limits(t, `{"limits":[{"name":"network","by":"network","quota":1,"window":"1h","on":["read"]}]}`),
		config.Flag{Name: "--set", Key: "api.trusted_proxies", Value: "127.0.0.1"}, config.Flag{Name: "--set", Key: "api.proxy_protocol", Value: "on"})
	stop := start(t, cfg)
	read := func(header string) int {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", content(t, dir, APIAddressFile))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "%sGET /v1/sales HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", header)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, read("PROXY TCP4 198.51.100.1 192.0.2.1 4711 80\r\n"))
	require.Equal(t, http.StatusTooManyRequests, read("PROXY TCP4 198.51.100.1 192.0.2.1 4712 80\r\n"))
	require.Equal(t, http.StatusOK, read("PROXY TCP4 198.51.100.2 192.0.2.1 4711 80\r\n"))
	require.Equal(t, http.StatusOK, read("PROXY TCP4 127.0.0.1 192.0.2.1 4711 80\r\n"))
	require.Equal(t, http.StatusTooManyRequests, read("PROXY TCP4 127.0.0.1 192.0.2.1 4712 80\r\n"), "who says so is not the house itself")
	require.NotEqual(t, http.StatusOK, read(""), "a proxy must say who comes")
	require.NoError(t, stop())
}

func TestCheckGate(t *testing.T) {
	t.Parallel()
	good := load(t, t.TempDir(), limits(t, `{}`))
	require.NoError(t, CheckGate(&good))
	bad := load(t, t.TempDir(), limits(t, `{"challenge":{"mode":"sometimes"}}`))
	bad.Gate.ProxyRangesFile = filepath.Join(t.TempDir(), "none")
	bad.Gate.Captcha = config.Captcha{Provider: config.Turnstile, SiteKey: "x", SecretFile: filepath.Join(t.TempDir(), "none"), Hostnames: []string{"x"}}
	err := CheckGate(&bad)
	e, ok := errors.AsType[*config.Error](err)
	require.True(t, ok, "%v", err)
	require.Len(t, e.Problems, 3)
	require.Equal(t, "gate.settings_file", e.Problems[0].Key)
	require.Equal(t, "challenge.mode: the mode is auto, always or never", e.Problems[0].Message)
	for i := range e.Problems {
		require.NotEmpty(t, e.Problems[i].Hint)
	}
}

// An IPv4 network that is written as a part of IPv6 is that network.
func TestNetworksOfTheHouse(t *testing.T) {
	t.Parallel()
	list := []netip.Prefix{netip.MustParsePrefix("::ffff:192.0.2.0/120"), netip.MustParsePrefix("2001:db8::1/64")}
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}, networks(list))
}
