package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

// puzzle returns a challenge whose solution is this number.
func puzzle(number string) client.Challenge {
	const salt = "abc?expires=1&"
	sum := sha256.Sum256([]byte(salt + number))
	return client.Challenge{Algorithm: "SHA-256", Challenge: hex.EncodeToString(sum[:]), MaxNumber: 20_000, Salt: salt, Signature: "sig"}
}

func TestSolve(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"0", "4096", "20000"} {
		text, err := client.Solve(t.Context(), puzzle(number))
		require.NoError(t, err)
		raw, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		var got struct {
			client.Challenge
			Number json.Number `json:"number"`
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		require.Equal(t, number, got.Number.String())
		require.Equal(t, "sig", got.Signature)
	}
	for name, bend := range map[string]func(*client.Challenge){
		"no solution":  func(c *client.Challenge) { c.MaxNumber = 20 },
		"another kind": func(c *client.Challenge) { c.Algorithm = "SHA-1" },
		"too short":    func(c *client.Challenge) { c.Challenge = "00" },
		"no digits":    func(c *client.Challenge) { c.Challenge = strings.Repeat("x", 64) },
		"endless":      func(c *client.Challenge) { c.MaxNumber = 1 << 40 },
		"negative":     func(c *client.Challenge) { c.MaxNumber = -1 },
	} {
		c := puzzle("77")
		bend(&c)
		_, err := client.Solve(t.Context(), c)
		require.ErrorIs(t, err, client.ErrInvalid, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Solve(ctx, puzzle("20000"))
	require.ErrorIs(t, err, client.ErrStopped)
	require.ErrorIs(t, err, context.Canceled)
}

// gatekeeper refuses buys without a pass, and passes without a proof.
type gatekeeper struct {
	t     *testing.T
	asked []string // what came, in short
	lose  int      // how many answers to buys get lost
	late  bool     // an earlier try with the key has become an order, later than the next one was refused
}

func (g *gatekeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked = append(g.asked, r.URL.Path+" "+r.Header.Get("Idempotency-Key")+r.Header.Get("Doorbuster-Pass")+" "+r.Header.Get("Doorbuster-Device"))
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		if status >= http.StatusBadRequest {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			g.t.Error(err)
		}
	}
	c := puzzle("4711")
	problem := client.Problem{Type: "about:blank", Title: "Forbidden", Status: http.StatusForbidden, Code: "challenge_required", Challenge: &c}
	var body client.PassRequest
	switch {
	case strings.HasSuffix(r.URL.Path, "/passes"):
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			g.t.Error(err)
		}
		if body.Challenge == "" {
			w.Header().Set("Doorbuster-Device", "device")
			answer(http.StatusForbidden, problem)
			return
		}
		answer(http.StatusCreated, client.Pass{Text: "pass", Sale: "drop", Path: "/v1/sales/drop/orders/hidden", ExpiresAt: time.Unix(1, 0)})
	case r.Header.Get("Doorbuster-Pass") == "pass":
		answer(http.StatusCreated, client.Order{ID: "ord_1", State: client.StateReserved})
	case g.lose > 0: // the order is made, and the answer lost
		g.lose--
		panic(http.ErrAbortHandler)
	case g.late && len(g.asked) > 2 && r.Header.Get("Idempotency-Key") != "":
		w.Header().Set("Idempotency-Replayed", "true")
		answer(http.StatusOK, client.Order{ID: "ord_0", State: client.StateReserved})
	default:
		answer(http.StatusForbidden, problem)
	}
}

func TestBuyProving(t *testing.T) {
	t.Parallel()
	g := &gatekeeper{t: t}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL})
	require.NoError(t, err)
	_, err = c.Buy(t.Context(), "drop", "key", client.Attempt{Quantity: 1})
	require.ErrorIs(t, err, client.ErrChallengeRequired)
	g.asked = nil
	got, err := c.BuyProving(t.Context(), "drop", client.BuyOptions{Key: "key"}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, "ord_1", got.Order.ID)
	require.Empty(t, got.Key)
	require.Equal(t, "pass", got.Pass.Text)
	require.Equal(t, []string{
		"/v1/sales/drop/orders key ", "/v1/sales/drop/passes  ", "/v1/sales/drop/passes  device",
		"/v1/sales/drop/orders key device", "/v1/sales/drop/orders/hidden pass device",
	}, g.asked, "the key may have an order by now")

	g.asked = nil
	got, err = c.BuyProving(t.Context(), "drop", client.BuyOptions{}, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.Equal(t, "ord_1", got.Order.ID)
	require.Len(t, g.asked, 4, "a key that was tried once and refused has none")
}

// One click is one order: a try whose answer was lost may have come through, while the
// next one is asked for a proof.
func TestProvingIsOneClick(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		lose int
		key  string
	}{"the answer was lost": {1, ""}, "the key was used before": {0, "key"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gatekeeper{t: t, lose: x.lose, late: true}
			server := httptest.NewServer(g)
			t.Cleanup(server.Close)
			c, err := client.New(client.Options{URL: server.URL, Retry: client.Retry{Pause: time.Millisecond}})
			require.NoError(t, err)
			got, err := c.BuyProving(t.Context(), "drop", client.BuyOptions{Key: x.key}, client.Attempt{Quantity: 1})
			require.NoError(t, err)
			require.Equal(t, "ord_0", got.Order.ID, "the order of the key, not a second one")
			require.True(t, got.Replayed)
			require.NotEmpty(t, got.Key)
			require.Nil(t, got.Pass)
		})
	}
}

// A captcha is for people.
func TestCaptchasAreNotSolved(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"type":"about:blank","title":"Forbidden","status":403,"code":"challenge_required","captcha":{"provider":"turnstile","site_key":"k","bound":"b"}}`))
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL})
	require.NoError(t, err)
	_, err = c.PassProving(t.Context(), "drop", "", client.PassRequest{})
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, &client.Captcha{Provider: "turnstile", SiteKey: "k", Bound: "b"}, e.Captcha)
	require.Equal(t, 1, asked)
}
