package probe

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// crowd is this process itself: where it has no core left, it is what is measured.
type crowd struct {
	registry *prometheus.Registry
	figures  []told
}

func newCrowd() *crowd {
	c := &crowd{registry: prometheus.NewRegistry(), figures: ofProcess()}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return c
}

func (c *crowd) read(context.Context) (reading, error) {
	gathered, err := c.registry.Gather()
	if err != nil {
		return reading{}, err
	}
	families := make(map[string]*dto.MetricFamily, len(gathered))
	for _, f := range gathered {
		families[f.GetName()] = f
	}
	return reading{figures: figures(c.figures, families)}, nil
}

func (c *crowd) refusal(err error) *sale.Error {
	return unreachable("this process cannot be watched", "look at it with the tools of your system", err)
}

func (c *crowd) close() {}
