package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nullAnswer is what the null server says to everything: a refusal as the real
// server words it.
var nullAnswer = func() []byte {
	body := `{"type":"about:blank","title":"Sold out","status":409,"detail":"No unit is free.","code":"sold_out","hint":"Come again when units return."}`
	return fmt.Appendf(nil, "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nDate: Mon, 30 Nov 2026 09:00:00 GMT\r\n"+
		"Server-Timing: gate;dur=0.012, engine;dur=0.003\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}()

// nullServer answers on one thread, without the runtime's help: an event loop over
// what has come. It believes that a request comes in one piece, as a crowd sends it.
type nullServer struct {
	listener, epoll int
	buffer          []byte
}

func newNullServer() (*nullServer, error) {
	s := &nullServer{buffer: make([]byte, 64<<10)}
	var err error
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err = unix.Bind(s.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	if err = unix.Listen(s.listener, 4096); err != nil {
		return nil, err
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	return s, s.watch(s.listener)
}

func (s *nullServer) watch(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}) //nolint:gosec // a file's number
}

func (s *nullServer) address() (string, error) {
	name, err := unix.Getsockname(s.listener)
	if err != nil {
		return "", err
	}
	inet, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return "", fmt.Errorf("the listener's address is %v", name)
	}
	return "127.0.0.1:" + strconv.Itoa(inet.Port), nil
}

// serve answers until it fails.
func (s *nullServer) serve() error {
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
		for _, e := range events[:max(0, n)] {
			if int(e.Fd) == s.listener {
				err = s.accept()
			} else {
				err = s.answer(int(e.Fd))
			}
			if err != nil {
				return err
			}
		}
	}
}

func (s *nullServer) accept() error {
	fd, _, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return s.watch(fd)
}

func (s *nullServer) answer(fd int) error {
	n, err := unix.Read(fd, s.buffer)
	if n <= 0 || err != nil {
		return unix.Close(fd) // the crowd has hung up
	}
	if !bytes.HasSuffix(s.buffer[:n], []byte(attemptBody)) {
		return fmt.Errorf("a request came in pieces: %.200q", s.buffer[:n])
	}
	_, err = unix.Write(fd, nullAnswer)
	return err
}

// TestNullServer is the null server's own process, when a benchmark starts it: it
// prints its address and ends with its input.
func TestNullServer(t *testing.T) {
	t.Parallel()
	if os.Getenv(roleVariable) != "null" {
		t.Skip("a part of BenchmarkGeneratorCeiling")
	}
	s, err := newNullServer()
	require.NoError(t, err)
	address, err := s.address()
	require.NoError(t, err)
	_, _ = fmt.Fprintln(os.Stdout, address)
	failed := make(chan error, 1)
	go func() { failed <- s.serve() }()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case err := <-failed:
		t.Fatal(err)
	case <-ended:
	}
}

// startNull starts a null server and returns it and its URL.
func startNull(b *testing.B) (null *role, url string) {
	b.Helper()
	r := startRole(b, "null")
	require.NoError(b, r.out.SetReadDeadline(time.Now().Add(time.Minute)))
	address, err := bufio.NewReader(r.out).ReadString('\n')
	require.NoError(b, err)
	return r, "http://" + strings.TrimSpace(address)
}
