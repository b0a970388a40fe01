package httpapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// gate bounds how many requests of a class are worked on at once; some more
// wait their turn for a short time, and the rest is turned away at once. Those
// who wait are parked and cost no CPU, so a crowd of buyers leaves the other
// classes their share of the machine.
type gate struct {
	places  chan struct{}
	waiting atomic.Int64
	limit   Limit
	counted obs.Class
}

func newGate(l Limit, counted obs.Class) *gate {
	return &gate{places: make(chan struct{}, l.InFlight), limit: l, counted: counted}
}

// enter returns when there is a place, or CodeBusy.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		g.counted.InFlight.Inc()
		return nil
	default:
	}
	if g.waiting.Add(1) > int64(g.limit.Queue) {
		g.waiting.Add(-1)
		g.counted.TurnedAway.Inc()
		return sale.Busy()
	}
	g.counted.Waiting.Inc()
	defer func() {
		g.waiting.Add(-1)
		g.counted.Waiting.Dec()
	}()
	patience := time.NewTimer(g.limit.Wait)
	defer patience.Stop()
	select {
	case g.places <- struct{}{}:
		g.counted.InFlight.Inc()
		return nil
	case <-patience.C:
		g.counted.TurnedAway.Inc()
		return sale.Busy()
	case <-ctx.Done():
		return sale.Unavailable(context.Cause(ctx))
	}
}

func (g *gate) leave() {
	<-g.places
	g.counted.InFlight.Dec()
}

// load tells how busy each class is.
func (g *gates) load() client.Classes {
	load := func(one *gate) client.ClassLoad {
		return client.ClassLoad{InFlight: len(one.places), Waiting: int(one.waiting.Load())}
	}
	return client.Classes{Buy: load(g.buy), Read: load(g.read), Pay: load(g.pay), Admin: load(g.admin)}
}
