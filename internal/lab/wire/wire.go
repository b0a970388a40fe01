package wire

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Target is a server, as an address that can be dialed and a host that is asked
// for.
type Target struct {
	Addr   string      // host:port
	Host   string      // the Host header
	Prefix string      // path before every request's, without a slash at its end
	TLS    *tls.Config // nil: plain
}

// Answer is what a server said. Its slices are valid until the next request on the
// same connection.
type Answer struct {
	Status int
	Body   []byte
	// Of the header, what crowds look at; empty where there is none.
	Location     []byte
	RetryAfter   []byte
	ServerTiming []byte
	Receipt      []byte // Doorbuster-Receipt
	Replayed     bool   // Idempotency-Replayed: true
	Close        bool   // the server hangs up after this answer
}

// Conn is one kept connection. It is used by one goroutine.
type Conn struct {
	conn net.Conn
}

// Dial opens a connection.
func (t *Target) Dial(ctx context.Context) (*Conn, error) { panic("not yet") }

// Do writes a request, whole as it goes on the wire, and reads the answer into a.
// Both must be over at the deadline. After an error the connection is of no use.
func (c *Conn) Do(request []byte, deadline time.Time, a *Answer) error { panic("not yet") }

// Close hangs up.
func (c *Conn) Close() error { return c.conn.Close() }
