package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestBehindNginx: two instances behind the nginx of deploy/, whose limit_req sheds part
// of the crowd. What it tells stands beside what the others tell, and who was shed came
// again.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	f := testenv.ServeFleet(t, testenv.FleetOptions{
		Servers: make([]testenv.FleetServer, 2), Args: []string{"--set", "api.trusted_proxies=127.0.0.1", "--set", "gate.mode=off"},
	})
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "nginx.conf"))
	require.NoError(t, err)
	listen, status := testenv.FreeAddr(t), testenv.FreeAddr(t)
	conf := string(raw)
	for _, change := range [][2]string{
		{"shop-1:8080", strings.TrimPrefix(f.Servers[0].URL, "http://")},
		{"shop-2:8080", strings.TrimPrefix(f.Servers[1].URL, "http://")},
		{"listen 80 ", "listen " + listen + " "},
		{"listen 127.0.0.1:8081;", "listen " + status + ";"},
		{"rate=20000r/s", "rate=200r/s"},
		{"burst=32768", "burst=40"},
	} {
		require.Contains(t, conf, change[0])
		conf = strings.ReplaceAll(conf, change[0], change[1])
	}
	testenv.Nginx(t, conf, listen)

	o := shop(f.Servers[0], minted(t, f.Servers[0].Dir))
	o.URLs = []string{"http://" + listen}
	o.Sale.Path = "fast"
	o.Conduct.Again = 20
	o.Probe = probe.Options{Redis: f.Redis.URL, Postgres: f.Postgres.URL, Nginx: "http://" + status + "/status"}
	for _, s := range f.Servers {
		o.Probe.Ops = append(o.Probe.Ops, s.OpsURL)
	}
	r, err := bench.Run(t.Context(), o)
	require.NoError(t, err)
	check(t, r)
	assert.Positive(t, countOf(r, "rate_limited"), "nginx shed nobody")
	sources := make(map[string]bool)
	for i := range r.Probes {
		sources[r.Probes[i].Source] = true
	}
	for _, source := range []string{"server", "server 2", "redis", "postgres", "nginx"} {
		assert.True(t, sources[source], source)
	}
	text := opened(t, r, nil)
	for _, words := range []string{r.Sale, "Pass: " + sold(r), "nginx", "rate limited"} {
		assert.Contains(t, text, words)
	}
}
