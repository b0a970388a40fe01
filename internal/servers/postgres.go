package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	installPostgres = "sudo apt-get install -y postgresql"
	superuser       = "doorbuster"
	// keeper starts a server and ends it when its own input ends, which is when
	// this process is gone, whatever became of it. It removes the server's folder
	// unless it is told to keep it. SIGQUIT ends it at once (see Stop); a shell lets
	// its children ignore that until they say otherwise, so one that has just begun
	// is ended by SIGTERM.
	keeper = `dir=$1; shift
"$@" >>"$dir/server.log" 2>&1 &
read -r word
kill -QUIT $!; kill -TERM $!
wait
[ "$word" = keep ] || rm -rf "$dir"`
)

// Postgres is a PostgreSQL on a loopback port, with a data folder of its own, run
// by a user who is not root. It does not force its files to the disk unless it is
// told to: a process that is killed loses nothing by that, only a power cut would.
type Postgres struct {
	bin      string // folder of the programs
	dir      string // holds data/ and server.log
	password string
	settings []string
	attr     *syscall.SysProcAttr

	admin struct { // see Exec
		sync.Mutex
		conn *pgx.Conn
	}

	mu    sync.Mutex
	port  int
	keep  io.WriteCloser // input of the keeper; nil while nothing runs
	ended chan struct{}  // closed when the keeper has ended
}

// NewPostgres makes a data folder. Each setting is one of postgresql.conf, such as
// "fsync=on". The caller ends with Discard.
func NewPostgres(settings ...string) (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	attr, own, err := unprivileged("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "doorbuster-postgres-*")
	if err != nil {
		return nil, err
	}
	s := &Postgres{bin: bin, dir: dir, password: rand.Text(), attr: attr, settings: settings}
	if err := s.initialize(own); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Postgres) initialize(own func(path string) error) error {
	passwords := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwords, []byte(s.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(own(s.dir), own(passwords)); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), //nolint:gosec,noctx // a program of the system, which ends by itself
		"-D", s.data(), "-U", superuser, "-E", "UTF8", "--locale=C", "--auth=password", "--pwfile="+passwords, "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// Folder holds all that the server writes. Discard removes it.
func (s *Postgres) Folder() string { return s.dir }

func (s *Postgres) data() string { return filepath.Join(s.dir, "data") }

// Addr returns host:port, which stays over restarts.
func (s *Postgres) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Loopback(s.port)
}

// URL names a database of the server, user and password included.
func (s *Postgres) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password), Host: s.Addr(), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Running reports whether the server is started.
func (s *Postgres) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep != nil
}

// Major returns the first part of the version, 15 for 15.4.
func (s *Postgres) Major() int {
	raw, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(raw))) // it was written by initdb
	return n
}

// Start starts the server and waits until it answers. The first start looks for
// a port that is free, later ones take the same.
func (s *Postgres) Start(ctx context.Context) error {
	if s.port != 0 {
		return s.launch(ctx)
	}
	var err error
	for range bindAttempts {
		if s.port, err = FreePort(); err != nil {
			return err
		}
		if err = s.launch(ctx); err == nil || !strings.Contains(s.Log(), "could not bind") {
			return err
		}
	}
	return err
}

func (s *Postgres) launch(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	args := make([]string, 0, 32+2*len(s.settings))
	args = append(args,
		"-c", keeper, "keeper", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "shared_buffers=64MB", "-c", "max_wal_size=1GB", "-c", "fsync=off", "-c", "full_page_writes=off",
		"-c", "synchronous_commit=on", "-c", "log_min_messages=fatal", "-c", "log_min_error_statement=panic")
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command("/bin/sh", args...) //nolint:gosec,noctx // programs of the system; stopped by pid
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	keep, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the server's own log tells why it ended
		close(ended)
	}()
	s.mu.Lock()
	s.keep, s.ended = keep, ended
	s.mu.Unlock()
	if err := s.waitReady(ctx, ended); err != nil {
		return errors.Join(err, s.release("keep"))
	}
	return nil
}

// waitReady asks until the server answers or its process ends.
func (s *Postgres) waitReady(ctx context.Context, ended <-chan struct{}) error {
	return Await(ctx, "PostgreSQL answers", func() error {
		err := s.Exec(ctx, "SELECT 1")
		select {
		case <-ended:
			return fmt.Errorf("PostgreSQL: %w:\n%s", ErrEnded, s.Log())
		default:
			return err
		}
	})
}

// Stop signals the server and waits for the end of its last process. SIGQUIT ends
// every process of it at once, as a crash of its machine would: nothing is written
// any more, and the next start has to recover. (SIGKILL would not do: it ends the
// first process, while its children finish what they are at.) SIGINT ends it in
// order: transactions are rolled back, files are synced.
func (s *Postgres) Stop(sig syscall.Signal) error {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := server.Signal(sig); err != nil {
		return err
	}
	return s.release("keep")
}

// release tells the keeper what to do once the server has ended, and waits.
func (s *Postgres) release(word string) error {
	s.mu.Lock()
	keep, ended := s.keep, s.ended
	s.keep = nil
	s.mu.Unlock()
	if keep == nil {
		return nil
	}
	_, err := io.WriteString(keep, word+"\n")
	_ = keep.Close()
	limit := time.NewTimer(ReadyIn)
	defer limit.Stop()
	select {
	case <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("PostgreSQL did not end within %v", ReadyIn)
	}
}

// Discard ends the server and removes its folder.
func (s *Postgres) Discard() {
	_ = s.release("drop")
	_ = os.RemoveAll(s.dir)
}

// Exec runs one statement in the server's own database, on the one connection that
// is kept for that, since a new one costs the server more than the statement.
func (s *Postgres) Exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyIn)
	defer cancel()
	s.admin.Lock()
	defer s.admin.Unlock()
	if s.admin.conn == nil || s.admin.conn.IsClosed() || s.admin.conn.Ping(ctx) != nil {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return err
		}
		s.admin.conn = conn
	}
	_, err := s.admin.conn.Exec(ctx, statement)
	return err
}

// Log returns the end of what the server has written.
func (s *Postgres) Log() string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-tailSize):])
}

// postgresBin finds the folder of initdb and postgres: in PATH, or where Debian
// keeps them, the newest first.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && hasServer(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return debianVersion(b) - debianVersion(a) })
	for _, dir := range found {
		if hasServer(dir) {
			return dir, nil
		}
	}
	return "", &MissingError{Program: "PostgreSQL", Install: installPostgres}
}

func hasServer(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, program)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// debianVersion reads the 15 of /usr/lib/postgresql/15/bin.
func debianVersion(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // anything else comes last
	return n
}
