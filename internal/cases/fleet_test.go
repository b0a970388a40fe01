package cases_test

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// fleet is several real servers in processes of their own that sell the same
// sales, each reached on its own port.
type fleet struct {
	*testenv.Fleet
	t      *testing.T
	gates  []*gate // the servers with an API
	key    string  // an API key with every scope
	turns  atomic.Int64
	parked int // dead letters that there should be
}

// gate is the API of one server. While the server is away, callers are refused.
type gate struct {
	*testenv.Server
	wire  *http.Client
	reach atomic.Pointer[client.Client]
	at    atomic.Pointer[string] // the URL of the API
}

func newFleet(t *testing.T, o testenv.FleetOptions) *fleet {
	t.Helper()
	return fleetOf(t, testenv.ServeFleet(t, o))
}

// fleetOf reaches a fleet that runs.
func fleetOf(t *testing.T, servers *testenv.Fleet) *fleet {
	t.Helper()
	f := &fleet{Fleet: servers, t: t}
	wire := newWire(t)
	for _, s := range f.Servers {
		if s.URL != "" {
			g := &gate{Server: s, wire: wire}
			g.connect(t)
			f.gates = append(f.gates, g)
		}
	}
	f.key = f.gates[0].AdminKey()
	return f
}

// connect lets callers reach the server where it is now.
func (g *gate) connect(t *testing.T) {
	t.Helper()
	c, err := client.New(client.Options{
		URL: g.URL, HTTPClient: g.wire, Retry: client.Retry{Tries: 1, TryTimeout: patience},
	})
	require.NoError(t, err)
	g.at.Store(new(g.URL))
	g.reach.Store(c)
}

// revive starts a server again that was killed or stopped.
func (g *gate) revive(t *testing.T) {
	t.Helper()
	g.Start()
	g.connect(t)
}

// as returns the API of one gate under a token.
func (g *gate) as(token string) *client.Client { return g.reach.Load().As(token) }

// anyGate returns one gate after the other.
func (f *fleet) anyGate() *gate {
	return f.gates[int(f.turns.Add(1))%len(f.gates)]
}

// token returns a buyer's token, which every server accepts.
func (f *fleet) token(user string) string { return f.gates[0].Token(user) }

// office returns the API of one gate with every scope.
func (f *fleet) office() *client.Client { return f.gates[0].as(f.key) }

// persist calls one gate after the other until the outcome is known or ctx ends.
func persist[T any](ctx context.Context, f *fleet, token string, call func(*client.Client) (T, error)) (T, error) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		v, err := call(f.anyGate().as(token))
		if !excused(err) || ctx.Err() != nil {
			return v, err
		}
		<-again.C
	}
}

// excused reports whether an error may come of what is done to servers here: the
// gate is away, or says with 503 that it cannot answer now, and when to come again.
func excused(err error) bool {
	var e *client.Error
	if !asError(err, &e) {
		return false
	}
	code := client.CodeError(e.Code)
	if e.Status == http.StatusServiceUnavailable {
		return e.RetryAfter > 0 && (code == client.ErrBusy || code == client.ErrUnavailable)
	}
	return code == client.ErrUnreachable || code == client.ErrNoAnswer
}

// open publishes a sale that is live for an hour and waits until it is on the fast
// path.
func (f *fleet) open(slug string, stock, limit, holdSeconds int64) client.AdminSale {
	f.t.Helper()
	now := time.Now()
	_, err := f.office().CreateSale(f.t.Context(), client.NewSale{
		ID: slug, StartsAt: now.Add(-time.Minute).UTC().Format(instantLayout), EndsAt: now.Add(time.Hour).UTC().Format(instantLayout),
		PerUserLimit: limit, HoldSeconds: &holdSeconds, MaxUnpaidHolds: new(int64(0)), Currency: "EUR", PreferredPath: "fast",
		Items: []client.NewItem{{SKU: "unit", Price: price, Stock: stock}},
	})
	require.NoError(f.t, err)
	_, err = f.office().Publish(f.t.Context(), slug)
	require.NoError(f.t, err)
	s := f.fast(slug)
	until(f.t, "the lanes are open", func() bool { return f.all(s, "meta", "0", "HEXISTS", "frozen") })
	return s
}

// fast waits until the sale is on the fast path.
func (f *fleet) fast(slug string) (found client.AdminSale) {
	f.t.Helper()
	until(f.t, "the sale is on the fast path", func() bool {
		found = f.sale(slug)
		return found.Path == "fast"
	})
	return found
}

// sale returns the sale as the ledger has it.
func (f *fleet) sale(slug string) client.AdminSale {
	f.t.Helper()
	found, err := persist(f.t.Context(), f, f.key, func(c *client.Client) (client.AdminSale, error) {
		return c.AdminSale(f.t.Context(), slug)
	})
	require.NoError(f.t, err)
	return found
}

// orders returns every order of a sale by its id.
func (f *fleet) orders(slug string) map[string]client.Order {
	f.t.Helper()
	out := make(map[string]client.Order)
	pages := client.All(func(after string) (client.Page[client.Order], error) {
		return f.office().AdminOrders(f.t.Context(), client.OrderQuery{Sale: slug, After: after, Limit: 500})
	})
	for o, err := range pages {
		require.NoError(f.t, err)
		out[o.ID] = o
	}
	return out
}

// audit recounts the promises beside the servers, as an operator does.
func (f *fleet) audit(slug string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), testenv.Binary(f.t), "audit", "--sale", slug, //nolint:gosec // our own binary
		"--data-dir", f.t.TempDir(), "--ledger-url", f.Postgres.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, "doorbuster audit:\n%s", out)
}

// place is a key, and the server that has it.
type place struct {
	at  *testenv.RedisServer
	key string
}

// places returns the keys that hold what of each lane of a sale.
func (f *fleet) places(s client.AdminSale, what string) (out []place) {
	f.t.Helper()
	nodes := []*testenv.RedisServer{f.Redis}
	if f.Cluster != nil {
		nodes = f.Cluster.Nodes[:]
	}
	for _, n := range nodes {
		for key := range strings.FieldsSeq(n.Must("KEYS", "{doorbuster:"+strconv.FormatUint(uint64(s.Number), 10)+".*}:"+what)) {
			out = append(out, place{n, key})
		}
	}
	return out
}

// all reports whether Redis answers so for each lane of a sale.
func (f *fleet) all(s client.AdminSale, what, answer, command string, words ...string) bool {
	f.t.Helper()
	places := f.places(s, what)
	for _, p := range places {
		if p.at.Must(append([]string{command, p.key}, words...)...) != answer {
			return false
		}
	}
	return len(places) > 0
}

// lane names the key of a sale's only lane that holds what.
func (f *fleet) lane(s client.AdminSale, what string) string {
	f.t.Helper()
	pattern := "{doorbuster:" + strconv.FormatUint(uint64(s.Number), 10) + ".0.*}:" + what
	return f.Redis.Must("KEYS", pattern)
}
