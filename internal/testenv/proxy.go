package testenv

import (
	"bytes"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doorbuster/doorbuster/internal/servers"
)

// Direction is one half of a connection.
type Direction int

// The directions.
const (
	Requests Direction = iota // from the client to the server
	Replies                   // from the server to the client
)

// Proxy stands in front of a server and is as unreliable as a network can be, at
// the moments that the test chooses. It knows just enough of the protocols of
// Redis and PostgreSQL to tell where a request ends; any other protocol is taken
// piece by piece as it arrives. It works on plain connections, without TLS.
//
// Every fault returns a channel or has one, so that a test waits for the moment
// and not for some time.
type Proxy struct {
	Addr string // host:port; it stays over Cut and Pass

	tb     testing.TB
	target string
	work   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	links    map[*link]struct{}
	gates    [2]gate
	losses   [2][]*loss
	watches  []*watch
	traps    []*watch // replies are held from their requests on
}

// gate holds back one direction.
type gate struct {
	open  chan struct{} // closed when what is held may go on; nil while nothing is held
	held  *watch
	delay time.Duration
}

// loss is a number of messages that shall get lost.
type loss struct {
	*watch
	left int
}

// watch waits for a request with some bytes in it.
type watch struct {
	match []byte
	seen  chan struct{}
}

// NewProxy starts a proxy in front of an address, host:port. It ends with the
// test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	port, err := servers.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, target: target, Addr: servers.Loopback(port), links: make(map[*link]struct{})}
	p.listen()
	tb.Cleanup(func() {
		p.Cut()
		p.work.Wait()
	})
	return p
}

// Pass ends every fault: the proxy listens again, what was held goes on, nothing
// more gets lost.
func (p *Proxy) Pass() {
	p.tb.Helper()
	p.mu.Lock()
	for i := range p.gates {
		if p.gates[i].open != nil {
			close(p.gates[i].open)
		}
		p.gates[i] = gate{}
		p.losses[i] = nil
	}
	p.traps = nil
	closed := p.listener == nil
	p.mu.Unlock()
	if closed {
		p.listen()
	}
}

// Cut resets every connection and refuses new ones, as a server that is gone
// does, until Pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	open := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	for _, l := range open {
		l.reset()
	}
}

// Hold keeps back what goes in one direction, on old and new connections, until
// Pass. With Requests the server sees nothing; with Replies it does its work and
// nobody hears of it. The channel is closed when the first message is held.
func (p *Proxy) Hold(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &watch{seen: make(chan struct{})}
	p.gates[d].shut()
	p.gates[d].held = w
	return w.seen
}

// shut holds back what comes from now on.
func (g *gate) shut() {
	if g.open == nil {
		g.open = make(chan struct{})
	}
}

// HoldBehind holds Replies, as Hold does, from the moment on at which the next request
// with the bytes of match is handed to the server: what a client needs before it can
// ask, as the greeting of a new connection, still comes through. The channel is closed
// when the server has been sent that request.
func (p *Proxy) HoldBehind(match string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &watch{match: []byte(match), seen: make(chan struct{})}
	p.traps = append(p.traps, w)
	p.watches = append(p.watches, w)
	return w.seen
}

// Delay lets every message of one direction wait before it goes on; 0 ends that.
func (p *Proxy) Delay(d Direction, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gates[d].delay = wait
}

// Lose loses the next n requests that hold the bytes of match (every one does if
// it is empty), or the replies to them, and resets their connections. A lost
// request has not reached the server. A request whose reply gets lost has been
// executed to its end, with everything sent before it on its connection, when
// the client sees the reset. The channel is closed after the n-th.
func (p *Proxy) Lose(d Direction, n int, match string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &loss{watch: &watch{match: []byte(match), seen: make(chan struct{})}, left: n}
	p.losses[d] = append(p.losses[d], l)
	return l.seen
}

// DropReplies loses the replies to the next n requests, whatever they are: the
// greeting of a new connection counts, too.
func (p *Proxy) DropReplies(n int) <-chan struct{} { return p.Lose(Replies, n, "") }

// Forwarded returns a channel that is closed when the next request that holds
// the bytes of match has been handed to the server's side of the network.
func (p *Proxy) Forwarded(match string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &watch{match: []byte(match), seen: make(chan struct{})}
	p.watches = append(p.watches, w)
	return w.seen
}

// Links returns the number of open connections.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) listen() {
	p.tb.Helper()
	listener, err := net.Listen("tcp", p.Addr) //nolint:noctx // a listener is made at once
	if err != nil {
		p.tb.Fatalf("the proxy cannot listen: %v", err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed by Cut
			}
			p.work.Go(func() { p.serve(conn) })
		}
	})
}

// take finds a loss for a request and counts it; nil if it shall pass.
func (p *Proxy) take(d Direction, request []byte) *loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range p.losses[d] {
		if !bytes.Contains(request, l.match) {
			continue
		}
		l.left--
		if l.left > 0 {
			return &loss{watch: &watch{}, left: l.left} // not the last: it announces nothing
		}
		p.losses[d] = append(p.losses[d][:i:i], p.losses[d][i+1:]...)
		return l
	}
	return nil
}

// trap holds the replies if this request is one to begin with.
func (p *Proxy) trap(request []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.traps)
	p.traps = slices.DeleteFunc(p.traps, func(w *watch) bool { return bytes.Contains(request, w.match) })
	if len(p.traps) < before {
		p.gates[Replies].shut()
	}
}

// announce closes the channel of a loss, if it was the last of its number.
func (l *loss) announce() {
	if l.seen != nil {
		close(l.seen)
	}
}

// forwarded tells everybody who waits for this request.
func (p *Proxy) forwarded(request []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.watches[:0]
	for _, w := range p.watches {
		if bytes.Contains(request, w.match) {
			close(w.seen)
		} else {
			kept = append(kept, w)
		}
	}
	p.watches = kept
}

// wait blocks a message as long as its direction is held or delayed; it is false
// when the connection has ended in the meantime.
func (p *Proxy) wait(d Direction, gone <-chan struct{}) bool {
	p.mu.Lock()
	delay := p.gates[d].delay
	p.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-gone:
			return false
		}
	}
	for {
		p.mu.Lock()
		g := &p.gates[d]
		open := g.open
		if open != nil && g.held != nil {
			close(g.held.seen)
			g.held = nil
		}
		p.mu.Unlock()
		if open == nil {
			return true
		}
		select {
		case <-open:
		case <-gone:
			return false
		}
	}
}
