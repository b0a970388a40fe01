package servers

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports of servers that are started again on the same port come from below the
// range from which the system serves outgoing connections: such a connection
// could take the port in between, or, dialing it, connect to itself.
const (
	lowestPort  = 12_000
	highestPort = 22_000
	// busDistance is how far above its port a node of a Redis Cluster talks to others.
	busDistance = 10_000
	// bindAttempts is how often a port that somebody took in between is replaced by
	// another.
	bindAttempts = 5
)

// kept are the ports that this process has been given, each held by its UDP twin: a
// server that is away for a moment, and whoever looks for it meanwhile, must not meet
// the server of another process.
var kept struct { //nolint:gochecknoglobals // they belong to the process
	sync.Mutex
	twins []net.PacketConn
}

// FreePort returns a loopback port on which nobody listens, nor on the one that a
// node of a Redis Cluster would take besides. It is given to nobody else, here or in
// another process that asks for ports, as long as this process lives.
func FreePort() (int, error) {
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		twin, err := net.ListenPacket("udp", Loopback(port))   //nolint:noctx // as below
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if !canListen(port) || !canListen(port+busDistance) {
			if err == nil {
				_ = twin.Close()
			}
			continue
		}
		if err == nil { // else this machine has no UDP, and nobody keeps ports by it
			kept.Lock()
			kept.twins = append(kept.twins, twin)
			kept.Unlock()
		}
		return port, nil
	}
	return 0, errors.New("no loopback port is free")
}

func canListen(port int) bool {
	l, err := net.Listen("tcp", Loopback(port)) //nolint:noctx // a listener is made at once
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// Loopback returns the address of a port on this machine.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
