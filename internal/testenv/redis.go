package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	installRedis = "sudo apt-get install -y redis-server"
	// bindAttempts is how often a port that somebody took in between is
	// replaced by another.
	bindAttempts = 5
)

// RedisServer is a real redis-server on a loopback port, in a folder of its own.
// Port and folder stay over restarts.
type RedisServer struct {
	Addr string // host:port
	URL  string // redis://host:port
	Dir  string // its folder: redis.conf, append-only file, snapshot, nodes.conf

	tb       testing.TB
	port     int
	args     []string // further words of the command line
	env      []string // further entries of the environment
	settings []string
	proc     *process
	log      *tail

	mu     sync.Mutex
	client rueidis.Client // of this run of the server; nil until it is asked for
}

// Redis starts a server and waits until it answers. Settings are lines of
// redis.conf, such as "appendonly no" or "maxmemory 4mb"; they come after what
// the product asks of a server: an append-only file, synced every second, and no
// eviction. The server is killed when the test ends.
func Redis(tb testing.TB, settings ...string) *RedisServer {
	tb.Helper()
	return startRedis(tb, newRedis(tb, settings), nil)
}

func startRedis(tb testing.TB, s *RedisServer, env []string) *RedisServer {
	tb.Helper()
	s.env = env
	for range bindAttempts {
		s.move(redisPort(tb))
		s.Begin()
		if s.listens() {
			s.waitReady()
			return s
		}
	}
	tb.Fatalf("redis-server does not start:\n%s", s.log)
	return nil
}

// ReplicaOf returns the setting that makes a server the replica of another.
func ReplicaOf(primary *RedisServer) string {
	return fmt.Sprintf("replicaof 127.0.0.1 %d", primary.port)
}

func newRedis(tb testing.TB, settings []string) *RedisServer {
	tb.Helper()
	s := &RedisServer{tb: tb, Dir: tb.TempDir(), log: &tail{}, settings: append([]string{
		"bind 127.0.0.1", "daemonize no", "save \"\"", "databases 16", "enable-debug-command local",
		"appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction",
		// A replica is ready at once, not after five seconds of waiting for others.
		"repl-diskless-sync-delay 0", "repl-ping-replica-period 1",
	}, settings...)}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("log of redis-server %s:\n%s", s.Addr, s.log)
		}
	})
	return s
}

// move gives the server its port and writes its configuration; a server may
// rewrite that file later, as after a fail-over.
func (s *RedisServer) move(port int) {
	s.tb.Helper()
	s.port, s.Addr, s.URL = port, loopback(port), "redis://"+loopback(port)
	lines := append([]string{"port " + strconv.Itoa(port), fmt.Sprintf("dir %q", s.Dir)}, s.settings...)
	if err := os.WriteFile(s.conf(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.tb.Fatalf("write redis.conf: %v", err)
	}
}

func (s *RedisServer) conf() string { return filepath.Join(s.Dir, "redis.conf") }

// Configure adds lines to the configuration that the next Start reads.
func (s *RedisServer) Configure(settings ...string) {
	s.tb.Helper()
	f, err := os.OpenFile(s.conf(), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.tb.Fatalf("write redis.conf: %v", err)
	}
}

// Start starts the server again after Kill or Stop, on the same port and with
// what its folder holds, and waits until it answers.
func (s *RedisServer) Start() {
	s.tb.Helper()
	s.Begin()
	s.waitReady()
}

// Begin does what Start does, but does not wait: the server may not listen yet,
// or may be loading.
func (s *RedisServer) Begin() {
	s.tb.Helper()
	path := program(s.tb, "redis-server", installRedis)
	cmd := exec.Command(path, append([]string{s.conf()}, s.args...)...) //nolint:gosec,noctx // found in PATH; stopped by pid
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, s.log, s.log
	cmd.Env = append(os.Environ(), s.env...)
	proc, err := spawn(cmd)
	if err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	s.proc = proc
}

// AwaitListening waits after Begin until the server accepts connections. It may
// still be loading.
func (s *RedisServer) AwaitListening() {
	s.tb.Helper()
	if !s.listens() {
		s.tb.Fatalf("redis-server does not get its port:\n%s", s.log)
	}
}

// listens waits until the server accepts connections; it is false when the
// server has ended because somebody else has its port.
func (s *RedisServer) listens() bool {
	s.tb.Helper()
	taken := false
	await(s.tb, "redis-server "+s.Addr+" listens", func() error {
		if !s.proc.running() {
			if taken = strings.Contains(s.log.String(), "in use"); taken {
				return nil
			}
			s.tb.Fatalf("redis-server ended:\n%s", s.log)
		}
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return !taken
}

func (s *RedisServer) waitReady() {
	s.tb.Helper()
	await(s.tb, "redis-server "+s.Addr+" answers", func() error {
		if !s.proc.running() {
			s.tb.Fatalf("redis-server ended before it was ready:\n%s", s.log)
		}
		return s.ping()
	})
}

// ping speaks to the server by hand, so that no client's idea of retries or
// handshakes is in between.
func (s *RedisServer) ping() error {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second) //nolint:noctx // it has a timeout
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err = conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err = conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	// A server that asks for a password answers, too.
	if line = strings.TrimSpace(line); line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return errors.New(line)
	}
	return nil
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end. It
// may be called at any time, also twice.
func (s *RedisServer) Kill() { s.end(syscall.SIGKILL) }

// Stop asks the server to stop (SIGTERM), which syncs its append-only file, and
// waits for its end.
func (s *RedisServer) Stop() { s.end(syscall.SIGTERM) }

func (s *RedisServer) end(sig syscall.Signal) {
	s.tb.Helper()
	if s.proc == nil {
		return
	}
	if err := s.proc.end(sig, readyIn); err != nil {
		s.tb.Errorf("redis-server: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// Pause stops the server with SIGSTOP: its connections stay open and nothing is
// answered until Resume.
func (s *RedisServer) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *RedisServer) Resume() { s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.proc.signal(sig); err != nil {
		s.tb.Fatalf("signal redis-server: %v", err)
	}
}

// Log returns the end of what the server has written.
func (s *RedisServer) Log() string { return s.log.String() }

// Client returns a plain client of the server for the test's own looks. It lives
// as long as this run of the server: after Start ask for another. Reads are
// repeated when a connection is lost, as in a fail-over, and nothing else. Its
// answers have the simple forms of RESP2.
func (s *RedisServer) Client() rueidis.Client {
	s.tb.Helper()
	client, err := s.connect()
	if err != nil {
		s.tb.Fatalf("connect to redis-server %s: %v", s.Addr, err)
	}
	return client
}

func (s *RedisServer) connect() (rueidis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
		ReadBufferEachConn: clientBuffer, WriteBufferEachConn: clientBuffer, ConnWriteTimeout: readyIn,
	})
	if err == nil {
		s.client = client
	}
	return client, err
}

const clientBuffer = 32 << 10

// Do sends one command, word by word as redis-cli takes it, and returns the
// answer; an error of the server is the message's Error.
func (s *RedisServer) Do(ctx context.Context, words ...string) rueidis.RedisResult {
	client, err := s.connect()
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	if reads(words) {
		return client.Do(ctx, client.B().Arbitrary(words...).ReadOnly())
	}
	return client.Do(ctx, client.B().Arbitrary(words...).Build())
}

// reads reports whether a command may be repeated after a lost connection: the
// server ends those of its clients when its role changes.
func reads(words []string) bool {
	switch strings.ToUpper(strings.Join(words[:min(2, len(words))], " ")) {
	case "CLUSTER INFO", "SENTINEL MASTER", "SENTINEL GET-MASTER-ADDR-BY-NAME":
		return true
	}
	switch strings.ToUpper(words[0]) {
	case "PING", "INFO", "GET", "STRLEN", "EXISTS", "TYPE", "TTL", "HGET", "HGETALL", "HLEN", "XLEN", "XRANGE", "XPENDING", "XINFO", "DBSIZE":
		return true
	}
	return false
}

// Must does the same and fails the test on an error. The answer is in text; an
// empty answer is empty, a list has a line for each entry.
func (s *RedisServer) Must(words ...string) string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), readyIn)
	defer cancel()
	msg, err := s.Do(ctx, words...).ToMessage()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		s.tb.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return text(&msg)
}

func text(msg *rueidis.RedisMessage) string {
	if n, err := msg.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if word, err := msg.ToString(); err == nil {
		return word
	}
	entries, err := msg.ToArray()
	if err != nil {
		return msg.String()
	}
	lines := make([]string, len(entries))
	for i := range entries {
		lines[i] = text(&entries[i])
	}
	return strings.Join(lines, "\n")
}

// Info returns one field of INFO, empty if there is none.
func (s *RedisServer) Info(field string) string {
	s.tb.Helper()
	return infoField(s.Must("INFO"), field)
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found && name == field {
			return value
		}
	}
	return ""
}

// AwaitInfo waits until a field of INFO has a value.
func (s *RedisServer) AwaitInfo(field, value string) {
	s.tb.Helper()
	await(s.tb, fmt.Sprintf("%s of redis-server %s is %s", field, s.Addr, value), func() error {
		if got := s.Info(field); got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}
