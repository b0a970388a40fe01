// Package ledgertest examines ledgers. Run puts every rule of the contract to a
// Store under a real ledger.Book, each case in a world of its own, all at once.
// Machine drives a random life of a sale; Recount proves the promises from
// orders, payments and journal, never from the counters it checks.
//
// MemStore is the reference: a plain Store of maps that copies everything before
// a transaction and checks every guard. It is the simplest thing that can be
// right, and it belongs to the test kit alone.
//
// A store joins by a test of a few lines:
//
//	func TestLedger(t *testing.T) {
//		t.Parallel()
//		ledgertest.Run(t, func(t *testing.T) ledgertest.World { … })
//	}
package ledgertest
