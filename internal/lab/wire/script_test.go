package wire

import (
	"bytes"
	"io"
	"net"
	"time"
)

// scripted is the other end of a connection: it takes any request and says what it
// was told to, in pieces.
type scripted struct {
	net.Conn
	said      bytes.Buffer // by us
	answer    []byte
	piece     int // bytes at once; 0: all
	deadlines int
}

func (s *scripted) Write(p []byte) (int, error) { return s.said.Write(p) }
func (s *scripted) SetDeadline(time.Time) error { s.deadlines++; return nil }
func (s *scripted) Close() error                { return nil }
func (s *scripted) Read(p []byte) (n int, err error) {
	if len(s.answer) == 0 {
		return 0, io.EOF
	}
	if s.piece > 0 && len(p) > s.piece {
		p = p[:s.piece]
	}
	n = copy(p, s.answer)
	s.answer = s.answer[n:]
	return n, nil
}

// hear reads one answer that comes in pieces.
func hear(answer string, piece int) (*Answer, error) {
	s := &scripted{answer: []byte(answer), piece: piece}
	c := newConn(s, s)
	var a Answer
	err := c.Do([]byte("GET / HTTP/1.1\r\n\r\n"), time.Now().Add(time.Minute), &a)
	return &a, err
}
