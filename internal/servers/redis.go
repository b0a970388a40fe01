package servers

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
	"syscall"
	"time"
)

const installRedis = "sudo apt-get install -y redis-server"

// Redis is a redis-server on a loopback port, in a folder of its own. Port and
// folder stay over restarts. It is used by one goroutine.
type Redis struct {
	Addr string // host:port; empty before the first start
	URL  string // redis://host:port
	Port int
	Dir  string // its folder: redis.conf, append-only file, snapshot, nodes.conf

	// What the next Start takes.
	Settings []string // lines of redis.conf; see NewRedis
	Args     []string // further words of the command line
	Env      []string // further entries of the environment

	proc *Process
	log  Tail
}

// NewRedis returns a server that is not started yet, in a folder that is there.
// Settings are lines of redis.conf, such as "maxmemory 4mb"; they come after what the
// product asks of a server: an append-only file, synced every second, and no eviction.
func NewRedis(dir string, settings ...string) *Redis {
	return &Redis{Dir: dir, Settings: append([]string{
		"bind 127.0.0.1", "daemonize no", "save \"\"",
		"appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction",
	}, settings...)}
}

// Start starts the server and waits until it answers. The first start looks for a
// port that is free, later ones take the same and what the folder holds.
func (s *Redis) Start(ctx context.Context) error {
	if s.Port != 0 {
		return s.launch(ctx)
	}
	err := errTaken
	for range bindAttempts {
		if err = s.move(); err != nil {
			return err
		}
		if err = s.launch(ctx); !errors.Is(err, errTaken) {
			return err
		}
	}
	return err
}

// move gives the server a port and writes its configuration; a server may rewrite
// that file later, as after a fail-over.
func (s *Redis) move() error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	s.Port, s.Addr, s.URL = port, Loopback(port), "redis://"+Loopback(port)
	lines := append([]string{"port " + strconv.Itoa(port), fmt.Sprintf("dir %q", s.Dir)}, s.Settings...)
	return os.WriteFile(s.conf(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (s *Redis) conf() string { return filepath.Join(s.Dir, "redis.conf") }

// Configure adds lines to the configuration that the next start reads.
func (s *Redis) Configure(settings ...string) error {
	f, err := os.OpenFile(s.conf(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
	return errors.Join(err, f.Close())
}

func (s *Redis) launch(ctx context.Context) error {
	if err := s.Begin(); err != nil {
		return err
	}
	err := s.AwaitListening(ctx)
	if err == nil {
		err = Await(ctx, s.name()+" answers", s.ping)
	}
	if err != nil {
		return errors.Join(err, s.End(syscall.SIGKILL))
	}
	return nil
}

func (s *Redis) name() string { return "redis-server " + s.Addr }

// Begin starts a server that has been started before and does not wait: it may not
// listen yet, or may be loading.
func (s *Redis) Begin() error {
	path, err := program("redis-server", installRedis)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, append([]string{s.conf()}, s.Args...)...) //nolint:gosec,noctx // found in PATH; stopped by pid
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, &s.log, &s.log
	cmd.Env = append(os.Environ(), s.Env...)
	if s.proc, err = Start(cmd, syscall.SIGKILL); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	return nil
}

// AwaitListening waits after Begin until the server accepts connections. It may
// still be loading.
func (s *Redis) AwaitListening(ctx context.Context) error {
	return Await(ctx, s.name()+" listens", func() error {
		if err := s.alive(); err != nil {
			return err
		}
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// alive says why the server has ended, if it has.
func (s *Redis) alive() error {
	if s.proc.Running() {
		return nil
	}
	if strings.Contains(s.log.String(), "in use") {
		return fmt.Errorf("%s: %w", s.name(), errTaken)
	}
	return fmt.Errorf("%s: %w:\n%s", s.name(), ErrEnded, &s.log)
}

// ping speaks to the server by hand, so that no client's idea of retries or
// handshakes is in between.
func (s *Redis) ping() error {
	if err := s.alive(); err != nil {
		return err
	}
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

// End sends a signal and waits for the end: SIGKILL is a crash, SIGTERM syncs the
// append-only file. It may be called at any time, also twice.
func (s *Redis) End(sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	return s.proc.End(sig, ReadyIn)
}

// Signal sends a signal to a server that was started.
func (s *Redis) Signal(sig syscall.Signal) error { return s.proc.Signal(sig) }

// Log returns the end of what the server has written.
func (s *Redis) Log() string { return s.log.String() }
