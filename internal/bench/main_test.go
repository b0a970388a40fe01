package bench_test

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/app"
)

// Benchmarks run as the server does.
func TestMain(m *testing.M) {
	app.TuneGC()
	m.Run()
}
