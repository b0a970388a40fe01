package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/servers"
)

// RedisServer is a real redis-server on a loopback port, in a folder of its own.
// Port and folder stay over restarts.
type RedisServer struct {
	*servers.Redis

	tb testing.TB

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
	s.Env = env
	s.Start()
	return s
}

// ReplicaOf returns the setting that makes a server the replica of another.
func ReplicaOf(primary *RedisServer) string {
	return fmt.Sprintf("replicaof 127.0.0.1 %d", primary.Port)
}

func newRedis(tb testing.TB, settings []string) *RedisServer {
	tb.Helper()
	s := &RedisServer{tb: tb, Redis: servers.NewRedis(tb.TempDir(), append([]string{
		"enable-debug-command local",
		// A replica is ready at once, not after five seconds of waiting for others.
		"repl-diskless-sync-delay 0", "repl-ping-replica-period 1",
	}, settings...)...)}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("log of redis-server %s:\n%s", s.Addr, s.Log())
		}
	})
	return s
}

// must fails the test on an error and shows what the server has written.
func (s *RedisServer) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("redis-server: %v\n%s", err, s.Log())
	}
}

// Configure adds lines to the configuration that the next Start reads.
func (s *RedisServer) Configure(settings ...string) {
	s.tb.Helper()
	s.must(s.Redis.Configure(settings...))
}

// Start starts the server again after Kill or Stop, on the same port and with
// what its folder holds, and waits until it answers.
func (s *RedisServer) Start() {
	s.tb.Helper()
	s.must(s.Redis.Start(s.tb.Context()))
}

// Begin does what Start does, but does not wait: the server may not listen yet,
// or may be loading.
func (s *RedisServer) Begin() {
	s.tb.Helper()
	s.must(s.Redis.Begin())
}

// AwaitListening waits after Begin until the server accepts connections. It may
// still be loading.
func (s *RedisServer) AwaitListening() {
	s.tb.Helper()
	s.must(s.Redis.AwaitListening(s.tb.Context()))
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end. It
// may be called at any time, also twice.
func (s *RedisServer) Kill() { s.end(syscall.SIGKILL) }

// Stop asks the server to stop (SIGTERM), which syncs its append-only file, and
// waits for its end.
func (s *RedisServer) Stop() { s.end(syscall.SIGTERM) }

func (s *RedisServer) end(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.End(sig); err != nil {
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
func (s *RedisServer) Pause() { s.must(s.Signal(syscall.SIGSTOP)) }

// Resume lets a paused server go on.
func (s *RedisServer) Resume() { s.must(s.Signal(syscall.SIGCONT)) }

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
		ReadBufferEachConn: clientBuffer, WriteBufferEachConn: clientBuffer, ConnWriteTimeout: servers.ReadyIn,
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
	ctx, cancel := context.WithTimeout(s.tb.Context(), servers.ReadyIn)
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
