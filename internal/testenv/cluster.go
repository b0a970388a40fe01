package testenv

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	postgresHint = "install it with: sudo apt-get install -y postgresql"
	// keeper starts a server and ends it when its own input ends, which is when
	// the test process is gone, whatever became of it. It removes the server's
	// folder unless it is told to keep it.
	keeper = `dir=$1; shift
"$@" >>"$dir/server.log" 2>&1 &
read -r word
pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"
wait
[ "$word" = keep ] || rm -rf "$dir"`
)

// cluster is a PostgreSQL with its own data folder, run by a user who is not root.
type cluster struct {
	bin       string // folder of the programs
	dir       string // holds data/ and server.log
	superuser string
	password  string
	settings  []string
	attr      *syscall.SysProcAttr

	original    sync.Once // see PostgresLike
	originalErr error
	admin       struct { // see exec
		sync.Mutex
		conn *pgx.Conn
	}

	mu    sync.Mutex
	port  int
	keep  io.WriteCloser // input of the keeper; nil while nothing runs
	ended chan struct{}  // closed when the keeper has ended
}

// newCluster makes a data folder.
func newCluster(settings []string) (*cluster, error) {
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
	c := &cluster{bin: bin, dir: dir, superuser: "tester", password: secret(), attr: attr, settings: settings}
	if err := c.initialize(own); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *cluster) initialize(own func(path string) error) error {
	passwords := filepath.Join(c.dir, "password")
	if err := os.WriteFile(passwords, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(own(c.dir), own(passwords)); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(c.bin, "initdb"), //nolint:gosec,noctx // a program of the system, which ends by itself
		"-D", c.data(), "-U", c.superuser, "-E", "UTF8", "--locale=C", "--auth=password", "--pwfile="+passwords, "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = c.dir, c.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (c *cluster) data() string    { return filepath.Join(c.dir, "data") }
func (c *cluster) logFile() string { return filepath.Join(c.dir, "server.log") }

func (c *cluster) addr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return loopback(c.port)
}

func (c *cluster) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep != nil
}

// start starts the server and waits until it answers. The first start looks for
// a port that is free, later ones take the same.
func (c *cluster) start() error {
	if c.port != 0 {
		return c.launch()
	}
	var err error
	for range 5 { // somebody may take the port between the look and the start
		if c.port, err = postgresPort(); err != nil {
			return err
		}
		if err = c.launch(); err == nil || !strings.Contains(c.log(), "could not bind") {
			return err
		}
	}
	return err
}

func (c *cluster) launch() error {
	args := make([]string, 0, 32+2*len(c.settings))
	args = append(args,
		"-c", keeper, "keeper", c.dir, filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", strconv.Itoa(c.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "shared_buffers=64MB", "-c", "max_wal_size=1GB", "-c", "fsync=off", "-c", "full_page_writes=off",
		"-c", "synchronous_commit=on", "-c", "log_min_messages=fatal", "-c", "log_min_error_statement=panic")
	for _, setting := range c.settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command("/bin/sh", args...) //nolint:gosec,noctx // programs of the system; stopped by pid
	cmd.Dir, cmd.SysProcAttr = c.dir, c.attr
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
	c.mu.Lock()
	c.keep, c.ended = keep, ended
	c.mu.Unlock()
	if err := c.waitReady(ended); err != nil {
		return errors.Join(err, c.release("keep"))
	}
	return nil
}

// stop signals the server and waits for the end of its last process.
func (c *cluster) stop(sig syscall.Signal) error {
	raw, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return err
	}
	return c.release("keep")
}

// release tells the keeper what to do once the server has ended, and waits.
func (c *cluster) release(word string) error {
	c.mu.Lock()
	keep, ended := c.keep, c.ended
	c.keep = nil
	c.mu.Unlock()
	if keep == nil {
		return nil
	}
	_, err := io.WriteString(keep, word+"\n")
	_ = keep.Close()
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	select {
	case <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("PostgreSQL did not end within %v", readyIn)
	}
}

// discard ends the server and removes its folder.
func (c *cluster) discard() {
	_ = c.release("drop")
	_ = os.RemoveAll(c.dir)
}

// postgresPort returns a loopback port that nobody listens on; see lowestPort.
func postgresPort() (int, error) {
	for range 200 {
		if port := lowestPort + rand.IntN(highestPort-lowestPort); canListen(port) { //nolint:gosec // no secret
			return port, nil
		}
	}
	return 0, errors.New("no loopback port is free")
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
	return "", errors.New("PostgreSQL is not installed; " + postgresHint)
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
