package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/lab/bench/benchtest"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// named returns a cast whose tokens are their names, for shops that believe anything.
func named(n int, run string) (*buyers.Cast, error) {
	var lines bytes.Buffer
	for i := range n {
		name := run + "-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		lines.WriteString(name + "\t" + name + "\n")
	}
	return buyers.ReadCast(&lines, n)
}

// little is a crowd of 60 for 20 units.
func little(urls ...string) bench.Options {
	return bench.Options{
		URLs: urls, Key: "dbk_test", Name: "pulse", Seed: 7, Cast: named,
		Sale:        bench.Sale{Stock: 20, Limit: 1, Hold: time.Minute, In: 1200 * time.Millisecond},
		Profile:     traffic.Profile{Buyers: 60, Spread: 100 * time.Millisecond, DoubleClick: 0.3},
		Connections: 16, Timeout: 5 * time.Second,
	}
}

func brokenIn(r *bench.Report) []string {
	var all []string
	for i := range r.Checks {
		if r.Checks[i].Broken > 0 {
			all = append(all, r.Checks[i].Promise)
		}
	}
	return all
}

// TestLiesAreFound: each lie breaks the promise that it is about, and an honest shop
// none.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	for lie, promise := range map[benchtest.Lie]string{
		benchtest.Honest: "", benchtest.Oversells: "P1", benchtest.GivesUp: "P2", benchtest.Forgets: "P3", benchtest.Hides: "P3",
		benchtest.Repeats: "P4", benchtest.Invents: "P5", benchtest.Swaps: "P5", benchtest.Loses: "P7", benchtest.Breaks: "P9",
	} {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			o := little(benchtest.Serve(t, lie).URL)
			o.Conduct = buyers.Conduct{Pay: 0.8}
			if lie == benchtest.Forgets {
				o.Profile.Bots, o.Profile.BotClicks, o.Sale.Stock = 0.5, 3, 100
			}
			r, err := bench.Run(t.Context(), o)
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, r.WriteText(&text))
			if promise == "" {
				assert.Empty(t, brokenIn(r), text.String())
				assert.True(t, r.Pass)
				assert.Contains(t, text.String(), "PASS: 20 of 20 units sold")
				return
			}
			assert.Contains(t, brokenIn(r), promise, text.String())
			assert.False(t, r.Pass)
			assert.Contains(t, text.String(), promise+" is broken, for one: ")
			assert.Contains(t, text.String(), "FAIL: ")
		})
	}
}

// TestNothingProvedIsNoPass: where nobody was told yes or no, or nobody audits, nothing
// is broken and nothing proved.
func TestNothingProvedIsNoPass(t *testing.T) {
	t.Parallel()
	for lie, want := range map[benchtest.Lie][2]string{
		benchtest.Blames:    {"turned off", "no buyer got an answer that says yes or no"},
		benchtest.Pauses:    {"paused", "no buyer got an answer that says yes or no"},
		benchtest.Unaudited: {"taken", "the audit told nothing of the sale bench-"},
	} {
		r, err := bench.Run(t.Context(), little(benchtest.Serve(t, lie).URL))
		require.ErrorContains(t, err, want[1])
		require.NotNil(t, r)
		assert.False(t, r.Pass)
		assert.Empty(t, brokenIn(r))
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		assert.Contains(t, text.String(), want[0])
		assert.Contains(t, text.String(), "UNPROVED: "+want[1])
		text.Reset()
		require.NoError(t, bench.WriteHTML(&text, r))
		assert.Contains(t, text.String(), ": unproved</title>")
	}
}

// TestInterrupt: whoever has had enough gets no report, and no sale stays behind.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	shop := benchtest.Serve(t, benchtest.Honest)
	ctx, cancel := context.WithCancel(t.Context())
	o := little(shop.URL)
	o.Profile.Spread = time.Hour
	o.Profile.Bots, o.Profile.BotClicks = 0.5, 1 // whose clicks are at the start
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for shop.Orders() == 0 {
			<-tick.C
		}
		cancel()
	}()
	r, err := bench.Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, r)
	assert.True(t, shop.Closed())
}

// TestInterruptWhileTheSaleIsMade: whose answer never came, and which is there all the
// same, does not stay behind.
func TestInterruptWhileTheSaleIsMade(t *testing.T) {
	t.Parallel()
	shop := benchtest.Serve(t, benchtest.Stalls)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !shop.Made() {
			<-tick.C
		}
		cancel()
	}()
	_, err := bench.Run(ctx, little(shop.URL))
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, shop.Deleted())
}

// TestKeep: a sale stays open if it shall, and is closed if not.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		shop := benchtest.Serve(t, benchtest.Honest)
		o := little(shop.URL)
		o.Sale.Keep = keep
		_, err := bench.Run(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, keep, !shop.Closed())
	}
}

func TestWhatCannotBe(t *testing.T) {
	t.Parallel()
	url := benchtest.Serve(t, benchtest.Honest).URL
	for want, change := range map[string]func(*bench.Options){
		"there is no server":                    func(o *bench.Options) { o.URLs = nil },
		"there are no buyers":                   func(o *bench.Options) { o.Cast = nil },
		"a sale has units":                      func(o *bench.Options) { o.Sale.Stock = 0 },
		"the crowd is nobody":                   func(o *bench.Options) { o.Profile = traffic.Profile{} },
		"the shares that pay and cancel":        func(o *bench.Options) { o.Conduct.Pay = 2 },
		"either within a spread or by rate":     func(o *bench.Options) { o.Profile.From = 3 },
		"the URL's scheme":                      func(o *bench.Options) { o.URLs = append(o.URLs, "ftp://x") },
		"http://127.0.0.1:1: the server cannot": func(o *bench.Options) { o.URLs = append(o.URLs, "http://127.0.0.1:1") },
		"opening the sale took so long":         func(o *bench.Options) { o.Sale.In = 0 },
		"not the URL of a page":                 func(o *bench.Options) { o.Probe.Ops = []string{"nowhere"} },
	} {
		o := little(url)
		change(&o)
		r, err := bench.Run(t.Context(), o)
		require.ErrorContains(t, err, want)
		assert.Nil(t, r)
	}
}

// minted returns casts that a server believes.
func minted(t *testing.T, dir string) func(int, string) (*buyers.Cast, error) {
	t.Helper()
	secret, err := auth.ReadSecret(filepath.Join(dir, "jwt.key"))
	require.NoError(t, err)
	m := buyers.Minting{Secret: secret, Issuer: "doorbuster", Audience: "doorbuster", Now: time.Now(), Life: time.Hour}
	return func(n int, run string) (*buyers.Cast, error) { return buyers.Mint(n, run, m) }
}

// shop is a small crowd that does everything there is to do.
func shop(s *testenv.Server, cast func(int, string) (*buyers.Cast, error)) bench.Options {
	o := little(s.URL)
	o.Key, o.Cast, o.Name = s.AdminKey(), cast, "shop"
	o.Sale.Stock = 80
	o.Sale.In = 2 * time.Second
	o.Profile = traffic.Profile{Buyers: 200, Spread: 300 * time.Millisecond, Refreshes: 100, Before: 500 * time.Millisecond, DoubleClick: 0.2, Bots: 0.02, BotClicks: 4}
	o.Conduct = buyers.Conduct{Pay: 0.6, Cancel: 0.2, Think: 100 * time.Millisecond, Again: 5}
	o.Connections = 32
	o.Probe = probe.Options{Ops: []string{s.OpsURL}}
	o.Timeout = 20 * time.Second
	return o
}

// check is what a run against a real server must have found.
func check(t *testing.T, r *bench.Report) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.True(t, r.Pass, text.String())
	assert.EqualValues(t, 80, r.Stock)
	assert.NotNil(t, r.Audit)
	assert.NotEmpty(t, r.Server)
	assert.Zero(t, r.Abandoned)
	for _, want := range []string{"accepted", "refused", "looked", "settled", "Stages of a buy", "Figures of the machines", "PASS: "} {
		assert.Contains(t, text.String(), want)
	}
	for i := range r.Pace {
		p := &r.Pace[i]
		assert.NotEqual(t, "failed", p.Class, text.String())
		assert.Positive(t, p.PerSecond)
		assert.True(t, p.Peak == 0 || p.Peak >= p.PerSecond, "%s: %v, best %v", p.Class, p.PerSecond, p.Peak)
		assert.LessOrEqual(t, p.Waited.P50, p.Waited.Max)
	}
	var offered, answered int64
	for i := range r.Slots {
		offered += r.Slots[i].Offered
		for _, n := range r.Slots[i].Answers {
			answered += n
		}
	}
	assert.Equal(t, r.Offered, offered)
	assert.Equal(t, r.Sent, answered, "each request has its answer")
	sold := r.Sold.Paid + r.Sold.Reserved
	assert.Equal(t, r.Stock, sold+r.Sold.Free)
	assert.Positive(t, r.Sold.Paid)
}

func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	s := testenv.Serve(t)
	cast := minted(t, s.Dir)
	r, err := bench.Run(t.Context(), shop(s, cast))
	require.NoError(t, err)
	check(t, r)
	assert.Equal(t, "direct", r.Path)
	assert.Nil(t, r.Judged)

	// The sale was made for the run and has been closed; the report can be read again,
	// and its page written.
	api, err := client.New(client.Options{URL: s.URL, Token: s.AdminKey()})
	require.NoError(t, err)
	v, err := api.AdminSale(t.Context(), r.Sale)
	require.NoError(t, err)
	assert.Equal(t, "closed", v.State)
	var file bytes.Buffer
	require.NoError(t, r.WriteJSON(&file))
	old, err := bench.Read(&file)
	require.NoError(t, err)
	assert.Equal(t, r.Pace, old.Pace)
	assert.Empty(t, bench.Unlike(r, old))
	text := opened(t, r, old)
	for _, words := range []string{r.Sale, "Pass: " + sold(r), "the audit found no promise broken"} {
		assert.Contains(t, text, words)
	}
	assert.NotContains(t, text, "Judge delay")
}

// TestForeignTokens: a crowd whose tokens a server does not know is not sent, and no
// sale stays open for it.
func TestForeignTokens(t *testing.T) {
	t.Parallel()
	s := testenv.Serve(t)
	other := testenv.Serve(t)
	o := shop(s, minted(t, other.Dir))
	r, err := bench.Run(t.Context(), o)
	require.ErrorContains(t, err, s.URL+" does not know the tokens of this crowd")
	assert.Nil(t, r)
	api, err := client.New(client.Options{URL: s.URL, Token: s.AdminKey()})
	require.NoError(t, err)
	sales, err := api.AdminSales(t.Context(), client.SaleQuery{})
	require.NoError(t, err)
	for i := range sales.Data {
		assert.Equal(t, "closed", sales.Data[i].State)
	}
}

func TestThreeInstances(t *testing.T) {
	t.Parallel()
	f := testenv.ServeFleet(t, testenv.FleetOptions{})
	o := shop(f.Servers[0], minted(t, f.Servers[0].Dir))
	o.Sale.Path = "fast"
	o.Probe = probe.Options{Redis: f.Redis.URL, Postgres: f.Postgres.URL}
	o.URLs = nil
	for _, s := range f.Servers {
		o.URLs, o.Probe.Ops = append(o.URLs, s.URL), append(o.Probe.Ops, s.OpsURL)
	}
	r, err := bench.Run(t.Context(), o)
	require.NoError(t, err)
	check(t, r)
	assert.Equal(t, "fast", r.Path)
	require.NotNil(t, r.Judged)
	assert.Positive(t, r.Judged.Orders)
	sources := make(map[string]bool)
	for i := range r.Probes {
		sources[r.Probes[i].Source] = true
	}
	for _, source := range []string{"server", "server 2", "server 3", "redis", "postgres", "stock", "crowd"} {
		assert.True(t, sources[source], source)
	}
	text := opened(t, r, nil)
	for _, words := range []string{r.Sale, "Pass: " + sold(r), "the audit found no promise broken", "Judge delay", "server 3", "redis", "postgres"} {
		assert.Contains(t, text, words)
	}
}

// sold is how a report begins to tell of a sale.
func sold(r *bench.Report) string {
	return fmt.Sprintf("%d of %d units sold, none oversold", r.Sold.Paid+r.Sold.Reserved, r.Stock)
}

// TestExistingSales: a crowd comes to a sale that is live, and to one before it opens;
// not to one that sells with passes only, or that is over.
func TestExistingSales(t *testing.T) {
	t.Parallel()
	s := testenv.Serve(t)
	api, err := client.New(client.Options{URL: s.URL, Token: s.AdminKey()})
	require.NoError(t, err)
	o := little(s.URL)
	o.Key, o.Cast, o.Sale = s.AdminKey(), minted(t, s.Dir), bench.Sale{ID: "drop"}
	open := func(id string, in time.Duration) {
		_, createErr := api.CreateSale(t.Context(), client.NewSale{
			ID: id, StartsAt: time.Now().Add(in).Truncate(time.Millisecond).UTC().Format(time.RFC3339Nano), EndsAt: time.Now().Add(48 * time.Hour).Truncate(time.Second).UTC().Format(time.RFC3339Nano),
			PerUserLimit: 1, Currency: "EUR",
			Items: []client.NewItem{{SKU: "s", Price: 100, Stock: 20}, {SKU: "m", Price: 100, Stock: 20}},
		})
		require.NoError(t, createErr)
		_, createErr = api.Publish(t.Context(), id)
		require.NoError(t, createErr)
	}
	open("drop", -time.Minute)
	for range 2 { // the second crowd finds nothing, and no order of its own either
		r, runErr := bench.Run(t.Context(), o)
		require.NoError(t, runErr)
		assert.True(t, r.Pass)
		assert.EqualValues(t, 20, r.Sold.Reserved)
		assert.EqualValues(t, 40, r.Stock)
	}
	v, err := api.AdminSale(t.Context(), "drop")
	require.NoError(t, err)
	assert.Equal(t, "published", v.State, "it is not ours to close")

	open("soon", 3*time.Second)
	o.Sale.ID = "soon"
	r, err := bench.Run(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, r.Pass)
	assert.Zero(t, countOf(r, "not_started"))

	open("later", 24*time.Hour)
	_, err = api.PutGateSettings(t.Context(), 0, []byte(`{"sales":{"drop":{"pass":true}}}`))
	require.NoError(t, err)
	_, err = api.CloseSale(t.Context(), "soon")
	require.NoError(t, err)
	for id, want := range map[string]string{"later": "starts only at", "soon": "is closed", "drop": "sells with a pass only", "none": "sale_not_found"} {
		o.Sale.ID = id
		_, err = bench.Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
}

func countOf(r *bench.Report, verdict string) (n int64) {
	for _, t := range r.Verdicts {
		if t.Verdict == verdict {
			n += t.Count
		}
	}
	return n
}
