package lab

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

const (
	mostConnections = 2000
	shopConnections = 64
	// spareFiles are left for everything that is no buyer's connection: the
	// ledger's files, the shop's connections, logs.
	spareFiles  = 256
	dialTimeout = 10 * time.Second
	// warmRounds bounds the attempts to open every connection before the start.
	warmRounds = 3
)

// doorConnections returns how many connections the buyers share, so that neither
// this process nor the server, whose limit is the same, runs out of files.
func doorConnections(buyers int) int {
	files := traffic.OpenFiles(mostConnections + spareFiles)
	n := max(files-spareFiles, files/2)
	// Two a buyer: a double click needs both at once.
	return max(1, min(n, 2*buyers))
}

// pool is a bounded set of connections to one server.
type pool struct {
	http   *http.Client
	size   int
	opened atomic.Int64
}

func newPool(size int) *pool {
	p := &pool{size: size}
	dialer := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			p.opened.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
		MaxConnsPerHost:     size,
		MaxIdleConnsPerHost: size,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}
	p.http = &http.Client{Transport: t}
	return p
}

func (p *pool) close() { p.http.CloseIdleConnections() }

// warm opens all connections of the pool by asking for something small, so that
// the instant of the start is not spent on handshakes. A connection that could
// not be had is opened when it is needed.
func (p *pool) warm(ctx context.Context, c *client.Client) error {
	for range warmRounds {
		errs := make(chan error, p.size)
		var all sync.WaitGroup
		for range p.size {
			all.Go(func() {
				if _, err := c.Sales(ctx); err != nil {
					errs <- err
				}
			})
		}
		all.Wait()
		close(errs)
		if err := <-errs; err != nil {
			return err
		}
		if p.opened.Load()*10 >= int64(p.size)*9 {
			return nil // the few that are left are not worth another round
		}
	}
	return nil
}
