package lock_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doorbuster/doorbuster/lock"
	"github.com/doorbuster/doorbuster/lock/memlock"
)

// Waits, holds, renewals and losses as one Prometheus histogram. Names of locks
// are no label: there may be any number of them.
func ExampleConfig_prometheus() {
	registry := prometheus.NewRegistry()
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lock_event_seconds", Help: "How long waiting, holding and renewing took.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
	}, []string{"event", "kind"})
	registry.MustRegister(took)
	locker, _ := lock.New(memlock.New(), lock.Config{Observe: func(e lock.Event) {
		took.WithLabelValues(e.Kind.String(), e.Lock.String()).Observe(e.Took.Seconds())
	}})
	_ = locker.Do(context.Background(), "n", func(context.Context, *lock.Lease) error { return nil })

	families, _ := registry.Gather()
	for _, one := range families[0].GetMetric() {
		for _, label := range one.GetLabel() {
			fmt.Print(label.GetValue(), " ")
		}
		fmt.Println(one.GetHistogram().GetSampleCount())
	}
	// Output:
	// acquired mutex 1
	// released mutex 1
}
