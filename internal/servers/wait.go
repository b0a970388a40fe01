package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const (
	// ReadyIn is how long a server may take to start, or to end, on a busy machine.
	ReadyIn = 30 * time.Second
	askEach = 5 * time.Millisecond
)

// Await asks a condition every few milliseconds until it holds. After ReadyIn, or
// when ctx ends, the error tells what was waited for and the last reason.
func Await(ctx context.Context, what string, check func() error) error {
	poll := time.NewTicker(askEach)
	defer poll.Stop()
	limit := time.NewTimer(ReadyIn)
	defer limit.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrEnded) || errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-limit.C:
			return fmt.Errorf("%s: not within %v: %w", what, ReadyIn, err)
		case <-poll.C:
		}
	}
}

// What waiting longer does not change.
var (
	ErrEnded = errors.New("it has ended before it was ready")
	errTaken = errors.New("somebody else has its port")
)

// MissingError says that a program is not installed.
type MissingError struct {
	Program string
	Install string // the command that installs it on Debian
}

func (e *MissingError) Error() string { return e.Program + " is not installed" }

// Hint says what to do.
func (e *MissingError) Hint() string { return "install it with: " + e.Install }

// program finds an executable in PATH.
func program(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingError{Program: name, Install: install}
	}
	return path, nil
}
