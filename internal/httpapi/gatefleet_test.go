package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/testenv"
	"github.com/doorbuster/doorbuster/limit/memlimit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// C49: two instances over one ledger and one Redis share limits. And what an operator
// does at one of them works at the other, though nobody tells it; how soon is for the
// gate's own tests, in which time is not the machine's.
func TestC49TwoInstances(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	shared := func() *redislimit.Limiter {
		l, err := redislimit.New(redis.Client(), redislimit.Options{Prefix: "test:", HashKey: []byte("key"), Timeout: patience})
		require.NoError(t, err)
		t.Cleanup(l.Close)
		return l
	}
	s := behindProxy(gate.Limit{Name: "user", By: gate.ByUser, Quota: 4, Window: hour, Shared: true})
	s.gate.Shared = shared()
	w := gated(t, s)
	w.openSale(t, "drop", 5000)

	memory, err := memlimit.New(memlimit.Options{})
	require.NoError(t, err)
	d := w.fresh()
	// A book of its own hears nothing of what is done at the first one.
	other := &told{Gate: &d.Metrics.Gate, known: make(chan int64, 1000)}
	d.Gate = w.keeper2(t, gate.Options{Ledger: ledger.New(w.store), Shared: shared()}, memory, other)
	api, err := httpapi.New(d, s.options)
	require.NoError(t, err)
	second := httptest.NewServer(api.Public())
	t.Cleanup(second.Close)
	at := func(who string) *client.Client {
		c, failed := client.New(client.Options{URL: second.URL, Token: strings.TrimPrefix(who, "Bearer "), Retry: client.Retry{Tries: 1}})
		require.NoError(t, failed)
		return c
	}
	there := func(who, key string) error {
		_, refused := at(who).Buy(t.Context(), "drop", key, client.Attempt{Quantity: 1})
		return refused
	}

	u1 := buyer(t, "u1")
	for n := range 2 {
		require.Equal(t, http.StatusCreated, w.buy(t, u1, "drop", strconv.Itoa(n), one).status)
	}
	require.ErrorIs(t, there(u1, "u1"), client.ErrLimitReached, "the sale's limit, which comes after the gate's")
	require.ErrorIs(t, there(u1, "u1"), client.ErrLimitReached)
	require.ErrorIs(t, there(u1, "u1"), client.ErrRateLimited, "two here and two there are four")
	w.buy(t, u1, "drop", "x", one).requireCode(t, http.StatusTooManyRequests, "rate_limited")

	until := func(code client.CodeError, try func() error) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			refused := try()
			assert.Equal(c, code, client.CodeOf(refused), "%v", refused)
		}, patience, 10*time.Millisecond)
	}
	pass := func() error {
		_, refused := at(buyer(t, "u2")).Pass(t.Context(), "drop", "", client.PassRequest{})
		return refused
	}
	w.tune(t, func(g *gate.Settings) { g.Limits = []gate.Limit{} })
	require.NoError(t, pass())
	w.list(t, "user", "u2", "deny", nil)
	until(client.ErrBanned, pass)
	w.dropListing(t, "user", "u2")
	until("", pass)
	w.tune(t, func(g *gate.Settings) { g.Sales = map[string]gate.SaleRules{"drop": {Pass: true}} })
	tries := 0
	until(client.ErrPassRequired, func() error {
		tries++
		return there(buyer(t, fmt.Sprint("new", tries)), "new")
	})

	// A key is new here; when it signs, it is known there.
	require.Equal(t, uint32(2), want[client.GateKey](t, http.StatusOK, w.call(t, w.admin, "POST /v1/admin/gate/keys", "")).ID)
	version, err := w.book.GateVersion(t.Context())
	require.NoError(t, err)
	w.learnt(t, version)
	other.learnt(t, version)
	w.store.Advance(gate.KeySettle + time.Second)
	p := w.pass(t, buyer(t, "u3"), "drop")
	until("", func() error {
		_, refused := at(buyer(t, "u3")).BuyWith(t.Context(), "drop", client.BuyOptions{Pass: &p}, client.Attempt{Quantity: 1})
		return refused
	})
}
