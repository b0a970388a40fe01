package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is how far the heap grows before it is collected. A server keeps little,
// and has a stack to look through for each buyer who waits: collecting less often
// gives a fifth of the processor back for some megabytes.
const gcPercent = 400

// TuneGC makes collections rarer for this process. The environment's GOGC has the
// last word.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
