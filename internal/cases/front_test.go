package cases_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// front is two servers behind the nginx that deploy/nginx.conf describes.
type front struct {
	shops  []*testenv.Server
	nginx  *testenv.NginxServer
	url    string
	status string
	by     atomic.Pointer[string] // the instance that gave the last answer
}

func shops(t *testing.T) []*testenv.Server {
	t.Helper()
	settings := filepath.Join(t.TempDir(), "gate.json") // dozens of buyers in a second are a rush, in which all need proofs
	require.NoError(t, os.WriteFile(settings, []byte(`{"challenge": {"mode": "never"}}`), 0o600))
	return testenv.ServeFleet(t, testenv.FleetOptions{
		Servers: make([]testenv.FleetServer, 2), Args: []string{"--set", "api.trusted_proxies=127.0.0.1", "--set", "gate.settings_file=" + settings},
	}).Servers
}

// behindNginx changes nothing of the configuration but addresses, and what is said.
func behindNginx(t *testing.T, behind []*testenv.Server, changes ...string) *front {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nginx.conf"))
	require.NoError(t, err)
	f := &front{shops: behind}
	listen, status := testenv.FreeAddr(t), testenv.FreeAddr(t)
	f.url, f.status = "http://"+listen, "http://"+status+"/status"
	conf := string(raw)
	pairs := append([]string{
		"shop-1:8080", strings.TrimPrefix(f.shops[0].URL, "http://"),
		"shop-2:8080", strings.TrimPrefix(f.shops[1].URL, "http://"),
		"listen 80 ", "listen " + listen + " ",
		"listen 127.0.0.1:8081;", "listen " + status + ";",
	}, changes...)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, conf, pairs[i])
		conf = strings.ReplaceAll(conf, pairs[i], pairs[i+1])
	}
	f.nginx = testenv.Nginx(t, conf, listen)
	return f
}

// client returns a client of the front that tries once, and says where it comes from.
func (f *front) client(t *testing.T, token, addr string) *client.Client {
	t.Helper()
	from := func(r *http.Request) (*http.Response, error) {
		r.Header.Set("X-Forwarded-For", addr)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil { // an instance begins the ids of its requests with its own
			by, _, _ := strings.Cut(resp.Header.Get("X-Request-Id"), "-")
			f.by.Store(&by)
		}
		return resp, err
	}
	c, err := client.New(client.Options{
		URL: f.url, Token: token, Retry: client.Retry{Tries: 1}, HTTPClient: &http.Client{Transport: transport(from)},
	})
	require.NoError(t, err)
	return c
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *front) open(t *testing.T, slug string) {
	t.Helper()
	office := f.client(t, f.shops[0].AdminKey(), "127.0.0.1")
	now := time.Now()
	_, err := office.CreateSale(t.Context(), client.NewSale{
		ID: slug, StartsAt: now.Add(-time.Minute).UTC().Format(instantLayout), EndsAt: now.Add(time.Hour).UTC().Format(instantLayout),
		PerUserLimit: 1, Currency: "EUR", PreferredPath: "fast", Items: []client.NewItem{{SKU: "unit", Price: price, Stock: 100}},
	})
	require.NoError(t, err)
	_, err = office.Publish(t.Context(), slug)
	require.NoError(t, err)
	published, err := office.Preheat(t.Context(), slug)
	require.NoError(t, err)
	require.Equal(t, "fast", published.Path)
}

// buy buys one unit, waiting for the judge or not, and follows the receipt where there
// is one.
func (f *front) buy(t *testing.T, user string, wait time.Duration) (client.Bought, error) {
	t.Helper()
	buyer := f.client(t, f.shops[0].Token(user), "198.51.100.9")
	bought, err := buyer.BuyWith(t.Context(), "drop", client.BuyOptions{Key: user, Wait: wait}, client.Attempt{Quantity: 1})
	if err == nil {
		bought.Order, err = buyer.Follow(t.Context(), bought)
	}
	return bought, err
}

// elsewhere requires that the instance which has not sold an order knows it, too, while
// it is queued and from its receipt.
func (f *front) elsewhere(t *testing.T, user string) {
	t.Helper()
	buyer := f.client(t, f.shops[0].Token(user), "198.51.100.9")
	bought, err := buyer.Buy(t.Context(), "drop", user, client.Attempt{Quantity: 1})
	require.NoError(t, err)
	require.NotEmpty(t, bought.Receipt)
	seller := *f.by.Load()
	until(t, "the other instance is asked", func() bool {
		seen, err := buyer.OrderWith(t.Context(), bought.Order.ID, client.OrderOptions{Wait: hear, Receipt: bought.Receipt})
		require.NoError(t, err)
		require.Contains(t, []string{client.StateQueued, client.StateReserved}, seen.State)
		return seen.State == client.StateReserved && *f.by.Load() != seller
	})
}

func problem(t *testing.T, err error) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	require.True(t, ok, "%v", err)
	return e
}

// The gate believes what the front says of addresses, what one instance has sold the
// other knows, and an instance that dies costs nobody his buy.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	f := behindNginx(t, shops(t))
	f.open(t, "drop")
	office := f.client(t, f.shops[0].AdminKey(), "127.0.0.1")
	_, err := office.PutBan(t.Context(), client.NewListing{Kind: "network", Value: "203.0.113.7/32", Effect: "deny", Reason: "test"})
	require.NoError(t, err)
	bots := 0
	until(t, "an instance knows who is denied", func() bool {
		bots++ // who got in before that has an order, and keeps it
		bot := f.shops[0].Token(fmt.Sprint("bot-", bots))
		_, err = f.client(t, bot, "203.0.113.7").Buy(t.Context(), "drop", "k", client.Attempt{Quantity: 1})
		return client.CodeOf(err) == client.ErrBanned
	})
	sells := func(who string) {
		t.Helper()
		for i := range 10 {
			bought, refused := f.buy(t, name(who, i), time.Duration(i%2)*hear)
			require.NoError(t, refused)
			require.Equal(t, client.StateReserved, bought.Order.State)
		}
	}
	sells("before-")
	for i := range 4 {
		f.elsewhere(t, name("elsewhere-", i))
	}
	f.shops[1].Kill()
	sells("after-")
	f.shops[0].Kill()
	_, err = f.buy(t, "nobody", hear)
	e := problem(t, err)
	require.Equal(t, http.StatusServiceUnavailable, e.Status)
	require.Equal(t, client.ErrUnavailable, client.CodeOf(err))
	require.Equal(t, 2*time.Second, e.RetryAfter)
	require.NotEmpty(t, e.Hint)

	resp, err := http.Get(f.status) //nolint:noctx,bodyclose // a page of our own
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// Who floods is told when to come again, in the words of an instance; who is of the
// house has no limit.
func TestNginxShedsAFlood(t *testing.T) {
	t.Parallel()
	behind := shops(t)
	limits := []string{"rate=500r/s", "rate=1r/m", "burst=2000", "burst=3"}
	for name, tt := range map[string]struct {
		changes []string
		most    int
	}{
		"a guest":       {append(limits, "127.0.0.0/8    1;", "127.0.0.0/8    0;"), 4},
		"of the house":  {limits, 20},
		"all, together": {[]string{"rate=20000r/s", "rate=1r/m", "burst=32768", "burst=7"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := behindNginx(t, behind, tt.changes...)
			reader := f.client(t, "", "127.0.0.1")
			passed := 0
			for range 20 {
				_, err := reader.Sales(t.Context())
				if err == nil {
					passed++
					continue
				}
				e := problem(t, err)
				require.Equal(t, http.StatusTooManyRequests, e.Status)
				require.Equal(t, client.ErrRateLimited, client.CodeOf(err))
				require.Equal(t, 2*time.Second, e.RetryAfter)
				require.NotEmpty(t, e.Detail)
			}
			require.Equal(t, tt.most, passed)
		})
	}
}
