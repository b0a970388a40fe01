package testenv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/doorbuster/doorbuster/internal/servers"
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

// cluster is a running PostgreSQL on which tests have databases.
type cluster struct {
	*servers.Postgres

	original    sync.Once // see PostgresLike
	originalErr error
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
		c.originalErr = c.Exec(context.Background(), "CREATE DATABASE "+original) //nolint:usetesting // for every test of the process
		if c.originalErr == nil {
			c.originalErr = prepare(c.URL(original))
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
	server, err := servers.NewPostgres(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Discard)
	if err := server.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	c := &cluster{Postgres: server}
	s := c.fresh(tb)
	s.own = true
	return s
}

// shared is a variable of the package because the server is started once per
// test process, whatever number of tests asks for it.
//
//nolint:gochecknoglobals // see above
var shared = sync.OnceValues(func() (*cluster, error) {
	server, err := servers.NewPostgres()
	if err != nil {
		return nil, err
	}
	return &cluster{Postgres: server}, server.Start(context.Background())
})

// Kill ends every process of the server at once, as a crash of its machine would:
// nothing is written any more, and the next start has to recover. (SIGKILL would
// not do: it ends the first process, while its children finish what they are at.)
// It is for servers of OwnPostgres.
func (s *PostgresServer) Kill() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.Stop(syscall.SIGQUIT); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop ends the server in order: transactions are rolled back, files are synced.
// It is for servers of OwnPostgres.
func (s *PostgresServer) Stop() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.Stop(syscall.SIGINT); err != nil {
		s.tb.Fatal(err)
	}
}

// Start starts a server that was stopped or killed, and waits until it answers.
func (s *PostgresServer) Start() {
	s.tb.Helper()
	s.mustOwn()
	if err := s.cluster.Start(s.tb.Context()); err != nil {
		s.tb.Fatal(err)
	}
}

// Addr returns the host and port on which the server listens.
func (s *PostgresServer) Addr() string { return s.cluster.Addr() }

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
	if err := c.Exec(tb.Context(), "CREATE DATABASE "+name+" TEMPLATE "+original+c.strategy()); err != nil {
		tb.Fatalf("create a database: %v\n%s", err, c.Log())
	}
	tb.Cleanup(func() {
		if c.Running() {
			// What a test left connected is thrown out. The test is over, so its
			// context is too.
			if err := c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil { //nolint:usetesting // see above
				tb.Errorf("drop the database: %v", err)
			}
		}
		if tb.Failed() {
			tb.Logf("PostgreSQL log:\n%s", c.Log())
		}
	})
	return &PostgresServer{tb: tb, cluster: c, URL: c.URL(name)}
}

// strategy copies a database file by file, where the server knows how: that is
// quicker than to write each page to its log.
func (c *cluster) strategy() string {
	if c.Major() >= 15 {
		return " STRATEGY FILE_COPY"
	}
	return ""
}
