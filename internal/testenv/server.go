package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/auth"
)

// readyIn is how long a server may take to start on a busy machine.
const readyIn = 30 * time.Second

// Server is a running `doorbuster serve` on the embedded default in a folder of
// its own.
type Server struct {
	// URL and OpsURL are the addresses of the API and the ops listener. They
	// change when the server is started again.
	URL, OpsURL string
	// Dir is the data folder, kept over restarts.
	Dir string

	tb   testing.TB
	args []string
	env  []string
	cmd  *exec.Cmd
	done chan struct{}
	log  *tail
}

// Serve starts a server with further arguments of `doorbuster serve` and waits
// until it is ready. It is killed when the test ends.
func Serve(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return ServeIn(tb, tb.TempDir(), args...)
}

// ServeIn does the same in a given data folder.
func ServeIn(tb testing.TB, dir string, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, dir, args)
	s.Start()
	return s
}

func newServer(tb testing.TB, dir string, args []string) *Server {
	tb.Helper()
	s := &Server{tb: tb, Dir: dir, args: args, log: &tail{}}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("server log:\n%s", s.log)
		}
	})
	return s
}

// SetEnv adds environment entries ("NAME=value") for the next Start.
func (s *Server) SetEnv(entries ...string) { s.env = append(s.env, entries...) }

// Start starts the server again after Kill or Stop, on new ports, and waits
// until it is ready.
func (s *Server) Start() {
	s.tb.Helper()
	for _, name := range []string{"api.addr", "ops.addr"} {
		_ = os.Remove(filepath.Join(s.Dir, name))
	}
	args := append([]string{"serve", "--data-dir", s.Dir, "--api-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, s.args...)
	cmd := exec.Command(Binary(s.tb), args...) //nolint:gosec,noctx // our own binary; stopped by pid
	cmd.Env = append(plainEnvironment(), s.env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("start doorbuster: %v", err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // the exit code is read from ProcessState
		close(done)
	}(s.done)
	s.waitReady()
}

// plainEnvironment returns the environment without what would configure a
// server: a developer's own settings must not reach the one under test.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "DOORBUSTER_") })
}

func (s *Server) waitReady() {
	s.tb.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	for {
		select {
		case <-s.done:
			s.tb.Fatalf("doorbuster ended before it was ready:\n%s", s.log)
		case <-limit.C:
			s.tb.Fatalf("doorbuster is not ready after %v:\n%s", readyIn, s.log)
		case <-poll.C:
			if s.readAddresses() && s.ready() {
				return
			}
		}
	}
}

func (s *Server) readAddresses() bool {
	api, err := os.ReadFile(filepath.Join(s.Dir, "api.addr"))
	ops, opsErr := os.ReadFile(filepath.Join(s.Dir, "ops.addr"))
	if opsErr != nil || err != nil && s.isGate() {
		return false
	}
	s.URL = ""
	if err == nil {
		s.URL = "http://" + strings.TrimSpace(string(api))
	}
	s.OpsURL = "http://" + strings.TrimSpace(string(ops))
	return true
}

// isGate reports whether the server has an API.
func (s *Server) isGate() bool {
	i := slices.Index(s.args, "--roles")
	return i < 0 || strings.Contains(s.args[i+1], "gate")
}

func (s *Server) ready() bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get(s.OpsURL + "/readyz") //nolint:noctx // the client has a timeout
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end. It
// may be called at any time, also twice.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop asks the server to stop (SIGTERM), waits for its end, and returns its
// exit code.
func (s *Server) Stop() int {
	s.end(syscall.SIGTERM)
	return s.cmd.ProcessState.ExitCode()
}

// Pid returns the process id of the running server.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Signal sends a signal to the running server.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("signal doorbuster: %v", err)
	}
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		_ = s.cmd.Process.Kill()
		<-s.done
		s.tb.Errorf("doorbuster did not end within %v of %v", readyIn, sig)
	}
}

// AdminKey returns the API key, with every scope, that the first start wrote.
func (s *Server) AdminKey() string {
	s.tb.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, "admin.key"))
	if err != nil {
		s.tb.Fatalf("read the admin key: %v", err)
	}
	return strings.TrimSpace(string(raw))
}

// Token returns a buyer's token, signed with the development key of the server
// and valid for an hour.
func (s *Server) Token(user string) string {
	s.tb.Helper()
	secret, err := auth.ReadSecret(filepath.Join(s.Dir, "jwt.key"))
	if err != nil {
		s.tb.Fatalf("read the token key: %v", err)
	}
	now := time.Now()
	token, err := auth.Mint(secret, auth.Claims{
		User: user, Issuer: "doorbuster", Audience: "doorbuster", IssuedAt: now, Expires: now.Add(time.Hour),
	})
	if err != nil {
		s.tb.Fatalf("mint a token: %v", err)
	}
	return token
}

// Log returns the end of what the server has written.
func (s *Server) Log() string { return s.log.String() }

// tail keeps the last part of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailSize = 64 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() > 4*tailSize {
		keep := bytes.Clone(l.buf.Bytes()[l.buf.Len()-tailSize:])
		l.buf.Reset()
		_, _ = l.buf.Write(keep)
	}
	return l.buf.Write(p)
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buf.Bytes()
	if len(b) > tailSize {
		return fmt.Sprintf("… %s", b[len(b)-tailSize:])
	}
	return string(b)
}
