// Package stocktest examines fast counters. Run puts every rule of the contract
// to a Counter, each case on a lane of its own, all at once.
//
// Mem is the reference: a plain counter of maps in memory, the simplest thing
// that can be right, with faults on demand. Simulations and the tests of the
// rooms above use it; it belongs to the test kit alone.
//
// A counter joins by a test of a few lines:
//
//	func TestCounter(t *testing.T) {
//		t.Parallel()
//		stocktest.Run(t, func(t *testing.T) stocktest.World { … })
//	}
package stocktest
