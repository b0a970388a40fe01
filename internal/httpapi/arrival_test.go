package httpapi_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/httpapi"
)

// Claiming to bring an API key is no way around the limits by address: not on routes
// that look at none, and not from where none has come, before the body is read or a
// place taken.
func TestClaimingAKeyIsCounted(t *testing.T) {
	t.Parallel()
	w := gated(t, behindProxy(twice()))
	w.openSale(t, "drop", 50)
	invented := w.shop[:len(w.shop)-5] + "aaaaa"
	for n, who := range []string{"Bearer dbk_", invented, w.shop} {
		ip := from(fmt.Sprintf("203.0.113.%d", n))
		for range 2 {
			require.Equal(t, http.StatusOK, w.call(t, who, "GET /v1/sales", "", ip...).status)
		}
		requireLimited(t, w.call(t, who, "GET /v1/sales", "", ip...), "network", 2)
	}
	elsewhere := append(from("203.0.113.7"), "Idempotency-Key", "k")
	for range 2 {
		w.call(t, invented, "POST /v1/sales/drop/orders", one, elsewhere...).requireCode(t, http.StatusUnauthorized, "unauthenticated")
	}
	requireLimited(t, w.call(t, invented, "POST /v1/sales/drop/orders", strings.Repeat("x", 20_000), elsewhere...), "network", 2)
	release := w.api.Occupy("buy")
	requireLimited(t, w.call(t, invented, "POST /v1/sales/drop/orders", one, elsewhere...), "network", 2)
	release()

	home := from("198.51.100.7")
	for n := range 5 { // the first is counted, and makes its network known
		body := fmt.Sprintf(`{"quantity":1,"on_behalf_of":"u%d"}`, n)
		a := w.call(t, w.shop, "POST /v1/sales/drop/orders", body, append(home, "Idempotency-Key", strconv.Itoa(n))...)
		want[client.Order](t, http.StatusCreated, a)
	}
	require.Equal(t, http.StatusOK, w.call(t, "Bearer dbk_", "GET /v1/sales", "", home...).status)
	requireLimited(t, w.call(t, "Bearer dbk_", "GET /v1/sales", "", home...), "network", 2)
	requireLimited(t, w.call(t, invented, "POST /v1/sales/drop/orders", one, append(home, "Idempotency-Key", "k")...), "network", 2)
}

// The house itself is who connects from it and speaks for nobody else. An address that
// somebody claims, whoever is believed, is none of it.
func TestTheHouseItself(t *testing.T) {
	t.Parallel()
	house := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	user := gate.Limit{Name: "user", By: gate.ByUser, Quota: 1, Window: hour}
	for name, proxies := range map[string][]string{"no proxy": nil, "a trusted one": {"127.0.0.1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gated(t, settings{gate: &gate.Options{Exempt: house}, options: httpapi.Options{TrustedProxies: proxies}}.limited(twice(), user))
			w.openSale(t, "drop", 50)
			u1 := buyer(t, "u1")
			for n := range 5 {
				require.Equal(t, http.StatusOK, w.call(t, nobody, "GET /v1/sales", "").status)
				a := w.buy(t, u1, "drop", strconv.Itoa(n), one)
				require.NotEqual(t, http.StatusTooManyRequests, a.status)
			}
			asked := 0
			for _, headers := range [][]string{
				from("127.0.0.1"), from("127.0.0.1, 127.0.0.2"), from("unknown"),
				{"Forwarded", "for=127.0.0.1"},
				{"X-Real-Ip", "127.0.0.1"},
				{"Via", "1.1 nginx"},
				{"X-Forwarded-Proto", "https"},
			} {
				a := w.call(t, nobody, "GET /v1/sales", "", headers...)
				if asked++; a.status != http.StatusOK || asked > 4 {
					requireLimited(t, a, "network", 2)
				}
			}
			claimed := `{"quantity":1,"on_behalf_of":"u2","client_ip":"127.0.0.1"}`
			want[client.Order](t, http.StatusCreated, w.buy(t, w.shop, "drop", "a", claimed))
			requireLimited(t, w.buy(t, w.shop, "drop", "b", claimed), "user", 1)
		})
	}
}
