//go:build unix

package wire

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// socket is what lies beneath a plain connection. A request is written to it while
// its readiness is awaited, so that the answer is read when it comes: net.Conn would
// look for it first, in vain, once for every request. What came before that is not
// seen until more comes, so a connection that stood is to be looked at: see Usable.
type socket struct {
	conn *Conn
	raw  syscall.RawConn // nil: nothing can be done here
	turn func(fd uintptr) bool

	rest    []byte // of the request
	waiting bool   // it is written
	failed  error  // of a write
	ended   error  // instead of an answer
}

func (s *socket) open(c *Conn) {
	bare, ok := c.conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := bare.SyscallConn()
	if err != nil {
		return
	}
	s.conn, s.raw, s.turn = c, raw, s.take
}

// send writes a request, waits for the answer's beginning, and reads it into the
// buffer. It returns what is left to be written, where that did not go at once.
func (s *socket) send(request []byte) (rest []byte, err error) {
	if s.raw == nil {
		return request, nil
	}
	s.rest, s.waiting, s.failed, s.ended = request, false, nil, nil
	err = s.raw.Read(s.turn)
	if s.waiting { // all is written, and what went wrong is about the answer
		if s.ended == nil {
			s.ended = err
		}
		return nil, nil
	}
	if err == nil {
		err = s.failed
	}
	return s.rest, err
}

// end returns what came instead of an answer, once.
func (s *socket) end() error {
	err := s.ended
	s.ended = nil
	return err
}

// take is called first when the network has forgotten whether there is something to
// read, and then whenever there is. It reports whether it is done.
func (s *socket) take(fd uintptr) (done bool) {
	if !s.waiting {
		n, err := again(func() (int, error) { return syscall.Write(int(fd), s.rest) })
		s.rest, s.failed = s.rest[max(n, 0):], os.NewSyscallError("write", err)
		s.waiting = err == nil && len(s.rest) == 0
		return !s.waiting
	}
	c := s.conn
	n, err := again(func() (int, error) { return syscall.Read(int(fd), c.buf[c.w:]) })
	switch {
	case n > 0:
		c.w += n
	case err != nil:
		s.ended = os.NewSyscallError("read", err)
	case n == 0:
		s.ended = io.EOF
	default:
		return false // it was for nothing
	}
	return true
}

// again makes a call that a signal has interrupted once more. One that would block
// has done nothing, and returns -1.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EAGAIN):
			return -1, nil
		case !errors.Is(err, syscall.EINTR):
			return 0, err
		}
	}
}
