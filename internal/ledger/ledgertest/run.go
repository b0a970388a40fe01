package ledgertest

import (
	"slices"
	"testing"
)

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(t *testing.T, w *world)
	// needs tells whether the world can do what the case asks; nil asks nothing.
	needs func(Faults) bool
}

// Run examines a store: every rule of the contract, each in a world of its own
// that open makes, all in parallel. After each case every sale of its world is
// recounted. Cases that need a fault which the world cannot make are left out.
func Run(t *testing.T, open func(t *testing.T) World) {
	t.Helper()
	can := newWorld(t, open(t)).Faults
	for _, c := range slices.Concat(
		attemptCases(), refusalCases(), windowCases(), holdCases(), limitCases(), raceCases(), crashCases(),
		stateCases(), paymentCases(), lateCases(), refundCases(), saleCases(), stockCases(),
		journalCases(), watchCases(), listCases(), keyCases(), guardCases(), historyCases(), slipCases(), laneCases(), buildCases(), letterCases(),
		gateCases(), gateKeyCases(),
	) {
		if c.needs != nil && !c.needs(can) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open(t))
			c.run(t, w)
			w.recount(t)
		})
	}
}
