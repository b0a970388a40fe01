package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/servers"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const often = 20 * time.Millisecond

// found is what a probe has told, by source and name.
type found map[string]probe.Series

func stop(t *testing.T, p *probe.Probe) (found, []probe.Note) {
	t.Helper()
	series, notes := p.Stop()
	out := make(found)
	for _, s := range series {
		out[s.Source+" "+s.Name] = s
		require.NotEmpty(t, s.Unit)
		require.NotEmpty(t, s.Points)
		require.True(t, slices.IsSortedFunc(s.Points, func(a, b [2]float64) int { return int(a[0]*1e9 - b[0]*1e9) }), "%s %s", s.Source, s.Name)
	}
	return out, notes
}

// values returns the values of one series.
func (f found) values(t *testing.T, name string) []float64 {
	t.Helper()
	s, ok := f[name]
	require.True(t, ok, "%s is not among %v", name, f)
	out := make([]float64, len(s.Points))
	for i, p := range s.Points {
		out[i] = p[1]
	}
	return out
}

func last(values []float64) float64 { return values[len(values)-1] }

// total adds up what a rate has counted.
func (f found) total(t *testing.T, name string, from float64) float64 {
	t.Helper()
	var sum float64
	f.values(t, name)
	for _, p := range f[name].Points {
		sum += p[1] * (p[0] - from)
		from = p[0]
	}
	return sum
}

// frontOf is the text of an nginx.conf: a proxy, and its status.
func frontOf(listen, status, server string) string {
	return fmt.Sprintf(`events {}
http {
	access_log off;
	server { listen %s; location / { proxy_pass %s; } }
	server { listen %s; location = /status { stub_status; } }
}`, listen, server, status)
}

// A whole installation that sells, watched.
func TestWatchesASale(t *testing.T) {
	t.Parallel()
	fleet := testenv.ServeFleet(t, testenv.FleetOptions{Servers: make([]testenv.FleetServer, 2)})
	front, status := testenv.FreeAddr(t), testenv.FreeAddr(t)
	testenv.Nginx(t, frontOf(front, status, fleet.Servers[0].URL), front)
	openSale(t, fleet.Servers[0])

	o := probe.Options{
		Ops:   []string{fleet.Servers[0].OpsURL, fleet.Servers[1].OpsURL},
		Redis: fleet.Redis.URL, Postgres: fleet.Postgres.URL, Nginx: "http://" + status + "/status",
		Sale: slug, Every: often,
	}
	p, err := probe.Start(t.Context(), o)
	require.NoError(t, err)
	const buys = 40
	for i := range buys {
		buyer, wrong := client.New(client.Options{URL: "http://" + front, Token: fleet.Servers[0].Token(fmt.Sprintf("u%d", i))})
		require.NoError(t, wrong)
		_, err = buyer.BuyWith(t.Context(), slug, client.BuyOptions{Wait: 5 * time.Second}, client.Attempt{Quantity: 1})
		require.NoError(t, err)
	}
	awaitSold(t, fleet.Postgres.URL, buys)
	told, notes := stop(t, p)
	require.Empty(t, notes)

	require.InDelta(t, buys, told.total(t, "server buys/s", 0), 1)
	require.InDelta(t, buys, told.total(t, "server calls/s", 0)*last(told.values(t, "server call size")), 1)
	require.InDelta(t, buys, told.total(t, "nginx requests/s", 0), 3+float64(len(told.values(t, "nginx requests/s"))), "and the looks at the status")
	require.Positive(t, told.total(t, "server cpu", 0)+told.total(t, "server 2 cpu", 0))
	require.Positive(t, last(told.values(t, "server 2 memory")))
	require.Positive(t, last(told.values(t, "server goroutines")))
	require.Positive(t, slices.Max(told.values(t, "redis commands/s")))
	require.Positive(t, last(told.values(t, "redis memory")))
	require.Contains(t, told, "redis main thread")
	require.Positive(t, slices.Max(told.values(t, "postgres log written")))
	told.values(t, "postgres rows inserted/s")
	require.Positive(t, told["postgres rows inserted/s"].Lag)
	require.Positive(t, last(told.values(t, "postgres size")))
	require.Positive(t, slices.Max(told.values(t, "postgres connections")))
	require.Contains(t, told, "postgres cpu", "it runs on this machine")
	require.Positive(t, last(told.values(t, "crowd memory")))

	require.InDelta(t, buys, last(told.values(t, "stock sold")), 0)
	require.InDelta(t, stockOf-buys, last(told.values(t, "stock left in the ledger")), 0)
	require.InDelta(t, stockOf-buys, last(told.values(t, "stock left in the lanes")), 0)
	require.Zero(t, last(told.values(t, "stock queued slips")))
	require.Zero(t, last(told.values(t, "stock drift")))
	require.GreaterOrEqual(t, slices.Max(told.values(t, "stock drift")), 0.0)

	// Lanes are found by the prefix of their keys only.
	o.Ops, o.Nginx, o.Prefix = nil, "", "elsewhere"
	p, err = probe.Start(t.Context(), o)
	require.NoError(t, err)
	told, notes = stop(t, p)
	require.Contains(t, told, "stock left in the ledger")
	require.NotContains(t, told, "stock drift")
	require.Len(t, notes, 1)
	require.Contains(t, notes[0].Text, "prefix elsewhere")
}

const (
	slug    = "drop"
	stockOf = 100
)

// openSale publishes a sale and waits until it is on the fast path.
func openSale(t *testing.T, s *testenv.Server) {
	t.Helper()
	admin, err := client.New(client.Options{URL: s.URL, Token: s.AdminKey()})
	require.NoError(t, err)
	now := time.Now().UTC()
	_, err = admin.CreateSale(t.Context(), client.NewSale{
		ID: slug, StartsAt: now.Add(-time.Minute).Format(time.RFC3339), EndsAt: now.Add(time.Hour).Format(time.RFC3339),
		PerUserLimit: 1, Currency: "EUR", PreferredPath: "fast", Items: []client.NewItem{{SKU: "unit", Price: 100, Stock: stockOf}},
	})
	require.NoError(t, err)
	_, err = admin.Publish(t.Context(), slug)
	require.NoError(t, err)
	require.NoError(t, servers.Await(t.Context(), "the sale is on the fast path", func() error {
		got, err := admin.AdminSale(t.Context(), slug)
		if err == nil && got.Path != "fast" {
			err = errors.New("it is on the path " + got.Path)
		}
		return err
	}))
}

// awaitSold waits until the ledger has sold so many.
func awaitSold(t *testing.T, database string, want int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, servers.Await(t.Context(), "all is judged", func() error {
		var sold int64
		if err := conn.QueryRow(t.Context(), "SELECT sum(sold) FROM items").Scan(&sold); err != nil {
			return err
		}
		if sold != want {
			return fmt.Errorf("%d are sold", sold)
		}
		return nil
	}))
}

// What cannot be reached at the start is an error that says what to do, and keeps
// secrets.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	nowhere := testenv.FreeAddr(t)
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), secret)
	guarded := testenv.Redis(t, "requirepass open-sesame")
	server := testenv.Serve(t)
	for name, tt := range map[string]struct {
		o    probe.Options
		code sale.Code
		want string
	}{
		"server":        {probe.Options{Ops: []string{"http://me:" + secret + "@" + nowhere}}, sale.CodeUnavailable, "connection refused"},
		"second server": {probe.Options{Ops: []string{server.OpsURL, "http://" + nowhere}}, sale.CodeUnavailable, nowhere},
		"not a server":  {probe.Options{Ops: []string{server.URL}}, sale.CodeUnavailable, "404"},
		"no URL":        {probe.Options{Ops: []string{"127.0.0.1:9090"}}, sale.CodeInvalid, "URL"},
		"redis":         {probe.Options{Redis: "redis://:" + secret + "@" + nowhere}, sale.CodeUnavailable, nowhere},
		"redis, denied": {probe.Options{Redis: "redis://:" + secret + "@" + guarded.Addr}, sale.CodeUnavailable, "account"},
		"redis, no URL": {probe.Options{Redis: "tcp://:" + secret + "@" + nowhere}, sale.CodeInvalid, "redis://"},
		"postgres":      {probe.Options{Postgres: "postgres://me:" + secret + "@" + nowhere + "/db"}, sale.CodeUnavailable, "connection refused"},
		"denied":        {probe.Options{Postgres: u.String()}, sale.CodeUnavailable, "password authentication failed"},
		"no database":   {probe.Options{Postgres: "mysql://me:" + secret + "@" + nowhere + "/db"}, sale.CodeInvalid, "PostgreSQL"},
		"bad database":  {probe.Options{Postgres: "postgres://me:" + secret + "@" + nowhere + "/db?sslmode=perhaps"}, sale.CodeInvalid, "PostgreSQL"},
		"nginx":         {probe.Options{Nginx: "http://" + nowhere + "/status"}, sale.CodeUnavailable, "connection refused"},
		"not nginx":     {probe.Options{Nginx: server.OpsURL + "/metrics"}, sale.CodeUnavailable, "no status of nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probe.Start(t.Context(), tt.o)
			e, ok := errors.AsType[*sale.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.code, e.Code)
			require.NotEmpty(t, e.Hint)
			require.Contains(t, e.Error(), tt.want)
			require.NotContains(t, fmt.Sprintf("%v %+v %s", err, e, e.Hint), secret)
		})
	}
}

// world is what a probe can watch besides servers. The password is one that no text
// may show.
type world struct {
	redis  *testenv.RedisServer
	db     *testenv.PostgresServer
	nginx  *testenv.NginxServer
	front  string
	probed *probe.Probe
}

const secret = "hunter2"

func watchedWorld(t *testing.T) *world {
	t.Helper()
	w := &world{front: testenv.FreeAddr(t)}
	w.redis = testenv.Redis(t, "user probe on >"+secret+" ~* &* +@all")
	w.db = testenv.OwnPostgres(t)
	status := testenv.FreeAddr(t)
	w.nginx = testenv.Nginx(t, frontOf(w.front, status, "http://"+w.front), w.front)
	var err error
	w.probed, err = probe.Start(t.Context(), probe.Options{
		Redis: "redis://probe:" + secret + "@" + w.redis.Addr, Postgres: w.db.URL, Nginx: "http://" + status + "/status", Every: often,
	})
	require.NoError(t, err)
	return w
}

func (w *world) kill() {
	w.redis.Kill()
	w.db.Kill()
	w.nginx.Kill()
}

// What fails later leaves a note, and what was told before stays.
func TestFailsLater(t *testing.T) {
	t.Parallel()
	w := watchedWorld(t)
	w.kill()
	told, notes := stop(t, w.probed)
	require.Contains(t, told, "redis memory")
	require.Contains(t, told, "postgres connections")
	require.Contains(t, told, "nginx active")
	require.Len(t, notes, 3)
	for i, source := range []string{"nginx", "postgres", "redis"} {
		j := slices.IndexFunc(notes, func(n probe.Note) bool { return n.Source == source })
		require.NotEqual(t, -1, j, "%d: %v", i, notes)
		require.Contains(t, notes[j].Text, "did not answer")
		require.NotContains(t, notes[j].Text, secret)
		require.NotContains(t, notes[j].Text, "\n")
	}
}

// What was started again is watched again, and its counters are not taken for those of
// before.
func TestComesBack(t *testing.T) {
	t.Parallel()
	w := watchedWorld(t)
	w.kill()
	w.redis.Start()
	w.db.Start()
	w.nginx.Start(w.front)
	const looks = 12 // each time PostgreSQL is asked up to five things; when the third time begins, the first is entered
	ours := 0
	require.NoError(t, servers.Await(t.Context(), "the probe looks at Redis again", func() error {
		ours++
		_, calls, _ := strings.Cut(w.redis.Must("INFO", "commandstats"), "cmdstat_info:calls=")
		calls, _, _ = strings.Cut(calls, ",")
		if n, err := strconv.Atoi(calls); err != nil || n-ours < looks {
			return fmt.Errorf("%s calls, %d of them ours", calls, ours)
		}
		return nil
	}))
	seen := map[string]bool{}
	require.NoError(t, servers.Await(t.Context(), "the probe looks at PostgreSQL again", func() error {
		at, err := lastLook(t, w.db.URL)
		if err != nil {
			return err
		}
		if seen[at] = true; len(seen) < looks {
			return fmt.Errorf("%d looks", len(seen))
		}
		return nil
	}))
	told, notes := stop(t, w.probed)
	for _, source := range []string{"redis", "postgres"} {
		require.True(t, slices.ContainsFunc(notes, func(n probe.Note) bool {
			return n.Source == source && strings.Contains(n.Text, "was started again")
		}), "%s: %v", source, notes)
	}
	for _, s := range told {
		if strings.HasSuffix(s.Unit, "/s") || s.Unit == "cores" {
			require.GreaterOrEqual(t, slices.Min(told.values(t, s.Source+" "+s.Name)), 0.0, s.Name)
		}
	}
}

// lastLook returns when the probe last asked something of PostgreSQL.
func lastLook(t *testing.T, database string) (string, error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var at string
	err = conn.QueryRow(t.Context(), "SELECT query_start::text FROM pg_stat_activity WHERE application_name = 'doorbuster-probe'").Scan(&at)
	return at, err
}

func exec(t *testing.T, database, statement string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(t.Context(), statement)
	return errors.Join(err, conn.Close(context.WithoutCancel(t.Context())))
}

// An account without rights sees what it may, and is told what it does not.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	db := testenv.OwnPostgres(t)
	require.NoError(t, exec(t, db.URL, "CREATE ROLE watcher LOGIN PASSWORD '"+secret+"'"))
	require.NoError(t, exec(t, db.URL, "CREATE TABLE sales (number bigint PRIMARY KEY, salts bytea, slug text, state text, path text)"))
	require.NoError(t, exec(t, db.URL, "CREATE TABLE items (sale bigint, stock bigint, sold bigint)"))
	other, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close(context.WithoutCancel(t.Context()))) }()

	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("watcher", secret)
	p, err := probe.Start(t.Context(), probe.Options{Postgres: u.String() + "&pool_max_conns=4", Sale: slug, Every: often})
	require.NoError(t, err)
	told, notes := stop(t, p)
	require.Contains(t, told, "postgres connections")
	require.NotContains(t, told, "postgres active")
	require.Contains(t, told, "postgres log written")
	texts := fmt.Sprint(notes)
	require.Len(t, notes, 2)
	require.Contains(t, texts, "pg_read_all_stats")
	require.Contains(t, texts, "permission denied for table sales")
	require.NotContains(t, texts, secret)
}
