package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// process is a server program under test. It is stopped by its pid and dies with
// the test process, however that ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended
}

// spawn starts a command. The signal that a dead parent sends follows the thread
// that started the child, so this thread is kept until the child has ended.
func spawn(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is asked of the log, by people
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// running reports whether the program has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal; to a program that has ended it does nothing.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// end sends a signal and waits for the end. A program that does not obey is
// killed, and that is an error.
func (p *process) end(sig syscall.Signal, limit time.Duration) error {
	if err := p.signal(sig); err != nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("process %d did not end within %v of %v", p.cmd.Process.Pid, limit, sig)
	}
}

// program finds an executable, in the places given or in PATH. One that is
// missing fails the test and says how to install it.
func program(tb testing.TB, name, install string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("%s is missing; install it: %s", name, install)
	}
	return path
}

// await asks a condition every few milliseconds until it holds or the time is
// up; then the test fails with what was waited for and the last reason.
func await(tb testing.TB, what string, check func() error) {
	tb.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-limit.C:
			tb.Fatalf("%s: not within %v: %v", what, readyIn, err)
		case <-poll.C:
		}
	}
}

// Ports of servers that are started again on the same port come from below the
// range from which the system serves outgoing connections: such a connection
// could take the port in between, or, dialing it, connect to itself.
const (
	lowestPort  = 12_000
	highestPort = 22_000
	// busDistance is how far above its port a node of a cluster talks to others.
	busDistance = 10_000
)

// redisPort returns a loopback port that nobody listens on, and whose cluster bus
// is free as well.
func redisPort(tb testing.TB) int {
	tb.Helper()
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		if canListen(port) && canListen(port+busDistance) {
			return port
		}
	}
	tb.Fatal("no loopback port is free")
	return 0
}

func canListen(port int) bool {
	l, err := net.Listen("tcp", loopback(port)) //nolint:noctx // a listener is made at once
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
