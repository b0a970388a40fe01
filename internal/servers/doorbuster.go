package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// graceTime is the time between asking a doorbuster to stop and killing it.
const graceTime = 10 * time.Second

// Doorbuster is a `doorbuster serve` in a data folder of its own. It is used by one
// goroutine.
type Doorbuster struct {
	// URL and OpsURL are the addresses of the API and the ops listener; the first is
	// empty without the role gate. They change when the server is started again.
	URL, OpsURL string

	// What the next Start takes.
	Binary string
	Dir    string   // the data folder, kept over restarts
	Args   []string // further arguments of `doorbuster serve`
	Env    []string // entries ("NAME=value") of its environment beside our plain one
	Out    io.Writer

	*Process // nil before the first Start
}

// Start starts the server, on new ports, and waits until it is ready.
func (s *Doorbuster) Start(ctx context.Context) error {
	for _, name := range []string{"api.addr", "ops.addr"} {
		_ = os.Remove(filepath.Join(s.Dir, name))
	}
	args := append([]string{"serve", "--data-dir", s.Dir, "--api-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, s.Args...)
	cmd := exec.Command(s.Binary, args...) //nolint:gosec,noctx // our own binary; it is stopped with a grace time
	// Neither the user's settings nor a file beside him may point the server at a
	// real ledger.
	cmd.Env, cmd.Dir = append(PlainEnvironment(), s.Env...), s.Dir
	cmd.Stdout, cmd.Stderr = s.Out, s.Out
	var err error
	if s.Process, err = Start(cmd, syscall.SIGTERM); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err = Await(ctx, "the server is ready", s.ready); err == nil {
		return nil
	}
	err = fmt.Errorf("start the server: %w", err)
	if s.Running() {
		err = errors.Join(err, s.Stop())
	}
	return err
}

// PlainEnvironment is ours without the settings of doorbuster.
func PlainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "DOORBUSTER_") })
}

// ready says what a server that was just started still lacks.
func (s *Doorbuster) ready() error {
	if !s.Running() {
		return fmt.Errorf("%w: %v", ErrEnded, s.State())
	}
	api, err := s.Read("api.addr")
	ops, opsErr := s.Read("ops.addr")
	if opsErr != nil || err != nil && s.isGate() {
		return errors.Join(opsErr, err)
	}
	s.URL, s.OpsURL = "", "http://"+ops
	if err == nil {
		s.URL = "http://" + api
	}
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get(s.OpsURL + "/readyz") //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}

// isGate reports whether the server has an API.
func (s *Doorbuster) isGate() bool {
	i := slices.Index(s.Args, "--roles")
	return i < 0 || strings.Contains(s.Args[i+1], "gate")
}

// Read returns the text of a file that the server has written to its folder.
func (s *Doorbuster) Read(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(s.Dir, name)) //nolint:gosec // in the server's folder
	return strings.TrimSpace(string(raw)), err
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end. It
// may be called at any time, also twice.
func (s *Doorbuster) Kill() error {
	if s.Process == nil {
		return nil
	}
	return s.End(os.Kill, ReadyIn)
}

// Stop asks the server to stop and waits for its end; a server that does not end
// within a grace time is killed. The error says if it did not end well.
func (s *Doorbuster) Stop() error {
	if s.Process == nil {
		return nil
	}
	if err := s.Process.Stop(graceTime); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	if !s.State().Success() {
		return fmt.Errorf("the server ended badly: %v", s.State())
	}
	return nil
}
