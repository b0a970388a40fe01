//go:build !race

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// lives is how many lives are led unless -runs says otherwise, and repeats how many
// are led twice.
const (
	lives   = 100_000
	repeats = 500
)

// maxHunt is within how many seeds a planted mistake must be seen.
const maxHunt = 4000

// TestPlantedMistakesAreSeen proves that the simulation can see: each of these
// mistakes was made by somebody once, or nearly.
func TestPlantedMistakesAreSeen(t *testing.T) {
	t.Parallel()
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= maxHunt; seed++ {
				if r := run(t, seed, m, false); r.failure != "" {
					t.Logf("seen by seed %d: %s", seed, r.failure)
					return
				}
			}
			require.Fail(t, "nothing was noticed")
		})
	}
}
