package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	readyIn    = 20 * time.Second // how long a server may take to start
	readyEvery = 10 * time.Millisecond
	graceTime  = 10 * time.Second // between asking the server to stop and killing it
	logName    = "server.log"
	logTail    = 4 << 10
)

// server is a `doorbuster serve` that this process has started and will stop.
type server struct {
	binary      string
	dir         string
	url, opsURL string
	cmd         *exec.Cmd
	done        chan struct{} // closed when the process has ended
}

// startServer starts a server in an empty folder, on the embedded default but for
// what the parts name, and waits until it is ready. The caller stops it, also if
// ctx ends.
func startServer(ctx context.Context, binary, dir string, parts ...string) (*server, error) {
	log, err := os.Create(filepath.Join(dir, logName)) //nolint:gosec // in a folder of our own
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	args := append([]string{"serve", "--data-dir", dir, "--api-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, parts...)
	cmd := exec.Command(binary, args...) //nolint:gosec,noctx // our own binary; it is stopped with a grace time
	// Neither the user's settings nor a file beside him may point the demo at a
	// real ledger.
	cmd.Env, cmd.Dir = plainEnvironment(), dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	s := &server{binary: binary, dir: dir, cmd: cmd, done: make(chan struct{})}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), s.stop(), s.logged())
	}
	return s, nil
}

// run starts the process and returns; done is closed at its end.
func (s *server) run() error {
	started := make(chan error, 1)
	go func() {
		// A child that is to be stopped when its parent dies is stopped when the
		// thread ends that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // the outcome is read from ProcessState
		}
	}()
	return <-started
}

// plainEnvironment is ours without the settings of doorbuster.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "DOORBUSTER_") })
}

func (s *server) waitReady(ctx context.Context) error {
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	poll := time.NewTicker(readyEvery)
	defer poll.Stop()
	for {
		select {
		case <-s.done:
			return fmt.Errorf("it ended: %v", s.cmd.ProcessState)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("it is not ready after %v", readyIn)
		case <-poll.C:
			if s.readAddresses() && s.ready(ctx) {
				return nil
			}
		}
	}
}

func (s *server) readAddresses() bool {
	api, err := s.read("api.addr")
	ops, opsErr := s.read("ops.addr")
	s.url, s.opsURL = "http://"+api, "http://"+ops
	return err == nil && opsErr == nil && api != "" && ops != ""
}

// read returns the text of a file that the server has written.
func (s *server) read(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, name)) //nolint:gosec // in a folder of our own
	return strings.TrimSpace(string(raw)), err
}

func (s *server) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.opsURL+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// stop asks the server to stop and waits for its end; a server that does not
// end within the grace time is killed. The error says if it did not end well.
func (s *server) stop() error {
	if err := askToEnd(s.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server: %w", err)
	}
	limit := time.NewTimer(graceTime)
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		_ = s.cmd.Process.Kill()
		<-s.done
		return fmt.Errorf("the server did not stop within %v and was killed", graceTime)
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended badly: %v", s.cmd.ProcessState)
	}
	return nil
}

// logged returns the end of the server's log as an error to be shown with
// another one.
func (s *server) logged() error {
	text, err := s.read(logName)
	if err != nil {
		return err
	}
	if text == "" {
		return errors.New("the server logged nothing")
	}
	if len(text) > logTail {
		text = "…" + text[len(text)-logTail:]
	}
	return fmt.Errorf("the end of the server's log:\n%s", text)
}
