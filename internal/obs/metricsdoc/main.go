// Command metricsdoc prints the page docs/metrics.md; make generate runs it.
package main

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/doorbuster/doorbuster/internal/obs"
)

func main() {
	if err := obs.New(prometheus.NewRegistry(), "").WriteDoc(os.Stdout); err != nil {
		panic(err)
	}
}
