package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/servers"
)

// Server is a running `doorbuster serve` on the embedded default in a folder of
// its own.
type Server struct {
	*servers.Doorbuster

	tb  testing.TB
	log servers.Tail
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
	s := &Server{tb: tb}
	s.Doorbuster = &servers.Doorbuster{Binary: Binary(tb), Dir: dir, Args: args, Out: &s.log}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("server log:\n%s", s.Log())
		}
	})
	return s
}

// SetEnv adds environment entries ("NAME=value") for the next Start.
func (s *Server) SetEnv(entries ...string) { s.Env = append(s.Env, entries...) }

// Start starts the server again after Kill or Stop, on new ports, and waits
// until it is ready.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.Doorbuster.Start(s.tb.Context()); err != nil {
		s.tb.Fatalf("%v\n%s", err, s.Log())
	}
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end. It
// may be called at any time, also twice.
func (s *Server) Kill() {
	if err := s.Doorbuster.Kill(); err != nil {
		s.tb.Errorf("doorbuster: %v", err)
	}
}

// Stop asks the server to stop (SIGTERM), waits for its end, and returns its
// exit code.
func (s *Server) Stop() int {
	if err := s.End(syscall.SIGTERM, servers.ReadyIn); err != nil {
		s.tb.Errorf("doorbuster: %v", err)
	}
	return s.State().ExitCode()
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
