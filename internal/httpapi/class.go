package httpapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// class bounds how many requests of one kind are worked on at once; some more
// wait their turn for a short time, and the rest is turned away at once. Those
// who wait are parked and cost no CPU, so a crowd of buyers leaves the other
// classes their share of the machine.
type class struct {
	places  chan struct{}
	waiting atomic.Int64
	name    gate.Class
	limit   Limit
	counted obs.Class
}

func newClass(name gate.Class, l Limit, m *obs.HTTP) *class {
	return &class{places: make(chan struct{}, l.InFlight), name: name, limit: l, counted: m.Class(string(name))}
}

// enter returns when there is a place, or CodeBusy.
func (c *class) enter(ctx context.Context) error {
	select {
	case c.places <- struct{}{}:
		c.counted.InFlight.Inc()
		return nil
	default:
	}
	if c.waiting.Add(1) > int64(c.limit.Queue) {
		c.waiting.Add(-1)
		c.counted.TurnedAway.Inc()
		return sale.Busy()
	}
	c.counted.Waiting.Inc()
	defer func() {
		c.waiting.Add(-1)
		c.counted.Waiting.Dec()
	}()
	patience := time.NewTimer(c.limit.Wait)
	defer patience.Stop()
	select {
	case c.places <- struct{}{}:
		c.counted.InFlight.Inc()
		return nil
	case <-patience.C:
		c.counted.TurnedAway.Inc()
		return sale.Busy()
	case <-ctx.Done():
		return sale.Unavailable(context.Cause(ctx))
	}
}

// load is how full the class is, from 0 to 1; 1 while somebody waits.
func (c *class) load() float64 {
	if c.waiting.Load() > 0 {
		return 1
	}
	return float64(len(c.places)) / float64(cap(c.places))
}

func (c *class) leave() {
	<-c.places
	c.counted.InFlight.Dec()
}

// load tells how busy each class is.
func (g *classes) load() client.Classes {
	load := func(one *class) client.ClassLoad {
		return client.ClassLoad{InFlight: len(one.places), Waiting: int(one.waiting.Load())}
	}
	return client.Classes{Buy: load(g.buy), Read: load(g.read), Pay: load(g.pay), Admin: load(g.admin)}
}
