package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/doorbuster/doorbuster/internal/servers"
)

const (
	logName = "server.log"
	logTail = 4 << 10
)

// server is a `doorbuster serve` that this process has started and will stop.
type server struct {
	*servers.Doorbuster
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
	s := &server{Doorbuster: &servers.Doorbuster{Binary: binary, Dir: dir, Args: parts, Out: log}}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.logged())
	}
	return s, nil
}

// logged returns the end of the server's log as an error to be shown with
// another one.
func (s *server) logged() error {
	text, err := s.Read(logName)
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
