package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

func ask(tb testing.TB, url, query string) (answer string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, conn.Close(tb.Context())) }()
	require.NoError(tb, conn.QueryRow(tb.Context(), query).Scan(&answer))
	return answer
}

func TestPostgresDatabasesAreApart(t *testing.T) { //nolint:tparallel // the end of the inner test is waited for
	t.Parallel()
	one, two := testenv.Postgres(t), testenv.Postgres(t)
	require.Equal(t, one.Addr(), two.Addr(), "one server serves them all")
	require.NotEqual(t, one.URL, two.URL)
	require.Equal(t, "on", ask(t, one.URL, "SHOW synchronous_commit"))
	require.Equal(t, "UTF8", ask(t, two.URL, "SHOW server_encoding"))
	var gone string
	t.Run("a test", func(t *testing.T) { gone = testenv.Postgres(t).URL })
	_, err := pgx.Connect(t.Context(), gone)
	require.ErrorContains(t, err, "does not exist")
}

func TestOwnPostgresComesBack(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, "fsync=on")
	require.Equal(t, "on", ask(t, s.URL, "SHOW fsync"))
	conn, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept (x int)")
	require.NoError(t, err)
	for _, end := range []func(){s.Kill, s.Stop} {
		end()
		_, err = pgx.Connect(t.Context(), s.URL)
		require.ErrorContains(t, err, "connect")
		s.Start()
		require.Equal(t, "0", ask(t, s.URL, "SELECT count(*)::text FROM kept"))
	}
	require.Error(t, conn.Ping(t.Context()), "its process is gone")
}

const orphanFile = "TESTENV_ORPHAN_FILE"

// TestOrphanChild is the process that TestPostgresDiesWithItsTest kills.
func TestOrphanChild(t *testing.T) { //nolint:paralleltest // a process of its own, or nothing
	file := os.Getenv(orphanFile)
	if file == "" {
		return
	}
	s := testenv.Postgres(t)
	require.NoError(t, os.WriteFile(file+".new", []byte(ask(t, s.URL, "SHOW data_directory")), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	<-t.Context().Done() // never: it is killed
}

func TestPostgresDiesWithItsTest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphanChild$") //nolint:gosec // ourselves
	child.Env = append(os.Environ(), orphanFile+"="+file)
	require.NoError(t, child.Start())
	var data string
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(file)
		data = string(raw)
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Dir(data))
		return os.IsNotExist(err) && syscall.Kill(pid, 0) != nil
	}, 30*time.Second, 20*time.Millisecond, "neither the server nor its files outlive the test process")
}
