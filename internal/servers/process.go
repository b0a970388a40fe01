package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that this one has started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended
}

// Start starts a command in a group of its own, so that Ctrl-C, which the terminal
// sends to a whole group, does not reach it: who started it stops it in order. last
// is the signal that it gets when this process dies in whatever way; only Linux
// keeps that promise, elsewhere the program stays.
func Start(cmd *exec.Cmd, last syscall.Signal) (*Process, error) {
	cmd.SysProcAttr = ownGroup(last)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal of a dead parent follows the thread that started the child, so
		// this thread is kept until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is read from ProcessState
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// State tells how the program has ended; it is to be asked after Done.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Signal sends a signal; to a program that has ended it does nothing.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop asks the program to end in order and waits as End does.
func (p *Process) Stop(limit time.Duration) error {
	if err := askToEnd(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.await(limit)
}

// End sends a signal and waits for the end. A program that does not obey within the
// limit is killed, and that is an error.
func (p *Process) End(sig os.Signal, limit time.Duration) error {
	if err := p.Signal(sig); err != nil {
		return err
	}
	return p.await(limit)
}

func (p *Process) await(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("process %d did not end within %v and was killed", p.Pid(), limit)
	}
}
