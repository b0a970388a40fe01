//go:build race

package sim

// The race detector looks at how the parts work together, not at what comes of it,
// and takes its time: a few lives are enough for it.
const (
	lives   = 200
	repeats = 20
)
