package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is an empty database on a running PostgreSQL. The database is
// dropped when its test ends.
type PostgresServer struct {
	// URL names the database, user and password included. It stays the same when
	// the server is started again.
	URL string

	tb      testing.TB
	cluster *cluster
	own     bool
}

// Postgres returns a fresh database on the one PostgreSQL of this test process,
// which is started at first use and ends with the process, also when that is
// killed. The server does not force its files to the disk: a process that is
// killed loses nothing by that, only a power cut would.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	c, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return c.fresh(tb)
}

// PostgresLike does the same with a copy of a database that the first call of this
// process has prepared, which is quicker than to prepare each one. prepare gets the
// URL of the original.
func PostgresLike(tb testing.TB, prepare func(address string) error) *PostgresServer {
	tb.Helper()
	c, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	const original = "original"
	c.original.Do(func() {
		c.originalErr = c.exec(context.Background(), "CREATE DATABASE "+original) //nolint:usetesting // for every test of the process
		if c.originalErr == nil {
			c.originalErr = prepare(c.url(original))
		}
	})
	if c.originalErr != nil {
		tb.Fatalf("prepare a database: %v", c.originalErr)
	}
	return c.copied(tb, original)
}

// OwnPostgres returns a database on a server of its own, which the test may kill
// and start again. Each setting is one of postgresql.conf, such as "fsync=on".
func OwnPostgres(tb testing.TB, settings ...string) *PostgresServer {
	tb.Helper()
	c, err := newCluster(settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.discard)
	if err := c.start(); err != nil {
		tb.Fatal(err)
	}
	s := c.fresh(tb)
	s.own = true
	return s
}

// shared is a variable of the package because the server is started once per
// test process, whatever number of tests asks for it.
//
//nolint:gochecknoglobals // see above
var shared = sync.OnceValues(func() (*cluster, error) {
	c, err := newCluster(nil)
	if err != nil {
		return nil, err
	}
	return c, c.start()
})

// Kill ends every process of the server at once, as a crash of its machine would:
// nothing is written any more, and the next start has to recover. (SIGKILL would
// not do: it ends the first process, while its children finish what they are at.)
// It is for servers of OwnPostgres.
func (s *PostgresServer) Kill() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.stop(syscall.SIGQUIT); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop ends the server in order: transactions are rolled back, files are synced.
// It is for servers of OwnPostgres.
func (s *PostgresServer) Stop() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.stop(syscall.SIGINT); err != nil {
		s.tb.Fatal(err)
	}
}

// Start starts a server that was stopped or killed, and waits until it answers.
func (s *PostgresServer) Start() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// Addr returns the host and port on which the server listens.
func (s *PostgresServer) Addr() string { return s.cluster.addr() }

func (s *PostgresServer) mustOwn() {
	s.tb.Helper()
	if !s.own {
		s.tb.Fatal("this PostgreSQL is shared with other tests; use OwnPostgres")
	}
}

// databases counts the databases of this process, for their names.
//
//nolint:gochecknoglobals // names are unique within the shared server
var databases atomic.Int64

// fresh makes an empty database and drops it at the end of the test.
func (c *cluster) fresh(tb testing.TB) *PostgresServer {
	tb.Helper()
	return c.copied(tb, "template1")
}

// copied does the same with a copy of a database.
func (c *cluster) copied(tb testing.TB, original string) *PostgresServer {
	tb.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := c.exec(tb.Context(), "CREATE DATABASE "+name+" TEMPLATE "+original+c.strategy()); err != nil {
		tb.Fatalf("create a database: %v\n%s", err, c.log())
	}
	tb.Cleanup(func() {
		if c.running() {
			// What a test left connected is thrown out. The test is over, so its
			// context is too.
			if err := c.exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil { //nolint:usetesting // see above
				tb.Errorf("drop the database: %v", err)
			}
		}
		if tb.Failed() {
			tb.Logf("PostgreSQL log:\n%s", c.log())
		}
	})
	return &PostgresServer{tb: tb, cluster: c, URL: c.url(name)}
}

// url names a database of the cluster.
func (c *cluster) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.superuser, c.password), Host: c.addr(), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// exec runs one statement in the cluster's own database, on the one connection that
// is kept for that, since a new one costs the server more than the statement.
func (c *cluster) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	c.admin.Lock()
	defer c.admin.Unlock()
	if c.admin.conn == nil || c.admin.conn.IsClosed() || c.admin.conn.Ping(ctx) != nil {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err != nil {
			return err
		}
		c.admin.conn = conn
	}
	_, err := c.admin.conn.Exec(ctx, statement)
	return err
}

// strategy copies a database file by file, where the server knows how: that is
// quicker than to write each page to its log.
func (c *cluster) strategy() string {
	c.admin.Lock()
	defer c.admin.Unlock()
	version, _, _ := strings.Cut(c.admin.conn.PgConn().ParameterStatus("server_version"), ".")
	if n, err := strconv.Atoi(version); err == nil && n >= 15 {
		return " STRATEGY FILE_COPY"
	}
	return ""
}

// secret returns a random password.
func secret() string { return rand.Text() }

// waitReady asks until the server answers or its process ends.
func (c *cluster) waitReady(ended <-chan struct{}) error {
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := c.exec(context.Background(), "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("PostgreSQL ended before it was ready: %w\n%s", err, c.log())
		case <-limit.C:
			return fmt.Errorf("PostgreSQL is not ready after %v: %w\n%s", readyIn, err, c.log())
		case <-poll.C:
		}
	}
}

// log returns the end of what the server has written.
func (c *cluster) log() string {
	raw, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-tailSize):])
}
