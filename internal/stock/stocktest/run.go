package stocktest

import (
	"slices"
	"testing"
)

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(t *testing.T, w *world)
	// needs tells whether the world can do what the case asks; nil asks nothing.
	needs func(*World) bool
}

// Run examines a counter: every rule of the contract, each in a world of its own
// that open makes, all in parallel. After each case its lane is recounted. Cases
// that need what the world cannot do are left out.
func Run(t *testing.T, open func(t *testing.T) World) {
	t.Helper()
	can := open(t)
	for _, c := range slices.Concat(
		takeCases(), refusalCases(), callCases(), windowCases(), largeCases(), mirrorCases(), syncCases(),
		buildCases(), trayCases(), newsCases(), lossCases(), spoilCases(), raceCases(), moveCases(), gatherCases(),
	) {
		if c.needs != nil && !c.needs(&can) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(open(t))
			c.run(t, w)
			w.recount(t)
		})
	}
}
