package testenv

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	gone           chan struct{} // closed by the end of either side
	once           sync.Once
	doomed         atomic.Pointer[loss] // the replies get lost, and then the connection
}

// serve is the life of one connection.
func (p *Proxy) serve(accepted net.Conn) {
	client, ok := accepted.(*net.TCPConn)
	if !ok {
		_ = accepted.Close()
		return
	}
	dialed, err := net.DialTimeout("tcp", p.target, dialIn) //nolint:noctx // it has a timeout
	server, ok := dialed.(*net.TCPConn)
	if err != nil || !ok {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, gone: make(chan struct{})}
	p.mu.Lock()
	cut := p.listener == nil
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if cut { // accepted just before
		l.reset()
	}
	p.work.Go(l.replies)
	l.requests()
}

// requests carries requests to the server, one by one, until either side ends.
func (l *link) requests() {
	defer l.hangUp()
	r := bufio.NewReaderSize(l.client, pieceSize)
	read, err := protocol(r)
	if err != nil {
		return
	}
	for {
		request, err := read(r)
		if err != nil || !l.proxy.wait(Requests, l.gone) {
			return
		}
		if lost := l.proxy.take(Requests, request); lost != nil {
			l.reset()
			lost.announce()
			return
		}
		lost := l.proxy.take(Replies, request)
		if lost != nil {
			l.doomed.Store(lost)
		}
		l.proxy.trap(request)
		if _, err = l.server.Write(request); err != nil {
			return
		}
		l.proxy.forwarded(request)
		if lost != nil {
			// The server executes what it has been sent, finds the end, and hangs
			// up: that is how replies knows.
			_ = l.server.CloseWrite()
			<-l.gone
			return
		}
	}
}

// replies carries what the server says to the client.
func (l *link) replies() {
	buf := make([]byte, pieceSize)
	for {
		n, err := l.server.Read(buf)
		if lost := l.doomed.Load(); lost != nil {
			if err == nil {
				continue
			}
			l.reset()
			lost.announce()
			return
		}
		if err == nil && l.proxy.wait(Replies, l.gone) {
			_, err = l.client.Write(buf[:n])
		}
		if err != nil {
			l.hangUp()
			return
		}
	}
}

// hangUp ends the connection in order. What is on its way to a client arrives.
// The link is off the proxy's list before either side can see the end.
func (l *link) hangUp() {
	l.once.Do(func() {
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
		close(l.gone)
	})
	_ = l.client.Close()
	_ = l.server.Close()
}

// reset ends the connection with a reset towards the client.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	l.hangUp()
}

// dialIn is how long a server on the same machine may take to accept.
const dialIn = 5 * time.Second

// pieceSize is the most that is read at once.
const pieceSize = 64 << 10
