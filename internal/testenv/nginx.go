package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/servers"
)

const installNginx = "sudo apt-get install -y nginx"

// NginxServer is a real nginx, in a folder of its own.
type NginxServer struct {
	tb   testing.TB
	dir  string
	proc *servers.Process
	log  *servers.Tail
}

// FreeAddr returns host:port of a loopback port on which nobody listens.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	port, err := servers.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return servers.Loopback(port)
}

// Nginx starts nginx with the text of an nginx.conf and waits until it listens on an
// address that is in it. What it writes, temporary files included, is in a folder of the
// test; it is killed when the test ends.
func Nginx(tb testing.TB, conf, addr string) *NginxServer {
	tb.Helper()
	s := &NginxServer{tb: tb, dir: tb.TempDir(), log: &servers.Tail{}}
	var places strings.Builder
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&places, "\n%s_temp_path %s;", what, filepath.Join(s.dir, what))
	}
	conf = strings.Replace(conf, "http {", "http {"+places.String(), 1)
	// Sockets of workers that are not there would take connections and never answer.
	conf = strings.Replace(conf, "worker_processes auto;", "worker_processes 1;", 1)
	if err := os.WriteFile(s.conf(), []byte(conf), 0o600); err != nil {
		tb.Fatalf("write nginx.conf: %v", err)
	}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("log of nginx:\n%s", s.log)
		}
	})
	s.Start(addr)
	return s
}

func (s *NginxServer) conf() string { return filepath.Join(s.dir, "nginx.conf") }

// Start starts nginx again after Kill and waits until it listens on an address.
func (s *NginxServer) Start(addr string) {
	s.tb.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		s.tb.Fatalf("nginx is missing; install it: %s", installNginx)
	}
	// One process and no other, so that none is left when it is killed.
	global := "daemon off; master_process off; pid " + filepath.Join(s.dir, "nginx.pid") + ";"
	cmd := exec.Command(path, "-p", s.dir, "-c", s.conf(), "-e", "stderr", "-g", global) //nolint:gosec,noctx // found in PATH; stopped by pid
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.proc, err = servers.Start(cmd, syscall.SIGKILL); err != nil {
		s.tb.Fatalf("start nginx: %v", err)
	}
	await(s.tb, "nginx listens on "+addr, func() error {
		if !s.proc.Running() {
			s.tb.Fatalf("nginx ended:\n%s", s.log)
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Kill ends nginx with SIGKILL and waits for its end. It may be called twice.
func (s *NginxServer) Kill() {
	s.tb.Helper()
	if s.proc == nil {
		return
	}
	if err := s.proc.End(syscall.SIGKILL, servers.ReadyIn); err != nil {
		s.tb.Errorf("nginx: %v", err)
	}
}

// Log returns the end of what nginx has written.
func (s *NginxServer) Log() string { return s.log.String() }
