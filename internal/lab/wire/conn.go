package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// The errors that Do wraps, beside os.ErrDeadlineExceeded and those of the network.
var (
	// ErrAnswer says that what the server sent is no HTTP/1.1 answer, or one of a
	// kind or size that is not read.
	ErrAnswer = errors.New("the answer cannot be read")
	// ErrHungUp says that the server closed the connection before its answer was
	// whole.
	ErrHungUp = errors.New("the server hung up")
	// ErrUnanswered says besides that nothing of an answer had come: it may be that
	// the server has not even read the request.
	ErrUnanswered = fmt.Errorf("%w before it answered", ErrHungUp)
)

const (
	// firstBuffer holds nearly every answer of a shop.
	firstBuffer = 4 << 10
	// keptBuffer is the largest buffer that is kept for the next answer.
	keptBuffer = 64 << 10
	// rearm is how far the deadline may move before the network is told.
	rearm = 250 * time.Millisecond
)

// Conn is one kept connection. It is used by one goroutine; only Close may be
// called by another.
type Conn struct {
	conn    net.Conn
	beneath net.Conn // without TLS
	// exact says that a deadline must not pass before its time: a TLS connection
	// is of no use after that, a plain one is.
	exact bool
	armed time.Time // the deadline that the network knows
	until time.Time // the deadline of the answer being read

	socket socket // beneath a plain connection

	buf  []byte
	r, w int // buf[r:w] is read and not parsed
	keep int // buf[keep:r] is of no use any more
}

func newConn(conn, beneath net.Conn) *Conn {
	c := &Conn{conn: conn, beneath: beneath, exact: conn != beneath, buf: make([]byte, firstBuffer)}
	c.socket.open(c)
	return c
}

// Usable looks, without waiting, whether a connection that stood idle still is one:
// not if the server has hung up, or has said what nobody asked for. What it cannot
// look at it takes to be usable.
func (c *Conn) Usable() bool {
	bare, ok := c.beneath.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := bare.SyscallConn()
	if err != nil {
		return false
	}
	usable := true
	err = raw.Control(func(fd uintptr) {
		waiting, open := peek(fd)
		// TLS has things of its own to say.
		usable = open && (!waiting || c.exact)
	})
	return err == nil && usable
}

// Do writes a request, whole as it goes on the wire, and reads the answer into a.
// Both must be over at the deadline. After an error the connection is of no use.
// The request must not be a HEAD, whose answer has a length and no body.
func (c *Conn) Do(request []byte, deadline time.Time, a *Answer) error {
	*a = Answer{}
	c.r, c.w, c.keep = 0, 0, 0
	if len(c.buf) > keptBuffer {
		c.buf = make([]byte, firstBuffer)
	}
	if err := c.limit(deadline); err != nil {
		return err
	}
	rest, err := c.socket.send(request)
	if err == nil || c.early(err) {
		err = c.write(rest)
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := c.read(a); err != nil {
		return err
	}
	if c.r < c.w {
		return fmt.Errorf("%w: %d bytes follow it that nobody asked for", ErrAnswer, c.w-c.r)
	}
	return nil
}

// Close hangs up. A Do that is under way ends with an error.
func (c *Conn) Close() error { return c.conn.Close() }

// limit sets the deadline. Each request's is a little later than that of the one
// before, and telling the network costs time, so it is told now and then; what it
// breaks off too early goes on.
func (c *Conn) limit(deadline time.Time) error {
	c.until = deadline
	moved := deadline.Sub(c.armed)
	if moved >= 0 && moved <= rearm && (!c.exact || moved == 0) {
		return nil
	}
	return c.arm()
}

func (c *Conn) arm() error {
	c.armed = c.until
	return c.conn.SetDeadline(c.until)
}

// early reports whether err is a deadline that passed before its time, and mends
// it.
func (c *Conn) early(err error) bool {
	return !c.exact && c.armed.Before(c.until) && errors.Is(err, os.ErrDeadlineExceeded) && c.arm() == nil
}

func (c *Conn) write(request []byte) error {
	for len(request) > 0 {
		n, err := c.conn.Write(request)
		if err == nil || !c.early(err) {
			return err
		}
		request = request[n:]
	}
	return nil
}

// fill reads what has come. An answer that is longer than most needs more room.
func (c *Conn) fill() error {
	if c.w == len(c.buf) {
		c.makeRoom()
	}
	if err := c.socket.end(); err != nil && !c.early(err) {
		return err
	}
	for {
		n, err := c.conn.Read(c.buf[c.w:])
		if n > 0 {
			c.w += n
			return nil
		}
		if err != nil && !c.early(err) {
			return err
		}
	}
}

// makeRoom moves what is not parsed over what is of no use, or else doubles the
// buffer. What has been handed out of the old one stays as it is.
func (c *Conn) makeRoom() {
	if c.keep < c.r {
		c.w = c.keep + copy(c.buf[c.keep:], c.buf[c.r:c.w])
		c.r = c.keep
		return
	}
	c.grow(2 * len(c.buf))
}

func (c *Conn) grow(size int) {
	larger := make([]byte, size)
	copy(larger, c.buf[:c.w])
	c.buf = larger
}

// need reads until n bytes are there to be parsed.
func (c *Conn) need(n int) error {
	// One byte more, so that one too many is seen.
	if c.r+n+1 > len(c.buf) {
		if c.keep < c.r {
			c.makeRoom()
		}
		if c.r+n+1 > len(c.buf) {
			c.grow(max(2*len(c.buf), c.r+n+1))
		}
	}
	for c.w-c.r < n {
		if err := c.fill(); err != nil {
			return cut(err)
		}
	}
	return nil
}

// cut says what an end in the middle of an answer means.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w in the middle of an answer", ErrHungUp)
	}
	return fmt.Errorf("read the answer: %w", err)
}
