package contest_test

import (
	"bytes"
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/contest"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestTheWholeLab is the one claim of this room: what must fail fails, and what
// Doorbuster sells is clean.
func TestTheWholeLab(t *testing.T) {
	t.Parallel()
	var ended []string
	r, err := contest.Run(t.Context(), contest.Options{
		Buyers: 300, Seed: 5, Timeout: 10 * time.Minute, Binary: testenv.Binary(t), Version: "test",
		Ended: func(row *contest.Row) {
			t.Logf("%-25s %s", row.Name, row.Summary())
			ended = append(ended, row.Name)
		},
	})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	t.Logf("\n%s", &text)
	require.True(t, r.Pass)
	require.Empty(t, r.Missing)
	require.Empty(t, r.Broken())
	require.Empty(t, r.Kept)
	require.Equal(t, contest.Names(), ended)
	require.Equal(t, 360, r.Clicks)
	require.NotEmpty(t, r.Redis)
	require.NotEmpty(t, r.Postgres)
	for i := range r.Rows {
		row := &r.Rows[i]
		require.Empty(t, row.Trouble, row.Name)
		require.Positive(t, row.Accepted.Answers, row.Name)
		require.Positive(t, row.Accepted.P50, row.Name)
		require.Positive(t, row.Seconds, row.Name)
		require.Equal(t, row.Fault != "", row.Struck > 0, row.Name)
		require.Equal(t, row.Fault != "" && row.Expect == contest.Clean, row.ToldAtKill >= 50, row.Name)
		for _, accident := range guarded(row) {
			require.Zero(t, accident, row.Summary())
		}
		if row.Expect == contest.Clean {
			require.Equal(t, int64(100), row.Sold, row.Name)
			require.True(t, row.Clean(), row.Name)
		}
	}
	require.Contains(t, text.String(), "\nSHOWN  ")

	path := pageOf(t, r)
	browser := testenv.Chromium(t)
	for _, v := range testenv.Views() {
		tab := browser.Report(t, path, v)
		told := testenv.Ask[string](tab, `document.body.innerText.replaceAll("\u00a0", " ")`)
		for _, words := range []string{"100 units, 300 buyers", "Pass: Doorbuster sold exactly 100 units", r.Redis, r.Postgres} {
			require.Contains(t, told, words)
		}
		require.Equal(t, len(contest.Names()), testenv.Ask[int](tab, `document.querySelectorAll(".contest tbody tr:not(.group)").length`))
	}
}

// guarded returns what a strategy that fails keeps right all the same.
func guarded(row *contest.Row) []int64 {
	switch row.Name {
	case "conditional_update":
		return []int64{row.Oversold, row.Undersold, row.Lost}
	case "unique_index":
		return []int64{row.Duplicates, row.Undersold, row.Lost}
	case "setnx_expire":
		return []int64{row.Oversold, row.Duplicates, row.Lost}
	case "redis_decr":
		return []int64{row.Oversold, row.Lost}
	case "lua_publish":
		return []int64{row.Oversold, row.Duplicates}
	}
	return nil
}

// The user's servers are left as they were.
func TestNothingIsLeftInTheUsersServers(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.Redis(t), testenv.OwnPostgres(t) // all databases of the server are counted
	redis.Must("SET", "doorbuster_lab_of_the_user", "1")
	redis.Must("SET", "doorbuster:1", "1")
	databases := func() int64 {
		return count(t, postgres.URL, "SELECT count(*) FROM pg_database WHERE datname LIKE 'doorbuster_lab_%'")
	}
	require.Zero(t, databases())
	r, err := contest.Run(t.Context(), contest.Options{
		Buyers: 100, Stock: 20, Seed: 5, Only: []string{"fair_lock", "lua", "doorbuster_fast_crash"},
		RedisURL: redis.URL, PostgresURL: postgres.URL, Binary: testenv.Binary(t),
	})
	require.NoError(t, err)
	require.Len(t, r.Rows, 3)
	for i := range r.Rows {
		require.Empty(t, r.Rows[i].Trouble, r.Rows[i].Name)
		require.True(t, r.Rows[i].As, r.Rows[i].Summary())
	}
	require.Equal(t, "2", redis.Must("DBSIZE"))
	require.Zero(t, databases())
	require.Zero(t, count(t, postgres.URL, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lab%'"))
}

func count(t *testing.T, address, query string) (n int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func TestUserWhoMayNotCreateDatabases(t *testing.T) {
	t.Parallel()
	postgres := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), postgres.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE ROLE visitor LOGIN PASSWORD 'visits'")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, dropErr := conn.Exec(ctx, "DROP ROLE visitor")
		require.NoError(t, dropErr)
		require.NoError(t, conn.Close(ctx))
	})
	u, err := url.Parse(postgres.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("visitor", "visits")
	_, err = contest.Run(t.Context(), contest.Options{Only: []string{"none"}, PostgresURL: u.String(), Binary: testenv.Binary(t)})
	require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err))
	require.ErrorContains(t, err, "may not create databases")
}

func TestLabThatIsInterrupted(t *testing.T) {
	t.Parallel()
	postgres := testenv.OwnPostgres(t) // see above
	for name, interrupt := range map[string]func(o *contest.Options) (context.Context, error){
		"by the user": func(o *contest.Options) (context.Context, error) {
			ctx, cancel := context.WithCancel(t.Context())
			o.Begun = func(string) { time.AfterFunc(500*time.Millisecond, cancel) }
			return ctx, context.Canceled
		},
		"by its own time": func(o *contest.Options) (context.Context, error) {
			o.Timeout = 500 * time.Millisecond
			return t.Context(), contest.ErrLate
		},
	} {
		o := contest.Options{Seed: 5, Only: []string{"doorbuster_postgres"}, PostgresURL: postgres.URL, Binary: testenv.Binary(t)}
		ctx, want := interrupt(&o)
		r, err := contest.Run(ctx, o)
		require.ErrorIs(t, err, want, name)
		if r != nil {
			require.False(t, r.Pass, name)
			require.Empty(t, r.Missing, name)
			require.Equal(t, o.Only, r.CutOff, name)
		}
		require.NotContains(t, err.Error(), "behind", name)
		require.Zero(t, count(t, postgres.URL, "SELECT count(*) FROM pg_database WHERE datname LIKE 'doorbuster_lab_%'"), name)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, o := range []contest.Options{
		{Buyers: 1}, {Stock: 1}, {Buyers: 100, Stock: 51}, {Buyers: 1_000_000}, {Only: []string{"none", "all"}}, {Stock: -5},
	} {
		_, err := contest.Run(t.Context(), o)
		require.Equal(t, sale.CodeInvalid, sale.CodeOf(err), "%+v", o)
	}
}
