package httpapi_test

import (
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/engine"
	"github.com/doorbuster/doorbuster/internal/httpapi"
)

func TestSalePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5)
	for _, path := range []string{"/v1/sales/drop", "/v1/sales"} {
		a := w.call(t, nobody, "GET "+path, "")
		require.Equal(t, http.StatusOK, a.status)
		tag := a.header.Get("ETag")
		require.Equal(t, "public, max-age=1", a.header.Get("Cache-Control"))
		ms, err := strconv.ParseInt(a.header.Get("Doorbuster-Time"), 10, 64)
		require.NoError(t, err)
		now, err := w.book.Now(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, now, time.UnixMilli(ms), 5*time.Second, "the time is the ledger's")
		for _, match := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			same := w.call(t, nobody, "GET "+path, "", "If-None-Match", match)
			require.Equal(t, http.StatusNotModified, same.status, match)
			require.Empty(t, same.body)
			require.NotEmpty(t, same.header.Get("Doorbuster-Time"))
			require.Equal(t, tag, same.header.Get("ETag"))
		}
		require.Equal(t, http.StatusOK, w.call(t, nobody, "GET "+path, "", "If-None-Match", `"x"`).status)
		want[client.Order](t, http.StatusCreated, w.buy(t, buyer(t, path), "drop", "k", one))
		require.Eventually(t, func() bool {
			a = w.call(t, nobody, "GET "+path, "", "If-None-Match", tag)
			return a.status == http.StatusOK
		}, 2*time.Second, 10*time.Millisecond, "what is left shows within two seconds (C34)")
		require.NotEqual(t, tag, a.header.Get("ETag"))
	}
	require.Eventually(t, func() bool {
		return want[client.Sale](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "")).Items[0].Left == 3
	}, 2*time.Second, 10*time.Millisecond)
	w.call(t, nobody, "GET /v1/sales/DROP", "").requireCode(t, http.StatusNotFound, "sale_not_found")
	w.call(t, nobody, "GET /v1/sales/drop%20", "").requireCode(t, http.StatusNotFound, "sale_not_found")
}

// The status follows the clock though nobody touches the sale.
func TestPageFollowsTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openSale(t, "drop", 5, func(n *client.NewSale) { n.StartsAt = "2026-11-27T10:00:00Z" })
	status := func() string {
		return want[client.Sale](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "")).Status
	}
	require.Equal(t, "scheduled", status())
	w.store.Advance(time.Hour)
	require.Eventually(t, func() bool { return status() == "live" }, 2*time.Second, 10*time.Millisecond)
	w.store.Advance(10 * time.Hour)
	require.Eventually(t, func() bool { return status() == "ended" }, 2*time.Second, 10*time.Millisecond)
	list := want[client.Page[client.Sale]](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", ""))
	require.Equal(t, "ended", list.Data[0].Status)
}

// Nor is the sale read again for it: the page is rendered anew when its status
// changes, by the clock alone.
func TestPageFollowsTheClockWithoutReading(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{engine: engine.Options{Refresh: time.Hour}})
	w.openSale(t, "drop", 5, func(n *client.NewSale) { n.StartsAt = "2026-11-27T09:00:02Z" })
	require.Equal(t, "scheduled", want[client.Sale](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", "")).Status)
	before, err := w.engine.Sale(t.Context(), "drop")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		one := want[client.Sale](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales/drop", ""))
		list := want[client.Page[client.Sale]](t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", ""))
		return one.Status == "live" && list.Data[0].Status == "live"
	}, 4*time.Second, 20*time.Millisecond)
	after, err := w.engine.Sale(t.Context(), "drop")
	require.NoError(t, err)
	require.Same(t, before, after)
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const shop = "https://shop.example"
	w := buildWorld(t, settings{options: httpapi.Options{Origins: []string{shop, "http://localhost:5173"}}})
	w.openSale(t, "drop", 5)
	a := w.call(t, nobody, "GET /v1/sales", "", "Origin", shop)
	require.Equal(t, shop, a.header.Get("Access-Control-Allow-Origin"))
	for _, name := range []string{"Doorbuster-Time", "Doorbuster-Receipt", "Retry-After"} {
		require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), name)
	}
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
	require.Equal(t, "Origin", a.header.Get("Vary"))
	refused := w.call(t, nobody, "GET /v1/orders", "", "Origin", shop)
	require.Equal(t, http.StatusUnauthorized, refused.status)
	require.Equal(t, shop, refused.header.Get("Access-Control-Allow-Origin"), "a page must be able to read errors too")

	for _, origin := range []string{"https://shop.example.evil", "https://evil.example", "http://shop.example", "https://SHOP.example", "null", "*"} {
		a = w.call(t, nobody, "GET /v1/sales", "", "Origin", origin)
		require.Empty(t, a.header.Get("Access-Control-Allow-Origin"), origin)
		require.Equal(t, "Origin", a.header.Get("Vary"))
		a = w.call(t, nobody, "OPTIONS /v1/sales/drop/orders", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		require.Empty(t, a.header.Get("Access-Control-Allow-Methods"), origin)
	}
	a = w.call(t, nobody, "OPTIONS /v1/sales/drop/orders", "", "Origin", shop, "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, a.status)
	require.Equal(t, "POST", a.header.Get("Access-Control-Allow-Methods"))
	for _, name := range []string{"Idempotency-Key", "Doorbuster-Receipt", "Prefer"} {
		require.Contains(t, a.header.Get("Access-Control-Allow-Headers"), name)
	}
	require.Equal(t, "600", a.header.Get("Access-Control-Max-Age"))

	closed := newWorld(t)
	a = closed.call(t, nobody, "GET /v1/sales", "", "Origin", shop)
	require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
	open := buildWorld(t, settings{options: httpapi.Options{Origins: []string{"*"}}})
	a = open.call(t, nobody, "GET /v1/sales", "", "Origin", "https://anybody.example")
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deps := httpapi.Deps{}
	_, err := httpapi.New(deps, httpapi.Options{})
	require.Error(t, err)
	deps = w.deps
	for _, o := range []httpapi.Options{
		{Origins: []string{"shop.example"}},
		{Origins: []string{"https://shop.example/"}},
		{Origins: []string{"https://"}},
		{TrustedProxies: []string{"proxy"}},
		{TrustedProxies: []string{"10.0.0.0/33"}},
	} {
		_, err := httpapi.New(deps, o)
		require.Error(t, err, "%+v", o)
	}
}

// C47: only what trusted proxies add is believed.
func TestClientIP(t *testing.T) {
	t.Parallel()
	w := buildWorld(t, settings{options: httpapi.Options{TrustedProxies: []string{"10.0.0.0/8", "2001:db8:1::/48", "192.0.2.7"}}})
	cases := []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"203.0.113.9:1", nil, "203.0.113.9"},
		{"203.0.113.9:1", []string{"1.1.1.1"}, "203.0.113.9"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"192.0.2.7:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9, 10.2.3.4"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"1.1.1.1", "203.0.113.9 ,10.2.3.4"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"10.9.9.9, 10.2.3.4"}, "10.9.9.9"},
		{"10.0.0.1:1", []string{"203.0.113.9, garbage"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9, garbage, 10.2.3.4"}, "10.2.3.4"},
		{"10.0.0.1:1", []string{""}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"[2001:db8:1::5]:1", []string{"[2001:db8:2::1]:80"}, "2001:db8:2::1"},
		{"[2001:db8:1::5]:1", []string{"[2001:db8:2::1]"}, "2001:db8:2::1"},
		{"[::ffff:10.0.0.1]:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"pipe", nil, "invalid IP"},
	}
	for _, c := range cases {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		require.NoError(t, err)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.forwarded
		require.Equal(t, c.want, w.api.ClientIP(r).String(), "%+v", c)
	}
	require.Equal(t, "203.0.113.9/32", httpapi.Bucket(netip.MustParseAddr("203.0.113.9")).String())
	require.Equal(t, "2001:db8:2::/64", httpapi.Bucket(netip.MustParseAddr("2001:db8:2::1:2:3:4")).String())
	require.False(t, httpapi.Bucket(netip.Addr{}).IsValid())
}
