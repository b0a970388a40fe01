package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// Lives are short and many, and leave little that lasts: collecting less often gives
// a fifth of the processor back.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	m.Run()
}
