package servers

import (
	"bytes"
	"fmt"
	"sync"
)

const tailSize = 64 << 10

// Tail keeps the last part of what is written to it. The zero value is empty.
type Tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps p.
func (l *Tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() > 4*tailSize {
		keep := bytes.Clone(l.buf.Bytes()[l.buf.Len()-tailSize:])
		l.buf.Reset()
		_, _ = l.buf.Write(keep)
	}
	return l.buf.Write(p)
}

// String returns what is kept.
func (l *Tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buf.Bytes()
	if len(b) > tailSize {
		return fmt.Sprintf("… %s", b[len(b)-tailSize:])
	}
	return string(b)
}
