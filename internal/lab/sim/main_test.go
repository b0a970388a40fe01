package sim

import (
	"testing"

	"github.com/doorbuster/doorbuster/internal/app"
)

// Lives are led as the server runs. What a life leaves in pools is kept for one
// collection more, so collecting much less often would keep more and more.
func TestMain(m *testing.M) {
	app.TuneGC()
	m.Run()
}
